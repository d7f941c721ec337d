"""Performance instrumentation that stays switched on.

    import vor

    @vor.profile
    def step(batch):
        with vor.scope("load", batch=batch):
            ...

    vor.enable(capture="run.vor")
    for batch in range(3):
        step(batch)
        vor.frame_mark()

Or without touching the program: ``python -m vor run script.py``.

A span costs two readings of the clock and a 16-byte record, as in Rust. A thread of vor writes the
capture. The import of the module reads the environment variables ``VOR_RECORD``,
``VOR_RECORD_SPANS`` and the others.
"""

from __future__ import annotations

import os as _os
import sys as _sys
import typing as _typing

from vor import _core
from vor._command import merge, view
from vor._core import Column
from vor._reading import Capture, CaptureError, Frame, Table, read

if _core.RECORDS:
    from vor._recording import (
        Lock,
        RLock,
        Scope,
        ThreadingPatch,
        calibrate,
        capture_path,
        close_capture,
        disable,
        dump,
        empty_span_ns,
        enable,
        flush,
        frame_mark,
        is_enabled,
        message,
        patch_threading,
        profile,
        record_gil_wait,
        record_io,
        record_metric,
        record_metric_unit,
        scope,
        scope_rules,
        scopes,
        set_scopes,
        skip,
        steps,
    )
    from vor._recording import load_ipython_extension as load_ipython_extension

__all__ = [
    "Capture",
    "CaptureError",
    "Column",
    "Frame",
    "Lock",
    "RLock",
    "Scope",
    "Table",
    "ThreadingPatch",
    "calibrate",
    "capture_path",
    "close_capture",
    "disable",
    "dump",
    "empty_span_ns",
    "enable",
    "flush",
    "frame_mark",
    "is_enabled",
    "merge",
    "message",
    "patch_threading",
    "profile",
    "read",
    "record_gil_wait",
    "record_io",
    "record_metric",
    "record_metric_unit",
    "scope",
    "scope_rules",
    "scopes",
    "set_scopes",
    "skip",
    "steps",
    "view",
]

if not _typing.TYPE_CHECKING and not _core.RECORDS:
    from vor import _only_reads

    _missing = {*__all__, "load_ipython_extension"} - globals().keys()
    __all__ = [_name for _name in __all__ if _name not in _missing]

    def __getattr__(name):
        if name in _missing:
            # Not an `AttributeError`: `from vor import scope` would replace its text.
            raise _only_reads.missing(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _is_command() -> bool:
    """Return whether this process is `vor` or `python -m vor`, which record nothing."""
    started = _sys.argv[0] if _sys.argv else ""
    return _os.path.basename(started) in ("vor", "vor.exe") or (
        started == "-m" and "vor" in _sys.orig_argv[1:3]
    )


# The variables switch recording on without a call, as `enable()` does in a Rust program.
_STARTERS = (
    "VOR_RECORD",
    "VOR_RECORD_LAST",
    "VOR_RECORD_SHM",
    "VOR_COUNT_SCOPES",
    "VOR_WATCHDOG_MS",
    "VOR_LISTEN",
)
_started = [_name for _name in _STARTERS if _os.environ.get(_name)]
if _started and not _is_command():
    if _core.RECORDS:
        from vor import _recording

        _recording.enable()
    else:
        from vor import _only_reads

        print(f"vor: {_only_reads.missing(_started[0])}", file=_sys.stderr)
