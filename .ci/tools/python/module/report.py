"""Reports of the checks, in the format of `.ci/common.sh`."""
import os
import sys


class Failed(Exception):
    """A check failed."""


def say(text, file=None):
    print(f"python: {text}", file=file or sys.stdout, flush=True)


def skip(check, reason):
    """Reports a check that does not run; `.ci/run` repeats it at its end."""
    say(f"SKIPPED: {check}: {reason}", sys.stderr)
    if path := os.environ.get("VOR_CI_SKIPS"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"python: {check}: {reason}\n")
