"""Tasks: coroutines from start to end, and blocks that stay open while a coroutine waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded import Capture, record, start, trace

import vor

HEAD = "import asyncio, vor\n"


def life(capture: Capture, name: str) -> tuple[int, int]:
    """Return the start and the end of the only task with a name."""
    (task,) = [task for task in capture.contents["tasks"] if task["name"] == name]
    return task["start"], task["end"]


def sleeps(capture: Capture) -> list[tuple[int, int]]:
    """Return the start and the end of each sleep of the program, from its pairs of messages."""
    ticks = [message["start"] for message in capture.contents["messages"]]
    return list(zip(ticks[::2], ticks[1::2]))


def is_within(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def test_a_block_around_an_await_is_a_task(tmp_path: Path) -> None:
    capture = record(
        tmp_path,
        HEAD
        + """
async def main():
    with vor.scope("waits", n=1):
        vor.message("from")
        await asyncio.sleep(0.02)
        vor.message("to")
        with vor.scope("computes"): pass
    with vor.scope("computes"):
        with vor.scope("inner"): pass
with vor.scope("around"):
    asyncio.run(main())
with vor.scope("after"): pass
""",
    ).capture
    assert capture.tasks == {"waits": 1}
    assert capture.counts == {"computes": 2, "inner": 1, "around": 1, "after": 1}
    (slept,) = sleeps(capture)
    assert is_within(slept, life(capture, "waits"))
    assert capture.parents() == {("around", "computes"), ("computes", "inner")}


def test_blocks_of_interleaved_tasks_are_tasks(tmp_path: Path) -> None:
    capture = record(
        tmp_path,
        HEAD
        + """
async def fetch(n):
    with vor.scope(f"fetch {n}"):
        for _ in range(3):
            with vor.scope("step"): pass
            await asyncio.sleep(0.005)
async def brief():
    await asyncio.sleep(0)
    with vor.scope("brief"): pass
async def main():
    with vor.scope("all"):
        await asyncio.gather(*(fetch(n) for n in range(5)), brief())
asyncio.run(main())
""",
    ).capture
    assert capture.tasks == {"all": 1, **{f"fetch {n}": 1 for n in range(5)}}
    assert capture.counts == {"step": 15, "brief": 1}
    assert capture.parents() == set(), "no block is inside one that only waits"
    assert all(is_within(life(capture, f"fetch {n}"), life(capture, "all")) for n in range(5))


def test_asyncio_may_be_imported_after_recording_began(tmp_path: Path) -> None:
    run = start(
        tmp_path,
        """
import vor
vor.enable(capture="run.vor")
with vor.scope("early"): pass
import asyncio
async def main():
    with vor.scope("late"):
        await asyncio.sleep(0.001)
        with vor.scope("early"): pass
asyncio.run(main())
""",
    )
    assert run.done.returncode == 0, run.done.stderr
    assert run.capture.tasks == {"late": 1} and run.capture.counts == {"early": 2}


def test_blocks_of_other_loops_are_tasks_where_they_overlap(tmp_path: Path) -> None:
    capture = record(
        tmp_path,
        """
import types
@types.coroutine
def pause(): yield
async def task(name):
    with vor.scope(name):
        await pause()
def values():
    with vor.scope("held"): yield 1
# A loop of the program itself.
first, second = task("first"), task("second")
first.send(None); second.send(None)
for coroutine in (first, second):
    try: coroutine.send(None)
    except StopIteration: pass
# A scope that a generator leaves open does not make the calling block a task.
with vor.scope("asks"):
    held = values()
    next(held)
held.close()
""",
    ).capture
    assert capture.tasks == {"first": 1, "second": 1, "held": 1}
    assert capture.counts == {"asks": 1}


@pytest.mark.parametrize("traced", [False, True])
def test_coroutines_have_a_task_of_their_whole_life(tmp_path: Path, traced: bool) -> None:
    source = (
        HEAD
        + """
@vor.profile
async def leaf(seconds):
    vor.message("from")
    await asyncio.sleep(seconds)
    vor.message("to")
    return seconds
@vor.profile
async def outer():
    with vor.scope("block"):
        await leaf(0.01)
@vor.profile
async def fails():
    await asyncio.sleep(0)
    raise ValueError
@vor.profile
async def waits_for_ever():
    await asyncio.Event().wait()
@vor.profile
async def at_once(): return 1
@vor.profile
def values():
    for i in range(3): yield i
@vor.profile
async def asynchronous():
    for i in range(3):
        await asyncio.sleep(0)
        yield i
@vor.scope("decorated")
async def by_scope(): await asyncio.sleep(0)
async def main():
    await asyncio.gather(*(outer() for _ in range(3)))
    assert await at_once() == 1 and list(values()) == [0, 1, 2]
    async for i in asynchronous(): pass
    try: await fails()
    except ValueError: pass
    forever = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0.001)
    forever.cancel()
    try: await forever
    except asyncio.CancelledError: pass
    await by_scope()
