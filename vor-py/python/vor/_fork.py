"""Closes the captures of children that `multiprocessing` forks, which run no exit handlers."""

from __future__ import annotations

import os
import sys
from typing import Any

from vor import _core


class _Anchor:
    """An object that `multiprocessing` refers to weakly. Its hook is called while this lives."""


_anchor = _Anchor()


def _close() -> None:
    _core.close_capture()


def _at_begin(_: Any) -> None:
    from multiprocessing import util

    # The lowest priority that is still called, so it runs after all finalizers of the program.
    util.Finalize(None, _close, exitpriority=-(1 << 30))


def _in_child() -> None:
    # The child clears its finalizers, and then calls the hook that is registered here.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_anchor, _at_begin)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
    # For a child that imports vor itself, before or during its work.
    _in_child()
    _process = sys.modules.get("multiprocessing.process")
    if _process is not None and _process.parent_process() is not None:
        _at_begin(None)
