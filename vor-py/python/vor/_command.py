"""The command `vor`, which is in Rust, and functions that call it for a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence

from vor import _core


def call(arguments: Sequence[str]) -> int:
    """Run the command with these arguments in this process, and return its exit code."""
    # The command handles Ctrl-C itself, as in its own program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.command(["vor", *arguments])


def run(arguments: Sequence[str]) -> str:
    """Run the command in a process of its own, and return its stderr.

    The process has its own signals and memory. Raises OSError with its message if it fails, and
    ImportError if this build lacks the command.
    """
    if not _core.RECORDS:
        from vor import _only_reads

        raise _only_reads.missing(f"vor {arguments[0]}")
    # The process records nothing itself. It finds the package in the same place as this one.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOR_")}
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(
        filter(None, [package, environment.get("PYTHONPATH")])
    )
    command = [sys.executable, "-m", "vor", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    output = done.stderr.strip().removeprefix("vor: ")
    # Exit code 3: done, but without the damaged parts.
    if done.returncode not in (0, 3):
        raise OSError(output or f"vor {arguments[0]}: exit code {done.returncode}")
    return output


def merge(captures: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Write captures of several processes as one trace for ui.perfetto.dev, as `vor merge` does.

    Notes of the command, such as which clocks it used, go to stderr. Raises OSError if a capture
    cannot be read or the trace cannot be written.
    """
    output = run(["merge", *(os.fspath(capture) for capture in captures), "-o", os.fspath(out)])
    if output:
        print(output, file=sys.stderr)


def view(path: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
    """Open a capture in the viewer `vor-viz`, and return its process.

    Raises FileNotFoundError if the capture does not exist or the viewer is not installed.
    """
    import shutil
    import sysconfig

    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: no such file")
    folders = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    viewer = shutil.which("vor-viz", path=folders)
    if viewer is None:
        raise FileNotFoundError(
            "`vor-viz` not found; "
            "install it with `cargo install --path vor-viz` in the repository of vor"
        )
    return subprocess.Popen([viewer, path], stdin=subprocess.DEVNULL)
