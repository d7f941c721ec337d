"""The events of a trace, in the form that every reader returns.

Times are whole nanoseconds. Two traces are equal if they hold the same events of each kind, in any
order.
"""
import collections
import dataclasses
from typing import NamedTuple, Optional


class Invalid(Exception):
    """A trace breaks a rule of its format."""


class Span(NamedTuple):
    tid: int
    thread: str
    start: int
    duration: int
    depth: Optional[int]
    name: str
    category: Optional[str]
    file: Optional[str]
    line: Optional[int]
    args: tuple


class Message(NamedTuple):
    tid: int
    at: int
    text: str


class Task(NamedTuple):
    name: str
    start: int
    duration: int
    depth: int


class Frame(NamedTuple):
    set: str
    index: str
    start: int
    duration: int


class CounterValue(NamedTuple):
    name: str
    unit: Optional[str]
    at: int
    value: float


class Flow(NamedTuple):
    """An arrow from one span to another; a name and a start identify a span."""

    from_name: str
    from_start: int
    to_name: str
    to_start: int


@dataclasses.dataclass
class Events:
    spans: list = dataclasses.field(default_factory=list)
    messages: list = dataclasses.field(default_factory=list)
    tasks: list = dataclasses.field(default_factory=list)
    frames: list = dataclasses.field(default_factory=list)
    counters: list = dataclasses.field(default_factory=list)
    flows: list = dataclasses.field(default_factory=list)

    def kinds(self):
        """Returns the name and the events of each kind."""
        return vars(self).items()


def comparable_args(args):
    """Returns arguments in a fixed order, integers as text: some formats store them as floats."""
    return tuple(sorted((name, _comparable(value)) for name, value in args.items()))


def _comparable(value):
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return str(value) if is_integer else value


def with_depths(spans):
    """Sets the depth of spans that have none: the number of spans of their thread around them."""
    by_thread = collections.defaultdict(list)
    for index, span in enumerate(spans):
        if span.depth is None:
            by_thread[span.tid].append((index, span))
    complete = list(spans)
    for of_thread in by_thread.values():
        ends = []
        for index, span in sorted(of_thread, key=lambda pair: (pair[1].start, -pair[1].duration)):
            end = span.start + span.duration
            while ends and ends[-1] < end:
                ends.pop()
            complete[index] = span._replace(depth=len(ends))
            ends.append(end)
    return complete


def innermost(spans, tid, at):
    """Returns name and start of the innermost span of a thread around a moment."""
    around = [
        span
        for span in spans
        if span.tid == tid and span.start <= at <= span.start + span.duration
    ]
    if not around:
        raise Invalid(f"a flow on thread {tid} at {at} is in no span")
    span = max(around, key=lambda span: span.depth)
    return span.name, span.start


def flows_of(chains):
    """Returns the arrows of flows.

    A flow is a list of its points in the order of time: a span, which is a name and a start, and
    whether the flow ends there. An arrow begins at the last point at which the flow does not end.
    """
    flows = []
    for chain in chains:
        begin = None
        for span, is_end in chain:
            if begin:
                flows.append(Flow(*begin, *span))
            if not is_end:
                begin = span
    return flows
