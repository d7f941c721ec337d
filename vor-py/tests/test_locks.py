"""Locks: whom a thread waits for, and that they behave like those of `threading`."""

from __future__ import annotations

import copy
import importlib.util
import json
import pickle
import queue
import subprocess
import sys
import sysconfig
import textwrap
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from recorded import Capture, environment, record, start, trace

import vor

HAS_NO_LOCK = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
RELEASED = "released meanwhile"

# Returns after the main thread has begun to wait, and 50 ms later at the earliest. That thread may
# be late on a busy machine, so the function waits until the system says that it sleeps.
UNTIL_MAIN_WAITS = """
import os, time
def until_main_waits():
    path, still = f"/proc/self/task/{os.getpid()}/stat", 0
    while os.path.exists(path) and still < 3:
        time.sleep(0.002)
        # Without buffers and decoders, whose calls a run would record.
        with open(path, "rb", 0) as stat: state = stat.read().rpartition(b")")[2].split()[0]
        still = still + 1 if state == b"S" else 0
    time.sleep(0.05)
"""

# `holds(lock, scope)` starts a thread that has the lock until the caller has begun to wait.
HOLD = UNTIL_MAIN_WAITS + """
import threading
def holds(lock, scope, name="holder"):
    begun = threading.Event()
    def run():
        with vor.scope(scope), lock:
            begun.set()
            until_main_waits()
    thread = threading.Thread(target=run, name=name)
    thread.start()
    begun.wait()
    return thread
"""


def waits(capture: Capture) -> list[dict[str, Any]]:
    return [span for span in capture.spans if span["name"].startswith("wait: ")]


def arrows(capture: Capture) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the begins and the ends of arrows, as Chrome's format has them."""
    out = capture.path.with_suffix(".json")
    vor.read(capture.path).export(out)
    events = json.loads(out.read_text())
    events = events["traceEvents"] if isinstance(events, dict) else events
    begin, end = ([event for event in events if event.get("ph") == phase] for phase in ("s", "f"))
    return begin, end


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_a_wait_names_the_holder_and_has_an_arrow(tmp_path: Path, kind: str) -> None:
    run = record(
        tmp_path,
        HOLD
        + f"""
lock = vor.{kind}("cache")
thread = holds(lock, "evict", "evictor")
with vor.scope("look_up"):
    with lock: pass
thread.join()
        """,
    )
    (wait,) = waits(run.capture)
    assert (wait["name"], wait["thread"]) == ("wait: cache", "MainThread")
    assert wait["args"] == {"lock": "cache", "holder": "evictor", "holder_scope": "evict"}
    assert 30e6 < wait["end"] - wait["start"] < 10e9
    assert ("look_up", "wait: cache") in run.capture.parents()
    # The arrow begins in the holder's scope and ends in the wait.
    begin, end = arrows(run.capture)
    assert [event["id"] for event in begin] == [event["id"] for event in end] != []
    assert begin[0]["tid"] != end[0]["tid"]


def test_the_command_reads_the_waits(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        HOLD + "lock = vor.Lock('cache')\nt = holds(lock, 'evict')\nlock.acquire()\nt.join()\n",
    )
    done = subprocess.run(
        [sys.executable, "-m", "vor", "locks", "--json", str(run.capture.path)],
        env=environment(), capture_output=True, text=True, check=True,
    )  # fmt: skip
    text = done.stdout
    assert '"cache"' in text and '"evict"' in text and '"holder"' in text


