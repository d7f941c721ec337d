"""`@vor.profile`: records the calls of every kind of callable as spans."""

from __future__ import annotations

# `weakref.finalize` imports `atexit` when it is first called. All imports happen here: a child that
# is forked while another thread imports a module would wait for that module forever.
import atexit  # noqa: F401
import inspect
import weakref
from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, overload

from vor import _core, _monitor

T = TypeVar("T")

_SUSPENDED = (
    inspect.CO_GENERATOR
    | inspect.CO_COROUTINE
    | inspect.CO_ITERABLE_COROUTINE
    | inspect.CO_ASYNC_GENERATOR
)
# Marks a function that `profile` on a class skips.
_SKIPPED = "__vor_skip__"


@overload
def profile(function: T, /) -> T: ...
@overload
def profile(
    function: None = None, /, *, name: str | None = None, args: bool = False
) -> Callable[[T], T]: ...
@overload
def profile(function: T, /, *, name: str | None = None, args: bool = False) -> T: ...
def profile(function: Any = None, /, *, name: str | None = None, args: bool = False) -> Any:
    """Record each call of a function, method, coroutine or generator as a span.

    On a class, this applies to all of its methods.

    name: the name of the span; by default that of the function.
    args: also record up to eight arguments: the values of bools, numbers and strings, and the
        type's name of anything else.

    An activation of a generator or coroutine lasts from a resumption to the next suspension. It is
    one span.
    """
    if name is not None and not isinstance(name, str):
        raise TypeError(f"profile: name: expected str, found {type(name).__name__}")
    if not isinstance(args, bool):
        raise TypeError(f"profile: args: expected True or False, found {type(args).__name__}")
    if function is None:
        return lambda function: profile(function, name=name, args=args)
    if isinstance(function, type):
        _profile_class(function, name, args)
        return function
    if isinstance(function, (staticmethod, classmethod)):
        inner = function.__func__
        profiled = _profile_one(inner, name, args)
        return function if profiled is inner else type(function)(profiled)
    if isinstance(function, property):
        fget, fset, fdel = (
            None if part is None else _profile_one(part, name, args)
            for part in (function.fget, function.fset, function.fdel)
        )
        return type(function)(fget, fset, fdel, function.__doc__)
    if not callable(function):
        raise TypeError(f"profile: expected a callable, found {type(function).__name__}")
    return _profile_one(function, name, args)


def skip(function: T, /) -> T:
    """Exclude a method from `profile` on its class."""
    inner = getattr(function, "__func__", function)
    if isinstance(inner, property):
        for part in (inner.fget, inner.fset, inner.fdel):
            if part is not None:
                setattr(part, _SKIPPED, True)
    else:
        setattr(inner, _SKIPPED, True)
    return function


def _profile_class(cls: type, name: str | None, args: bool) -> None:
    for attribute, value in list(vars(cls).items()):
        if not isinstance(value, (FunctionType, staticmethod, classmethod, property)):
            continue
        parts = (value.fget, value.fset, value.fdel) if isinstance(value, property) else (value,)
        if any(getattr(getattr(part, "__func__", part), _SKIPPED, False) for part in parts):
            continue
        # A static method may wrap a callable that is not written in Python.
        inner = getattr(value, "__func__", value)
        if isinstance(inner, (FunctionType, property)):
            profiled = profile(
                value, name=None if name is None else f"{name}.{attribute}", args=args
            )
            if profiled is not value:
                setattr(cls, attribute, profiled)


def _profile_one(function: Any, name: str | None, args: bool) -> Any:
    if name is None:
        name = str(
            getattr(function, "__qualname__", None)
            or getattr(function, "__name__", type(function).__qualname__)
        )
    module = str(getattr(function, "__module__", None) or "")
    if type(function) is not FunctionType:
        # Methods, partial functions, and callables that are not written in Python.
        return _core.wrap(function, None, name, module, [], False)
    if _monitor.HAS_MONITORING:
        names = [parameter[0] for parameter in _parameters(function)] if args else []
        # Another thread may decorate a function that shares the code.
        with _monitor.turn:
            _own_code(function, name)
            _core.put_code(function.__code__, name, module, names)
            _monitor.add(function.__code__)
        return function
    parameters = _parameters(function) if args else []
    is_suspended = bool(function.__code__.co_flags & _SUSPENDED)
    return _core.wrap(function, function.__code__, name, module, parameters, is_suspended)


# Names by the id of the code object. An entry is removed with its object.
_names: dict[int, str] = {}


def _own_code(function: FunctionType, name: str) -> None:
    """Make a copy of the code object of a function if functions of other names share it.

    Functions that a decorator returns share one, and so do closures. Their calls would look alike.
    """
    code = function.__code__
    is_wrapper = hasattr(function, "__wrapped__") or code.co_qualname != function.__qualname__
    if is_wrapper or _names.get(id(code), name) != name:
        code = function.__code__ = code.replace()
    if id(code) not in _names:
        weakref.finalize(code, _names.pop, id(code), None).atexit = False
    _names[id(code)] = name


def _parameters(function: FunctionType) -> list[tuple[str, int | None, bool, object]]:
    """Return name, position, whether there is a default, and default of recorded parameters."""
    signature = inspect.signature(function, follow_wrapped=False)
    found: list[tuple[str, int | None, bool, object]] = []
    for at, parameter in enumerate(signature.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if at == 0 and parameter.name in ("self", "cls"):
            continue
        position = None if parameter.kind is parameter.KEYWORD_ONLY else at
        has_default = parameter.default is not parameter.empty
        found.append(
            (parameter.name, position, has_default, parameter.default if has_default else None)
        )
    return found
