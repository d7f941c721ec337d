"""Reads a Chrome trace with a strict JSON parser, and checks the rules that viewers forgive."""
import collections
import decimal
import json
import re

from .events import (
    CounterValue, Events, Frame, Invalid, Message, Span, Task, comparable_args, flows_of,
    innermost, with_depths,
)


def read(trace):
    """Returns the events of `TRACE.json`."""
    reader = _Reader()
    for event in _strict_json(f"{trace}.json"):
        reader.add(event)
    return reader.finish()


def _strict_json(path):
    """Parses a file; refuses duplicate keys and NaN, which lenient parsers accept."""

    def unique_keys(pairs):
        event = dict(pairs)
        if len(event) != len(pairs):
            raise Invalid(f"a duplicate key: {pairs}")
        return event

    def refuse(text):
        raise Invalid(f"{text} is not a number in JSON")

    with open(path, encoding="utf-8") as file:
        return json.load(
            file, object_pairs_hook=unique_keys, parse_constant=refuse, parse_float=decimal.Decimal
        )


def _ns(us):
    """Converts microseconds, a multiple of a thousandth, to nanoseconds."""
    ns = us * 1000
    if ns < 0 or ns != int(ns):
        raise Invalid(f"{us} is not a time in microseconds")
    return int(ns)


class _Reader:
    def __init__(self):
        self.events = Events()
        self.processes = []
        self.threads = {}
        self.spans = collections.defaultdict(list)
        self.async_events = collections.defaultdict(list)
        self.counter_times = collections.defaultdict(list)
        self.flow_points = collections.defaultdict(list)

    def add(self, event):
        if event["ph"] == "M":
            self._add_metadata(event)
            return
        if [event["pid"]] != self.processes:
            raise Invalid(f"not of the one process: {event}")
        phase, at, tid = event["ph"], _ns(event["ts"]), event.get("tid")
        if phase == "X":
            self._add_span(event, at, tid)
        elif phase == "i":
            if event["cat"] != "message" or event["s"] != "t" or tid not in self.threads:
                raise Invalid(f"not a message of a thread: {event}")
            self.events.messages.append(Message(tid, at, event["name"]))
        elif phase == "C":
            (unit, value), = event["args"].items()
            counter = f"{event['name']} {unit}"
            self.events.counters.append(CounterValue(counter, None, at, float(value)))
            self.counter_times[event["name"]].append(at)
        elif phase in ("b", "n", "e"):
            key = event["cat"], event["id2"]["local"]
            self.async_events[key].append((at, event))
        elif phase in ("s", "t", "f"):
            if event["bp"] != "e" or tid not in self.threads:
                raise Invalid(f"not a flow between spans: {event}")
            self.flow_points[event["id"]].append((at, tid, phase))
        else:
            raise Invalid(f"unknown phase: {event}")

    def _add_metadata(self, event):
        if event["name"] == "thread_name":
            self.threads[event["tid"]] = event["args"]["name"]
        elif event["name"] == "process_name":
            self.processes.append(event["pid"])
        else:
            raise Invalid(f"unknown metadata: {event}")

    def _add_span(self, event, at, tid):
        if tid not in self.threads:
            raise Invalid(f"a thread without a name: {event}")
        args = {
            name: float(value) if isinstance(value, decimal.Decimal) else value
            for name, value in event.get("args", {}).items()
        }
        self.spans[tid].append(Span(
            tid, self.threads[tid], at, _ns(event["dur"]), None, event["name"], event.get("cat"),
            None, None, comparable_args(args),
        ))

    def finish(self):
        for name, times in self.counter_times.items():
            if times != sorted(set(times)):
                raise Invalid(f"{name}: values are not in order, or two are at one time")
        for tid, spans in self.spans.items():
            _check_thread(tid, spans)
        self.events.spans = with_depths([span for spans in self.spans.values() for span in spans])
        for (category, _), events in self.async_events.items():
            self._add_async(category, events)
        self.events.flows = flows_of(map(self._chain, self.flow_points.values()))
        return self.events

    def _add_async(self, category, events):
        """Pairs the begin and end events of one task or of one set of frames."""
        opened = []
        # A stable sort: for events at one time, the order in the file counts.
        for at, event in sorted(events, key=lambda pair: pair[0]):
            if event["ph"] == "b":
                opened.append((at, event))
                continue
            if event["ph"] == "n":
                self.events.tasks.append(Task(event["name"], at, 0, len(opened)))
                continue
            if not opened:
                raise Invalid(f"an end without a begin: {event}")
            start, begin = opened.pop()
            if begin["name"] != event["name"]:
                raise Invalid(f"{begin} ends as {event}")
            if category == "frame":
                set_ = event["name"].removeprefix("frame").removeprefix(" of ")
                index = str(event["args"]["index"])
                self.events.frames.append(Frame(set_, index, start, at - start))
            else:
                self.events.tasks.append(Task(event["name"], start, at - start, len(opened)))
        if opened:
            raise Invalid(f"a begin without an end: {opened}")

    def _chain(self, points):
        points.sort()
        phases = "".join(phase for _, _, phase in points)
        if not re.fullmatch("st*f*", phases):
            raise Invalid(f"the phases of a flow are {phases}")
        spans = self.events.spans
        return [(innermost(spans, tid, at), phase == "f") for at, tid, phase in points]


def _check_thread(tid, spans):
    """Checks that spans of a thread nest, and are in order of their ends.

    Among spans with equal times, the outer one is first in the file.
    """
    ends_around = []
    for span in sorted(spans, key=lambda span: (span.start, -span.duration)):
        end = span.start + span.duration
        while ends_around and ends_around[-1] <= span.start:
            ends_around.pop()
        if ends_around and ends_around[-1] < end:
            raise Invalid(f"thread {tid}: {span} ends after the span around it")
        ends_around.append(end)
    ends = [span.start + span.duration for span in spans]
    if ends != sorted(ends):
        raise Invalid(f"thread {tid}: spans are not in the order in which they ended")
