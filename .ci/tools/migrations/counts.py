"""The calls of each scope, as the outputs of the profilers have them: dictionaries by name."""
import collections
import json
import pathlib
import pstats


def lines(path):
    """Of a program that prints `NAME<tab>COUNT` itself."""
    counts = collections.Counter()
    for line in pathlib.Path(path).read_text(encoding="utf-8").splitlines():
        name, count = line.split("\t")
        counts[name] += int(count)
    return counts


def chrome_begins(path):
    """Of a Chrome trace in which each span is an event for its begin and one for its end."""
    return collections.Counter(event["name"] for event in _events(path) if event["ph"] == "B")


def hotpath(path):
    """Of hotpath's report."""
    report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return {row["name"]: row["calls"] for row in report["functions_timing"]["data"]}


def cprofile(path):
    """Of cProfile, only the functions of the pipeline."""
    counts = collections.Counter()
    for (file, _, name), (_, calls, *_) in pstats.Stats(str(path)).stats.items():
        if pathlib.Path(file).name == "pipeline.py":
            counts[name] += calls
    return counts


def viztracer(path):
    """Of viztracer's trace. A function's name ends with its place, as in `load (a.py:1)`."""
    spans = (event["name"] for event in _events(path) if event["ph"] == "X")
    return collections.Counter(name.split(" (")[0] for name in spans)


def vor(stats, trace):
    """Of vor: `vor stats --json`, and the tasks of an exported Chrome trace.

    A future is a scope per poll, so a name that is a task's counts the tasks.
    """
    counts = collections.Counter()
    for scope in _scopes(stats):
        counts[scope["name"]] += scope["count"]
    return {**counts, **_tasks(trace)}


def vor_pipeline(stats, _trace):
    """Of `vor run`, only the functions of the pipeline, with the last part of their names.

    cProfile has no more of a name.
    """
    counts = collections.Counter()
    for scope in _scopes(stats):
        if pathlib.Path(scope["file"]).name == "pipeline.py":
            counts[scope["name"].rsplit(".", 1)[-1]] += scope["count"]
    return counts


def _scopes(stats):
    report = json.loads(pathlib.Path(stats).read_text(encoding="utf-8"))
    # They would make counts too small.
    if report["dropped_spans"]:
        raise ValueError(f"{stats}: {report['dropped_spans']} spans were dropped")
    return report["scopes"]


def _tasks(trace):
    begins = (event for event in _events(trace) if event["ph"] == "b")
    return collections.Counter(
        event["name"]
        for event in begins
        if event.get("cat") == "task" and event["name"] != "poll"
    )


def _events(path):
    trace = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    return trace if isinstance(trace, list) else trace["traceEvents"]
