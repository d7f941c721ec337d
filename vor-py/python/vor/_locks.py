"""Locks in place of those of `threading`, and the waits for the interpreter's own lock."""

from __future__ import annotations

import _thread
import atexit
import os
import queue
import sys
import threading
from types import ModuleType, TracebackType
from typing import Any

from vor import _core


class SimpleQueue(queue.SimpleQueue[Any]):
    """A `queue.SimpleQueue` that records the waits for an item."""

    def __init__(self) -> None:
        super().__init__()
        self._wait = _core.wait_scope(" to receive")

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        """Remove and return an item, as `queue.SimpleQueue.get` does."""
        try:
            return super().get_nowait()
        except queue.Empty:
            if not block or timeout == 0:
                raise
        with self._wait:
            return super().get(True, timeout)


def _replaced() -> tuple[tuple[ModuleType, str, Any], ...]:
    """Return the names that a patch replaces, and what replaces them.

    `Condition`, `Event`, `Semaphore`, `BoundedSemaphore`, `Barrier` and `queue.Queue` make their
    locks by these names. So they stay the same classes, and record all the same.
    """
    return (
        (threading, "Lock", _core.Lock),
        (threading, "RLock", _core.RLock),
        (queue, "SimpleQueue", SimpleQueue),
    )


# The originals, while patches are in effect, and the number of these. Not under a lock of
# `threading`, which may be one of vor's.
_originals: list[Any] = []
_patches = 0
_guard = _thread.allocate_lock()


class ThreadingPatch:
    """A patch of `threading` that is in effect until `undo()`, or to the end of its `with`."""

    _is_undone = False

    def undo(self) -> None:
        """Restore the originals, unless another patch is in effect. Locks that exist stay."""
        global _patches
        with _guard:
            if self._is_undone:
                return
            self._is_undone = True
            _patches -= 1
            if _patches > 0:
                return
            for (module, name, ours), original in zip(_replaced(), _originals, strict=True):
                # Somebody else may have replaced it in the meantime.
                if getattr(module, name) is ours:
                    setattr(module, name, original)

    def __enter__(self) -> ThreadingPatch:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.undo()


def patch_threading() -> ThreadingPatch:
    """Record the waits for locks that the program makes from now on, until the result's `undo()`.

    `threading.Lock` and `threading.RLock` are `vor.Lock` and `vor.RLock` then, and conditions,
    events, semaphores, barriers and queues are built on them. Locks that exist already, and names
    that a module has imported from `threading` already, stay as they are.
    """
    global _patches
    with _guard:
        _patches += 1
        if _patches == 1:
            _originals[:] = [getattr(module, name) for module, name, _ in _replaced()]
            for module, name, ours in _replaced():
                setattr(module, name, ours)
    return ThreadingPatch()


# The interval of the measurement, and whether the interpreter's hooks know it.
_interval_ms = 0.0
_has_hooks = False


def record_gil_wait(interval_ms: float = 10.0) -> None:
    """Measure how long a thread that wakes up waits for the interpreter's lock.

    Each frame has the mean of the measurements as the metric `gil_wait_ms`. A measurement makes the
    running thread hand over the lock once, every `interval_ms` milliseconds; 0 ends them. Raises
    RuntimeError if the interpreter has no lock.
    """
    global _interval_ms, _has_hooks
    if not (interval_ms == 0.0 or 1.0 <= interval_ms < 1e9):
        raise ValueError(
            f"record_gil_wait: interval_ms: expected 0 or a number of at least 1,"
            f" found {interval_ms!r}"
        )
    if interval_ms > 0.0 and not getattr(sys, "_is_gil_enabled", lambda: True)():
        raise RuntimeError(
            "record_gil_wait: this interpreter runs without a global lock; no thread waits for it"
        )
    if interval_ms == 0.0:
        _core.stop_measuring_gil()
    else:
        if not _has_hooks:
            # The thread must not come back to an interpreter that shuts down.
            atexit.register(_core.stop_measuring_gil)
            if hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=_resume_in_child)
            _has_hooks = True
        _core.measure_gil(interval_ms)
    _interval_ms = interval_ms


def _resume_in_child() -> None:
    if _core.forget_gil():
        _core.measure_gil(_interval_ms)
