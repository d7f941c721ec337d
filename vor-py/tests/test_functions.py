"""Settings, metrics, messages, marks, and the environment variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded import environment, record, start

import vor

# For calls that a type checker would reject.
untyped: Any = vor


def test_metrics_messages_and_frames(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        vor.record_metric_unit("loss", "nats")
        for i in range(3):
            vor.record_metric("loss", 0.5 - i)
            vor.record_metric("whole", i)
            vor.record_io(2_000_000, 4_000_000)
            vor.message(f"step {i} ä")
            vor.frame_mark()
        vor.frame_mark("physics"); vor.frame_mark("physics"); vor.frame_mark(None)
        """,
    )
    contents = run.capture.contents
    main = [frame for frame in contents["frames"] if frame["set"] != "physics"]
    assert len(main) == 4 and len(contents["frames"]) == 6
    assert [frame["metrics"]["loss"] for frame in main[:3]] == [
        (0.5, "nats"),
        (-0.5, "nats"),
        (-1.5, "nats"),
    ]
    assert [frame["metrics"]["whole"][0] for frame in main[:3]] == [0, 1, 2]
    assert main[0]["metrics"]["io_ms"][0] == pytest.approx(2) and main[0]["metrics"]["io_MB"][
        0
    ] == pytest.approx(4)
    assert "loss" not in main[3]["metrics"]
    assert main[0]["metrics"]["memory_mb"][0] > 1, "the core adds the values of the process"
    assert [message["text"] for message in contents["messages"]] == [
        f"step {i} ä" for i in range(3)
    ]


def test_the_capture_can_be_closed_and_another_begun(tmp_path: Path) -> None:
    record(
        tmp_path,
        """
        import pathlib
        with vor.scope("first"): pass
        here = pathlib.Path("run.vor").absolute()
        assert pathlib.Path(vor.capture_path()).absolute() == here
        assert pathlib.Path(vor.close_capture()).absolute() == here
        assert vor.capture_path() is None and vor.close_capture() is None
        vor.enable(capture=pathlib.Path("other.vor"))
        with vor.scope("second"): pass
        vor.flush()
        from vor import _core
        assert [span["name"] for span in _core.contents("run.vor")["spans"]] == ["first"]
        """,
    )
    assert [span["name"] for span in vor._core.contents(tmp_path / "other.vor")["spans"]] == [
        "second"
    ]


def test_the_cost_of_a_span_is_measured() -> None:
    vor.calibrate()
    assert 0 < vor.empty_span_ns() < 100_000


def test_the_variables_switch_recording_on_at_import(tmp_path: Path) -> None:
    program = """
        import vor
        assert vor.is_enabled()
        @vor.profile
        def f(): pass
        f()
        vor.frame_mark()
        """
    run = start(tmp_path, program, VOR_RECORD=str(tmp_path / "run.vor"), VOR_RECORD_SPANS="1")
    assert run.done.returncode == 0, run.done.stderr
    assert run.capture.counts == {"f": 1}


def test_without_variables_importing_records_nothing(tmp_path: Path) -> None:
    run = start(tmp_path, "import vor\nassert not vor.is_enabled()")
    assert run.done.returncode == 0, run.done.stderr
    assert not list(tmp_path.glob("*.vor"))
    assert not any(name.startswith("VOR_") for name in environment())


def test_a_bad_variable_is_one_line(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        "import vor",
        VOR_RECORD="/nonexistent/run.vor",
        VOR_RECORD_SPANS="0",
        VOR_RING_KIB="many",
    )
    assert run.done.returncode == 0
    lines = run.done.stderr.splitlines()
    assert len(lines) == 2 and "VOR_RING_KIB" in lines[0] and "/nonexistent/run.vor" in lines[1]


