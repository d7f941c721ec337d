"""`vor.scope` and `vor.Scope`."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest
from recorded import record

import vor


def test_blocks_are_spans(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import contextlib, threading
        with vor.scope("outer"):
            for i in range(3):
                with vor.scope("load", batch=i, kind="x", share=0.5, last=i == 2):
                    with vor.scope("inner"): pass
        s = vor.Scope("reused", n=7)
        for _ in range(4):
            with s as entered:
                assert entered is s
        with s:
            with s: pass
        try:
            with vor.scope("fails"): raise ValueError
        except ValueError: pass
        @vor.scope("decorated")
        def function(): return 1
        assert function() == 1
        with contextlib.ExitStack() as stack:
            stack.enter_context(vor.scope("stacked"))
        def use(): s.__enter__().__exit__(None, None, None)
        threads = [threading.Thread(target=use) for _ in range(3)]
        for t in threads: t.start()
        for t in threads: t.join()
        for i in range(1000):
            with vor.scope(f"name {i}"): pass
        """,
    )
    capture = run.capture
    counts = capture.counts
    names = ("outer", "load", "inner", "reused", "fails", "decorated", "stacked")
    assert [counts[name] for name in names] == [1, 3, 3, 9, 1, 1, 1]
    assert all(counts[f"name {i}"] == 1 for i in range(1000))
    assert [span["args"] for span in capture.named("load")] == [
        {"batch": i, "kind": "x", "share": 0.5, "last": i == 2} for i in range(3)
    ]
    assert all(span["args"] == {"n": 7} for span in capture.named("reused"))
    assert {("outer", "load"), ("load", "inner"), ("reused", "reused")} <= capture.parents()
    assert capture.tasks == {}


def test_blocks_that_stay_open_in_coroutines_are_tasks(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import asyncio
        async def fetch(name, seconds):
            with vor.scope(name):
                await asyncio.sleep(seconds)
        async def main():
            await asyncio.gather(*(fetch(f"fetch {i}", 0.02 * (i + 1)) for i in range(3)))
        asyncio.run(main())
        def generator():
            with vor.scope("held"):
                yield 1
        @vor.profile
        def step(g):
            return next(g)
        g = generator()
        step(g)
        with vor.scope("between"): pass
        g.close()
        """,
    )
    capture = run.capture
    both = capture.counts + capture.tasks
    assert [both[f"fetch {i}"] for i in range(3)] == [1, 1, 1] and both["held"] == 1
    assert (
        capture.tasks["held"] == 1
        and capture.counts["step"] == 1
        and capture.counts["between"] == 1
    )
    lengths = {
        span["name"]: span["end"] - span["start"]
        for span in capture.spans + capture.contents["tasks"]
    }
    assert lengths["fetch 0"] < lengths["fetch 1"] < lengths["fetch 2"], (
        "each block has its own time"
    )


def test_nothing_is_recorded_while_recording_is_off() -> None:
    assert not vor.is_enabled()
    with vor.scope("off"), vor.Scope("off", n=1):
        pass


def test_a_scope_is_a_context_manager() -> None:
    s = vor.Scope("x", a=1)
    assert isinstance(s, contextlib.AbstractContextManager)
    assert repr(s) == "vor.Scope('x')" and type(s) is type(vor.scope("y"))
    vor.Scope.__exit__(vor.Scope.__enter__(s), None, None, None)


def test_an_object_is_given_again_only_when_nobody_has_it(tmp_path: Path) -> None:
    first, second = vor.scope("again"), vor.scope("again")
    assert first is not second, "each may be open independently"
    run = record(
        tmp_path,
        """
        def block():
            with vor.scope("block"):
                yield 1
        # The first is suspended in its block while the second begins and ends one of that name.
        first, second = block(), block()
        next(first)
        next(second)
        first.close()
        second.close()
        kept = [vor.scope("block") for _ in range(100)]
        for scope in kept: scope.__enter__()
        for scope in reversed(kept): scope.__exit__(None, None, None)
        """,
    )
    both = run.capture.counts + run.capture.tasks
    assert both == {"block": 102}
    spans = run.capture.named("block") + run.capture.contents["tasks"]
    assert len({span["start"] for span in spans}) == 102, "each has its own begin"


@pytest.mark.parametrize("make", [vor.scope, vor.Scope])
def test_wrong_arguments(make) -> None:
    with pytest.raises(TypeError, match="expected a name as str, found int"):
        make(3)
    with pytest.raises(TypeError, match="expected one name"):
        make()
    with pytest.raises(TypeError, match="expected one name"):
        make("a", "b")
    with pytest.raises(ValueError, match="expected at most 8 arguments, found 9"):
        make("a", **{f"a{i}": i for i in range(9)})
    with pytest.raises(TypeError, match="expected a function to decorate, found 2 arguments"):
        make("a")(1, 2)
    with pytest.raises(TypeError, match="expected a callable, found int"):
        make("a")(1)
    with pytest.raises(UnicodeEncodeError):
        make("\ud800")
    with pytest.raises(TypeError, match="expected a Scope"):
        untyped: Any = vor.Scope
        untyped.__enter__(3)