@pytest.mark.parametrize("kind", ["Lock", "RLock"])
def test_holds_are_those_between_acquisition_and_release(tmp_path: Path, kind: str) -> None:
    run = record(
        tmp_path,
        f"""
        import threading, time
        lock = vor.{kind}("cache", holds=True)
        quiet = vor.{kind}(name="quiet")
        def work():
            for _ in range(20):
                with lock, quiet, vor.scope("inside"):
                    time.sleep(0.001)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
    )
    holds = sorted(run.capture.contents["tasks"], key=lambda task: task["start"])
    inside = sorted(run.capture.named("inside"), key=lambda span: span["start"])
    assert run.capture.tasks == {"hold: cache": 60}
    assert len(holds) == len(inside) == 60
    for hold, span in zip(holds, inside, strict=True):
        assert hold["start"] <= span["start"] and span["end"] <= hold["end"]
    for hold, following in zip(holds, holds[1:], strict=False):
        assert hold["end"] <= following["start"]


def test_the_arguments_of_a_lock_are_checked() -> None:
    with pytest.raises(TypeError, match="Lock: unexpected keyword hold; the arguments are name, h"):
        vor.Lock(hold=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="RLock: expected at most 1 argument by position"):
        vor.RLock("a", True)  # type: ignore[misc]


def test_what_does_not_wait_records_nothing(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading
        lock, again = vor.Lock("lock"), vor.RLock("again")
        with vor.scope("work"):
            for _ in range(1000):
                with lock: pass
                with again, again: pass
            with lock, again:
                def tries():
                    assert not lock.acquire(False) and not again.acquire(blocking=False)
                    assert not lock.acquire(timeout=0)
                thread = threading.Thread(target=tries)
                thread.start()
                thread.join()
        """,
    )
    assert run.capture.counts == {"work": 1}


def test_a_wait_that_times_out_is_a_wait(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import threading
        lock = vor.Lock("lock")
        with vor.scope("holds"), lock:
            found = []
            thread = threading.Thread(target=lambda: found.append(lock.acquire(timeout=0.02)))
            thread.start()
            thread.join()
            assert found == [False]
        with lock: pass
        """,
    )
    (wait,) = waits(run.capture)
    assert wait["args"] == {"lock": "lock", "holder": "MainThread", "holder_scope": "holds"}
    assert wait["end"] - wait["start"] >= 20e6
    # Nobody waits any more when the lock is released.
    assert arrows(run.capture) == ([], [])


def test_random_schedules_name_no_scope_in_which_the_lock_was_free(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import random, sys, threading, time
        sys.setswitchinterval(1e-5)
        locks = [vor.Lock("a"), vor.RLock("b")]
        def work(i):
            rng = random.Random(i)
            for j in range(600):
                k = rng.randrange(2)
                with vor.scope(f"idle {i}"): pass
                with locks[k]:
                    with vor.scope(f"hold {locks[k].name} {i}"):
                        if rng.random() < 0.5: time.sleep(0)
                        with vor.scope(f"inside {locks[k].name} {i}"):
                            if rng.random() < 0.3: time.sleep(rng.random() * 1e-4)
                with vor.scope(f"idle {i}"):
                    if rng.random() < 0.3: time.sleep(0)
        threads = [threading.Thread(target=work, args=(i,), name=f"t{i}") for i in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        """,
    )
    capture = run.capture
    found = waits(capture)
    named = 0
    for wait in found:
        lock, holder, scope = (wait["args"][key] for key in ("lock", "holder", "holder_scope"))
        assert wait["name"] == f"wait: {lock}"
        assert holder != wait["thread"]
        if holder == RELEASED:
            assert scope == ""
            continue
        # The holder may have opened no scope yet, or have closed them.
        kind, *of = scope.split(" ") if scope not in ("", "unknown") else ("none",)
        assert kind in ("none", "hold", "inside"), wait
        if of:
            named += 1
            assert of == [lock, holder.removeprefix("t")], wait
    assert len(found) > 100 and named > 20, (len(found), named)


