"""Runs commands, in the foreground or in tasks beside it.

A task's output appears when it is joined. All commands stay in the process group of this program,
so a signal to the group ends them too.
"""
import contextlib
import os
import subprocess
import tempfile
import threading

from .report import Failed, say

_task = threading.local()
_running = set()
_lock = threading.Lock()
_ended = False


def run(*command, env=None, cwd=None, log=None):
    """Runs a command and returns whether it succeeded.

    Its output goes to the file `log`, or to that of the task, or to the program's own.
    """
    with contextlib.ExitStack() as stack:
        output = getattr(_task, "output", None)
        if log:
            output = stack.enter_context(open(log, "wb"))
        with _lock:
            if _ended:
                return False
            process = subprocess.Popen(
                list(map(str, command)), env={**os.environ, **(env or {})}, cwd=cwd,
                stdin=subprocess.DEVNULL, stdout=output,
                stderr=subprocess.STDOUT if output else None,
            )
            _running.add(process)
        try:
            return process.wait() == 0
        finally:
            with _lock:
                _running.discard(process)


def check(*command, **options):
    """Runs a command that must succeed."""
    if not run(*command, **options):
        raise Failed(f"`{' '.join(map(str, command))}`")


def leave_processor():
    """Later commands of this task get the time that all other programs leave."""
    if hasattr(os, "SCHED_IDLE"):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def end_all():
    """Ends the commands of all tasks; no further command starts."""
    global _ended
    with _lock:
        _ended = True
        for process in _running:
            process.terminate()


class Task:
    """A function that runs in a thread beside the others."""

    def __init__(self, name, function, *arguments):
        self.name = name
        self._output = tempfile.TemporaryFile()
        self._error = None
        self._thread = threading.Thread(target=self._run, args=(function, *arguments), daemon=True)
        self._thread.start()

    def _run(self, function, *arguments):
        _task.output = self._output
        try:
            function(*arguments)
        except BaseException as error:  # `join` raises it again
            self._error = error

    def join(self):
        """Waits for the function, prints the output of its commands, and fails if it failed."""
        self._thread.join()
        say(f"{self.name}:")
        with self._output as output:
            output.seek(0)
            print(output.read().decode(errors="replace"), end="", flush=True)
        if self._error:
            raise Failed(f"{self.name}: {self._error}") from self._error


def join_all(tasks):
    """Joins all tasks, and fails if one failed."""
    failures = []
    for task in tasks:
        try:
            task.join()
        except Failed as error:
            failures.append(str(error))
    if failures:
        raise Failed("; ".join(failures))
