"""Programs run in processes of their own, and the contents of their captures."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from vor import _core

HAS_MONITORING = sys.version_info >= (3, 12)
# Tests of a build that only reads captures read those of another interpreter, and compare them with
# its command.
OTHER = os.environ.get("VOR_TEST_RECORDER")
needs_recorder = pytest.mark.skipif(not _core.RECORDS, reason="this build only reads captures")


@dataclass
class Capture:
    """The contents of a capture."""

    path: Path
    contents: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.contents = _core.contents(self.path)
        assert self.contents["dropped"] == 0, "nothing may be lost"
        assert self.contents["losses"] == []
        nests(self.spans)

    @property
    def spans(self) -> list[dict[str, Any]]:
        return self.contents["spans"]

    @property
    def counts(self) -> Counter[str]:
        return Counter(span["name"] for span in self.spans)

    @property
    def tasks(self) -> Counter[str]:
        return Counter(task["name"] for task in self.contents["tasks"])

    @property
    def open(self) -> list[str]:
        return [scope["name"] for scope in self.contents["open"]]

    def named(self, name: str) -> list[dict[str, Any]]:
        return [span for span in self.spans if span["name"] == name]

    def parents(self) -> set[tuple[str, str]]:
        """Return the names of nested spans, as pairs of an outer name and a directly nested one."""
        found = set()
        for thread in {span["thread"] for span in self.spans}:
            stack: list[dict[str, Any]] = []
            spans = [span for span in self.spans if span["thread"] == thread]
            for span in sorted(spans, key=lambda span: (span["start"], -span["end"])):
                while stack and stack[-1]["end"] <= span["start"]:
                    stack.pop()
                if stack:
                    found.add((stack[-1]["name"], span["name"]))
                stack.append(span)
        return found


def nests(spans: list[dict[str, Any]]) -> None:
    """Check that overlapping spans of a thread nest."""
    by_thread: dict[str, list[dict[str, Any]]] = {}
    for span in spans:
        by_thread.setdefault(span["thread"], []).append(span)
    for of_thread in by_thread.values():
        stack: list[dict[str, Any]] = []
        for span in sorted(of_thread, key=lambda span: (span["start"], -span["end"])):
            while stack and stack[-1]["end"] <= span["start"]:
                stack.pop()
            assert not stack or span["end"] <= stack[-1]["end"], f"{span} crosses {stack[-1]}"
            stack.append(span)


@dataclass
class Run:
    """The end of a program, and its captures."""

    folder: Path
    done: subprocess.CompletedProcess[str]

    @property
    def capture(self) -> Capture:
        return Capture(self.folder / "run.vor")

    @property
    def captures(self) -> list[Capture]:
        return [Capture(path) for path in sorted(self.folder.glob("run*.vor"))]


def environment(**variables: str) -> dict[str, str]:
    """Return the environment without variables of vor, plus these variables."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("VOR_")}
    return {**kept, "PYTHONHASHSEED": "0", **variables}


def recorder() -> str:
    """Return an interpreter with a build that records and has the command."""
    if not _core.RECORDS and OTHER is None:
        pytest.skip("this build only reads captures; VOR_TEST_RECORDER names no other interpreter")
    return OTHER or sys.executable


def start(
    folder: Path, source: str, *arguments: str, before: list[str] | None = None, **variables: str
) -> Run:
    """Run a program in `folder` to its end. The arguments `before` precede its name."""
    program = folder / "program.py"
    program.write_text(textwrap.dedent(source))
    command = [recorder(), *(before or []), "program.py", *arguments]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return Run(folder, done)


def record(folder: Path, source: str, *, code: int = 0, **variables: str) -> Run:
    """Run a program that records into `run.vor` from its first line on."""
    head = "import vor\nvor.enable(capture='run.vor')\n"
    run = start(folder, head + textwrap.dedent(source), before=None, **variables)
    assert run.done.returncode == code, run.done.stderr
    return run


def trace(folder: Path, source: str, *options: str, code: int = 0, **variables: str) -> Run:
    """Run a program with `python -m vor run`."""
    run = start(
        folder, source, before=["-m", "vor", "run", "--out", "run.vor", *options], **variables
    )
    assert run.done.returncode == code, run.done.stderr
    return run
