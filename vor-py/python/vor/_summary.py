"""The summary that `python -m vor run` prints at its end: the slowest scopes, and what to do next.

It looks like the output of `vor stats`. The capture is read for a limited time, so that the end of
a long run does not wait: about 10 million spans on a fast machine.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from vor import _core

ROWS = 8
LIMIT_MS = 300
# Names that are longer are cut in their middle.
_WIDEST_NAME = 44
_HEAD = ("scope", "count", "self", "%", "total", "mean", "p50", "p99", "max")


def text(path: str) -> str:
    """Return the summary of a capture. Raises OSError if it cannot be read."""
    reading = _core.Reading(path)
    try:
        stats, is_whole = reading.stats_within(LIMIT_MS)
        info = reading.info()
    finally:
        reading.close()
    shown = _shown(path)
    frames = f"{_number(info['frames'])} frame{'s' * (info['frames'] != 1)}"
    spans = f"{_number(info['spans'])} spans in {frames}"
    if not len(stats):
        return f"\nvor: {shown} has no spans: no call passed the filters\n"
    self_ns, counts = stats["self_ns"].to_list(), stats["count"].to_list()
    part = "" if is_whole else f"; the table has the first {_number(sum(counts))} spans"
    lost = f"; {_number(info['dropped_spans'])} were lost" if info["dropped_spans"] else ""
    rows = [_row(row, sum(self_ns)) for row in stats[:ROWS]]
    return (
        f"\nvor: {shown} has {spans}{lost}{part}\n\n{_table([_HEAD, *rows])}\n"
        f"`vor stats {shown}` lists the scopes, {_number(len(stats))} in all; "
        f"`vor view {shown}` opens the capture\n"
    )


def _shown(path: str) -> str:
    """Return a path as a user types it."""
    near = os.path.relpath(path)
    return shlex.quote(path if near.startswith(os.pardir) else near)


def _row(row: dict[str, Any], all_ns: int) -> tuple[str, ...]:
    name = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}"
                   for letter in row["name"])  # fmt: skip
    if len(name) > _WIDEST_NAME:
        half = (_WIDEST_NAME - 1) // 2
        name = f"{name[:half]}…{name[-half:]}"
    times = (duration(row[f"{column}_ns"]) for column in ("mean", "p50", "p99", "max"))
    share = 100.0 * row["self_ns"] / all_ns if all_ns else 0.0
    own, total = duration(row["self_ns"]), duration(row["total_ns"])
    return (name, _number(row["count"]), own, f"{share:.1f}", total, *times)


def _number(number: int) -> str:
    """Return a number with its digits in groups of three, as `vor stats` prints it."""
    return f"{number:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def duration(ns: float) -> str:
    """Return a duration with three digits and a unit."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= 0.9995 * size:
            value = ns / size
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{ns:.0f} ns"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = (
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )
    return "".join(f"{line}\n" for line in lines)
