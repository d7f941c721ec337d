"""Wheels, which a task builds while others wait for them.

Only the one for most interpreters is that of a release, whose optimisation takes a minute. The
others are unoptimised, and check assertions and overflows.
"""
import threading

from . import interpreters
from .report import Failed


class Wheels:
    def __init__(self, folder, tools):
        self._folder, self._tools = folder, tools
        self._built, self.failed = set(), False
        self._changed = threading.Condition()

    def build(self, python):
        """Builds the wheel of an interpreter, unless there is one."""
        tag = interpreters.wheel_tag(python)
        if tag in self._built:
            return
        if tag.endswith("abi3"):
            options = "wheel", self._folder, "--features", "abi3"
        else:
            options = "dev", self._folder
        try:
            self._tools.build(python, *options)
        except BaseException:
            # Fails the threads that wait for a wheel.
            with self._changed:
                self.failed = True
                self._changed.notify_all()
            raise
        with self._changed:
            self._built.add(tag)
            self._changed.notify_all()

    def wait(self, python):
        """Returns the wheel of an interpreter as soon as it is built."""
        tag = interpreters.wheel_tag(python)
        with self._changed:
            self._changed.wait_for(lambda: tag in self._built or self.failed)
            if tag not in self._built:
                raise Failed(f"the wheel {tag} was not built")
        wheels = list(self._folder.glob(f"*-{tag}*.whl"))
        if len(wheels) != 1:
            raise Failed(f"{len(wheels)} wheels have the tag {tag}")
        return wheels[0]
