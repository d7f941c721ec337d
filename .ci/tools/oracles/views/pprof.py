"""The output of `go tool pprof -raw`: samples with their stacks and threads."""
import collections
import re

from .spans import compare, stacks

LOCATION = re.compile(
    r"^ *([0-9]+): 0x[0-9a-f]+ M=1 (.*?)(?: (?:\S+)?:[0-9]+(?::[0-9]+)?)? s=[0-9]+\(?[0-9]*\)?$",
    re.MULTILINE,
)
SAMPLE = re.compile(r"^ *([0-9]+): ([0-9 ]+)\n +thread:\[(.*)\]", re.MULTILINE)


def check(threads, names, path):
    recorded = collections.Counter()
    for tid, spans in threads.items():
        for stack, (_, own_ns) in stacks(spans).items():
            # A stack without self time has no sample.
            if own_ns > 0:
                recorded[names[tid], stack] += own_ns
    with open(path, encoding="utf-8") as file:
        samples, _, locations = file.read().partition("\nLocations\n")
    functions = dict(LOCATION.findall(locations))
    shown = collections.Counter()
    for ns, leaf_first, thread in SAMPLE.findall(samples):
        stack = tuple(functions[location] for location in reversed(leaf_first.split()))
        shown[thread, stack] += int(ns)
    compare("pprof", shown, recorded)
    return f"pprof: {len(shown)} stacks of {len(threads)} threads agree"
