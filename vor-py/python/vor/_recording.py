"""The part of `vor` that records. In a build that only reads captures, the import fails."""

from __future__ import annotations

import os
from typing import Any

from vor import _core

if not _core.RECORDS:
    from vor import _only_reads

    raise ImportError(_only_reads.REASON, name="vor")

from vor import _fork as _fork
from vor import _monitor
from vor._core import (
    Lock,
    RLock,
    Scope,
    calibrate,
    capture_path,
    close_capture,
    dump,
    empty_span_ns,
    flush,
    frame_mark,
    is_enabled,
    message,
    record_io,
    record_metric,
    record_metric_unit,
    scope,
    scope_rules,
    scopes,
    set_scopes,
)
from vor._locks import ThreadingPatch, patch_threading, record_gil_wait
from vor._profile import profile, skip
from vor._steps import steps

__all__ = [
    "Lock",
    "RLock",
    "Scope",
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
    "load_ipython_extension",
    "message",
    "patch_threading",
    "profile",
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
]


def enable(
    *,
    capture: str | os.PathLike[str] | None = None,
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
    waits: bool | None = None,
    scheduler: bool | None = None,
    inline_drain: bool | None = None,
    drain_interval_ms: float | None = None,
    max_spans_per_frame: int | None = None,
    watchdog_ms: float | None = None,
    signals: bool | None = None,
    segment: str | None = None,
    keep: str | None = None,
    last: str | None = None,
    dump_on: str | None = None,
    scopes: str | None = None,
    scope_budget: float | None = None,
    shared_memory: bool | None = None,
    listen: str | None = None,
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
    cpu_time, cpu_split, waits: measure CPU time, and what a scope waited for otherwise.
    scheduler: record the events of Linux's scheduler about the threads, which needs root.
    inline_drain: drain the rings in `frame_mark`.
    drain_interval_ms: longest time between two drains.
    max_spans_per_frame: most spans that a frame holds as a tree.
    watchdog_ms: report the open scopes of every thread when a frame or a scope takes longer.
    signals: whether a signal that ends the process and that Python does not handle closes the
        capture first; by default it does.
    segment, keep: when a segment of the capture ends, as in "64MB,10m", and which segments or dumps
        are kept, as in "2GB,7d"; the capture is a folder then.
    last: keep the newest records in memory, as in "30s,64MB", and write them at `dump()`, SIGUSR2,
        or what dump_on says.
    dump_on: "frame:50ms,scope:NAME:200ms,stall,panic,crash,exit", some of these, or "nothing".
    scopes: which scopes are recorded, and how, as in "module:db*=count,x=1/100"; see
        `set_scopes`.
    scope_budget: count a scope instead of recording it while that takes more than this share of a
        core, as in 0.01.
    shared_memory: keep the rings where `vor recover` finds the last spans if the process is killed,
        and `vor attach` those of one that hangs (Unix).
    listen: let `vor view`, `tail`, `top` and `record` watch the program, at "unix" (the process
        number finds it), "unix:PATH" or "HOST:PORT", with the token of VOR_LISTEN_TOKEN if it is
        set.
    """
    given = {name: value for name, value in locals().items() if value is not None}
    _core.enable(**given)
    _monitor.switch(True)


def disable() -> None:
    """Switch recording off. An open capture continues when recording is switched on again."""
    _monitor.switch(False)
    _core.disable()


def load_ipython_extension(ipython: Any) -> None:
    """Register the IPython magic `%%vor`, which records a cell: ``%load_ext vor``."""
    from vor import _notebook

    _notebook.load(ipython)
