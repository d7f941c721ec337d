"""What callbacks begin in one call and end in another."""

from __future__ import annotations

from time import perf_counter_ns

import vor


class Spans:
    """Spans that are begun and ended by name. Hooks of a framework come in pairs, but for those that an exception skips."""

    def __init__(self) -> None:
        """Make it with none that is open."""
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
        """End the last span of this name, and those that were begun in it and not ended; nothing where there is none."""
        if name not in self._open:
            return
        while True:
            last = self._open.pop()
            self._known[last].__exit__(None, None, None)
            if last == name:
                return

    def end_all(self) -> None:
        """End all that are open."""
        while self._open:
            self.end(self._open[0])


class Wait:
    """The wait for a batch, from one hook to another, as a metric in milliseconds."""

    def __init__(self, metric: str) -> None:
        """Make it without a wait that has begun. `metric` is what waits are called."""
        self._metric = metric
        self._since: int | None = None
        vor.record_metric_unit(metric, "ms")

    def begin(self) -> None:
        """Begin to wait."""
        self._since = perf_counter_ns()

    def begin_anew(self) -> None:
        """Begin the wait again that has begun, if one has: what was done meanwhile was no waiting."""
        if self._since is not None:
            self.begin()

    def record(self) -> None:
        """Record the wait that is over now, if one had begun."""
        if self._since is not None:
            vor.record_metric(self._metric, (perf_counter_ns() - self._since) / 1e6)

    def stop(self) -> None:
        """Wait for nothing any more."""
        self._since = None


def record_numbers(values: object, prefix: str = "") -> None:
    """Record the numbers of a mapping as metrics."""
    if not isinstance(values, dict):
        return
    for name, value in values.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        vor.record_metric(f"{prefix}{name}", number)
