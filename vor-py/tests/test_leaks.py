"""A million calls leave no memory behind, and reference counts do not change."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

from recorded import record

import vor


def test_memory_stays_flat(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import resource
        def resident_kib():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * resource.getpagesize() // 1024
        @vor.profile
        def f(x): return x
        @vor.profile(args=True)
        def g(x): return x
        @vor.profile
        def generator():
            yield 1
        def many(n):
            for i in range(n):
                f(i)
                if i % 100 == 0:
                    g(i)
                    list(generator())
                    with vor.scope("block", n=i): pass
                    with vor.scope("plain"): pass
                    vor.record_metric("m", i)
        many(200_000)
        vor.flush()
        before = resident_kib()
        for _ in range(5):
            many(200_000)
            vor.flush()
        grown = resident_kib() - before
        assert grown < 4096, f"{grown} KiB"
        """,
    )
    assert run.capture.counts["f"] == 1_200_000


def test_references_are_counted_as_before() -> None:
    @vor.profile
    def f(x: object) -> object:
        return x

    @vor.profile
    def generator(x: object):
        yield x

    thing = object()
    name = "a name of its own " + str(id(thing))
    scope = vor.Scope(name, thing=thing)

    def use() -> None:
        for _ in range(1000):
            f(thing)
            list(generator(thing))
            with scope:
                pass
            with vor.scope("x", thing=thing):
                pass

    for on in (False, True):
        if on:
            vor.enable()
        use()
        gc.collect()
        before = [sys.getrefcount(it) for it in (thing, f, generator, scope, name, type(scope))]
        use()
        gc.collect()
        after = [sys.getrefcount(it) for it in (thing, f, generator, scope, name, type(scope))]
        assert all(abs(b - a) <= 1 for b, a in zip(before, after)), (before, after)
    vor.disable()


def test_functions_are_freed_with_their_last_reference() -> None:
    import weakref

    gone: list[int] = []

    def make(i: int):
        @vor.profile
        def inner() -> int:
            return i

        inner.itself = inner  # type: ignore[attr-defined]
        weakref.finalize(inner, gone.append, i)
        return inner

    for i in range(100):
        assert make(i)() == i
    gc.collect()
    assert len(gone) == 100


def test_code_that_goes_takes_its_entry_along() -> None:
    vor.enable()
    try:
        for i in range(2000):
            space: dict[str, object] = {"vor": vor}
            exec(f"@vor.profile\ndef f(): return {i}\nvalue = f()", space)
            assert space["value"] == i
    finally:
        vor.disable()
