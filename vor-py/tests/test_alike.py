"""Decorated functions and classes are used as before by the libraries that look at them."""

from __future__ import annotations

import abc
import asyncio
import copy
import dataclasses
import enum
import functools
import inspect
import multiprocessing
import pickle
import sys
import types
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from recorded import HAS_MONITORING, start

import vor


@vor.profile
def add(a: int, b: int = 2, *, c: int = 3) -> int:
    """Add."""
    return a + b + c


@vor.profile
async def coroutine() -> int:
    return 1


@vor.profile
def generator() -> typing.Iterator[int]:
    yield 1


@vor.profile
async def async_generator() -> typing.AsyncIterator[int]:
    yield 1


@vor.profile
class Plain:
    kind = "plain"

    def __init__(self, value: int = 1) -> None:
        self.value = value

    def method(self, by: int = 1) -> int:
        return self.value + by

    @classmethod
    def make(cls, value: int) -> Plain:
        return cls(value)

    @staticmethod
    def double(n: int) -> int:
        return 2 * n


@vor.profile
class Derived(Plain):
    def method(self, by: int = 1) -> int:
        return super().method(by) + 10


@vor.profile
@dataclasses.dataclass(order=True)
class Point:
    x: int
    y: int = 0

    def norm(self) -> int:
        return abs(self.x) + abs(self.y)


@vor.profile
class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def lower(self) -> str:
        return self.name.lower()


@vor.profile
class Slotted:
    __slots__ = ("a",)

    def __init__(self) -> None:
        self.a = 1

    def get(self) -> int:
        return self.a


def test_the_type_of_a_function() -> None:
    # docs/python.md says what differs on 3.11.
    for function in (add, coroutine, generator, async_generator):
        assert (type(function) is types.FunctionType) is HAS_MONITORING
        assert isinstance(function, types.FunctionType)


def test_inspect() -> None:
    assert str(inspect.signature(add)) == "(a: 'int', b: 'int' = 2, *, c: 'int' = 3) -> 'int'"
    assert inspect.iscoroutinefunction(coroutine) and not inspect.iscoroutinefunction(add)
    assert asyncio.iscoroutinefunction(coroutine) if sys.version_info < (3, 14) else True
    assert inspect.isgeneratorfunction(generator) and not inspect.isgeneratorfunction(add)
    assert inspect.isasyncgenfunction(async_generator)
    assert inspect.isfunction(add) and inspect.isroutine(add) and callable(add)
    assert inspect.getsource(add).startswith("@vor.profile\ndef add(a: int")
    assert inspect.getsourcelines(Plain.method)[0][0].lstrip().startswith("def method")
    assert inspect.getfile(add) == __file__ and inspect.getmodule(add) is sys.modules[__name__]
    assert inspect.getdoc(add) == "Add."
    assert inspect.unwrap(add).__code__ is add.__code__
    assert inspect.get_annotations(add, eval_str=True) == {
        "a": int, "b": int, "c": int, "return": int,
    }  # fmt: skip
    assert typing.get_type_hints(add) == {"a": int, "b": int, "c": int, "return": int}
    assert inspect.ismethod(Plain().method) and inspect.signature(Plain().method).parameters["by"]
    assert inspect.getfullargspec(add).kwonlyargs == ["c"]
    begun = coroutine()
    assert inspect.isawaitable(begun) and asyncio.run(begun) == 1


