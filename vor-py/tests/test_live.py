"""A program that listens is watched while it runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recorded import Capture, needs_recorder, start

pytestmark = [
    needs_recorder,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no sockets in files"),
]

# Records this process by the command, and works meanwhile.
PROGRAM = """
    import subprocess, sys, vor
    {enable}
    watch = subprocess.Popen(
        [sys.executable, "-m", "vor", "record", "unix:s", "-o", "seen.vor", "--seconds", "1"]
    )
    while watch.poll() is None:
        with vor.scope("work"):
            sum(range(1000))
        vor.frame_mark()
    assert watch.returncode == 0
    """


@pytest.mark.parametrize("by_variable", [False, True])
def test_a_program_is_recorded_from_elsewhere(tmp_path: Path, by_variable: bool) -> None:
    if by_variable:
        run = start(tmp_path, PROGRAM.format(enable=""), VOR_LISTEN="unix:s")
    else:
        run = start(tmp_path, PROGRAM.format(enable='vor.enable(listen="unix:s")'))
    assert run.done.returncode == 0, run.done.stderr
    assert Capture(tmp_path / "seen.vor").counts["work"] > 10
    assert not (tmp_path / "s").exists()


def test_a_bad_address_is_a_value_error(tmp_path: Path) -> None:
    run = start(tmp_path, "import vor\nvor.enable(listen='nowhere')")
    assert run.done.returncode == 1
    message = "ValueError: enable: listen: `nowhere`: there is no port; an address is"
    assert run.done.stderr.splitlines()[-1].startswith(message), run.done.stderr
