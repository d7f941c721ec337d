"""Frames for loops over batches: `vor.steps`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from time import perf_counter_ns
from typing import TypeVar

from vor import _core

T = TypeVar("T")


def steps(
    loader: Iterable[T], *, metric: str | None = "loader_ms", name: str | None = None
) -> Iterator[T]:
    """Yield the batches of a loader, mark a frame after each, and measure the wait for the loader.

        for batch in vor.steps(loader):
            train(batch)

    A frame is the wait for a batch and the work on it. Its metric `metric` is the wait in
    milliseconds. A scope of the same name without the unit records the wait as a span. `name` marks
    frames of the set of that name, which have no metrics. An iteration that leaves the loop early
    ends no frame.
    """
    if metric is not None and not isinstance(metric, str):
        raise TypeError(f"steps: metric: expected str or None, found {type(metric).__name__}")
    if name is not None and not isinstance(name, str):
        raise TypeError(f"steps: name: expected str or None, found {type(name).__name__}")
    return _steps(iter(loader), metric, name)


def _steps(batches: Iterator[T], metric: str | None, name: str | None) -> Iterator[T]:
    if metric is not None:
        _core.record_metric_unit(metric, "ms")
    wait = _core.Scope((metric or "loader").removesuffix("_ms"))
    while True:
        begin = perf_counter_ns()
        try:
            with wait:
                batch = next(batches)
        except StopIteration:
            return
        if metric is not None:
            _core.record_metric(metric, (perf_counter_ns() - begin) / 1e6)
        yield batch
        _core.frame_mark(name)
