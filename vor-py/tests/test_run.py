"""`python -m vor run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded import HAS_MONITORING, environment, start, trace

import vor

PROGRAM = """
import asyncio, multiprocessing, subprocess, sys, threading

def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)

class Class:
    def method(self): return [x for x in gen(3)]

def gen(n):
    for i in range(n): yield i

async def task(n):
    await asyncio.sleep(0)
    return n

async def main():
    return await asyncio.gather(*(task(i) for i in range(3)))

def fails():
    raise ValueError

if __name__ == "__main__":
    assert fib(10) == 55 and Class().method() == [0, 1, 2]
    assert asyncio.run(main()) == [0, 1, 2]
    try: fails()
    except ValueError: pass
    thread = threading.Thread(target=fib, args=(5,), name="worker")
    thread.start(); thread.join()
    print(sys.argv, __name__, __file__)
"""


def own(capture) -> dict[str, int]:
    """Count the spans of the program itself."""
    counts: dict[str, int] = {}
    for span in capture.spans:
        if span["file"].endswith("program.py"):
            counts[span["name"]] = counts.get(span["name"], 0) + 1
    return counts


def test_every_call_is_recorded(tmp_path: Path) -> None:
    run = trace(tmp_path, PROGRAM)
    counts = own(run.capture)
    counts.pop(
        "Class.method.<locals>.<listcomp>", None
    )  # Until 3.11, a comprehension is a function.
    assert counts == {
        "<module>": 1,
        "fib": 177 + 15,
        "Class": 1,
        "Class.method": 1,
        "gen": 4,
        "main": 2,
        "main.<locals>.<genexpr>": 4,
        "task": 6,
        "fails": 1,
    }
    assert (
        sum(span["name"] == "fib" and span["thread"] == "worker" for span in run.capture.spans)
        == 15
    )
    assert any(span["name"] == "gather" for span in run.capture.spans), (
        "the standard library is recorded too"
    )
    assert ("Class.method", "gen") in run.capture.parents() or not HAS_MONITORING
    assert run.done.stdout == f"['program.py'] __main__ {tmp_path / 'program.py'}\n"


def test_places_are_included_and_excluded(tmp_path: Path) -> None:
    run = trace(tmp_path, PROGRAM, "--include", "program.py")
    assert (
        all(span["file"].endswith("program.py") for span in run.capture.spans)
        and own(run.capture)["fib"] == 192
    )
    (tmp_path / "run.vor").unlink()
    run = trace(tmp_path, PROGRAM, "--include", "asyncio", "--exclude", "asyncio.events")
    files = {Path(span["file"]).parts[-2:] for span in run.capture.spans}
    assert ("asyncio", "tasks.py") in files and ("asyncio", "events.py") not in files
    assert all(file[0] == "asyncio" for file in files)


def test_short_calls_are_left_out(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        """
        import time
        def short(): pass
        def long(): time.sleep(0.02)
        for _ in range(1000): short()
        for _ in range(3): long()
        """,
        "--min-us",
        "10000",
        "--include",
        "program.py",
    )
    counts = own(run.capture)
    assert counts["long"] == 3 and counts.get("short", 0) < 10 and counts["<module>"] == 1


def test_calls_of_c(tmp_path: Path) -> None:
    program = """
        def f(values):
            values.append(1)
            try: len(3)
            except TypeError: pass
            sorted([3, 1, 2], key=g)
            return len(values)
        def g(x): return -x
        for _ in range(10): f([])
        """
    run = trace(tmp_path, program, "--c-calls", "--include", "program.py")
    counts = run.capture.counts
    assert counts["f"] == 10 and counts["g"] == 30 and counts["len"] == 20
    assert counts["list.append"] == 10 and counts["sorted"] == 10
    assert ("f", "len") in run.capture.parents() and ("sorted", "g") in run.capture.parents()


def test_a_module_runs_as_by_python_itself(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import part\n"
        "print(part.f(), sys.argv[1:], __package__, __spec__.name)\n"
    )
    (package / "part.py").write_text("def f(): return 7\n")
    for before in ([], ["-m", "vor", "run", "--out", "run.vor"]):
        program = tmp_path / "start.py"
        program.write_text(
            "import subprocess, sys\n"
            f"arguments = [sys.executable, *{before!r}, '-m', 'package', 'a', '-b']\n"
            "sys.exit(subprocess.call(arguments))"
        )
        run = start(tmp_path, program.read_text())
        assert run.done.stdout == "7 ['a', '-b'] package package.__main__\n", run.done.stderr
    assert any(span["name"] == "f" for span in run.capture.spans)


def test_a_program_ends_as_it_would_alone(tmp_path: Path) -> None:
    for program in (
        "import sys\nprint('out')\nsys.exit(3)",
        "import sys\nsys.exit('message')",
        "def f():\n    raise ValueError('unhandled')\nf()",
        "import atexit\natexit.register(print, 'at the end')\nraise SystemExit",
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()",
        "x = = 1",
    ):
        alone = start(tmp_path, program)
        before = ["-m", "vor", "run", "--quiet", "--out", "run.vor"]
        traced = start(tmp_path, program, before=before)
        (tmp_path / "run.vor").unlink(missing_ok=True)
        assert traced.done.stdout == alone.done.stdout
        assert traced.done.returncode == alone.done.returncode
        assert traced.done.stderr == alone.done.stderr


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_children_are_recorded(tmp_path: Path, method: str) -> None:
    run = trace(
        tmp_path,
        f"""
        import multiprocessing, subprocess, sys
        def work(n): return leaf(n)
        def leaf(n): return n
        if __name__ == "__main__":
            context = multiprocessing.get_context({method!r})
            process = context.Process(target=work, args=(1,))
            process.start(); process.join()
            assert process.exitcode == 0
            command = [sys.executable, "-c", "def child(): print('child')\\nchild()"]
            print(subprocess.run(command, capture_output=True, text=True))
        """,
    )
    assert "stdout='child\\n', stderr=''" in run.done.stdout
    captures = run.captures
    others = [capture for capture in captures if capture.path.name != "run.vor"]
    assert sum(own(capture).get("leaf", 0) for capture in captures) == 1
    assert sum(own(capture).get("leaf", 0) for capture in others) == 1, (
        "the child has a capture of its own"
    )
    assert sum(capture.counts["child"] for capture in others) == 1
    assert "vor merge" in run.done.stderr


def test_the_environment_s_own_sitecustomize_is_still_found(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import builtins\nbuiltins.customized = True\n")
    run = trace(
        tmp_path,
        """
        import subprocess, sys
        command = [sys.executable, "-c", "print(customized)"]
        print(subprocess.run(command, capture_output=True, text=True).stdout)
        """,
        PYTHONPATH=str(tmp_path)
        + (":" + environment()["PYTHONPATH"] if "PYTHONPATH" in environment() else ""),
    )
    assert "True" in run.done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ([], "a script or -m MODULE is required"),
        (["missing.py"], "missing.py: No such file or directory"),
        (["-m", "no_such_module"], "-m no_such_module: no module of this name can be run"),
        (["--min-us", "-1", "x.py"], "--min-us: expected a number of at least 0, found -1.0"),
        (
            ["--frame-ms", "0.5", "x.py"],
            "--frame-ms: expected 0 or a number of at least 1, found 0.5",
        ),
        (
            ["--include", "no_such_module", "program.py"],
            "--include: no module, file or folder is called no_such_module",
        ),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: list[str], text: str) -> None:
    (tmp_path / "program.py").write_text("")
    command = [sys.executable, "-m", "vor", "run", *arguments]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and text in done.stderr and "Traceback" not in done.stderr
    assert not list(tmp_path.glob("*.vor"))


PACED = """
import time
def work():
    for _ in range(10): time.sleep(0.03)
