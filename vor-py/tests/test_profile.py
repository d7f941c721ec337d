"""`@vor.profile` on every kind of callable, which it leaves unchanged."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import traceback
from pathlib import Path
from typing import Any

import pytest
from recorded import HAS_MONITORING, record

import vor

# For calls that a type checker would reject.
untyped: Any = vor


def plain(x: int, *, y: str = "a") -> int:
    """Return x."""
    return x


@vor.profile
def module_level(x: int, *, y: str = "a") -> int:
    """Return x."""
    return x


@vor.profile
async def coroutine() -> int:
    return 1


@vor.profile
def generator():
    yield 1


@vor.profile
async def async_generator():
    yield 1


def test_a_function_is_seen_as_it_was() -> None:
    assert inspect.signature(module_level) == inspect.signature(plain)
    assert module_level.__doc__ == "Return x." and module_level.__name__ == "module_level"
    assert module_level.__qualname__ == "module_level" and module_level.__module__ == __name__
    assert module_level.__annotations__ == plain.__annotations__
    assert inspect.isfunction(module_level) and callable(module_level)
    assert inspect.getsource(module_level).startswith("@vor.profile\ndef module_level")
    assert repr(module_level).startswith("<function module_level at ")
    assert pickle.loads(pickle.dumps(module_level)) is module_level
    assert pickle.loads(pickle.dumps(module_level, 0)) is module_level
    assert copy.copy(module_level) is module_level and copy.deepcopy(module_level) is module_level
    module_level.note = 1  # type: ignore[attr-defined]
    assert module_level.note == 1 and vars(module_level)["note"] == 1  # type: ignore[attr-defined]
    del module_level.note  # type: ignore[attr-defined]
    assert not hasattr(module_level, "note")
    assert inspect.iscoroutinefunction(coroutine) and asyncio.iscoroutinefunction(coroutine)
    assert inspect.isgeneratorfunction(generator) and inspect.isasyncgenfunction(async_generator)
    assert inspect.isgenerator(generator()) and inspect.isasyncgen(async_generator())
    awaitable = coroutine()
    assert inspect.iscoroutine(awaitable) and inspect.isawaitable(awaitable)
    awaitable.close()


@pytest.mark.skipif(
    not HAS_MONITORING, reason="CPython 3.11 has no sys.monitoring: functions are wrapped"
)
def test_a_function_is_the_same_object() -> None:
    assert vor.profile(plain) is plain


@pytest.mark.skipif(
    HAS_MONITORING, reason="functions are not wrapped where there is sys.monitoring"
)
def test_a_wrapped_function_leads_to_the_original() -> None:
    wrapped = vor.profile(plain)
    assert inspect.unwrap(wrapped) is plain and wrapped is not plain
    assert type(wrapped).__name__ == "ProfiledFunction"


def test_every_kind_of_callable_is_recorded(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import asyncio, functools

        @vor.profile
        def function(x): return x

        @vor.profile
        class Class:
            def method(self, x): return x
            @staticmethod
            def static(x): return x
            @classmethod
            def of_class(cls, x): return cls, x
            @property
            def value(self): return 7
            @vor.skip
            def left_out(self): return 1
            @vor.skip
            @staticmethod
            def static_left_out(): return 2
            def __call__(self, x): return x

        class Other:
            @vor.profile
            def method(self, x): return x
            @vor.profile
            @staticmethod
            def static(x): return x
            @vor.profile
            @classmethod
            def of_class(cls, x): return cls, x
            @property
            @vor.profile
            def value(self): return 8

        lam = vor.profile(lambda x: x)

        @vor.profile
        def generator(n):
            got = []
            for i in range(n):
                got.append((yield i))
            return got

        @vor.profile
        def outer():
            return (yield from generator(2))

        @vor.profile
        async def coroutine(x):
            await asyncio.sleep(0)
            return x

        @vor.profile
        async def async_generator(n):
            for i in range(n):
                yield i
                await asyncio.sleep(0)

        @vor.profile(name="another name")
        def renamed(): return 1

        @vor.profile
        @functools.lru_cache
        def cached(x): return x

        partial = vor.profile(functools.partial(function, 3), name="partial")
        builtin = vor.profile(len, name="length")

        for i in range(5): assert function(i) == i
        c, o = Class(), Other()
        assert c.method(1) == 1 and c.static(2) == 2 and c.of_class(3) == (Class, 3)
        assert c.value == 7 and c(4) == 4
        assert c.left_out() == 1 and c.static_left_out() == 2 and Class.method(c, 5) == 5
        assert o.method(1) == 1 and o.static(2) == 2 and o.of_class(3) == (Other, 3)
        assert o.value == 8
        bound = o.method
        assert bound(9) == 9 and list(map(bound, [1, 2])) == [1, 2]
        assert lam(2) == 2

        g = generator(3)
        assert next(g) == 0 and g.send("a") == 1 and g.send("b") == 2
        try: g.send("c")
        except StopIteration as stop: assert stop.value == ["a", "b", "c"]
        assert list(outer()) == [0, 1]
        async def main():
            assert await asyncio.gather(coroutine(1), coroutine(2)) == [1, 2]
            assert await asyncio.create_task(coroutine(3)) == 3
            return [i async for i in async_generator(2)]
        assert asyncio.run(main()) == [0, 1]
        assert renamed() == 1 and cached(1) == 1 and cached(1) == 1
        assert partial() == 3 and builtin("abc") == 3
        """,
    )
    counts = run.capture.counts
    assert counts == {
        "function": 6,
        "Class.method": 2,
        "Class.static": 1,
        "Class.of_class": 1,
        "Class.value": 1,
        "Class.__call__": 1,
        "Other.method": 4,
        "Other.static": 1,
        "Other.of_class": 1,
        "Other.value": 1,
        "<lambda>": 1,
        # Four activations of the first generator, and three below `outer`, which is resumed as
        # often.
        "generator": 7,
        "outer": 3,
        "coroutine": 6,
        # The start, and a resumption after each of the two values and each of the two sleeps.
        "async_generator": 5,
        "another name": 1,
        "cached": 2,
        "partial": 1,
        "length": 1,
    }
    assert ("outer", "generator") in run.capture.parents() and (
        "partial",
        "function",
    ) in run.capture.parents()
    span = run.capture.named("Other.method")[0]
    assert span["file"].endswith("program.py") and span["module"] == "__main__"
    lines = (tmp_path / "program.py").read_text().splitlines()
    assert "def method" in "".join(lines[span["line"] - 1 : span["line"] + 1])


