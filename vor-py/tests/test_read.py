"""Compares the values that `vor.read` finds in a capture with those of the command."""

from __future__ import annotations

import csv
import gc
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from recorded import environment, needs_recorder, record, recorder, start

import vor
from vor import _command, _reading

PROGRAM = """
    import threading, asyncio, random
    random.seed(7)
    @vor.profile
    def leaf(n): return sum(range(n))
    @vor.profile(args=True)
    def branch(n, label="größe"):
        for i in range(n): leaf(i)
    async def wait():
        await asyncio.sleep(0)
    def work():
        for i in range(20): branch(i % 4)
    vor.record_metric_unit("loss", "nats")
    for step in range(12):
        thread = threading.Thread(target=work, name="worker")
        thread.start()
        with vor.scope("step", number=step):
            branch(step)
            vor.message(f"step {step}")
        thread.join()
        vor.record_metric("loss", 1.0 / (1 + step))
        if step % 3 == 0: vor.record_metric("seldom", float("nan"))
        vor.frame_mark()
    with vor.scope("after the last frame"): leaf(3)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("read"), PROGRAM).capture.path


def command(*arguments: object) -> Any:
    """Return the JSON output of the command."""
    called = [recorder(), "-m", "vor", *map(str, arguments), "--json"]
    done = subprocess.run(called, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def rows(table: vor.Table) -> list[dict[str, Any]]:
    return [table[at] for at in range(len(table))]


def test_totals_are_those_of_the_command(path: Path) -> None:
    capture, info = vor.read(path), command("info", path)
    for name in (
        "version",
        "file_bytes",
        "closed",
        "indexed",
        "recorder",
        "duration_ns",
        "frames",
        "spans",
        "dropped_spans",
    ):
        assert capture.info[name] == info[name], name
    assert capture.info["pid"] == info["process"]["pid"]
    assert capture.info["threads"] == [thread["name"] for thread in info["threads"]]
    assert capture.skipped == info["damage"]
    assert len(capture.spans) == info["spans"] == 12 * (20 + 20 // 4 * 6 + 2) + 66 + 2
    assert capture.verify()["count"] == 0


def test_frames_are_those_of_the_command(path: Path) -> None:
    capture, told = vor.read(path), command("frames", path)["frames"]
    assert len(capture) == len(told) == 12
    for frame, row, expected in zip(capture, rows(capture.frames), told):
        assert (frame.index, frame.start_ns, frame.dur_ns) == (
            expected["index"],
            expected["start_unix_ns"],
            expected["duration_ns"],
        )
        assert (row["spans"], row["dropped_spans"]) == (
            expected["spans"],
            expected["dropped_spans"],
        )
        assert len(frame.spans) == frame.span_count == expected["spans"]
        assert set(frame.spans["frame"]) == {frame.index}
        metrics = {name: value for name, value in frame.metrics.items() if value == value}
        told_metrics = {**expected["system"], **expected["user"]}
        assert metrics == {name: value for name, value in told_metrics.items() if value != "NaN"}
        assert frame.metrics.keys() == told_metrics.keys()


@pytest.mark.parametrize("part", [None, (0, 12), (3, 7), (11, 12), (0, 1)])
def test_statistics_are_those_of_the_command(path: Path, part: tuple[int, int] | None) -> None:
    whole = vor.read(path)
    capture = whole if part is None else whole[slice(*part)]
    frames = [] if part is None else ["--frames", f"{part[0]}..{part[1]}"]
    told = command("stats", path, *frames)
    stats = capture.stats()
    assert len(stats) == len(told["scopes"])
    for row, expected in zip(rows(stats), told["scopes"]):
        assert {**row, "line": row["line"] or 0} == {name: expected[name] for name in row}
    # The sums of the table of spans are the same.
    sums: dict[tuple[str, int | None], list[int]] = {}
    for row in rows(capture.spans):
        entry = sums.setdefault((row["name"], row["line"]), [0, 0, 0])
        for at, value in enumerate((1, row["dur_ns"], row["self_ns"])):
            entry[at] += value
    assert sums == {
        (row["name"], row["line"] or None): [row["count"], row["total_ns"], row["self_ns"]]
        for row in told["scopes"]
    }


@needs_recorder
def test_spans_are_those_of_the_command(path: Path, tmp_path: Path) -> None:
    capture = vor.read(path)
    with pytest.warns(UserWarning, match="2 spans left out: ended after the last frame"):
        capture.export(tmp_path / "spans.csv")
    with open(tmp_path / "spans.csv", newline="") as file:
        told = list(csv.DictReader(file))
    in_frames = capture[:].spans
    assert len(in_frames) == len(told)

    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return (int(row["frame"]), str(row["name"]), int(row["start_ns"]))

    for row, expected in zip(sorted(rows(in_frames), key=key), sorted(told, key=key)):
        # Rows of a CSV have no column for the thread ID. If threads share a name, the name contains
        # it.
        assert row["thread"] == re.sub(r" \(\d+\)$", "", expected["thread"])
        assert (row["depth"], row["dur_ns"], row["self_ns"]) == tuple(
            int(expected[name]) for name in ("depth", "dur_ns", "self_ns")
        )
        args = ", ".join(f"{name}={value}" for name, value in (row["args"] or {}).items())
        assert args == expected["args"]


def test_what_is_after_the_last_frame_has_none(path: Path) -> None:
    spans = vor.read(path).spans
    after = [row for row in rows(spans) if row["frame"] is None]
    assert sorted(row["name"] for row in after) == ["after the last frame", "leaf"]
    assert spans["frame"].null_count == 2
    assert memoryview(spans["frame"])[-1] == -1


def test_messages_and_metrics(path: Path) -> None:
    capture = vor.read(path)
    assert capture.messages["text"].to_list() == [f"step {step}" for step in range(12)]
    assert capture.messages["frame"].to_list() == list(range(12))
    metrics = rows(capture.metrics)
    assert [row["value"] for row in metrics if row["name"] == "loss"] == [
        1.0 / (1 + step) for step in range(12)
    ]
    assert {row["unit"] for row in metrics if row["name"] == "loss"} == {"nats"}
    assert [row["frame"] for row in metrics if row["name"] == "seldom"] == [0, 3, 6, 9]
    # Metrics read without the spans are the same.
    whole = vor.read(path)
    assert len(whole.spans) and [str(row) for row in rows(whole.metrics)] == [
        str(row) for row in metrics
    ]


def test_slices_are_the_same_whether_or_not_all_was_read(path: Path) -> None:
    read, fresh = vor.read(path), vor.read(path)
    assert len(read.spans)
    for part in (slice(0, 3), slice(4, 5), slice(-2, None), slice(5, 5), slice(None), slice(2, 11)):
        for table in ("spans", "messages", "metrics", "frames", "tasks"):
            left, right = getattr(read[part], table), getattr(fresh[part], table)
            assert [str(row) for row in rows(left)] == [str(row) for row in rows(right)], (
                part,
                table,
            )
    assert [frame.index for frame in read[3:9][-2:]] == [7, 8]
    assert read[-1].index == 11
    with pytest.raises(IndexError, match="row 12 is out of range: there are 12"):
        read[12]
    with pytest.raises(ValueError, match="the step of a slice must be 1, not 2"):
        read[::2]


def test_a_span_that_began_before_a_slice_has_its_own_self_time(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        with vor.scope("around"):
            for _ in range(8):
                with vor.scope("inner"):
                    sum(range(20000))
                vor.frame_mark()
        for _ in range(8):
            vor.frame_mark()
        """,
    )
    (last,) = rows(vor.read(run.capture.path)[8:10].spans)
    (whole,) = (row for row in rows(vor.read(run.capture.path).spans) if row["name"] == "around")
    assert last == whole
    assert last["self_ns"] < last["dur_ns"] / 2


