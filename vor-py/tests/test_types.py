"""Decorated functions keep their types. `.ci/python` runs mypy on this folder."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import assert_type

import vor


@vor.profile
def function(x: int, *, y: str = "") -> float:
    return float(x)


@vor.profile(name="named", args=True)
def named(x: int) -> list[int]:
    return [x]


@vor.profile
async def coroutine(x: int) -> bytes:
    return b""


@vor.profile
def generator() -> Iterator[int]:
    yield 1


@vor.profile
async def async_generator() -> AsyncIterator[int]:
    yield 1


@vor.profile
class Class:
    @vor.skip
    def skipped(self) -> int:
        return 1

    @property
    @vor.profile
    def value(self) -> str:
        return ""

    @vor.profile
    @classmethod
    def made(cls) -> Class:
        return cls()


@vor.scope("decorated", part=1)
def decorated(x: int) -> str:
    return str(x)


def test_types_are_kept() -> None:
    assert_type(function(1, y="a"), float)
    assert_type(named(1), list[int])
    assert_type(decorated(1), str)
    assert_type(Class().skipped(), int)
    assert_type(Class().value, str)
    assert_type(Class.made(), Class)
    assert_type(next(generator()), int)
    assert_type(vor.capture_path(), Path | None)
    with vor.scope("x", n=1) as scope:
        assert_type(scope, vor.Scope)
    awaitable = coroutine(1)
    awaitable.close()
