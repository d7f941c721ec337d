"""The command `vor`, which the module has in Rust, and what calls it for a program."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Sequence

from vor import _core


def call(arguments: Sequence[str]) -> int:
    """Run the command with these arguments in place of this process; return its exit code."""
    # The command heeds Ctrl-C itself, as it does where it is a program.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.command(["vor", *arguments])


def run(arguments: Sequence[str]) -> str:
    """Run the command in a process of its own, which takes no signals of this one and no memory; return what it says on stderr.

    Raises OSError where it says what is wrong.
    """
    # The process is to look at captures, and not to write one. It finds the package where this one did.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOR_")}
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [package, environment.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "vor", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    told = done.stderr.strip().removeprefix("vor: ")
    # 3: the work is done, without what is damaged.
    if done.returncode not in (0, 3):
        raise OSError(told or f"vor {arguments[0]}: exit code {done.returncode}")
    return told


def merge(captures: Iterable[str | os.PathLike[str]], out: str | os.PathLike[str]) -> None:
    """Put captures of several processes on one time axis, in a trace for ui.perfetto.dev, as `vor merge` does.

    What the command says, such as by which clocks, goes to stderr. Raises OSError where a capture cannot be read or the trace cannot be written.
    """
    told = run(["merge", *(os.fspath(capture) for capture in captures), "-o", os.fspath(out)])
    if told:
        print(told, file=sys.stderr)


def view(path: str | os.PathLike[str]) -> subprocess.Popen[bytes]:
    """Show a capture in the viewer, which is a program of its own, and return that.

    Raises FileNotFoundError where there is no such capture, and where the viewer is not installed.
    """
    import shutil
    import sysconfig

    path = os.fspath(path)
    if not os.path.exists(path):
        raise FileNotFoundError(f"{path}: there is no such capture")
    folders = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", os.defpath)])
    viewer = shutil.which("vor-viz", path=folders)
    if viewer is None:
        raise FileNotFoundError("`vor-viz` not found; install it with `cargo install vor-viz`")
    return subprocess.Popen([viewer, path], stdin=subprocess.DEVNULL)
