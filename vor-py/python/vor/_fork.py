"""What `multiprocessing` needs told: its forked children end without the interpreter's exit handlers, and so without the end of their captures."""

from __future__ import annotations

import os
import sys
from typing import Any

from vor import _core


class _Anchor:
    """What `multiprocessing` keeps no longer than there is someone who wants to be told."""


_anchor = _Anchor()


def _close() -> None:
    _core.close_capture()


def _at_begin(_: Any) -> None:
    from multiprocessing import util

    # The least of all priorities that are called at all: after what the program does at its end.
    util.Finalize(None, _close, exitpriority=-(1 << 30))


def _in_child() -> None:
    # The child forgets what was registered to be called at its end, and then calls what is registered here.
    util = sys.modules.get("multiprocessing.util")
    if util is not None:
        util.register_after_fork(_anchor, _at_begin)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
    # A child that imports vor itself: before its work begins, or in the course of it.
    _in_child()
    _process = sys.modules.get("multiprocessing.process")
    if _process is not None and _process.parent_process() is not None:
        _at_begin(None)
