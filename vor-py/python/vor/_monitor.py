"""Switches events of `sys.monitoring` on and off. CPython 3.11 has none."""

from __future__ import annotations

import os
import sys
import weakref

# Not `threading`: only programs that have threads import it.
from _thread import RLock
from types import CodeType

from vor import _core

HAS_MONITORING = sys.version_info >= (3, 12)

# The tool id of vor, whether events are on for decorated code, whether they are on for all code,
# and the decorated code.
_tool: int | None = None
_is_on = False
_is_tracing = False
_codes: weakref.WeakSet[CodeType] = weakref.WeakSet()

# Guards the variables above and the table of code objects. A thread may lock it again, because the
# garbage collector may run decorated code.
turn = RLock()


def _in_child() -> None:
    global turn
    # The thread that held the lock does not exist in the child.
    turn = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)

if sys.version_info >= (3, 12):
    _EVENTS = sys.monitoring.events
    _LOCAL = _EVENTS.PY_START | _EVENTS.PY_RESUME | _EVENTS.PY_RETURN | _EVENTS.PY_YIELD
    # These events cannot be switched on for single code objects.
    _GLOBAL = _EVENTS.PY_THROW | _EVENTS.PY_UNWIND
    _C_CALLS = _EVENTS.CALL | _EVENTS.C_RETURN | _EVENTS.C_RAISE

    def _take_tool() -> int:
        global _tool
        if _tool is None:
            monitoring = sys.monitoring
            # Id 2 is meant for profilers. If another tool uses it, vor uses 3 or 4, which have no
            # meaning.
            for tool in (monitoring.PROFILER_ID, 3, 4):
                if monitoring.get_tool(tool) is None:
                    monitoring.use_tool_id(tool, "vor")
                    _tool = tool
                    break
            else:
                found = [monitoring.get_tool(tool) for tool in (monitoring.PROFILER_ID, 3, 4)]
                raise RuntimeError(f"sys.monitoring: the tool ids 2, 3 and 4 are in use by {found}")
            for name, hook in _core.hooks(monitoring.DISABLE).items():
                monitoring.register_callback(_tool, getattr(_EVENTS, name), hook)
        return _tool

    def add(code: CodeType) -> None:
        """Record the calls of this code while recording is on."""
        with turn:
            _codes.add(code)
            if _is_on:
                _switch_codes([code], True)

    def _switch_codes(codes: list[CodeType], on: bool) -> None:
        tool = _take_tool()
        for code in codes:
            sys.monitoring.set_local_events(tool, code, _LOCAL if on else 0)
        if on and codes and not _is_tracing:
            sys.monitoring.set_events(tool, _GLOBAL)

    def switch(on: bool) -> None:
        """Switch the events of all added code on or off."""
        global _is_on
        with turn:
            if _is_on != on:
                _is_on = on
                if _codes:
                    _switch_codes(list(_codes), on)
                    if not on and not _is_tracing and _tool is not None:
                        sys.monitoring.set_events(_tool, 0)

    def trace(on: bool, c_calls: bool) -> None:
        """Switch the events of all code on or off."""
        global _is_tracing
        with turn:
            _is_tracing = on
            events = _LOCAL | _GLOBAL | (_C_CALLS if c_calls else 0)
            kept = _GLOBAL if _is_on and _codes else 0
            sys.monitoring.set_events(_take_tool(), events if on else kept)

else:

    def add(code: CodeType) -> None:
        """Do nothing, because functions are wrapped."""

    def switch(on: bool) -> None:
        """Do nothing, because the wrapper of a function checks whether recording is on."""

    def trace(on: bool, c_calls: bool) -> None:
        """Set or remove the profile callback of new threads."""
        import threading

        threading.setprofile(_core.thread_hook if on else None)
