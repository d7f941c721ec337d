"""Reads the answers of Perfetto's trace processor, which `.ci/tools/perfetto/answers` stores."""
import json

from .events import CounterValue, Events, Flow, Frame, Message, Span, Task, comparable_args


def read(answers):
    """Returns the events of a Perfetto trace."""
    return _read(answers, args_prefix="debug.", frames_prefix="frames")


def read_chrome(answers):
    """Returns the events of a Chrome trace."""
    return _read(answers, args_prefix="args.", frames_prefix="frame")


def _read(answers, args_prefix, frames_prefix):
    events = Events()
    with open(f"{answers}.slices", encoding="utf-8") as lines:
        for line in lines:
            _add_slice(events, json.loads(line), args_prefix, frames_prefix)
    events.flows = [Flow(*row) for row in _rows(f"{answers}.flows")]
    events.counters = [CounterValue(*row) for row in _rows(f"{answers}.counters")]
    return events


def _rows(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)["rows"]


def _add_slice(events, slice_, args_prefix, frames_prefix):
    args = {
        key.removeprefix(args_prefix): value
        for key, value in slice_["args"].items()
        if key.startswith(args_prefix)
    }
    track, name, start, duration = (
        slice_["track"] or "", slice_["name"], slice_["ts"], slice_["dur"],
    )
    if slice_["category"] == "message":
        events.messages.append(Message(slice_["tid"], start, name))
    elif slice_["tid"] is not None:
        file = slice_["args"].get("source.file_name")
        line = slice_["args"].get("source.line_number")
        events.spans.append(Span(
            slice_["tid"], slice_["thread"], start, duration, slice_["depth"], name,
            slice_["category"], file, line, comparable_args(args),
        ))
    elif track.startswith(frames_prefix) and name.startswith("frame"):
        set_ = track.removeprefix(frames_prefix).removeprefix(" of ")
        events.frames.append(Frame(set_, str(args["index"]), start, duration))
    else:
        events.tasks.append(Task(name, start, duration, slice_["depth"]))