work()
"""


def main_frames(capture) -> list[dict]:
    return [frame for frame in capture.contents["frames"] if not frame["set"]]


def test_frames_end_at_an_interval(tmp_path: Path) -> None:
    capture = trace(tmp_path, PACED).capture
    frames = main_frames(capture)
    assert [frame["index"] for frame in frames] == list(range(len(frames)))
    # At least 300 ms, in frames of at least 100 ms, and the rest at the end. A busy machine may
    # make any of them longer.
    assert len(frames) >= 2
    # No span ends after the last frame.
    assert sum(frame["spans"] for frame in frames) == len(capture.spans)
    assert all("memory_mb" in frame["metrics"] for frame in frames), frames[0]
    fine = trace(tmp_path, PACED, "--frame-ms", "10").capture
    assert len(main_frames(fine)) > len(frames)


def test_a_run_without_an_interval_is_one_frame(tmp_path: Path) -> None:
    capture = trace(tmp_path, PACED, "--frame-ms", "0").capture
    assert [frame["spans"] for frame in main_frames(capture)] == [len(capture.spans)]
    read = vor.read(tmp_path / "run.vor")
    assert len(read) == 1 and read[0].span_count == len(capture.spans)


def test_a_program_that_marks_frames_has_its_own(tmp_path: Path) -> None:
    program = """
        import time, vor
        vor.frame_mark()
        for _ in range(3):
            time.sleep(0.05)
            vor.frame_mark()
        """
    frames = main_frames(trace(tmp_path, program, "--frame-ms", "1000000").capture)
    assert len(frames) == 4
    frames = main_frames(trace(tmp_path, program, "--frame-ms", "1").capture)
    # The interval ended the frames before the program's first mark, during its imports.
    assert len(frames) >= 4
    lengths = [frame["metrics"]["frame_ms"][0] for frame in frames[-3:]]
    assert all(length > 45 for length in lengths), lengths


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="children are forked")
def test_frames_of_a_forked_child_end_at_an_interval(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        """
        import multiprocessing, time
        def work():
            for _ in range(20): time.sleep(0.01)
        if __name__ == "__main__":
            process = multiprocessing.get_context("fork").Process(target=work)
            process.start(); process.join()
        """,
        "--frame-ms",
        "10",
    )
    child = [capture for capture in run.captures if capture.path.name != "run.vor"]
    assert [len(main_frames(capture)) > 2 for capture in child] == [True]


COMMANDS = ["info", "frames", "stats", "export --to csv", "export --to metrics-csv", "tail --once"]


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_read_what_a_run_wrote(tmp_path: Path, command: str) -> None:
    name, *options = command.split()
    for interval in ("0", "10"):
        trace(tmp_path, PACED, "--frame-ms", interval)
        done = subprocess.run(
            [sys.executable, "-m", "vor", name, "run.vor", *options],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0 and done.stdout, done.stderr


SLOW = """
import time
def slow(): time.sleep(0.03)
def fast(): pass
for _ in range(3): slow(); fast()
"""


def summary(text: str) -> list[str]:
    """Return the lines of the summary, after what the program wrote."""
    return text.partition("\nvor: run.vor has ")[2].splitlines()


@pytest.mark.parametrize(
    ("end", "code", "written"),
    [
        ("", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("raise ValueError('unhandled')", 1, "ValueError: unhandled\n"),
        ("raise KeyboardInterrupt", 130, "KeyboardInterrupt\n"),
        ("import sys, io; sys.stderr = io.StringIO()", 0, ""),
    ],
)
def test_a_summary_at_the_end(tmp_path: Path, end: str, code: int, written: str) -> None:
    run = trace(tmp_path, SLOW + end, "--include", "program.py", code=code)
    lines = summary(run.done.stderr)
    assert lines[0].startswith("7 spans in ") and lines[2].split()[:3] == ["scope", "count", "self"]
    slow = lines[3].split()
    assert slow[:2] == ["slow", "3"] and 90 <= float(slow[2]) < 10_000 and slow[3] == "ms", slow
    assert [line.split()[0] for line in lines[4:6]] == ["<module>", "fast"]
    assert lines[-1].startswith("`vor stats run.vor` lists the scopes, 3 in all; `vor view run.vor` ")
    assert run.done.stderr.partition("\nvor: ")[0].endswith(written)
    # The numbers are those of `vor stats`, with three digits.
    rows = {row["name"]: row for row in vor.read(tmp_path / "run.vor").stats()}
    assert float(slow[2]) == float(f"{rows['slow']['self_ns'] / 1e6:.3g}")
    assert run.done.stdout == ""


def test_the_summary_has_eight_rows_at_most(tmp_path: Path) -> None:
    program = "".join(f"def f{i}(): pass\nf{i}()\n" for i in range(20))
    lines = summary(trace(tmp_path, program).done.stderr)
    assert len(lines) == 1 + 1 + 1 + 8 + 1 + 1, lines


def test_no_summary_where_none_is_wanted(tmp_path: Path) -> None:
    def written(program: str, *options: str, **variables: str) -> str:
        (tmp_path / "run.vor").unlink(missing_ok=True)
        return trace(tmp_path, program, *options, code=0, **variables).done.stderr

    assert summary(written(SLOW)), "otherwise"
    assert written(SLOW, "--quiet") == ""
    assert written(SLOW, VOR_RUN_SUMMARY="0") == ""
    ignored = written(SLOW, VOR_RUN_SUMMARY="no")
    assert ignored.startswith("vor: VOR_RUN_SUMMARY: `no` is neither 0 nor 1; it is ignored\n")
    assert summary(ignored)
    # A program may close stderr, or end at once.
    assert written("import sys; sys.stderr.close()") == ""
    assert written("import os; os.close(2)") == ""
    assert written("import os; os._exit(0)") == ""
    # A child has none; the first process says how many there are.
    child = "[sys.executable, '-c', 'def f(): pass\\nf()']"
    of_both = written(f"import subprocess, sys\nsubprocess.run({child})")
    assert of_both.count("opens the capture") == 1
    assert "vor: 1 more processes wrote captures" in of_both


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM")
def test_a_signal_leaves_the_capture_without_a_summary(tmp_path: Path) -> None:
    program = SLOW + "import os, signal; os.kill(os.getpid(), signal.SIGTERM); time.sleep(10)"
    run = trace(tmp_path, program, "--include", "program.py", code=-15)
    assert run.done.stderr == "" and vor.read(tmp_path / "run.vor").stats()["count"].to_list()


def test_a_capture_that_takes_too_long_is_read_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vor import _summary

    calls = 300_000
    program = f"def f(): pass\nfor _ in range({calls}): f()"
    trace(tmp_path, program, "--frame-ms", "1", "--include", "program.py")
    path = str(tmp_path / "run.vor")
    assert " 300\N{NARROW NO-BREAK SPACE}001 spans in " in _summary.text(path)
    assert "the table has" not in _summary.text(path)
    monkeypatch.setattr(_summary, "LIMIT_MS", 0)
    part = _summary.text(path)
    shown = int(part.partition("; the table has the first ")[2].split()[0])
    assert 0 < shown < calls, part


@pytest.mark.parametrize(
    ("ns", "text"),
    [(0, "0 ns"), (999, "999 ns"), (999.6, "1.00 µs"), (9_996, "10.0 µs"), (99_960, "100 µs"),
     (999_600, "1.00 ms"), (12_345_678, "12.3 ms"), (2.5e9, "2.50 s"), (1.5e12, "1500 s")],
)  # fmt: skip
def test_durations_in_the_summary(ns: float, text: str) -> None:
    from vor import _summary

    assert _summary.duration(ns) == text


def test_the_values_of_the_process_are_rows(tmp_path: Path) -> None:
    trace(tmp_path, "sum(range(10_000_000))\n" + SLOW)
    rows = list(vor.read(tmp_path / "run.vor").metrics)
    values = {name: [row["value"] for row in rows if row["name"] == name] for name in
              {row["name"] for row in rows}}  # fmt: skip
    assert values["memory_mb"] and min(values["memory_mb"]) > 1
    assert any(name.startswith("cpu") and max(of) > 0 for name, of in values.items()), values.keys()