def test_exceptions_end_spans(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import traceback

        @vor.profile
        def fails(depth):
            if depth == 0:
                raise ValueError("here")
            fails(depth - 1)

        @vor.profile
        def catches():
            try: fails(3)
            except ValueError as error: return traceback.extract_tb(error.__traceback__)

        names = [frame.name for frame in catches()]
        assert names == ["catches", "fails", "fails", "fails", "fails"], names
        """,
    )
    assert run.capture.counts == {"fails": 4, "catches": 1}
    assert run.capture.parents() == {("catches", "fails"), ("fails", "fails")}


def test_recursion_is_recorded_deeper_than_scopes_are_named(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        @vor.profile
        def down(n):
            return n if n == 0 else down(n - 1)
        down(700)
        @vor.profile
        def endless():
            return endless()
        try: endless()
        except RecursionError: pass
        down(2)
        """,
    )
    counts = run.capture.counts
    assert counts["down"] == 704
    assert counts["endless"] > 500


def test_generators_that_end_early(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        @vor.profile
        def generator():
            try:
                yield 1
                yield 2
            except ValueError:
                yield 3
            finally:
                done.append(1)
        done = []
        g = generator(); next(g); g.close()
        g = generator(); next(g); assert g.throw(ValueError()) == 3; g.close()
        g = generator(); next(g); del g
        g = generator(); g.close()
        for value in generator(): break
        assert len(done) == 4, done
        """,
    )
    # Four starts, one exception thrown in, four closes while suspended.
    assert run.capture.counts == {"generator": 9}


def test_cancelled_tasks(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import asyncio
        @vor.profile
        async def waits():
            with vor.scope("wait"):
                await asyncio.sleep(60)
        @vor.profile
        async def main():
            tasks = [asyncio.create_task(waits()) for _ in range(3)]
            await asyncio.sleep(0)
            for task in tasks: task.cancel()
            return await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(error) for error in asyncio.run(main())] == [asyncio.CancelledError] * 3
        """,
    )
    counts = run.capture.counts
    assert counts["waits"] == 6 and counts["main"] == 3
    # The blocks were open while others ran, so they are tasks, each with its own time.
    assert run.capture.tasks == {"wait": 3, "waits": 3, "main": 1} and counts["wait"] == 0


