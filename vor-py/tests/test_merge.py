"""`vor.merge` and `python -m vor`, where they call the command `vor`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from recorded import environment, record

import vor


def test_captures_of_a_fork_are_merged(tmp_path: Path) -> None:
    run = record(
        tmp_path,
        """
        import os, sys
        pid = os.fork()
        if pid: os.waitpid(pid, 0)
        with vor.scope("parent" if pid else "child"): pass
        sys.exit(0)
        """,
    )
    paths = [capture.path for capture in run.captures]
    assert len(paths) == 2
    vor.merge(paths, tmp_path / "all.pftrace")
    merged = (tmp_path / "all.pftrace").read_bytes()
    assert b"parent" in merged and b"child" in merged


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing.vor"):
        vor.merge([tmp_path / "missing.vor", tmp_path / "b.vor"], tmp_path / "all.pftrace")


def test_other_subcommands_come_from_the_command() -> None:
    command = [sys.executable, "-m", "vor", "--version"]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert done.stdout.startswith("vor ")
