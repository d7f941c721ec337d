"""Tests all mutants of a crate, which are built once: see source.py.

    batch.py CRATE FOLDER [--cargo ARGUMENT]… [--list ARGUMENT]… [--target ARGUMENT]…
             [--root FILE] [--only FILE] [--tests REGEX] [--jobs NUMBER]

FOLDER gets a copy of the repository, and the results: `results.json` has one row per mutant.
`--cargo` is for all commands of cargo, `--list` for `cargo mutants --list`, and `--target` chooses
tests. `--root` is the first file of a crate outside of `crates`.
A test runs for a mutant only if it calls the mutated function. Mutants outside of functions, in
`const fn`, in programs, and those that do not compile beside the others are `left`: `cargo mutants`
tests them.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import source

# Tests with more CPU seconds run last, each in a process of its own.
SLOW = 0.4
MAX_MEMORY = 6 << 30
PROTECTED = str(pathlib.Path(__file__).with_name("protected").resolve())


def run(command, folder, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def listed(crate, arguments):
    command = ["cargo", "mutants", "--list", "--json", "-p", crate, *arguments]
    done = run(command, ".")
    if done.returncode:
        sys.exit(done.stderr)
    return dict(enumerate(json.loads(done.stdout), 1))


def copy(folder):
    names = run(["git", "ls-files", "-co", "--exclude-standard", "-z"], ".").stdout.split("\0")
    for name in filter(os.path.isfile, names):
        target = folder / name
        if not target.exists() or target.read_bytes() != pathlib.Path(name).read_bytes():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(name, target)


def place(folder, files):
    for path, text in files.items():
        if (folder / path).read_text() != text:
            (folder / path).write_text(text)


def messages(output):
    for line in output.splitlines():
        if line.startswith("{"):
            yield json.loads(line)


def spans_of(message):
    yield from message.get("spans", [])
    for child in message.get("children", []):
        yield from spans_of(child)


def compile_all(batch, folder, arguments, targets, root):
    """Builds the tests without the mutants that do not compile, which it returns with errors."""
    dropped = {}
    while True:
        files, lines = batch.write(dropped)
        files[root] += source.RUNTIME.replace("COUNT", str(batch.count))
        place(folder, files)
        common = ["--profile=mutants", "--message-format=json", *arguments]
        check = ["cargo", "check", *common, "--lib"]
        build = ["cargo", "test", "--no-run", *common, *targets]
        for command in (check, build):
            done = run(command, folder, RUSTFLAGS="--cap-lints=allow")
            before = len(dropped)
            for message in messages(done.stdout):
                message = message.get("message", {})
                if not isinstance(message, dict) or message.get("level") != "error":
                    continue
                for span in spans_of(message):
                    for first, last, numbers in lines.get(span["file_name"], []):
                        if span["is_primary"] and first <= span["line_start"] <= last:
                            for number in numbers:
                                dropped.setdefault(number, message["message"])
            if done.returncode:
                break
        if not done.returncode:
            binaries = [m["executable"] for m in messages(done.stdout) if m.get("executable")]
            return dropped, binaries
        print(f"{len(dropped) - before} mutants do not compile", flush=True)
        if len(dropped) == before:
            sys.exit(done.stdout[-4000:] + done.stderr[-4000:])


def limited(command, folder, seconds, **variables):
    """Runs tests within CPU seconds; returns 'passed', 'caught' or 'timeout', and CPU seconds."""

    def limit():
        resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 3))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    environment = {
        **os.environ, "RUSTC_BOOTSTRAP": "1", "PROPTEST_MAX_SHRINK_ITERS": "0",
        "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true", "RUST_BACKTRACE": "0", **variables,
    }
    # A thread reads the times of its own child only from wait4.
    process = subprocess.Popen(
        [PROTECTED, *command], cwd=folder, env=environment, preexec_fn=limit,
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 20 + 15 * seconds
    outcome = None
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() > end:
            outcome = "timeout"
            os.killpg(process.pid, signal.SIGKILL)
        time.sleep(0.005)
    process.returncode = 0
    code = os.waitstatus_to_exitcode(status)
    if outcome is None:
        late = code in (-signal.SIGXCPU, -signal.SIGKILL)
        outcome = "passed" if code == 0 else "timeout" if late else "caught"
    return outcome, used.ru_utime + used.ru_stime


class Test:
    def __init__(self, binary, name):
        self.binary, self.name = binary, name
        self.seconds, self.reached = 0, frozenset()


def measure(test, folder):
    """Runs a test without a mutant: which functions does it call, and how long does it take?"""
    with tempfile.NamedTemporaryFile() as file:
        command = [test.binary, "--exact", test.name]
        outcome, _ = limited(command, folder, 600, VOR_MUTANT_REACHED=file.name)
        _, test.seconds = limited(command, folder, 600, VOR_MUTANT="0")
        test.reached = frozenset(int(line) for line in file.read().split())
    return outcome


def judge(number, function, tests, folder):
    fit = sorted((t for t in tests if function in t.reached), key=lambda test: test.seconds)
    if not fit:
        return "unreached", ""
    groups = {}
    for test in fit:
        if test.seconds <= SLOW:
            groups.setdefault(test.binary, []).append(test)
    slow = [[test] for test in fit if test.seconds > SLOW]
    for group in [*groups.values(), *slow]:
        options = ["-Zunstable-options", "--fail-fast", "--test-threads=1"]
        command = [group[0].binary, *options, "--exact", *(test.name for test in group)]
        seconds = 3 + 4 * sum(test.seconds for test in group)
        outcome, _ = limited(command, folder, seconds, VOR_MUTANT=str(number))
        if outcome != "passed":
            return outcome, group[0].name if len(group) == 1 else ""
    return "missed", ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("crate")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cargo", action="append", default=[])
    parser.add_argument("--target", action="append", default=[])
    parser.add_argument("--list", action="append", default=[])
    parser.add_argument("--root", default="crates/CRATE/src/lib.rs")
    parser.add_argument("--tests", default="", help="skip tests whose name matches")
    parser.add_argument("--only", type=pathlib.Path, help="a file with names of mutants")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    tree = options.folder / "tree"
    tree.mkdir(parents=True, exist_ok=True)

    started = time.monotonic()
    mutants = listed(options.crate, options.list)
    if options.only:
        names = set(options.only.read_text().splitlines())
        mutants = {number: m for number, m in mutants.items() if m["name"] in names}
    # Programs are crates of their own.
    inner = {number: m for number, m in mutants.items() if "/src/bin/" not in m["file"]}
    copy(tree)
    root = options.root.replace("CRATE", options.crate)
    paths = sorted({root, *(m["file"] for m in inner.values())})
    texts = {path: pathlib.Path(path).read_text() for path in paths}
    batch = source.Batch(texts, inner)
    print(f"{len(mutants)} mutants, {len(batch.left)} left", flush=True)
    arguments = ["-p", options.crate, *options.cargo]
    dropped, binaries = compile_all(batch, tree, arguments, options.target, root)
    print(f"built in {time.monotonic() - started:.0f} s, {len(dropped)} dropped", flush=True)

    folder = tree / pathlib.Path(root).parent.parent
    tests = []
    for binary in binaries:
        names = run([binary, "--list", "--format", "terse"], folder).stdout
        tests += [Test(binary, n) for n in re.findall(r"^(.*): test$", names, re.M)]
    if options.tests:
        tests = [test for test in tests if not re.search(options.tests, test.name)]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(pool.map(lambda test: measure(test, folder), tests))
    failing = [t.name for t, outcome in zip(tests, outcomes) if outcome != "passed"]
    print(f"{len(tests)} tests, failing without a mutant: {failing}", flush=True)
    tests = [test for test in tests if test.name not in failing]
    total = sum(test.seconds for test in tests)
    print(f"measured after {time.monotonic() - started:.0f} s, {total:.0f} s CPU", flush=True)

    results = {number: ("left", "of a program") for number in mutants.keys() - inner}
    for number in batch.left:
        results[number] = "left", "outside of functions"
    for number, error in dropped.items():
        results[number] = "uncompiled", error
    waiting = [number for number in batch.function_of if number not in dropped]

    def one(number):
        results[number] = judge(number, batch.function_of[number], tests, folder)
        if len(results) % 100 == 0:
            print(f"{len(results)} after {time.monotonic() - started:.0f} s", flush=True)
            save()

    def save():
        rows = [
            {"name": mutants[n]["name"], "outcome": o, "by": by, "diff": mutants[n]["diff"]}
            for n, (o, by) in sorted(dict(results).items())
        ]
        (options.folder / "results.json").write_text(json.dumps(rows, indent=1))

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(one, waiting))
    save()
    counts = {}
    for outcome, _ in results.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    print(counts, f"in {time.monotonic() - started:.0f} s")


if __name__ == "__main__":
    main()
