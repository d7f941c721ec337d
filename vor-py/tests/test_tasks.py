"""Tasks: coroutines from start to end, and blocks that stay open while a coroutine waits."""

from __future__ import annotations

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
    expected = {"outer": 3, "leaf": 3, "block": 3, "fails": 1, "waits_for_ever": 1}
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
