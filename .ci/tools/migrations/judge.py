"""judge.py FOLDER NAME...: compares the calls of each scope before and after a migration.

FOLDER/NAME has `before`, the output of the other tool; `stats.json`, which is `vor stats --json` of
the capture of the program after it; and `trace.json`, the capture as a Chrome trace. If vor can
read what the program wrote before, `before-stats.json` and `before-trace.json` are there, too, and
must have the same counts.
"""
import collections.abc
import dataclasses
import pathlib
import sys

import counts


@dataclasses.dataclass(frozen=True)
class Pair:
    """How the outputs of a pair are read."""

    before: collections.abc.Callable
    # Prefixes of the other tool's names, which vor's names do not have.
    prefix: str = ""
    after: collections.abc.Callable = counts.vor


PAIRS = {
    "cprofile": Pair(counts.cprofile, after=counts.vor_pipeline),
    "fastrace": Pair(counts.lines, "fastrace_before::"),
    "hotpath": Pair(counts.hotpath, "hotpath_before::"),
    "profiling": Pair(counts.lines, "profiling_before::"),
    "puffin": Pair(counts.lines, "puffin_before::"),
    "torch-profiler": Pair(counts.lines),
    "tracing-chrome": Pair(counts.chrome_begins),
    "tracy": Pair(counts.lines),
    "viztracer": Pair(counts.viztracer),
    "vor-0.2": Pair(counts.lines),
}


def differences(before, after):
    """One line for each scope with another number of calls, sorted by name."""
    found = []
    for name in sorted(before.keys() | after.keys()):
        was, now = before.get(name, 0), after.get(name, 0)
        if was != now:
            found.append(f"`{name}` has {was} calls before and {now} after")
    return found


def judge(folder, name):
    """The lines that report a pair, and whether its counts are equal."""
    pair = PAIRS[name]
    before = {
        key.removeprefix(pair.prefix): count
        for key, count in pair.before(folder / "before").items()
    }
    if not before:
        return [f"{name}: the other tool has no scopes"], False
    captures = {"": pair.after(folder / "stats.json", folder / "trace.json")}
    if (folder / "before-stats.json").exists():
        files = folder / "before-stats.json", folder / "before-trace.json"
        captures["the capture from before: "] = pair.after(*files)
    wrong = [
        f"{name}: {what}{line}"
        for what, after in captures.items()
        for line in differences(before, after)
    ]
    if wrong:
        return wrong, False
    return [f"{name}: {len(before)} scopes have {sum(before.values())} calls in both"], True


def main(argv):
    if len(argv) < 2:
        sys.exit(__doc__)
    folder, *names = argv
    equal = True
    for name in names:
        lines, is_equal = judge(pathlib.Path(folder) / name, name)
        print("\n".join(lines))
        equal &= is_equal
    return 0 if equal else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
