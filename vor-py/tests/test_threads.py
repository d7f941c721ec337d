"""Threads that record at the same time: every span is recorded or counted.

On interpreters without a lock, the threads run in parallel.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
from recorded import environment, record, trace

# The threads of each program start their work together. If the interpreter has a lock, they take
# turns often.
BEGIN = """
import sys, threading
THREADS = 8
sys.setswitchinterval(1e-5)
together = threading.Barrier(THREADS)
failed = []
threading.excepthook = failed.append
def run(work):
    def begin(i):
        together.wait()
        work(i)
    threads = [
        threading.Thread(target=begin, args=(i,), name=f"worker {i}") for i in range(THREADS)
    ]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert not failed, failed
"""


def program(text: str) -> str:
    """Return a program of the shared code and `text`."""
    return BEGIN + "\n".join(line[8:] for line in text.splitlines())


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"),
    reason="the interpreter has a lock: this is about those without",
)
def test_the_lock_stays_off() -> None:
    source = "import vor, sys; assert not sys._is_gil_enabled()"
    # A module that needs the lock would switch it on, with a warning.
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_all_kinds_of_spans_at_once(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        program("""
        ROUNDS = 2000
        @vor.profile
        def plain(x): return x
        @vor.profile(args=True)
        def told(x, y=2): return x
        @vor.profile
        def fails(): raise ValueError
        @vor.profile
        def generator():
            yield 1
            yield 2
        class Class:
            @vor.profile
            def method(self): return plain(self)
        sort = vor.profile(sorted)
        reused = vor.Scope("reused", n=7)
        def work(i):
            thing = Class()
            for j in range(ROUNDS):
                plain(j)
                told(i)
                try: fails()
                except ValueError: pass
                list(generator())
                thing.method()
                sort([2, 1])
                with vor.scope("block"):
                    with reused: pass
                with vor.scope("told block", i=i, j=j): pass
                vor.record_metric(f"metric {i}", j)
                if j % 100 == 0:
                    vor.message(f"{i} {j}")
                    vor.frame_mark(f"frames {i}")
        run(work)
        """),
    )
    capture = run.capture
    each = 8 * 2000
    assert capture.counts == {
        "plain": 2 * each, "told": each, "fails": each, "generator": 3 * each,
        "Class.method": each, "sorted": each, "block": each, "reused": each, "told block": each,
    }  # fmt: skip
    assert {span["thread"] for span in capture.spans} == {f"worker {i}" for i in range(8)}
    for i in range(8):
        of_thread = [span for span in capture.spans if span["thread"] == f"worker {i}"]
        assert len(of_thread) == 12 * 2000
        blocks = [span["args"] for span in of_thread if span["name"] == "told block"]
        assert sorted(blocks, key=lambda args: args["j"]) == [{"i": i, "j": j} for j in range(2000)]
        assert all(span["args"] == {"x": i, "y": 2} for span in of_thread if span["name"] == "told")
    assert {("Class.method", "plain"), ("block", "reused")} <= capture.parents()
    assert len(capture.contents["messages"]) == 8 * 20


def test_names_that_are_new_each_time(tmp_path: Path) -> None:
    # More names than the cache holds, so that some threads change the cache while others read it.
    run = record(
        tmp_path,
        program("""
        names = [f"name {i}" for i in range(1500)]
        def work(i):
            for j in range(6000):
                name = names[(j * (2 * i + 1)) % len(names)]
                with vor.scope(name): pass
                with vor.scope(name + "!", which=j % len(names)): pass
                with vor.scope("always"): pass
        run(work)
        """),
    )
    counts = run.capture.counts
    assert counts.pop("always") == 8 * 6000
    assert sum(counts.values()) == 2 * 8 * 6000
    expected: dict[str, int] = {}
    for i in range(8):
        for j in range(6000):
            name = f"name {(j * (2 * i + 1)) % 1500}"
            expected[name] = expected.get(name, 0) + 1
    assert counts == {**expected, **{name + "!": count for name, count in expected.items()}}


def test_functions_come_and_go(tmp_path: Path) -> None:
    # Code objects are added and removed while others are looked up, and a garbage collector runs.
    run = record(
        tmp_path,
        program("""
        import gc
        def work(i):
            if i == 0:
                for _ in range(60): gc.collect()
                return
            for j in range(150):
                space = {"vor": vor}
                source = f"@vor.profile\\ndef f{i}(x): return x + {j}\\n"
                exec(source + f"value = [f{i}(k) for k in range(10)]", space)
                assert space["value"] == list(range(j, j + 10))
                @vor.profile
                def closure(): return j
                shared = [vor.profile(name=f"shared {k}")(lambda: k) for k in range(3)]
                assert closure() == j and [f() for f in shared] == [2, 2, 2]
        run(work)
        """),
    )
    counts = run.capture.counts
    assert all(counts.pop(f"f{i}") == 150 * 10 for i in range(1, 8))
    assert all(counts.pop(f"shared {k}") == 7 * 150 for k in range(3))
    assert counts == {"work.<locals>.closure": 7 * 150}


def switched(work: str, meanwhile: str) -> str:
    """Return a program whose thread runs `work`. A call of `waits` in it outlasts `meanwhile`."""
    return f"""
import threading
begun, go_on = threading.Event(), threading.Event()
@vor.profile
def waits():
    begun.set()
    go_on.wait()
