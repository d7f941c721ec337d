"""A small recording with an event of each kind, and the same in the form of each reader."""
import copy
import json

ROWS = [
    {"kind": "begin", "ts": 1_000},
    {"kind": "span", "name": "outer", "category": "", "module": "app", "file": "src/a.rs",
     "line": 7, "tid": 5, "thread": "main", "ts": 1_100, "dur": 800, "args": {"n": 3, "x": 0.5}},
    {"kind": "span", "name": "inner", "category": "io", "module": "app", "file": "src/b.rs",
     "line": 9, "tid": 5, "thread": "main", "ts": 1_200, "dur": 100, "args": {}},
    {"kind": "span", "name": "other", "category": "io", "module": "app", "file": "src/b.rs",
     "line": 11, "tid": 6, "thread": "worker", "ts": 1_400, "dur": 50, "args": {}},
    {"kind": "message", "tid": 5, "ts": 1_250, "name": "hello"},
    {"kind": "task", "name": "job", "ts": 1_100, "dur": 700},
    {"kind": "in task", "name": "poll", "ts": 1_150, "dur": 20},
    {"kind": "in task", "name": "wake", "ts": 1_300, "dur": 0},
    {"kind": "frame", "set": "physics", "index": 4, "ts": 1_000, "dur": 900},
    {"kind": "counter", "name": "mem", "unit": "MB", "ts": 1_000, "value": 1.5},
    {"kind": "counter", "name": "load", "unit": "", "ts": 1_000, "value": 2.0},
    {"kind": "flow", "tid": 5, "ts": 1_210, "flow": 1, "stage": "Begin"},
    {"kind": "flow", "tid": 6, "ts": 1_410, "flow": 1, "stage": "End"},
    {"kind": "flow", "tid": 5, "ts": 1_510, "flow": 1, "stage": "End"},
]


def write_rows(path):
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in ROWS)


# The answers of the trace processor about a Perfetto trace.

def slices():
    """Returns fresh slices, for a test to change."""
    return copy.deepcopy(_SLICES)


def _slice(name, ts, dur, depth, tid=None, thread=None, track=None, category=None, **args):
    return {"name": name, "ts": ts, "dur": dur, "depth": depth, "tid": tid, "thread": thread,
            "track": track, "category": category, "args": args}


_SLICES = [
    _slice("outer", 1_100, 800, 0, 5, "main", **{
        "debug.n": 3, "debug.x": 0.5, "source.file_name": "src/a.rs", "source.line_number": 7}),
    _slice("inner", 1_200, 100, 1, 5, "main", category="io", **{
        "source.file_name": "src/b.rs", "source.line_number": 9}),
    _slice("other", 1_400, 50, 0, 6, "worker", category="io", **{
        "source.file_name": "src/b.rs", "source.line_number": 11}),
    _slice("hello", 1_250, 0, 2, 5, "main", category="message"),
    _slice("job", 1_100, 700, 0, track="tasks"),
    _slice("poll", 1_150, 20, 1, track="tasks"),
    _slice("wake", 1_300, 0, 1, track="tasks"),
    _slice("frame 4", 1_000, 900, 0, track="frames of physics", **{"debug.index": 4}),
]
FLOWS = [["inner", 1_200, "other", 1_400], ["inner", 1_200, "outer", 1_100]]
COUNTERS = [["mem", "bytes", 1_000, 1.5e6], ["load", None, 1_000, 2.0]]


def write_answers(prefix, slices_, flows=FLOWS, counters=COUNTERS):
    with open(f"{prefix}.slices", "w", encoding="utf-8") as file:
        file.writelines(json.dumps(slice_) + "\n" for slice_ in slices_)
    for kind, rows in ("flows", flows), ("counters", counters):
        with open(f"{prefix}.{kind}", "w", encoding="utf-8") as file:
            json.dump({"columns": [], "rows": rows}, file)


# The same as a Chrome trace: microseconds since the start of the recording.

def chrome():
    """Returns fresh events, for a test to change."""
    return copy.deepcopy(_CHROME)


def _event(ph, name, ts=None, **fields):
    event = {"ph": ph, "name": name, "pid": 1, **fields}
    return event if ts is None else {**event, "ts": ts}


def _in_task(ph, name, ts):
    return _event(ph, name, ts, cat="task", id2={"local": "0x1"})


_CHROME = {
    "process": _event("M", "process_name", args={"name": "app"}),
    "main": _event("M", "thread_name", tid=5, args={"name": "main"}),
    "worker": _event("M", "thread_name", tid=6, args={"name": "worker"}),
    "inner": _event("X", "inner", 0.2, dur=0.1, tid=5, cat="io"),
    "outer": _event("X", "outer", 0.1, dur=0.8, tid=5, cat="app", args={"n": 3, "x": 0.5}),
    "other": _event("X", "other", 0.4, dur=0.05, tid=6, cat="io"),
    "hello": _event("i", "hello", 0.25, tid=5, cat="message", s="t"),
    "job": _in_task("b", "job", 0.1),
    "poll": _in_task("b", "poll", 0.15),
    "poll end": _in_task("e", "poll", 0.17),
    "wake": _in_task("n", "wake", 0.3),
    "job end": _in_task("e", "job", 0.8),
    "frame": _event("b", "frame of physics", 0, cat="frame", id2={"local": "0x2"},
                    args={"index": 4}),
    "frame end": _event("e", "frame of physics", 0.9, cat="frame", id2={"local": "0x2"},
                        args={"index": 4}),
    "mem": _event("C", "mem", 0, args={"MB": 1.5}),
    "load": _event("C", "load", 0, args={"value": 2.0}),
    "flow": _event("s", "flow", 0.21, tid=5, id=1, bp="e"),
    "flow end": _event("f", "flow", 0.41, tid=6, id=1, bp="e"),
    "other flow end": _event("f", "flow", 0.51, tid=5, id=1, bp="e"),
}


def write_chrome(prefix, events):
    with open(f"{prefix}.json", "w", encoding="utf-8") as file:
        json.dump(list(events.values()), file)
