"""The Firefox Profiler, through its command line: call trees and markers of each thread."""
import collections
import json
import subprocess

from .spans import Mismatch, compare, stacks


def check(threads, _names, cli):
    def query(*args):
        command = [cli, *args, "--json"]
        done = subprocess.run(command, check=True, capture_output=True, timeout=120)
        return json.loads(done.stdout)

    handles = {row["tid"]: row["threadHandle"] for row in query("thread", "list")["threads"]}
    stack_count = marker_count = 0
    for tid, spans in threads.items():
        thread = handles.get(str(tid))
        if thread is None:
            raise Mismatch(f"Firefox Profiler: thread {tid} is missing")
        tree = query(
            "thread", "samples-top-down", "--include-idle", "--max-lines", "100000",
            "--thread", thread,
        )
        shown = _stacks_of(tree["regularCallTree"])
        # A stack without time has no sample.
        recorded = {stack: times for stack, times in stacks(spans).items() if times[0] > 0}
        compare(f"Firefox Profiler, thread {tid}", shown, recorded)
        stack_count += len(shown)

        types = query("thread", "markers", "--thread", thread)["byType"]
        markers = {row["markerName"]: row["count"] for row in types}
        markers.pop("message", None)
        with_args = collections.Counter(span["name"] for span in spans if span["args"])
        compare(f"Firefox Profiler, markers of thread {tid}", markers, with_args)
        marker_count += sum(markers.values())
    counts = f"{stack_count} stacks of {len(threads)} threads and {marker_count} markers"
    return f"Firefox Profiler: {counts} agree"


def _stacks_of(node, path=()):
    """Returns total and self time of each stack below a node of the call tree, in nanoseconds."""
    found = {}
    for child in node.get("children", []):
        below = (*path, child["name"])
        # A sample weighs a millisecond.
        found[below] = tuple(round(child[key] * 1e6) for key in ("totalSamples", "selfSamples"))
        found.update(_stacks_of(child, below))
    return found