def test_waits_for_notifications_have_no_holder(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import queue, threading, time
        vor.patch_threading()
        event = threading.Event()
        jobs = queue.Queue()
        simple = queue.SimpleQueue()
        permits = threading.Semaphore(0)
        barrier = threading.Barrier(2)
        changed = threading.Condition(vor.RLock("changed"))
        def work():
            for act in (event.set, lambda: jobs.put(1), lambda: simple.put(1), permits.release,
                        barrier.wait, notify):
                time.sleep(0.1)
                act()
        def notify():
            with changed: changed.notify_all()
        thread = threading.Thread(target=work)
        with changed:
            thread.start()
            event.wait()
            jobs.get()
            assert simple.get() == 1
            permits.acquire()
            barrier.wait()
            changed.wait()
        thread.join()
        assert not permits.acquire(timeout=0.01)
        """,
    )
    program = str(run.folder / "program.py")
    of_main = [span for span in waits(run.capture) if span["thread"] == "MainThread"]
    names = {span["name"].replace(program, "program.py") for span in of_main if not span["args"]}
    assert {
        # `import vor` and `vor.enable(…)` come first, and an empty line.
        "wait: program.py:6", "wait: program.py:7", "wait: program.py:8 to receive",
        "wait: program.py:9", "wait: program.py:10", "wait: changed",
    } <= names, names  # fmt: skip
    assert run.capture.open == []


def test_the_release_of_others_is_no_wait(tmp_path: Path) -> None:
    # Some programs call the private methods of a lock to unlock it for a while.
    run = record(
        tmp_path,
        """
        lock = vor.RLock("lock")
        with lock, lock:
            state = lock._release_save()
            assert not lock.locked()
            with vor.scope("meanwhile"): pass
            lock._acquire_restore(state)
            assert lock._recursion_count() == 2
        """,
    )
    assert run.capture.counts == {"meanwhile": 1}


@pytest.fixture
def patched() -> Iterator[vor.ThreadingPatch]:
    with vor.patch_threading() as patch:
        yield patch


def test_the_patch_is_undone() -> None:
    before = threading.Lock, threading.RLock, queue.SimpleQueue, threading.Condition
    first, second = vor.patch_threading(), vor.patch_threading()
    assert (threading.Lock, threading.RLock) == (vor.Lock, vor.RLock)
    assert isinstance(queue.SimpleQueue(), before[2])
    first.undo()
    first.undo()
    assert threading.Lock is vor.Lock
    with second:
        pass
    assert (threading.Lock, threading.RLock, queue.SimpleQueue, threading.Condition) == before
    with vor.patch_threading():
        threading.Lock = other = object()  # type: ignore[assignment,misc]
    # Somebody else has replaced it.
    assert threading.Lock is other  # type: ignore[comparison-overlap]
    threading.Lock = before[0]  # type: ignore[misc]


def test_a_lock_made_by_the_library_has_a_name_of_the_program(
    patched: vor.ThreadingPatch,
) -> None:
    here = sys._getframe()
    made = queue.Queue[int]()
    line = here.f_lineno - 1
    assert isinstance(made.mutex, vor.Lock)
    assert made.mutex.name == f"{__file__}:{line}"
    assert vor.Lock("given").name == "given"


def test_queues_and_executors_work(patched: vor.ThreadingPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda i: i * i, range(200))) == [i * i for i in range(200)]
    simple = queue.SimpleQueue[int]()
    with pytest.raises(queue.Empty):
        simple.get(timeout=0.01)
    with pytest.raises(queue.Empty):
        simple.get_nowait()
    with pytest.raises(ValueError):
        simple.get(timeout=-1)
    bounded = queue.Queue[int](1)
    bounded.put(1)
    with pytest.raises(queue.Full):
        bounded.put(2, timeout=0.01)


def test_the_standard_library_works_on_patched_locks(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        """
        import vor
        vor.enable(capture="run.vor")
        vor.patch_threading()
        import asyncio, concurrent.futures, logging, multiprocessing, sys, threading
        def square(i):
            logging.getLogger("squares").warning("%d", i)
            return i * i
        expected = [i * i for i in range(20)]
        async def in_threads():
            return await asyncio.gather(*(asyncio.to_thread(square, i) for i in range(20)))
        if __name__ == "__main__":
            logging.basicConfig(filename="log")
            assert asyncio.run(in_threads()) == expected
            for method in multiprocessing.get_all_start_methods():
                context = multiprocessing.get_context(method)
                with context.Pool(2) as pool:
                    assert pool.map(square, range(20)) == expected
                with concurrent.futures.ProcessPoolExecutor(2, context) as pool:
                    assert list(pool.map(square, range(20))) == expected
                queue, manager = context.Queue(), context.Manager()
                shared = manager.Queue()
                process = context.Process(target=queue.put, args=(7,))
                process.start()
                assert queue.get(timeout=60) == 7
                process.join()
                shared.put(8)
                assert shared.get() == 8
            ready = threading.Event()
            timer = threading.Timer(0.01, ready.set)
            timer.start()
            assert ready.wait(60)
            timer.join()
            print("done")
        """,
    )
    assert run.done.returncode == 0, run.done.stderr
    assert run.done.stdout == "done\n"


@pytest.mark.parametrize("kind", [vor.Lock, vor.RLock])
def test_the_interface_is_that_of_threading(kind: Any) -> None:
    lock = kind()
    assert repr(lock).startswith(f"<unlocked vor.{kind.__name__} object ")
    with lock as has:
        assert has is True and lock.locked() and repr(lock).startswith("<locked ")
        assert id(weakref.ref(lock)()) == id(lock)
    assert not lock.locked()
    assert lock.acquire(timeout=threading.TIMEOUT_MAX) is True
    lock.release()
    with pytest.raises(RuntimeError):
        lock.release()
    with pytest.raises(TypeError, match="cannot pickle"):
        pickle.dumps(lock)
    with pytest.raises(TypeError, match="cannot pickle"):
        copy.copy(lock)
    for wrong, error in (
        (lambda: lock.acquire(False, 1), ValueError),
        (lambda: lock.acquire(timeout=-2), ValueError),
        (lambda: lock.acquire(timeout=float("nan")), ValueError),
        (lambda: lock.acquire(timeout=1e18), OverflowError),
        (lambda: lock.acquire(timeout="1"), TypeError),
        (lambda: lock.acquire(True, -1, 3), TypeError),
        (lambda: lock.acquire(True, blocking=True), TypeError),
        (lambda: lock.acquire(other=True), TypeError),
        (lambda: kind(1), TypeError),
        (lambda: kind("a", "b"), TypeError),
        (lambda: kind(title="a"), TypeError),
        (lambda: kind("\udc80"), UnicodeEncodeError),
    ):  # fmt: skip
        with pytest.raises(error):
            wrong()
        assert not lock.locked()
    lock.acquire()
    del lock


def test_another_thread_may_release_a_lock_and_not_an_rlock() -> None:
    lock, again = vor.Lock(), vor.RLock()
    lock.acquire()
    again.acquire()
    failed: list[str] = []

    def release() -> None:
        lock.release()
        try:
            again.release()
        except RuntimeError as error:
            failed.append(str(error))

    thread = threading.Thread(target=release)
    thread.start()
    thread.join()
    assert failed == ["cannot release un-acquired lock"] and not lock.locked()
    assert again._is_owned()


@pytest.mark.skipif(
    importlib.util.find_spec("test.lock_tests") is None,
    reason="this CPython is installed without its own tests",
)
@pytest.mark.parametrize("records", [False, True])
def test_the_interpreters_own_tests_pass(tmp_path: Path, records: bool) -> None:
    run = start(
        tmp_path,
        f"""
        import threading, unittest, vor
        if {records}: vor.enable(capture="run.vor")
        vor.patch_threading()
        from test import lock_tests as tests
        made = staticmethod
        class Locks(tests.LockTests): locktype = made(threading.Lock)
        class RLocks(tests.RLockTests): locktype = made(threading.RLock)
        class Events(tests.EventTests): eventtype = made(threading.Event)
        class Conditions(tests.ConditionTests): condtype = made(threading.Condition)
        class Semaphores(tests.SemaphoreTests): semtype = made(threading.Semaphore)
        class Bounded(tests.BoundedSemaphoreTests): semtype = made(threading.BoundedSemaphore)
        class Barriers(tests.BarrierTests): barriertype = made(threading.Barrier)
        unittest.main(argv=["x"])
        """,
    )
    assert run.done.returncode == 0, run.done.stderr
    assert "\nOK" in run.done.stderr


@pytest.mark.skipif(not hasattr(sys, "setswitchinterval") or sys.platform == "win32", reason="fork")
def test_a_fork_leaves_no_lock_locked(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import os, threading, warnings
        warnings.simplefilter("ignore")
        vor.patch_threading()
        lock = vor.Lock("lock")
        again = vor.RLock("again")
        lock.acquire()
        again.acquire()
        waiter = threading.Thread(target=lambda: lock.acquire(), daemon=True)
        waiter.start()
        os.register_at_fork(after_in_child=lock._at_fork_reinit)
        os.register_at_fork(after_in_child=again._at_fork_reinit)
        pid = os.fork()
        if pid == 0:
            ok = not lock.locked() and not again.locked()
            with lock, again: pass
            done = threading.Event()
            thread = threading.Thread(target=done.set)
            thread.start()
            ok = ok and done.wait(10)
            thread.join()
            os._exit(0 if ok else 7)
        assert os.waitpid(pid, 0)[1] == 0
        lock.release()
        waiter.join()
        """,
    )
    assert len(waits(Capture(run.folder / "run.vor"))) >= 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_handler_runs_during_a_wait(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import signal, time
        ran = []
        def handler(*_):
            ran.append(1)
            with vor.scope("handler"): pass
            if len(ran) == 3: raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, handler)
        for lock in (vor.Lock("lock"), vor.Lock("timed")):
            lock.acquire()
            ran.clear()
            signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
            try:
                lock.acquire(timeout=-1 if lock.name == "lock" else 30)
            except KeyboardInterrupt:
                signal.setitimer(signal.ITIMER_REAL, 0)
                assert len(ran) == 3
            else:
                raise AssertionError("the lock is not free")
            lock.release()
            with lock: pass
        """,
    )
    assert {("wait: lock", "handler"), ("wait: timed", "handler")} <= run.capture.parents()
    assert run.capture.counts == {"wait: lock": 1, "wait: timed": 1, "handler": 6}


@pytest.mark.parametrize("recording", [False, True])
def test_a_thread_that_the_interpreter_ends_in_a_wait_does_no_harm(
    tmp_path: Path, recording: bool
) -> None:
    # Up to 3.13 the interpreter unwinds daemon threads that come back while it shuts down.
    run = start(
        tmp_path,
        f"""
        import sys, threading, time, vor
        if {recording}: vor.enable(capture="run.vor")
        lock = vor.Lock("lock")
        lock.acquire()
        def waits():
            while True: lock.acquire(timeout=0.0005)
        for _ in range(4): threading.Thread(target=waits, daemon=True).start()
        class Late:
            def __del__(self, sleep=time.sleep):
                for _ in range(20): sleep(0.002)
        # A module of the program would be kept by the frames of its threads.
        sys.late = Late()
        time.sleep(0.05)
        """,
    )
    assert (run.done.returncode, run.done.stderr) == (0, "")


@pytest.mark.parametrize("how", ["option", "variable", "child"])
def test_a_run_records_locks(tmp_path: Path, how: str) -> None:
    program = """
        import subprocess, sys, threading
        lock = threading.Lock()
        def hold():
            with lock:
                begun.set()
                until_main_waits()
    """ + textwrap.indent(UNTIL_MAIN_WAITS, " " * 8) + """
        begun = threading.Event()
        if sys.argv[1:] == ["parent"]:
            subprocess.run([sys.executable, "program.py"], check=True)
        else:
            thread = threading.Thread(target=hold, name="holder")
            thread.start()
            begun.wait()
            with lock: pass
            thread.join()
    """
    if how == "variable":
        run = trace(tmp_path, program, VOR_RUN_LOCKS="1")
    elif how == "option":
        run = trace(tmp_path, program, "--locks")
    else:
        run = start(
            tmp_path, program, "parent",
            before=["-m", "vor", "run", "--locks", "--out", "run.vor"],
        )  # fmt: skip
        assert run.done.returncode == 0, run.done.stderr
    # Threads without an interpreter's lock also wait for the locks inside of `threading`.
    all_waits = [wait for capture in run.captures for wait in waits(capture) if wait["args"]]
    found = [wait for wait in all_waits if wait["name"].endswith("program.py:3")]
    assert found[0]["args"]["holder"] == "holder"
    # Everything that is called is recorded: the scope is `hold` or a call within it.
    calls = {"hold", "until_main_waits", "sleep", "exists", "stat", "open", "read", "rpartition",
             "split"}  # fmt: skip
    holder_scope = found[0]["args"]["holder_scope"]
    assert any(call in holder_scope for call in calls), holder_scope
    ignored = trace(tmp_path, "pass", VOR_RUN_LOCKS="yes").done.stderr
    assert "vor: VOR_RUN_LOCKS: `yes` is neither 0 nor 1; it is ignored\n" in ignored


BUSY = """
    import threading, time
    def busy():
        until = time.monotonic() + 0.6
        while time.monotonic() < until: sum(range(100))
    threads = [threading.Thread(target=busy) for _ in range({threads})]
    vor.record_gil_wait(5)
    for thread in threads: thread.start()
    until = time.monotonic() + 0.6
    while time.monotonic() < until:
        time.sleep(0.05)
        vor.frame_mark()
    for thread in threads: thread.join()
    vor.record_gil_wait(0)
    vor.frame_mark()
    vor.frame_mark()