asyncio.run(main())
"""
    )
    expected = {
        "outer": 3, "leaf": 3, "block": 3, "fails": 1, "waits_for_ever": 1, "asynchronous": 1,
    }  # fmt: skip
    if traced:
        source = source.replace("@vor.profile\n", "").replace('@vor.scope("decorated")\n', "")
        capture = trace(tmp_path, source, "--include", "program.py").capture
        expected |= {"by_scope": 1, "main": 1}
    else:
        capture = record(tmp_path, source).capture
        expected |= {"decorated": 1}
    assert capture.tasks == expected
    # Each task lasts as long as the sleep that it waited for.
    leaves, blocks, outers = (
        sorted(
            (task["start"], task["end"])
            for task in capture.contents["tasks"]
            if task["name"] == name
        )
        for name in ("leaf", "block", "outer")
    )
    for leaf, block, outer in zip(leaves, blocks, outers, strict=True):
        assert is_within(leaf, block) and is_within(block, outer)
    assert len(sleeps(capture)) == 3
    assert capture.counts["leaf"] == 6 and capture.counts["at_once"] == 1
    # The task begins with the first activation.
    first = min(span["start"] for span in capture.named("outer"))
    assert first == outers[0][0]


def test_a_coroutine_that_goes_on_after_a_pause_of_recording_is_no_task(tmp_path: Path) -> None:
    capture = record(
        tmp_path,
        HEAD
        + """
@vor.profile
async def across():
    await asyncio.sleep(0.02)
async def main():
    task = asyncio.create_task(across())
    await asyncio.sleep(0)
    vor.disable()
    await asyncio.sleep(0)
    vor.enable(capture="run.vor")
    await task
    await across()
asyncio.run(main())
""",
    ).capture
    assert capture.tasks["across"] <= 2
    assert all(task["end"] > task["start"] for task in capture.contents["tasks"])


def test_nothing_is_left_of_tasks_that_have_ended(tmp_path: Path) -> None:
    capture = record(
        tmp_path,
        HEAD
        + """
@vor.profile
async def profiled():
    await asyncio.sleep(0)
async def plain(n):
    with vor.scope("plain"):
        await asyncio.sleep(0)
async def main():
    for n in range(2000):
        await profiled()
        await plain(n)
asyncio.run(main())
""",
    ).capture
    assert capture.tasks == {"profiled": 2000, "plain": 2000}
    assert capture.counts == {"profiled": 4000} and capture.open == []


LIVES = """
import asyncio, json, sys, threading, time
def work(seconds):
    # A busy time that the test can rely on, on a machine that is busy too.
    begin = time.perf_counter_ns()
    time.sleep(seconds)
    return time.perf_counter_ns() - begin
@vor.profile
async def alternates(count):
    busy = 0
    for _ in range(count):
        busy += work(0.01)
        await asyncio.sleep(0.02)
    return busy + work(0.01)
@vor.profile
async def around():
    return await alternates(1)
@vor.profile
async def values():
    for i in range(3):
        await asyncio.sleep(0.005)
        yield i
@vor.profile
async def fails():
    await asyncio.sleep(0.005)
    work(0.005)
    raise ValueError
@vor.profile
async def waits_for_ever():
    await asyncio.Event().wait()
async def consume():
    async for i in values():
        work(0.004)
async def main():
    busy = {"alternates": await alternates(3)}
    await around()
    await asyncio.gather(consume(), fails(), return_exceptions=True)
    cancelled = asyncio.create_task(waits_for_ever())
    await asyncio.sleep(0.01)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)
    if sys.version_info >= (3, 11):
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(alternates(2))
    return busy
def in_thread():
    asyncio.run(alternates(1))