def test_functools() -> None:
    @functools.wraps(add)
    def wraps(*given: Any, **named: Any) -> int:
        return add(*given, **named)

    assert wraps.__name__ == "add" and wraps(1) == 6
    assert inspect.signature(wraps) == inspect.signature(add)
    assert functools.partial(add, 1, c=1)() == 4
    cached = functools.lru_cache(vor.profile(lambda n: [n]))
    assert cached(1) is cached(1) and cached.cache_info().hits == 1
    profiled_cache = vor.profile(functools.lru_cache(lambda n: [n]))
    assert profiled_cache(1) is profiled_cache(1)

    @functools.singledispatch
    @vor.profile
    def kind(value: object) -> str:
        return "object"

    @kind.register
    @vor.profile
    def _(value: int) -> str:
        return "int"

    assert (kind(1), kind("")) == ("int", "object")

    class Parts:
        @functools.cached_property
        @vor.profile
        def once(self) -> list[int]:
            return []

        @vor.profile
        def base(self, a: int, b: int) -> int:
            return a - b

        less_one = functools.partialmethod(base, b=1)

        @functools.singledispatchmethod
        @vor.profile
        def kind(self, value: object) -> str:
            return "object"

        @kind.register
        @vor.profile
        def _(self, value: int) -> str:
            return "int"

    parts = Parts()
    assert parts.once is parts.once and parts.less_one(3) == 2
    assert (parts.kind(1), parts.kind("")) == ("int", "object")
    assert functools.reduce(vor.profile(lambda a, b: a + b), [1, 2, 3]) == 6
    before: Callable[[int, int], int] = vor.profile(lambda a, b: a - b)
    key = functools.cmp_to_key(before)
    assert key(1) < key(2)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol: int) -> None:
    def again(value: Any) -> Any:
        return pickle.loads(pickle.dumps(value, protocol))

    for function in (add, coroutine, generator, Plain, Plain.method, Plain.double):
        assert again(function) is function
    bound = again(Derived(4).method)
    assert bound() == 15 and bound.__self__.value == 4
    assert again(Plain.make)(3).value == 3
    assert again(Point(1, 2)) == Point(1, 2) and again(Color.RED) is Color.RED
    assert again(functools.partial(add, 1))() == 6


def test_copy() -> None:
    for duplicate in (copy.copy, copy.deepcopy):
        assert duplicate(add) is add and duplicate(Plain) is Plain
        assert duplicate(Derived(4)).method() == 15
        assert duplicate([Point(1)]) == [Point(1)]
    bound = copy.deepcopy(Derived(4).method)
    assert bound() == 15


def test_classes() -> None:
    assert Derived.make(1).method() == 12 and Plain.double(2) == Derived(1).double(2) == 4
    assert Point(1, 2) < Point(2) and Point(-1, 2).norm() == 3
    assert dataclasses.replace(Point(1), y=5) == Point(1, 5)
    assert repr(Point(1)).endswith("Point(x=1, y=0)") and dataclasses.asdict(Point(1))["x"] == 1
    assert Color.RED.lower() == "red" and list(Color) == [Color.RED, Color.BLUE]
    assert Slotted().get() == 1 and not hasattr(Slotted(), "__dict__")
    assert typing.get_type_hints(Plain.method) == {"by": int, "return": int}

    class Abstract(abc.ABC):
        @abc.abstractmethod
        @vor.profile
        def below(self) -> int: ...

        @vor.profile
        @abc.abstractmethod
        def above(self) -> int: ...

    assert Abstract.__abstractmethods__ == {"below", "above"}
    with pytest.raises(TypeError, match="abstract"):
        Abstract()  # type: ignore[abstract]

    class Orders:
        def __init__(self) -> None:
            self._n = 1

        @staticmethod
        @vor.profile
        def static_outside(n: int) -> int:
            return n

        @vor.profile
        @staticmethod
        def static_inside(n: int) -> int:
            return n

        @classmethod
        @vor.profile
        def class_outside(cls) -> type:
            return cls

        @vor.profile
        @classmethod
        def class_inside(cls) -> type:
            return cls

        @property
        @vor.profile
        def outside(self) -> int:
            return self._n

        @outside.setter
        @vor.profile
        def outside(self, n: int) -> None:
            self._n = n

        @vor.profile  # type: ignore[prop-decorator]
        @property
        def inside(self) -> int:
            """Say."""
            return self._n

    for owner in (Orders, Orders()):
        assert owner.static_outside(1) == owner.static_inside(1) == 1
        assert owner.class_outside() is owner.class_inside() is Orders
    orders = Orders()
    orders.outside = 5
    assert orders.outside == orders.inside == 5 and Orders.inside.__doc__ == "Say."


def spawned(n: int) -> int:
    return add(n)


@pytest.mark.parametrize("function", [add, spawned, Derived(4).method])
def test_a_spawned_process_calls_it(function: Any) -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        assert pool.map_async(function, [1, 2]).get(60) == [function(1), function(2)]


def test_it_behaves_the_same_while_recording(tmp_path: Path) -> None:
    """The tests above, again, in a process that records."""
    tests = ("inspect", "functools", "copy", "classes")
    source = f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import vor
        vor.enable(capture="run.vor")
        import test_alike
        for name in {tests!r}: getattr(test_alike, "test_" + name)()
        for protocol in range(2, 6): test_alike.test_pickle(protocol)
        """
    run = start(tmp_path, source)
    assert run.done.returncode == 0, run.done.stderr
    assert run.capture.counts["add"] >= 2 and run.capture.counts["Derived.method"] >= 3