def test_arguments(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        @vor.profile(args=True)
        def f(a, /, b, c=3, *rest, d, e="x", **more): return a
        class Big: pass
        f(1, 2, d=4)
        f(-1.5, "text", True, 9, d=None, e=Big(), z=1)
        f(2**63, 2**70, b"bytes", d=[1])
        class Class:
            @vor.profile(args=True)
            def method(self, x): return x
        Class().method(5); Class().method(x="six")
        @vor.profile(args=True)
        def generator(n):
            yield n
        list(generator(4))
        @vor.profile(args=True)
        def many(a, b, c, d, e, f, g, h, i, j): return a
        many(*range(10))
        """,
    )
    spans = run.capture
    assert [span["args"] for span in spans.named("f")] == [
        {"a": 1, "b": 2, "c": 3, "d": 4, "e": "x"},
        {"a": -1.5, "b": "text", "c": True, "d": "None", "e": "Big"},
        {"a": 2**63, "b": float(2**70), "c": "bytes", "d": "list", "e": "x"},
    ]
    assert [span["args"] for span in spans.named("Class.method")] == [{"x": 5}, {"x": "six"}]
    assert [span["args"] for span in spans.named("generator")] == [{"n": 4}, {}]
    assert spans.named("many")[0]["args"] == dict(zip("abcdefgh", range(8)))


def test_functions_that_share_code_are_distinguished(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import contextlib, functools
        def passes_on(function):
            @functools.wraps(function)
            def wrapper(*args): return function(*args)
            return wrapper
        @passes_on
        def never(): return 0
        @vor.profile
        @passes_on
        def one(): return 1
        @vor.profile
        @passes_on
        def two(): return 2
        @vor.profile
        @contextlib.contextmanager
        def manager(): yield
        @contextlib.contextmanager
        def unprofiled(): yield
        def make(name):
            @vor.profile(name=name)
            def inner(): return name
            return inner
        made = [make("red"), make("blue"), make("red")]
        assert [one(), two(), never()] == [1, 2, 0]
        with manager(), unprofiled(): pass
        assert [m() for m in made] == ["red", "blue", "red"]
        """,
    )
    assert run.capture.counts == {"one": 1, "two": 1, "manager": 1, "red": 2, "blue": 1}


def test_recording_is_switched_off_and_on_inside_of_calls(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        @vor.profile
        def inner(): return 1
        @vor.profile
        def outer(switch):
            inner()
            switch()
            inner()
        outer(vor.disable); inner()
        assert not vor.is_enabled()
        outer(vor.enable); inner()
        assert vor.is_enabled()
        """,
    )
    counts = run.capture.counts
    # The first `outer` was open when recording ended. The second one began before recording did.
    assert counts["inner"] == 3 and counts["outer"] == 1


@pytest.mark.skipif(not HAS_MONITORING, reason="CPython 3.11 has no sys.monitoring")
def test_other_tools_are_left_alone(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import sys
        for number in (2, 3): sys.monitoring.use_tool_id(number, "another")
        @vor.profile
        def f(): pass
        f()
        assert sys.monitoring.get_tool(2) == "another" and sys.monitoring.get_tool(4) == "vor"
        """,
    )
    assert run.capture.counts == {"f": 1}
    run = record(
        tmp_path,
        """
        import sys
        for number in (2, 3, 4): sys.monitoring.use_tool_id(number, "another")
        @vor.profile
        def f(): pass
        """,
        code=1,
    )
    last = run.done.stderr.splitlines()[-1]
    expected = (
        "sys.monitoring: the tool ids 2, 3 and 4 are in use by ['another', 'another', 'another']"
    )
    assert last == f"RuntimeError: {expected}"


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: untyped.profile(3), TypeError, "profile: expected a callable, found int"),
        (
            lambda: untyped.profile(plain, name=3),
            TypeError,
            "profile: name: expected str, found int",
        ),
        (
            lambda: untyped.profile(plain, args=1),
            TypeError,
            "profile: args: expected True or False, found int",
        ),
    ],
)
def test_wrong_arguments(call, error, text) -> None:
    with pytest.raises(error) as found:
        call()
    assert str(found.value) == text


def test_a_traceback_has_no_frame_of_vor() -> None:
    @vor.profile
    def fails() -> None:
        raise ValueError("here")

    @functools.wraps(fails)
    def calls() -> None:
        fails()

    with pytest.raises(ValueError) as found:
        calls()
    frames = traceback.extract_tb(found.value.__traceback__)
    assert [frame.name for frame in frames[-2:]] == ["calls", "fails"]
    package = str(Path(vor.__file__).parent)
    assert not any(frame.filename.startswith(package) for frame in frames)