threads = [threading.Thread(target=in_thread) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(json.dumps(asyncio.run(main())))
"""


def tasks_of(path: Path) -> dict[str, list[dict]]:
    """Return the rows of tasks by name, as they began."""
    found: dict[str, list[dict]] = {}
    for row in sorted(vor.read(path).tasks, key=lambda row: row["start_ns"]):
        found.setdefault(row["name"], []).append(row)
    return found


@pytest.mark.parametrize("traced", [False, True])
def test_a_task_says_when_it_was_active_and_when_it_waited(tmp_path: Path, traced: bool) -> None:
    # A sleep counts from its call. A task that loses the processor before it waits was active for a
    # part of its sleep, so one of three runs has to be without that.
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        try:
            check_lives(folder, traced)
            return
        except AssertionError:
            if attempt == 2:
                raise


def check_lives(tmp_path: Path, traced: bool) -> None:
    """Checks the tasks of a run of `LIVES`."""
    if traced:
        source = LIVES.replace("@vor.profile\n", "")
        run = trace(tmp_path, source, "--include", "program.py")
    else:
        run = record(tmp_path, LIVES)
    tasks = tasks_of(tmp_path / "run.vor")
    ms = 1_000_000

    def check(row: dict, polls: int, busy_ms: float, idle_ms: float) -> None:
        assert row["polls"] == polls, row
        assert row["busy_ns"] >= busy_ms * ms, row
        # A sleep of `asyncio` may end earlier by the resolution of its clock.
        assert row["dur_ns"] - row["busy_ns"] >= (idle_ms - 1) * ms, row

    of_threads, (first, inner), of_group = (
        tasks["alternates"][:2], tasks["alternates"][2:4], tasks["alternates"][4:],
    )  # fmt: skip
    assert len({row["thread"] for row in of_threads}) == 2 and len(of_group) == 3
    for row in of_threads:
        check(row, 2, 20, 20)
    check(first, 4, 40, 60)
    # Nothing else runs meanwhile, so the task slept whenever it was not busy.
    truth_ns = json.loads(run.done.stdout)["alternates"]
    assert truth_ns <= first["busy_ns"] <= first["dur_ns"] - 59 * ms
    check(inner, 2, 20, 20)
    (around,) = tasks["around"]
    assert around["polls"] == 2 and around["busy_ns"] >= inner["busy_ns"]
    for row in of_group:
        check(row, 3, 30, 40)
    # It waits while its consumer works, too: three sleeps, three values and the end.
    (generator,) = tasks["values"]
    check(generator, 7, 0, 3 * 5 + 3 * 4)
    (failed,) = tasks["fails"]
    check(failed, 2, 5, 5)
    (cancelled,) = tasks["waits_for_ever"]
    check(cancelled, 2, 0, 10)
    assert cancelled["dur_ns"] < first["dur_ns"] * 100


@pytest.mark.parametrize("traced", [False, True])
def test_tasks_that_never_finish_end_with_the_recording(tmp_path: Path, traced: bool) -> None:
    source = """
import asyncio, threading, time
@vor.profile
async def serves(): await asyncio.sleep(1000)
@vor.profile
async def asks(): await asyncio.sleep(1000)
def daemon():
    loop = asyncio.new_event_loop()
    loop.create_task(serves())
    loop.run_forever()
threading.Thread(target=daemon, daemon=True).start()
loop = asyncio.new_event_loop()
kept = loop.create_task(asks())
loop.run_until_complete(asyncio.sleep(0.1))
"""
    if traced:
        trace(tmp_path, source.replace("@vor.profile\n", ""), "--include", "program.py")
    else:
        record(tmp_path, source + "vor.disable()\n")
    tasks = tasks_of(tmp_path / "run.vor")
    assert {name: len(rows) for name, rows in tasks.items()} == {"serves": 1, "asks": 1}
    assert all(rows[0]["dur_ns"] > 30_000_000 for rows in tasks.values())
    assert all(rows[0]["polls"] == 1 for rows in tasks.values())


def test_an_asynchronous_generator_that_is_left_ends(tmp_path: Path) -> None:
    record(
        tmp_path,
        HEAD
        + """
@vor.profile
async def left():
    for i in range(3):
        await asyncio.sleep(0.001)
        yield i
async def main():
    async for i in left(): break
    await asyncio.sleep(0.2)
asyncio.run(main())
""",
    )
    (left,) = tasks_of(tmp_path / "run.vor")["left"]
    assert left["dur_ns"] < 150_000_000


def test_each_task_has_a_track_of_its_own_while_it_lives(tmp_path: Path) -> None:
    record(
        tmp_path,
        HEAD
        + """
@vor.profile
async def overlaps(): await asyncio.sleep(0.02)
async def main():
    await asyncio.gather(*(overlaps() for _ in range(4)))
    await asyncio.gather(*(overlaps() for _ in range(4)))
asyncio.run(main())
""",
    )
    capture = vor.read(tmp_path / "run.vor")
    capture.export(tmp_path / "run.json")
    events = json.loads((tmp_path / "run.json").read_text())
    sides = [
        sorted(
            event["id2"]["local"]
            for event in events
            if event["ph"] == side and event.get("name") == "overlaps" and "id2" in event
        )
        for side in "be"
    ]
    assert len(set(sides[0])) == 8 and sides[0] == sides[1]
    assert len(tasks_of(tmp_path / "run.vor")["overlaps"]) == 8


@pytest.mark.parametrize("library", ["trio", "anyio", "uvloop"])
def test_other_loops(tmp_path: Path, library: str) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    begin, sleep = {
        "trio": ("trio.run(main)", "trio.sleep"),
        "anyio": ("anyio.run(main)", "anyio.sleep"),
        "uvloop": ("uvloop.run(main())", "asyncio.sleep"),
    }[library]
    record(
        tmp_path,
        f"""
import asyncio, time, {library}
@vor.profile
async def naps():
    time.sleep(0.01)
    await {sleep}(0.02)
async def main():
    await naps()
{begin}
""",
    )
    (naps,) = tasks_of(tmp_path / "run.vor")["naps"]
    assert naps["polls"] == 2 and naps["busy_ns"] >= 10_000_000
    assert naps["dur_ns"] - naps["busy_ns"] >= 19_000_000
