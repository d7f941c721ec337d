"""Compares two sets of events and describes the difference."""
import collections

from .events import Events


def differences(expected, found, absent=()):
    """Returns lines of a report, and the number of events that only one side has.

    `expected` must have events of every kind that is not in `absent`: an empty recording proves
    nothing.
    """
    lines, wrong = [], 0
    for kind, events in expected.kinds():
        if not events and kind not in absent:
            lines.append(f"{kind}: none were recorded")
            wrong += 1
        actual = getattr(found, kind)
        missing = collections.Counter(events) - collections.Counter(actual)
        extra = collections.Counter(actual) - collections.Counter(events)
        for side, rest in ("only recorded", missing), ("only in the trace", extra):
            for event in sorted(rest, key=repr)[:3]:
                lines.append(f"{kind}, {side}: {event}")
        wrong += missing.total() + extra.total()
        lines.append(
            f"{kind}: {len(events)} recorded, {missing.total()} missing, {extra.total()} too many"
        )
    return lines, wrong


def to_14_digits(events):
    """Rounds floats.

    The trace processor reads JSON's numbers only to within their last bit; the strict parser checks
    that they are written exactly.
    """
    return Events(**{kind: [_rounded(event) for event in of] for kind, of in events.kinds()})


def _rounded(value):
    if isinstance(value, float):
        return float(f"{value:.14g}")
    if isinstance(value, tuple):
        parts = map(_rounded, value)
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value
