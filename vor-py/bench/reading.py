"""Measures the time until the spans of a capture are in NumPy and in Polars.

    python bench/reading.py [--rounds 7] [--spans 10000000] [--keep FILE]

It records a capture of that many spans: trees of five, in 1000 frames. Then each way of reading
runs in a process of its own, in rounds with all others in between, because memory that a process
had before costs it less. A figure is the median of the rounds, with the fastest beside it. The
floor is the statistics of the same file, which decode every span and store none. Libraries that are
not installed are listed and skipped.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

FRAMES = 1000


def record(path: str, spans: int) -> None:
    """Write a capture of about `spans` spans."""
    import vor

    step, forward, layer, backward = (
        vor.Scope(name) for name in ("step", "forward", "layer", "backward")
    )
    vor.enable(capture=path)
    for _ in range(FRAMES):
        for _ in range(spans // 5 // FRAMES):
            with step:
                with forward:
                    with layer:
                        pass
                    with layer:
                        pass
                with backward:
                    pass
        vor.frame_mark()
    vor.disable()
    vor.close_capture()


def once(way: str, path: str) -> dict[str, float]:
    """Read the capture in one way, and return the seconds of wall time and of CPU time."""
    import vor

    # The import of a library is not part of reading.
    if way != "floor":
        importlib.import_module("numpy" if way.startswith("numpy") else way)
    begin, begin_cpu = time.perf_counter(), time.process_time()
    capture = vor.read(path)
    if way == "floor":
        kept: object = capture.stats()
    elif way == "numpy numbers":
        import numpy

        spans = capture.spans
        kept = [numpy.asarray(spans[name]) for name in ("start_ns", "dur_ns", "self_ns", "depth")]
        kept.append(numpy.asarray(spans["name"].codes))
    else:
        kept = getattr(capture.spans, {"pyarrow": "to_arrow"}.get(way, f"to_{way}"))()
    found = {"s": time.perf_counter() - begin, "cpu_s": time.process_time() - begin_cpu}
    del kept
    return found


def main() -> None:
    """Measure all ways."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--spans", type=int, default=10_000_000)
    parser.add_argument("--keep", metavar="FILE", help="the capture; recorded if it does not exist")
    parser.add_argument("--once", nargs=2, metavar=("WAY", "FILE"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.once:
        print(json.dumps(once(*given.once)))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = given.keep or os.path.join(folder, "spans.vor")
        if not os.path.exists(path):
            record(path, given.spans)
        import vor

        info = vor.read(path).info
        print(
            f"{info['spans']:,} spans in {info['frames']} frames, {info['file_bytes'] / 1e6:.1f} MB"
        )
        ways = ["floor"]
        for way, library in (
            ("numpy numbers", "numpy"),
            ("polars", "polars"),
            ("pyarrow", "pyarrow"),
            ("pandas", "pandas"),
        ):
            if importlib.util.find_spec(library):
                ways.append(way)
            else:
                print(f"SKIPPED: {library} is not installed")
        taken: dict[str, list[dict[str, float]]] = {way: [] for way in ways}
        for _ in range(given.rounds):
            for way in ways:
                called = [sys.executable, __file__, "--once", way, path]
                done = subprocess.run(called, capture_output=True, text=True, check=True)
                taken[way].append(json.loads(done.stdout))
    print(f"{'':16} {'median s':>9} {'fastest s':>9} {'CPU s':>11}")
    for way, rounds in taken.items():
        clock, cpu = ([found[kind] for found in rounds] for kind in ("s", "cpu_s"))
        print(
            f"{way:16} {statistics.median(clock):9.3f} {min(clock):9.3f} "
            f"{statistics.median(cpu):11.3f}"
        )


if __name__ == "__main__":
    main()