@vor.profile
def after(): pass
def work():
{textwrap.indent(textwrap.dedent(work).strip(), "    ")}
thread = threading.Thread(target=work)
thread.start()
begun.wait()
{meanwhile}
go_on.set()
thread.join()
vor.enable()
with vor.scope("later"): pass
vor.flush()
"""


def test_a_call_that_ends_while_recording_is_off_is_not_open(tmp_path: Path) -> None:
    run = record(tmp_path, switched("waits()", "vor.disable()"))
    assert run.capture.open == []
    assert run.capture.counts.get("waits", 0) <= 1
    assert run.capture.counts["later"] == 1


def test_a_block_that_recording_is_switched_off_and_on_in_is_one_span(tmp_path: Path) -> None:
    work = """
        with vor.scope("block", number=7):
            waits()
            after()
        after()
    """
    run = record(tmp_path, switched(work, "vor.disable(); vor.enable()"))
    assert run.capture.open == []
    (block,) = run.capture.named("block")
    assert block["args"] == {"number": 7}
    first, second = run.capture.named("after")
    assert block["start"] <= first["start"] <= first["end"] <= block["end"] <= second["start"]


def test_recording_is_switched_off_and_on_meanwhile(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        program("""
        @vor.profile
        def outer(): return inner()
        @vor.profile
        def inner(): return 1
        def work(i):
            for j in range(2000):
                if i == 0:
                    if j % 40 == 0: vor.disable() if j % 80 else vor.enable()
                elif i == 1:
                    if j % 200 == 0: vor.flush()
                elif i == 2:
                    assert vor.profile(lambda: 1)() == 1
                else:
                    assert outer() == 1
                    with vor.scope("block"): outer()
        run(work)
        vor.enable()
        for _ in range(10): outer()
        vor.flush()
        """),
    )
    # The number of recorded spans depends on the threads. The recorded spans nest, and no earlier
    # one stays open.
    counts = run.capture.counts
    assert 10 <= counts["outer"] <= 5 * 4000 + 10
    assert run.capture.open == []
    last = [span for span in run.capture.named("inner") if span["thread"] == "MainThread"]
    assert len(last) == 10


def test_a_thread_that_first_ends_a_call_leaves_none_open(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading
        waits, go_on = threading.Event(), threading.Event()
        @vor.profile
        def ends(): vor.enable()
        @vor.profile
        def begins():
            waits.set()
            go_on.wait()
        def work():
            ends()
            begins()
        vor.disable()
        thread = threading.Thread(target=work)
        thread.start()
        waits.wait()
        vor.disable()
        go_on.set()
        thread.join()
        vor.enable()
        vor.flush()
        """,
    )
    # The end of this call was not recorded, because recording was off.
    assert run.capture.open == []


@pytest.mark.skipif(
    bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    reason="without a lock the interpreter itself does not keep two threads"
    " from resuming one generator",
)
def test_one_generator_that_two_threads_resume(tmp_path: Path) -> None:
    # If two threads resume a generator at once, Python refuses one. Its other spans must stay
    # intact.
    run = record(
        tmp_path,
        program("""
        @vor.profile(args=True)
        def count(n):
            yield from range(n)
        made = [count(200) for _ in range(100)]
        taken = [0] * THREADS
        def work(i):
            for generator in made:
                while True:
                    try:
                        next(generator)
                        taken[i] += 1
                    except ValueError: pass
                    except StopIteration: break
        run(work)
        assert sum(taken) == 100 * 200, taken
        """),
    )
    # If the function is wrapped, a refused attempt is also an activation.
    assert run.capture.counts["count"] >= 100 * 201


def test_everything_is_traced_in_all_threads(tmp_path: Path) -> None:
    run = trace(
        tmp_path,
        program("""
        def leaf(x): return x
        def fails(): raise KeyError
        def work(i):
            for j in range(1500):
                leaf(j)
                try: fails()
                except KeyError: pass
                exec("def fresh(): return 1\\nfresh()", {})
        run(work)
        """),
    )
    counts = run.capture.counts
    assert [counts[name] for name in ("leaf", "fails", "fresh", "work")] == [
        8 * 1500,
        8 * 1500,
        8 * 1500,
        8,
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_child_of_threads_goes_on(tmp_path: Path) -> None:
    # A thread that holds a lock of vor during the fork does not exist in the child. CPython 3.13
    # without a lock does not survive a fork beside a thread that switches events, with vor or
    # without: in the child, `stop_the_world` waits for that thread. So the threads decorate only if
    # there is a lock.
    run = record(
        tmp_path,
        program("""
        import os, time, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        has_lock = getattr(sys, "_is_gil_enabled", lambda: True)()
        done = threading.Event()
        def busy():
            while not done.is_set():
                if has_lock: vor.profile(lambda: 1)()
                for _ in range(10):
                    with vor.scope("busy"): pass
                time.sleep(0.0005)
        threads = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
        for thread in threads: thread.start()
        for _ in range(20):
            pid = os.fork()
            if pid == 0:
                assert vor.profile(lambda: 2)() == 2
                with vor.scope("child"): pass
                vor.close_capture()
                os._exit(0)
            assert os.waitpid(pid, 0)[1] == 0
        done.set()
        for thread in threads: thread.join()
        """),
    )
    assert run.capture.counts["busy"] > 0 and run.capture.counts["child"] == 0
    children = [capture for capture in run.captures if capture.path.name != "run.vor"]
    assert len(children) == 20 and all(capture.counts["child"] == 1 for capture in children)


def test_recording_imports_no_module() -> None:
    # A child that is forked while another thread imports a module waits for that module forever.
    source = """
import sys, vor
vor.enable()
before = set(sys.modules)
@vor.profile
class Class:
    def method(self, x): return x
@vor.profile(args=True)
def function(x): return x
@vor.scope("block")
def block(): return 1
def generator(): yield 1
Class().method(1), function(1), block(), list(vor.profile(generator)()), vor.profile(len)([])
with vor.scope("with"): vor.record_metric("metric", 1)
vor.frame_mark()
assert set(sys.modules) == before, sorted(set(sys.modules) - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", source],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
