"""Records each interpreter that a recorded program starts, which imports this module first."""

import importlib
import os
import sys


def _chain() -> None:
    """Import the `sitecustomize` that this one hides."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # The import system looks up this module here.
        if this is not None:
            sys.modules.setdefault("sitecustomize", this)


def _join() -> None:
    """Record this process."""
    try:
        from vor import _run
    except ImportError as error:
        print(f"vor: {sys.executable} is not recorded: {error}", file=sys.stderr)
    else:
        _run.join()


_chain()
if "VOR_PYTHON_RUN" in os.environ:
    _join()
