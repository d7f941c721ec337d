"""Spans and waits that one callback begins and another ends."""

from __future__ import annotations

from time import perf_counter_ns

import vor


class Spans:
    """Spans that begin and end by name.

    Hooks of a framework come in pairs, unless an exception skips the second one.
    """

    def __init__(self) -> None:
        """Make a set without open spans."""
        self._known: dict[str, vor.Scope] = {}
        self._open: list[str] = []

    def begin(self, name: str) -> None:
        """Begin a span."""
        scope = self._known.get(name)
        if scope is None:
            scope = self._known[name] = vor.Scope(name)
        scope.__enter__()
        self._open.append(name)

    def end(self, name: str) -> None:
        """End the last span of this name, if there is one, and all open spans inside it."""
        if name not in self._open:
            return
        while True:
            last = self._open.pop()
            self._known[last].__exit__(None, None, None)
            if last == name:
                return

    def end_all(self) -> None:
        """End all open spans."""
        while self._open:
            self.end(self._open[0])


class Wait:
    """The wait for a batch, from one hook to another, as a metric in milliseconds."""

    def __init__(self, metric: str) -> None:
        """Make a wait that has not begun. `metric` is the name of the metric."""
        self._metric = metric
        self._since: int | None = None
        vor.record_metric_unit(metric, "ms")

    def begin(self) -> None:
        """Begin a wait."""
        self._since = perf_counter_ns()

    def begin_anew(self) -> None:
        """Restart a wait that has begun, because the time since then was not spent waiting."""
        if self._since is not None:
            self.begin()

    def record(self) -> None:
        """Record the duration of the wait, if one has begun."""
        if self._since is not None:
            vor.record_metric(self._metric, (perf_counter_ns() - self._since) / 1e6)

    def stop(self) -> None:
        """Forget the wait."""
        self._since = None


def record_numbers(values: object, prefix: str = "") -> None:
    """Record the numbers in a dictionary as metrics."""
    if not isinstance(values, dict):
        return
    for name, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        vor.record_metric(f"{prefix}{name}", number)
