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
from typing import Any as _Any

from vor import _core, _monitor
from vor import _fork as _fork
from vor._core import (
    Column,
    Scope,
    calibrate,
    capture_path,
    close_capture,
    empty_span_ns,
    flush,
    frame_mark,
    is_enabled,
    message,
    record_io,
    record_metric,
    record_metric_unit,
    scope,
)
from vor._command import merge, view
from vor._profile import profile, skip
from vor._reading import Capture, CaptureError, Frame, Table, read
from vor._steps import steps

__all__ = [
    "Capture",
    "CaptureError",
    "Column",
    "Frame",
    "Scope",
    "Table",
    "calibrate",
    "capture_path",
    "close_capture",
    "disable",
    "empty_span_ns",
    "enable",
    "flush",
    "frame_mark",
    "is_enabled",
    "merge",
    "message",
    "profile",
    "read",
    "record_io",
    "record_metric",
    "record_metric_unit",
    "scope",
    "skip",
    "steps",
    "view",
]


def enable(
    *,
    capture: str | _os.PathLike[str] | None = None,
    spans: bool | None = None,
    every: int | None = None,
    max_frames: int | None = None,
    slow_frames_ms: float | None = None,
    frames_before: int | None = None,
    ring_kib: int | None = None,
    stats: bool | None = None,
    count_scopes: bool | None = None,
    print_stats: bool | None = None,
    cpu_time: bool | None = None,
    cpu_split: bool | None = None,
    inline_drain: bool | None = None,
    drain_interval_ms: float | None = None,
    max_spans_per_frame: int | None = None,
    watchdog_ms: float | None = None,
    signals: bool | None = None,
) -> None:
    """Switch recording on, with these settings or those of the environment variables.

    Without settings, the environment variables apply. If recording is on already, this adds the
    settings that can still be added.

    capture: the file to write.
    spans: whether the capture has spans, or only metrics.
    every: record the spans of one frame in N.
    max_frames: record the spans of at most N frames.
    slow_frames_ms, frames_before: record only the spans of frames slower than this, and of N frames
        before each.
    ring_kib: size of each thread's ring.
    stats: maintain sums per scope.
    count_scopes, print_stats: count scopes instead of recording them, and print a table at the end.
    cpu_time, cpu_split: measure CPU time.
    inline_drain: drain the rings in `frame_mark`.
    drain_interval_ms: longest time between two drains.
    max_spans_per_frame: most spans that a frame holds as a tree.
    watchdog_ms: report the open scopes of every thread when a frame or a scope takes longer.
    signals: whether a signal that ends the process and that Python does not handle closes the
        capture first; by default it does.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    _core.enable(**given)
    _monitor.switch(True)


def disable() -> None:
    """Switch recording off. An open capture continues when recording is switched on again."""
    _monitor.switch(False)
    _core.disable()


def load_ipython_extension(ipython: _Any) -> None:
    """Register the IPython magic `%%vor`, which records a cell: ``%load_ext vor``."""
    from vor import _notebook

    _notebook.load(ipython)


def _is_command() -> bool:
    """Return whether this process is `vor` or `python -m vor`, which record nothing."""
    started = _sys.argv[0] if _sys.argv else ""
    return _os.path.basename(started) in ("vor", "vor.exe") or (
        started == "-m" and "vor" in _sys.orig_argv[1:3]
    )


# The variables switch recording on without a call, as `enable()` does in a Rust program.
_STARTERS = ("VOR_RECORD", "VOR_COUNT_SCOPES", "VOR_WATCHDOG_MS")
if any(_os.environ.get(_name) for _name in _STARTERS) and not _is_command():
    enable()
