"""Threads, forks, `multiprocessing`, and every way in which a process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from recorded import Capture, environment, record, start


def test_threads_have_names_and_spans(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading, concurrent.futures
        @vor.profile
        def work(n):
            return sum(inner(i) for i in range(n))
        @vor.profile
        def inner(i): return i
        threads = [
            threading.Thread(target=work, args=(1000,), name=f"worker {i}") for i in range(4)
        ]
        for t in threads: t.start()
        for t in threads: t.join()
        with concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix="pool") as pool:
            assert list(pool.map(work, [10, 20])) == [45, 190]
        work(5)
        """,
    )
    spans = run.capture.spans
    for i in range(4):
        assert sum(span["thread"] == f"worker {i}" for span in spans) == 1001
    assert sum(span["thread"].startswith("pool_") for span in spans) == 32
    assert sum(span["thread"] == "MainThread" for span in spans) == 6


def test_ten_thousand_short_threads(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading
        @vor.profile
        def work(): pass
        for _ in range(500):
            threads = [threading.Thread(target=work) for _ in range(20)]
            for t in threads: t.start()
            for t in threads: t.join()
        """,
    )
    assert run.capture.counts == {"work": 10_000}


def test_a_forked_child_records_on_its_own(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import os, sys
        @vor.profile
        def work(name):
            with vor.scope(name): pass
        work("before")
        with vor.scope("around"):
            pid = os.fork()
            if pid == 0:
                work("child")
            else:
                assert os.waitpid(pid, 0)[1] == 0
                work("parent")
        if pid == 0:
            work("child")
            sys.exit(0)
        """,
    )
    parent = run.capture.counts
    assert parent == {"work": 2, "before": 1, "parent": 1, "around": 1}
    (child,) = [capture for capture in run.captures if capture.path.name != "run.vor"]
    assert child.counts["work"] == 2 and child.counts["child"] == 2 and child.counts["before"] == 0


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_of_multiprocessing(tmp_path: Path, method: str) -> None:
    run = start(
        tmp_path,
        """
        import multiprocessing, sys
        import vor
        @vor.profile
        def work(n):
            with vor.scope("inside"): return n * n
        if __name__ == "__main__":
            context = multiprocessing.get_context(sys.argv[1])
            assert work(1) == 1
            processes = [context.Process(target=work, args=(i,)) for i in range(2)]
            for p in processes: p.start()
            for p in processes: p.join()
            assert [p.exitcode for p in processes] == [0, 0]
            with context.Pool(2) as pool:
                assert pool.map(work, range(50)) == [i * i for i in range(50)]
                pool.close(); pool.join()
        """,
        method,
        VOR_RECORD="run.vor",
        VOR_RECORD_SPANS="1",
    )
    assert run.done.returncode == 0, run.done.stderr
    total = sum(
        (capture.counts for capture in run.captures), start=run.capture.counts - run.capture.counts
    )
    assert total["work"] == 1 + 2 + 50 and total["inside"] == 53


def test_an_unhandled_exception_leaves_everything(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        @vor.profile
        def fails(): raise ValueError("unhandled")
        with vor.scope("around"): fails()
        """,
        code=1,
    )
    assert run.done.stderr.splitlines()[-1] == "ValueError: unhandled"
    assert run.capture.counts == {"fails": 1, "around": 1}


def test_scopes_that_are_open_at_the_end_are_named(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import sys, threading, time
        @vor.profile
        def sleeps():
            with vor.scope("asleep"):
                started.set()
                time.sleep(60)
        started = threading.Event()
        threading.Thread(target=sleeps, daemon=True).start()
        started.wait()
        vor.Scope("never closed").__enter__()
        with vor.scope("done"): pass
        """,
    )
    assert run.capture.counts == {"done": 1}
    assert sorted(run.capture.open) == ["asleep", "never closed", "sleeps"]


def test_daemon_threads_that_work_to_the_end(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading, time
        @vor.profile
        def leaf(): time.sleep(0)
        @vor.profile
        def works():
            while True:
                leaf()
        for _ in range(4): threading.Thread(target=works, daemon=True).start()
        time.sleep(0.2)
        """,
    )
    assert run.done.stderr == ""
    assert run.capture.counts["leaf"] > 10


@pytest.mark.skipif(os.name == "nt", reason="signals are sent otherwise on Windows")
def test_an_interrupt_ends_the_spans_that_it_comes_in(tmp_path: Path) -> None:
    program = """
        import signal, sys, time
        # A shell's programs in the background ignore it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        @vor.profile
        def waits():
            with vor.scope("wait"):
                print("ready", flush=True)
                time.sleep(60)
        try: waits()
        except KeyboardInterrupt: print("caught")
        """
    path = tmp_path / "program.py"
    path.write_text("import vor\nvor.enable(capture='run.vor')\n" + textwrap.dedent(program))
    with subprocess.Popen(
        [sys.executable, path], cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.communicate()[0] == "caught\n" and process.returncode == 0
    capture = Capture(tmp_path / "run.vor")
    assert capture.counts == {"waits": 1, "wait": 1} and capture.tasks == {}


def test_a_killed_process_leaves_a_capture(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import os, signal, time
        @vor.profile
        def work(): pass
        for _ in range(1000): work()
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
        """,
        code=-9,
    )
    assert run.capture.counts == {"work": 1000}


def test_a_second_interpreter_is_refused(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        try: import _interpreters as interpreters
        except ImportError: import _xxsubinterpreters as interpreters
        import os, pathlib
        for _ in range(2):
            number = interpreters.create()
            code = '''
            try: import vor
            except ImportError as error: text = str(error)
            else: text = "no error"
            open("found.txt", "a").write(text + chr(10))
            '''
            import textwrap
            interpreters.run_string(number, textwrap.dedent(code))
            interpreters.destroy(number)
        with vor.scope("still"): pass
        """,
    )
    lines = (tmp_path / "found.txt").read_text().splitlines()
    assert len(lines) == 2 and all("interpreter" in line for line in lines), lines
    assert run.capture.counts == {"still": 1}