def test_every_setting_is_taken(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        """
        import time
        import vor
        vor.enable(capture="run.vor", spans=True, every=1, max_frames=100, slow_frames_ms=0.001,
            frames_before=1, ring_kib=64, stats=True, count_scopes=False, print_stats=False,
            cpu_time=True, cpu_split=False, inline_drain=True, drain_interval_ms=5,
            max_spans_per_frame=1000, watchdog_ms=None, signals=True)
        with vor.scope("a"): time.sleep(0.02)
        vor.frame_mark()
        """,
    )
    assert run.done.returncode == 0, run.done.stderr
    assert run.capture.counts == {"a": 1}
    assert "off_cpu_ns" in run.capture.spans[0]["args"]


def test_scopes_are_counted(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        """
        import vor
        vor.enable(count_scopes=True)
        @vor.profile
        def counted(): pass
        for _ in range(12345): counted()
        with vor.scope("block", n=1): pass
        """,
    )
    assert run.done.returncode == 0
    table = run.done.stderr
    assert "counted" in table and "12345" in table.replace("\u202f", "") and "block" in table


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"capture": 3}, TypeError, "enable: capture: expected a path: str or os.PathLike, found int"),
        ({"capture": ""}, ValueError, "enable: capture: expected a path, found ''"),
        ({"spans": 1}, TypeError, "enable: spans: expected True or False, found int"),
        ({"every": 0}, ValueError, "enable: every: expected a whole number of at least 1, found 0"),
        ({"every": True}, TypeError, "enable: every: expected a whole number, found bool"),
        ({"every": 1.5}, TypeError, "enable: every: expected a whole number, found float"),
        ({"max_frames": -1}, ValueError, "enable: max_frames: expected a whole number of at least 0, found -1"),
        ({"ring_kib": 1}, ValueError, "enable: ring_kib: expected a whole number from 4 to 1048576, found 1"),
        ({"watchdog_ms": "x"}, TypeError, "enable: watchdog_ms: expected a number of milliseconds, found str"),
        ({"slow_frames_ms": -1}, ValueError, "enable: slow_frames_ms: expected a number of milliseconds above 0, found -1"),
        ({"slow_frames_ms": float("nan")}, ValueError, "enable: slow_frames_ms: expected a number of milliseconds above 0, found nan"),
        ({"frames_before": 2}, ValueError, "enable: frames_before needs slow_frames_ms"),
        ({"speed": 1}, TypeError, "enable() got an unexpected keyword argument 'speed'"),
    ],
)  # fmt: skip
def test_wrong_settings(given, error, text) -> None:
    with pytest.raises(error) as found:
        untyped.enable(**given)
    assert str(found.value) == text
    assert not vor.is_enabled()


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (
            lambda: untyped.record_metric("a"),
            TypeError,
            "record_metric: expected 2 arguments, found 1",
        ),
        (lambda: untyped.record_metric(1, 1), TypeError, None),
        (lambda: untyped.record_metric("a", "b"), TypeError, None),
        (lambda: untyped.record_io(1), TypeError, "record_io: expected 2 arguments, found 1"),
        (
            lambda: untyped.record_io(-1, 0),
            ValueError,
            "record_io: ns: expected a whole number from 0 to 2^64 - 1, found -1",
        ),
        (
            lambda: untyped.record_io(0, 1.5),
            TypeError,
            "record_io: nbytes: expected a whole number, found 1.5",
        ),
        (lambda: untyped.message(1), TypeError, None),
        (lambda: untyped.message(), TypeError, "message: expected 1 argument, found 0"),
        (lambda: untyped.frame_mark(1), TypeError, None),
        (
            lambda: untyped.frame_mark("a", "b"),
            TypeError,
            "frame_mark: expected 1 argument, found 2",
        ),
        (lambda: untyped.record_metric_unit("a", 1), TypeError, None),
    ],
)
def test_wrong_arguments(call, error, text) -> None:
    with pytest.raises(error) as found:
        call()
    assert text is None or str(found.value) == text


def test_a_capture_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing.vor"):
        vor._core.contents(tmp_path / "missing.vor")
    (tmp_path / "junk.vor").write_bytes(b"junk" * 100)
    with pytest.raises(OSError, match="junk.vor"):
        vor._core.contents(tmp_path / "junk.vor")
