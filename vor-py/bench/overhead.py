"""Measures the cost of a call under vor and other tools, over the bare call, in nanoseconds.

    python bench/overhead.py [ROUNDS]
    python bench/overhead.py --program [--quick] [ROUNDS]

Each tool runs in a process of its own, in rounds with all others in between. A figure is the median
of the rounds. A round is the best of five loops with the tool, less the best of five loops without
it in the same process. Tools that are not installed are listed and skipped.

With `--program`, a whole program runs instead: `black` in Python, with every call recorded.
Viztracer takes a minute to write its file, so it runs once, or with `--quick` not at all.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

CALLS = 100_000
LOOPS = 5


def f(x):
    return x


class Class:
    def method(self, x):
        return x


def best(loop: Callable[[], None]) -> float:
    """Return the nanoseconds of one iteration of the fastest of some loops."""
    times = []
    for _ in range(LOOPS):
        begin = time.perf_counter_ns()
        loop()
        times.append(time.perf_counter_ns() - begin)
    return min(times) / CALLS


def empty() -> None:
    for _ in range(CALLS):
        pass


def calls(function: Callable[[int], int]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            function(1)

    return loop


def method_calls(thing: Any) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(CALLS):
            thing.method(1)

    return loop


def function_and_method(decorate: Callable[[Any], Any]) -> dict[str, float]:
    """Return the cost of a decorator on a function and on a method."""
    bare, bare_method = best(calls(f)), best(method_calls(Class()))

    @decorate
    def decorated(x):
        return x

    class Decorated:
        @decorate
        def method(self, x):
            return x

    return {
        "function": best(calls(decorated)) - bare,
        "method": best(method_calls(Decorated())) - bare_method,
    }


def vor_on() -> dict[str, float]:
    import vor

    vor.enable(capture=os.path.join(tempfile.mkdtemp(), "run.vor"))
    found = function_and_method(vor.profile)
    reused, metric = vor.Scope("reused"), vor.record_metric

    def fresh_scope() -> None:
        scope = vor.scope
        for _ in range(CALLS):
            with scope("fresh"):
                pass

    def reused_scope() -> None:
        for _ in range(CALLS):
            with reused:
                pass

    def metrics() -> None:
        for _ in range(CALLS):
            metric("metric", 1.5)

    nothing = best(empty)
    found["with"] = best(fresh_scope) - nothing
    found["with, reused"] = best(reused_scope) - nothing
    found["metric"] = best(metrics) - nothing
    return found


def vor_off() -> dict[str, float]:
    import vor

    return function_and_method(vor.profile)


def vor_off_again() -> dict[str, float]:
    import vor

    profiled = []

    def decorate(function):
        profiled.append(vor.profile(function))
        return profiled[-1]

    vor.enable()
    function_and_method(decorate)
    vor.disable()
    return function_and_method(vor.profile)


def perf_counter() -> dict[str, float]:
    import functools

    spans = []

    def decorate(function):
        @functools.wraps(function)
        def wrapper(*args, **keywords):
            begin = time.perf_counter_ns()
            try:
                return function(*args, **keywords)
            finally:
                spans.append((begin, time.perf_counter_ns()))
                if len(spans) > 10_000:
                    spans.clear()

        return wrapper

    return function_and_method(decorate)


def contextlib_manager() -> dict[str, float]:
    @contextlib.contextmanager
    def span(name):
        begin = time.perf_counter_ns()
        try:
            yield
        finally:
            time.perf_counter_ns() - begin

    def loop() -> None:
        for _ in range(CALLS):
            with span("x"):
                pass

    return {"with": best(loop) - best(empty)}


def a_lock() -> dict[str, float]:
    """Return the cost of `with` on a C object that does almost nothing."""
    import threading

    lock = threading.Lock()

    def loop() -> None:
        for _ in range(CALLS):
            with lock:
                pass

    return {"with": best(loop) - best(empty)}


def c_profile() -> dict[str, float]:
    import cProfile

    bare, bare_method = best(calls(f)), best(method_calls(Class()))
    with cProfile.Profile():
        function, method = best(calls(f)), best(method_calls(Class()))
    return {"function": function - bare, "method": method - bare_method}


def viztracer() -> dict[str, float]:
    from viztracer import VizTracer

    bare, bare_method = best(calls(f)), best(method_calls(Class()))
    tracer = VizTracer(tracer_entries=2_000_000, verbose=0)
    tracer.start()
    function, method = best(calls(f)), best(method_calls(Class()))
    tracer.stop()
    return {"function": function - bare, "method": method - bare_method}


def vor_run() -> dict[str, float]:
    import vor
    from vor import _core, _monitor

    bare, bare_method = best(calls(f)), best(method_calls(Class()))
    vor.enable(capture=os.path.join(tempfile.mkdtemp(), "run.vor"))
    _core.trace(True, [], [], 0.0, False)
    _monitor.trace(True, False)
    function, method = best(calls(f)), best(method_calls(Class()))
    _monitor.trace(False, False)
    _core.trace(False, [], [], 0.0, False)
    return {"function": function - bare, "method": method - bare_method}


def nvtx_annotate() -> dict[str, float]:
    import nvtx

    def loop() -> None:
        for _ in range(CALLS):
            with nvtx.annotate("x"):
                pass

    return {"with": best(loop) - best(empty)}


TOOLS: dict[str, tuple[str | None, Callable[[], dict[str, float]]]] = {
    "vor, on": ("vor", vor_on),
    "vor, off": ("vor", vor_off),
    "vor, off after on": ("vor", vor_off_again),
    "vor run": ("vor", vor_run),
    "cProfile": (None, c_profile),
    "viztracer": ("viztracer", viztracer),
    "perf_counter_ns decorator": (None, perf_counter),
    "contextlib manager": (None, contextlib_manager),
    "threading.Lock": (None, a_lock),
    "nvtx, no tool": ("nvtx", nvtx_annotate),
}


def whole_program(rounds: int) -> None:
    """Compare whole runs of `black` in Python. vor would record nothing of its compiled parts."""
    spec = importlib.util.find_spec("black")
    if spec is None or not (spec.origin or "").endswith(".py"):
        print(
            "SKIPPED: the whole program: `black` in Python is not installed "
            "(pip install --no-binary black black)"
        )
        return
    folder = os.path.dirname(spec.origin or "")
    sources = [os.path.join(folder, name) for name in ("linegen.py", "comments.py")]
    program = ["-m", "black", "-q", "-S", "-l", "60", "--diff", "--workers", "1", *sources]
    with tempfile.TemporaryDirectory() as out:
        ways = {
            "bare": [],
            "vor run": ["-m", "vor", "run", "--out", os.path.join(out, "run.vor")],
            "vor run --min-us 1": [
                "-m",
                "vor",
                "run",
                "--min-us",
                "1",
                "--out",
                os.path.join(out, "run.vor"),
            ],
        }
        if importlib.util.find_spec("viztracer") is not None and "--quick" not in sys.argv:
            limit = ["--tracer_entries", "20000000", "--ignore_c_function", "--quiet"]
            ways["viztracer"] = ["-m", "viztracer", *limit, "-o", os.path.join(out, "run.json")]
        times: dict[str, list[float]] = {way: [] for way in ways}
        processor: dict[str, list[float]] = {way: [] for way in ways}
        sizes: dict[str, int] = {}
        outputs = set()
        for _ in range(rounds):
            for way, before in ways.items():
                if way == "viztracer" and times[way]:
                    continue
                command = [sys.executable, *before, *program]
                begin, before_it = time.perf_counter(), os.times()
                done = subprocess.run(
                    command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=True
                )
                times[way].append(time.perf_counter() - begin)
                after = os.times()
                processor[way].append(
                    after.children_user
                    + after.children_system
                    - before_it.children_user
                    - before_it.children_system
                )
                if way != "viztracer":
                    # The headers of a diff contain its time.
                    lines = done.stdout.splitlines()
                    outputs.add(
                        b"\n".join(
                            line for line in lines if not line.startswith((b"--- ", b"+++ "))
                        )
                    )
                # Each worker of the program writes a file of its own.
                files = [os.path.join(out, name) for name in os.listdir(out)]
                sizes[way] = sum(os.path.getsize(file) for file in files)
                for file in files:
                    os.remove(file)
    # The ratios are within a round, so that other load of the machine affects both sides. The CPU
    # time is that of all threads, including vor's own.
    print(
        f"\n| black over {len(sources)} of its files | s | × bare "
        "| CPU time, s | × bare | file, MB |\n|---|---|---|---|---|---|"
    )
    for way in ways:
        cells = [way]
        for kind in (times, processor):
            ratio = statistics.median(taken / bare for taken, bare in zip(kind[way], kind["bare"]))
            cells += [f"{statistics.median(kind[way]):.2f}", f"{ratio:.2f}"]
        print("| " + " | ".join([*cells, f"{sizes.get(way, 0) / 1e6:.1f}"]) + " |")
    print(f"output identical: {len(outputs) == 1}")


def main() -> None:
    if sys.argv[1:2] == ["--tool"]:
        print(json.dumps(TOOLS[sys.argv[2]][1]()))
        return
    arguments = [argument for argument in sys.argv[1:] if not argument.startswith("--")]
    rounds = int(arguments[0]) if arguments else 7
    if "--program" in sys.argv:
        whole_program(rounds)
        return
    here = {}
    for tool, (module, _) in TOOLS.items():
        if module is None or importlib.util.find_spec(module) is not None:
            here[tool] = []
        else:
            print(f"SKIPPED: {tool}: {module} is not installed")
    for _ in range(rounds):
        for tool, results in here.items():
            command = [sys.executable, __file__, "--tool", tool]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            results.append(json.loads(done.stdout.splitlines()[-1]))
    print(f"CPython {sys.version.split()[0]}, medians of {rounds}, ns over the bare call or loop\n")
    columns = ["function", "method", "with", "with, reused", "metric"]
    print("| | " + " | ".join(columns) + " |\n|---" * 1 + "|---" * len(columns) + "|")
    for tool, results in here.items():
        cells = [
            f"{statistics.median(result[column] for result in results):.1f}"
            if column in results[0]
            else ""
            for column in columns
        ]
        print(f"| {tool} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
