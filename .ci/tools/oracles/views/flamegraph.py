"""The boxes of a flame graph that inferno drew."""
import collections
import html
import re

from .spans import Mismatch, compare, stacks

BOX = re.compile(r"<title>(.*?) \(([0-9,]+) samples, [^<]*</title><rect [^>]*?\by=\"([0-9]+)\"")


def check(threads, names, path):
    # Time by level and name. All threads are level 0, a thread is level 1.
    recorded = collections.Counter()
    for tid, spans in threads.items():
        for stack, (ns, _) in stacks(spans).items():
            if ns > 0:
                recorded[len(stack) + 1, stack[-1]] += ns
            if len(stack) == 1:
                recorded[1, names[tid]] += ns
                recorded[0, "all"] += ns
    with open(path, encoding="utf-8") as file:
        boxes = [
            (int(y), html.unescape(name), int(ns.replace(",", "")))
            for name, ns, y in BOX.findall(file.read())
        ]
    if not boxes:
        raise Mismatch(f"{path}: no boxes")
    levels = sorted({y for y, _, _ in boxes}, reverse=True)
    shown = collections.Counter()
    for y, name, ns in boxes:
        shown[levels.index(y), name] += ns
    compare("flame graph", shown, recorded)
    return f"flame graph: {len(boxes)} boxes agree"
