"""python3 -m module: checks the Python module on every CPython of this machine.

The working directory is the root of the repository; `.ci/python` sets the variables.
"""
import os
import pathlib
import signal
import sys
import tempfile
import threading

from . import commands, declared, installs, interpreters, reading, suite
from .commands import Task
from .report import Failed, skip
from .tools import Tools
from .wheels import Wheels

# Suites that run at a time. Tests wait half of their time, and the builds beside them do not.
SUITES = 3


def main():
    # So that `finally` ends the commands.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    cache = pathlib.Path(os.environ["VOR_CACHE"])
    # The interpreters under test find nothing of this folder.
    os.environ.pop("PYTHONPATH", None)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        try:
            _check(pathlib.Path(folder), cache)
        except Failed as error:
            sys.exit(f"python: FAILED: {error}")
        finally:
            commands.end_all()


def _check(folder, cache):
    found = {}
    for version in interpreters.VERSIONS:
        if python := interpreters.find(version):
            found[version] = python
        else:
            skip(f"the Python module on CPython {version}", "no such interpreter")
    tools = Tools(folder)
    if tools.install(next(iter(found.values()), "python3"), cache):
        commands.join_all(_start(folder, tools, found))
    else:
        skip("the Python module", "maturin and uv cannot be installed")


def _start(folder, tools, found):
    """Starts a task that builds the wheels, and others that test each as soon as it is built."""
    wheels = Wheels(folder / "wheels", tools)
    builder = Builder(tools, wheels, found.values(), folder / "free-threaded.log")
    tasks = [Task("wheels and installations", builder.run)]
    slots = threading.Semaphore(SUITES)

    def check(version, python, parts=1):
        with slots:
            environment = suite.check(tools, wheels, version, python, parts)
        if version == "3.13" and environment:
            declared.check(environment)

    def check_free_threaded():
        if python := builder.free_threaded():
            # The last one to start, with processors left by those that have ended.
            check("free-threaded", python, parts=3)

    for version, python in found.items():
        tasks.append(Task(f"CPython {version}", check, version, python))
    tasks.append(Task("CPython without a lock", check_free_threaded))
    return tasks


class Builder:
    """Builds wheels in the order in which the tests need them."""

    def __init__(self, tools, wheels, pythons, log):
        self._tools, self._wheels, self._pythons, self._log = tools, wheels, list(pythons), log
        self._free_threaded, self._searched = None, threading.Event()

    def run(self):
        try:
            for python in self._pythons:
                self._wheels.build(python)
            # An interpreter without a lock may have to be built first, so it comes last.
            self._free_threaded = interpreters.find_free_threaded(self._log)
        finally:
            self._searched.set()
        if self._free_threaded:
            self._wheels.build(self._free_threaded)
            self._pythons.append(self._free_threaded)
        else:
            skip("the Python module on a CPython without a lock", "no such interpreter")
        if self._pythons:
            reading.check(self._tools, self._wheels, self._pythons[0])
        commands.leave_processor()
        # How a tool builds the package does not depend on the interpreter.
        for python in self._pythons:
            installs.check(self._tools, python, every_tool=python == self._pythons[0])

    def free_threaded(self):
        """Waits for the search, and returns the interpreter without a lock, or None."""
        self._searched.wait()
        return self._free_threaded


if __name__ == "__main__":
    main()
