"""Reads the events that a test recorded: a JSON object per line, with its `kind`."""
import collections
import json

from .events import (
    CounterValue, Events, Frame, Message, Span, Task, comparable_args, flows_of, innermost,
    with_depths,
)

# The unit that Perfetto shows for one of vor's, and the factor between them.
UNITS = {
    "": (None, 1), "ns": ("ns", 1), "count": ("count", 1),
    "B": ("bytes", 1), "MB": ("bytes", 10**6), "KiB": ("bytes", 2**10),
}


def read(path):
    """Returns the events that a Perfetto trace must hold."""
    return _events(_rows(path))


def read_for_chrome(path):
    """Returns the events that a Chrome trace must hold."""
    rows = _rows(path)
    _convert_to_chrome(rows)
    return _events(rows)


def _rows(path):
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _convert_to_chrome(rows):
    """Reduces rows to what a Chrome trace can hold.

    Times count from the start of the recording, the module replaces a missing category, and there
    are no source locations.
    """
    begin = next(row["ts"] for row in rows if row["kind"] == "begin")
    for row in rows:
        row["ts"] -= begin
        if row["kind"] == "span":
            row["category"] = row["category"] or row["module"]
            row["file"] = None
        if row["kind"] == "counter":
            # The unit is the key of the value, which viewers show after the name.
            row["name"] += " " + (row["unit"] or "value")
            row["unit"] = ""


def _events(rows):
    by_kind = collections.defaultdict(list)
    for row in rows:
        by_kind[row["kind"]].append(row)
    spans = with_depths([_span(row) for row in by_kind["span"]])
    chains = collections.defaultdict(list)
    for row in sorted(by_kind["flow"], key=lambda row: row["ts"]):
        span = innermost(spans, row["tid"], row["ts"])
        chains[row["flow"]].append((span, row["stage"] == "End"))
    return Events(
        spans=spans,
        messages=[Message(row["tid"], row["ts"], row["name"]) for row in by_kind["message"]],
        tasks=[Task(row["name"], row["ts"], row["dur"], 0) for row in by_kind["task"]]
        + [Task(row["name"], row["ts"], row["dur"], 1) for row in by_kind["in task"]],
        frames=[
            Frame(row["set"], str(row["index"]), row["ts"], row["dur"]) for row in by_kind["frame"]
        ],
        counters=[_counter_value(row) for row in by_kind["counter"]],
        flows=flows_of(chains.values()),
    )


def _span(row):
    file = row["file"] or None
    return Span(
        row["tid"], row["thread"], row["ts"], row["dur"], row.get("depth"), row["name"],
        row["category"] or None, file, row["line"] if file else None, comparable_args(row["args"]),
    )


def _counter_value(row):
    unit, factor = UNITS.get(row["unit"], (row["unit"], 1))
    return CounterValue(row["name"], unit, row["ts"], float(row["value"]) * factor)
