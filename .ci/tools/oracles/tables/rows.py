"""Rows of the tables, in a form that is equal for every source."""
import json
import math
import struct

SPANS = (
    "process", "pid", "thread", "tid", "frame", "depth", "name", "file", "line", "start_ns",
    "dur_ns", "self_ns", "args",
)
METRICS = "frame", "time_ns", "name", "unit", "value"


def span(row):
    args = row["args"]
    return {**{column: row[column] for column in SPANS}, "args": dict(args) if args else {}}


def metric(row):
    return {**{column: row[column] for column in METRICS}, "value": _bits(row["value"])}


def recorded_metric(row):
    """Converts a line of the capture, which has the bits of the value."""
    value = struct.unpack("<d", struct.pack("<Q", int(row["value_bits"])))[0]
    return metric({**row, "value": value})


def _bits(value):
    # All NaNs are equal: engines do not promise to preserve the bits of one.
    return "nan" if math.isnan(value) else struct.unpack("<Q", struct.pack("<d", value))[0]


def sorted_rows(rows):
    return sorted(json.dumps(row, sort_keys=True) for row in rows)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]
