"""Records kept in memory until something asks for a dump, and captures in segments."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import vor

from recorded import Capture, needs_recorder, start

pytestmark = needs_recorder


def test_a_call_and_a_signal_write_what_is_in_memory(tmp_path: Path) -> None:
    program = """
        import os, signal, time, vor
        vor.enable(capture="dumps/", last="30s,8MB", dump_on="nothing")
        @vor.profile
        def f(): pass
        for _ in range(100):
            f()
        assert not os.listdir("dumps")
        path = vor.dump("a test")
        assert path.parent.name == "dumps" and os.listdir("dumps") == [path.name]
        f()
        if hasattr(signal, "SIGUSR2"):
            os.kill(os.getpid(), signal.SIGUSR2)
            deadline = time.monotonic() + 60
            while len(os.listdir("dumps")) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.01)
        """
    run = start(tmp_path, program)
    assert run.done.returncode == 0, run.done.stderr
    counts = [Capture(path).counts["f"] for path in sorted((tmp_path / "dumps").iterdir())]
    assert counts == ([100] if sys.platform == "win32" else [100, 101])


def test_an_exception_that_ends_the_program_is_dumped_at_the_end(tmp_path: Path) -> None:
    program = """
        import vor
        assert vor.is_enabled()
        with vor.scope("before"):
            pass
        raise ValueError
        """
    run = start(tmp_path, program, VOR_RECORD_LAST="10s", VOR_DUMP_ON="exit")
    assert run.done.returncode == 1
    (path,) = tmp_path.glob("*.vor")
    assert Capture(path).counts == {"before": 1}


def test_a_capture_has_segments(tmp_path: Path) -> None:
    program = """
        import vor
        vor.enable(capture="captures/", segment="16KB", keep="64KB")
        for i in range(30_000):
            with vor.scope("work", i=i * 2654435761 % 2**32):
                pass
            if i % 100 == 0:
                vor.frame_mark()
                vor.flush()
        """
    run = start(tmp_path, program)
    assert run.done.returncode == 0, run.done.stderr
    folder = tmp_path / "captures"
    paths = sorted(folder.iterdir())
    sizes = [path.stat().st_size for path in paths]
    assert len(sizes) > 1 and sum(sizes) <= 66_000, sizes

    # The folder is one capture, with all that its files have.
    with vor.read(folder) as whole:
        parts = [vor.read(path) for path in paths]
        assert len(whole) == sum(len(part) for part in parts) > 1
        numbers = whole.frames["frame"].to_list()
        assert numbers == [n for part in parts for n in part.frames["frame"].to_list()]
        spans = [len(part.spans) for part in parts]
        assert len(whole.spans) == sum(spans) == whole.info["spans"]
        counts = [row["count"] for row in whole.stats() if row["name"] == "work"]
        assert counts == [sum(spans)]
        # A slice that is in two files.
        end = len(parts[0])
        both = whole[end - 1 : end + 1]
        found = [len(parts[0][-1].spans), len(parts[1][0].spans)]
        assert [len(frame.spans) for frame in both] == found
        assert len(both.spans) == sum(found)
        assert whole.verify()["count"] == 0
        assert whole.refresh() == len(whole)

    # One that is missing is a warning.
    assert len(paths) > 2
    paths[1].unlink()
    with pytest.warns(UserWarning, match="1 segment is missing"):
        vor.read(folder)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"last": "30"}, "enable: last: `30` is not a time from 1s, a size"),
        ({"dump_on": "never"}, "enable: dump_on: `never` is not a list of"),
        ({"segment": "1B"}, "enable: segment: `1B` is not a size from 16KB"),
        ({"keep": "1"}, "enable: keep: `1` is not a size from 64KB"),
    ],
)
def test_a_bad_setting_is_a_value_error(
    tmp_path: Path, keywords: dict[str, str], message: str
) -> None:
    run = start(tmp_path, f"import vor\nvor.enable(**{keywords!r})")
    assert run.done.returncode == 1
    assert run.done.stderr.splitlines()[-1].startswith(f"ValueError: {message}"), run.done.stderr


def test_a_dump_without_memory_is_a_value_error(tmp_path: Path) -> None:
    run = start(tmp_path, "import vor\nvor.enable(capture='run.vor')\nvor.dump('why')")
    assert run.done.returncode == 1
    message = "ValueError: dump: no records are kept in memory; set VOR_RECORD_LAST"
    assert run.done.stderr.splitlines()[-1].startswith(message), run.done.stderr