def test_columns_are_buffers_that_cannot_be_written(path: Path) -> None:
    spans = vor.read(path).spans
    lengths = memoryview(spans["dur_ns"])
    assert (lengths.format, lengths.itemsize, lengths.readonly) == ("q", 8, True)
    assert lengths.tolist() == spans["dur_ns"].to_list()
    assert memoryview(spans["depth"]).format == "I"
    assert bytes(spans["dur_ns"][3:5]) == bytes(lengths[3:5])
    name = spans["name"]
    assert [name.values[code] for code in memoryview(name.codes)] == name.to_list()
    assert len(set(name.values)) == len(name.values)
    with pytest.raises(BufferError, match="name: a column of text, not of numbers"):
        memoryview(name)
    with pytest.raises(TypeError, match="dur_ns: a column of numbers, not of text"):
        spans["dur_ns"].codes
    with pytest.raises(KeyError, match="the columns are thread, tid"):
        spans["duration"]
    # The contents of a buffer stay when all other objects are deleted.
    expected = lengths.tolist()
    del spans, name
    gc.collect()
    assert lengths.tolist() == expected


@needs_recorder
def test_exports_have_the_format_of_their_name(path: Path, tmp_path: Path) -> None:
    capture = vor.read(path)
    begins: dict[str, bytes | tuple[bytes, ...]] = {
        "out.pftrace": b"\x0a",
        "out.json": b"[",
        "out.speedscope.json": b'{"$schema"',
        # Either thread may be the first.
        "out.folded": (b"worker;", b"MainThread;"),
        "out.pb.gz": b"\x1f\x8b",
        "out.csv": b"process,",
        "out.metrics.csv": b"frame,",
        "out.firefox.json": b"{",
    }
    for name, begin in begins.items():
        # Export a slice of all frames. These formats do not contain spans that ended after them.
        capture[:].export(tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(begin), name
    capture[2:4].export(tmp_path / "some", format="csv")
    lines = (tmp_path / "some").read_text().splitlines()
    assert len(lines) == 1 + sum(frame.span_count for frame in capture[2:4])
    with pytest.raises(ValueError, match="out.xyz: unknown extension; use one of .pftrace"):
        capture.export("out.xyz")
    # The command has the same extensions.
    with pytest.raises(OSError, match="its ending chooses no format") as refused:
        _command.run(["export", "-o", "out.xyz", os.fspath(capture.path)])
    assert set(_reading._FORMATS) == {
        word for word in str(refused.value).split() if word.startswith(".")
    }
    with pytest.raises(ValueError, match="no frames"):
        capture[3:3].export(tmp_path / "none.csv")
    with pytest.raises(OSError, match="cannot be created"):
        capture.export(tmp_path / "no" / "folder.csv")
    with pytest.raises(OSError, match="is a capture, which is never overwritten"):
        capture.export(path, format="csv")


def test_a_growing_file_is_followed(tmp_path: Path) -> None:
    program = """
    import sys, vor
    vor.enable(capture="run.vor")
    for line in sys.stdin:
        with vor.scope("step"): pass
        vor.frame_mark()
        vor.flush()
        print("done", flush=True)
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(program))
    running = subprocess.Popen(
        [recorder(), "program.py"],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdin is not None and running.stdout is not None

    def step() -> None:
        assert running.stdin is not None and running.stdout is not None
        running.stdin.write("\n")
        running.stdin.flush()
        assert running.stdout.readline() == "done\n"

    step()
    capture = vor.read(tmp_path / "run.vor")
    assert (len(capture), len(capture.spans), capture.info["closed"]) == (1, 1, False)
    first = capture.spans
    frames = capture.follow(interval_s=0.01)
    assert next(frames).index == 0
    for index in range(1, 4):
        step()
        frame = next(frames)
        assert (frame.index, frame.spans["name"].to_list()) == (index, ["step"])
    assert capture.refresh() == 4
    assert (len(capture.spans), len(first)) == (4, 1)
    with pytest.raises(ValueError, match="a slice of a capture does not change"):
        capture[:2].refresh()
    assert [frame.index for frame in capture.follow(timeout_s=0)] == [0, 1, 2, 3]
    step()
    running.stdin.close()
    assert running.wait() == 0
    assert [frame.index for frame in frames] == [4]


def test_bad_input_is_told_with_path_and_reason(path: Path, tmp_path: Path) -> None:
    missing = tmp_path / "missing.vor"
    with pytest.raises(vor.CaptureError) as raised:
        vor.read(missing)
    assert isinstance(raised.value, OSError)
    assert (raised.value.path, raised.value.errno) == (missing, 2)
    assert str(raised.value).startswith(f"{missing}: the capture cannot be opened: ")
    for content, reason in (
        (b"", "not a vor capture: the file is empty"),
        (b"GIF89a", 'not a vor capture: it starts with "GIF8"'),
        (b"VOR1\x09\x00", "the capture has version 9; this vor reads versions 2 and 3"),
        (path.read_bytes()[:7], "the capture ends after 7 bytes, within its header"),
    ):
        wrong = tmp_path / "wrong.vor"
        wrong.write_bytes(content)
        with pytest.raises(vor.CaptureError) as raised:
            vor.read(wrong)
        assert raised.value.reason.startswith(reason)
        assert str(raised.value) == f"{wrong}: {raised.value.reason}"
    (tmp_path / "empty").mkdir()
    with pytest.raises(vor.CaptureError, match=r"no capture \(\*\.vor\) is there"):
        vor.read(tmp_path / "empty")
    for wrong_type in (3, None, b"run.vor", 1.5):
        with pytest.raises(TypeError):
            vor.read(wrong_type)  # type: ignore[arg-type]
    with vor.read(path) as capture:
        frames = len(capture)
    assert frames == 12
    for use in (
        lambda: capture.spans,
        capture.stats,
        lambda: capture.info,
        capture.refresh,
        capture.verify,
    ):
        with pytest.raises(ValueError, match="the capture is closed"):
            use()
    assert len(capture.frames) == 12, "values already read remain"
    for name in ("Table", "Column"):
        with pytest.raises(TypeError):
            getattr(vor, name)()


def test_old_captures_are_read() -> None:
    files = sorted((Path(__file__).parents[2] / ".ci" / "data" / "v2").glob("*.vor"))
    if not files:
        pytest.skip(
            "captures of version 2: the tests stand alone, without the repository around them"
        )
    for file in files:
        capture, info = vor.read(file), command("info", file)
        assert capture.info["version"] == 2
        assert len(capture) == info["frames"]
        assert len(capture.spans) == info["spans"]


def test_notebooks_show_it(path: Path) -> None:
    import xml.etree.ElementTree as tree

    capture = vor.read(path)
    shown = tree.fromstring(capture._repr_html_())
    assert shown.find(".//{http://www.w3.org/2000/svg}path") is not None
    first = [cell.text for cell in shown.findall(".//tbody/tr[1]/td")]
    top = capture.stats()[0]
    assert first[:2] == [top["name"], f"{top['count']:,}"]
    assert len(tree.fromstring(capture.spans._repr_html_()).findall(".//tbody/tr")) == 10
    assert repr(capture) == f"<vor.Capture {path}: 12 frames>"
    assert repr(capture.spans).startswith(f"{len(capture.spans)} rows\nthread")
    assert "<" not in tree.fromstring(capture[3:3]._repr_html_()).findtext(".//b", "")


@needs_recorder
def test_the_command_is_there(path: Path) -> None:
    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        called = [sys.executable, "-m", "vor", *arguments]
        return subprocess.run(
            called, env=environment(**variables), capture_output=True, text=True, check=False
        )

    assert run("--version").stdout.startswith("vor 0.")
    missing = run("info", "missing.vor")
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert run("stats").returncode == 2
    # A command that reads captures writes none, even if the variables are still set.
    target = path.with_name("by-command.vor")
    assert run("info", str(path), VOR_RECORD=str(target)).returncode == 0
    assert not target.exists()


def test_the_viewer_is_started_or_said_to_be_missing(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="cargo install --path vor-viz"):
        vor.view(path)
    with pytest.raises(FileNotFoundError, match="missing.vor: no such file"):
        vor.view("missing.vor")
    if os.name != "posix":
        pytest.skip("a program of a script's: scripts are no programs here")
    viewer = tmp_path / "vor-viz"
    viewer.write_text(f'#!/bin/sh\nprintf %s "$1" > "{tmp_path}/shown"\n')
    viewer.chmod(0o755)
    assert vor.view(path).wait() == 0
    assert (tmp_path / "shown").read_text() == str(path)


@needs_recorder
def test_a_cell_is_recorded(tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = start(
        tmp_path,
        """
        import vor
        class Shell:
            def register_magic_function(self, function, magic_kind, magic_name):
                assert (magic_kind, magic_name) == ("cell", "vor")
                self.magic = function
            def run_cell(self, cell):
                exec(cell, self.__dict__)
                return self
            success = True
        shell = Shell()
        vor.load_ipython_extension(shell)
        cell = "def f(n):\\n    return n and f(n - 1)\\nf(4)\\n"
        capture = shell.magic("", cell)
        assert capture.path.exists()
        assert sorted(capture.spans["name"]).count("f") == 5, list(capture.spans["name"])
        assert "cell" in list(capture.spans["name"])
        cell += "import vor\\nwith vor.scope('block'): pass\\n"
        capture = shell.magic("--scopes kept.vor", cell)
        assert sorted(capture.spans["name"]) == ["block", "cell"]
        assert capture.path.name == "kept.vor" and not vor.is_enabled()
        for wrong in ("--all", "a b"):
            try:
                shell.magic(wrong, "")
            except ValueError as error:
                assert "%%vor [--scopes] [FILE]" in str(error)
            else:
                raise AssertionError(wrong)
        """,
        TMPDIR=str(temporary),
    ).done
    assert done.returncode == 0, done.stderr
    assert list(temporary.iterdir()) == [], "the interpreter deletes an unnamed capture at its end"


@needs_recorder
def test_a_cell_of_ipython_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("IPython")
    done = start(
        tmp_path,
        """
        from IPython.core.interactiveshell import InteractiveShell
        shell = InteractiveShell.instance()
        shell.run_line_magic("load_ext", "vor")
        cell = "def f(n):\\n    return n and f(n - 1)\\nf(4)"
        capture = shell.run_cell_magic("vor", "", cell)
        assert list(capture.spans["name"]).count("f") == 5, list(capture.spans["name"])
        # IPython's own formatters make its output for the result.
        shown, _ = shell.display_formatter.format(capture)
        assert all(part in shown["text/html"] for part in ("<svg", "<table>", "cell.vor"))
        shown, _ = shell.display_formatter.format(capture.spans)
        assert shown["text/html"].startswith("<table>") and "rows" in shown["text/plain"]
        result = shell.run_cell("%%vor\\nraise ValueError('in the cell')")
        assert result.result is None
        import vor
        assert not vor.is_enabled()
        """,
        IPYTHONDIR=str(tmp_path / "ipython"),
    ).done
    assert done.returncode == 0, done.stderr + done.stdout


def test_references_and_memory_stay(path: Path) -> None:
    def resident_kib() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024

    def use() -> None:
        capture = vor.read(path)
        for frame in capture[2:5]:
            len(frame.spans["name"].to_list())
        for name in capture.spans.columns:
            column = capture.spans[name]
            column.__arrow_c_array__()
            column.__arrow_c_schema__()
            if not column.is_coded and column.kind != "map":
                memoryview(column)[0]
        capture.spans.__arrow_c_stream__()
        capture.spans.__arrow_c_array__()
        capture.stats()[0]

    if not os.path.exists("/proc/self/statm"):
        pytest.skip("memory in use: this system does not report it")
    for _ in range(20):
        use()
    gc.collect()
    before, objects = resident_kib(), Counter(type(it).__name__ for it in gc.get_objects())
    column = vor.read(path).spans["dur_ns"]
    count = sys.getrefcount(column)
    for _ in range(200):
        use()
        memoryview(column).release()
        column.__arrow_c_array__()
    gc.collect()
    assert sys.getrefcount(column) == count
    grown = Counter(type(it).__name__ for it in gc.get_objects())
    grown.subtract(objects)
    assert all(count < 100 for count in grown.values()), grown.most_common(3)
    assert resident_kib() - before < 4096


def test_reading_lets_other_threads_run(path: Path) -> None:
    import threading

    capture = vor.read(path)
    found: list[int] = []
    threads = [
        threading.Thread(target=lambda: found.append(len(capture.stats()))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1
