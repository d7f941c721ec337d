"""The spans of a capture, and the stacks that viewers build from them."""
import collections
import json


class Mismatch(Exception):
    """A viewer shows something other than the capture."""


def read(path):
    """Returns the spans by thread, each thread's in pre-order, and the names of the threads."""
    threads, names = collections.defaultdict(list), {}
    with open(path, encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            threads[row["tid"]].append(row)
            names[row["tid"]] = row["thread"]
    if not threads:
        raise Mismatch(f"{path}: no spans")
    return threads, names


def stacks(spans):
    """Returns total and self time of each stack of a thread, in nanoseconds."""
    total, own, path = collections.Counter(), collections.Counter(), []
    for span in spans:
        del path[span["depth"] :]
        if path:
            own[tuple(path)] -= span["dur"]
        path.append(span["name"])
        total[tuple(path)] += span["dur"]
        own[tuple(path)] += span["dur"]
    return {path: (ns, own[path]) for path, ns in total.items()}


def compare(what, found, expected):
    for key in sorted(expected.keys() | found.keys()):
        if found.get(key) != expected.get(key):
            raise Mismatch(
                f"{what}: {key}: shows {found.get(key)}, recorded {expected.get(key)}"
            )
