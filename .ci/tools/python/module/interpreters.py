"""The CPython interpreters of this machine."""
import glob
import os
import pathlib
import shutil
import subprocess

from . import commands

VERSIONS = "3.11", "3.12", "3.13", "3.14"
FREE_THREADED = pathlib.Path(__file__).parents[1] / "free-threaded"


def find(version):
    """Returns the path of an interpreter of a version, from PATH or pyenv, or None."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    installed = sorted(glob.glob(f"{glob.escape(pyenv)}/versions/{version}.*/bin/python"))
    for path in [shutil.which(f"python{version}"), *installed]:
        # A shim of pyenv exists for versions that it does not start.
        if path and _print(path, '"%d.%d" % sys.version_info[:2]') == version:
            return path
    return None


def find_free_threaded(log):
    """Returns the path of an interpreter without a lock, which may have to be built.

    The last line of the log is the reason if there is none.
    """
    if not commands.run(FREE_THREADED, log=log):
        return None
    return log.read_text(encoding="utf-8").splitlines()[-1]


def full_version(path):
    return _print(path, 'sys.version.split(" (")[0]')


def wheel_tag(path):
    """Returns the tag in the name of the wheel for an interpreter.

    A release has a wheel for 3.11, one for every later version with a lock, and one for each
    version without.
    """
    version, has_lock = _print(
        path,
        '"cp%d%d" % sys.version_info[:2], getattr(sys, "_is_gil_enabled", lambda: True)()',
    ).split()
    return tag_of(version, has_lock == "True")


def tag_of(version, has_lock):
    if not has_lock:
        return f"{version}-{version}t"
    return f"{version}-{version}" if version == "cp311" else "cp312-abi3"


def _print(path, expression):
    """Returns what an interpreter prints for an expression, or None if it does not run."""
    command = [path, "-c", f"import sys; print({expression})"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else None