"""


@pytest.mark.skipif(HAS_NO_LOCK, reason="the interpreter has no lock to wait for")
def test_the_waits_for_the_interpreters_lock(tmp_path: Path) -> None:
    def of(threads: int) -> list[float]:
        folder = tmp_path / str(threads)
        folder.mkdir()
        capture = record(folder, textwrap.dedent(BUSY.format(threads=threads))).capture
        frames = [frame["metrics"] for frame in capture.contents["frames"]]
        assert "gil_wait_ms" not in frames[-1], "it has ended"
        assert {m["gil_wait_ms"][1] for m in frames if "gil_wait_ms" in m} == {"ms"}
        return [m["gil_wait_ms"][0] for m in frames if "gil_wait_ms" in m]

    idle, busy = of(0), of(1)
    # A thread that computes keeps the lock for the switch interval, which is 5 ms.
    assert max(busy) >= 4.0, busy
    assert sorted(idle)[len(idle) // 2] < 2.0, idle


@pytest.mark.skipif(not HAS_NO_LOCK, reason="the interpreter has a lock")
def test_an_interpreter_without_a_lock_has_no_waits_for_it() -> None:
    with pytest.raises(RuntimeError, match="without a global lock"):
        vor.record_gil_wait()


def test_the_interval_is_checked() -> None:
    for wrong in (-1.0, 0.5, float("nan"), 1e10):
        with pytest.raises(ValueError, match="interval_ms"):
            vor.record_gil_wait(wrong)


@pytest.mark.skipif(HAS_NO_LOCK or sys.platform == "win32", reason="no lock, or no fork")
def test_a_forked_child_measures_its_own_lock(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import os, time
        vor.record_gil_wait(1)
        time.sleep(0.02)
        pid = os.fork()
        time.sleep(0.05)
        for _ in range(3): vor.frame_mark()
        if pid == 0:
            vor.record_gil_wait(0)
            vor.close_capture()
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        """,
    )
    for path in sorted(run.folder.glob("*.vor")):
        frames = Capture(path).contents["frames"]
        assert any("gil_wait_ms" in frame["metrics"] for frame in frames), path
