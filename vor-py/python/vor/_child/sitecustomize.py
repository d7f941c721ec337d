"""Found first by an interpreter that a recorded program has started: has it recorded too."""

import importlib
import os
import sys


def _chain() -> None:
    """Import the file of this name that would have been found without this one."""
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place) != here]
    this = sys.modules.pop("sitecustomize", None)
    try:
        importlib.import_module("sitecustomize")
    except ModuleNotFoundError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        # Who imports this file looks for it here.
        if this is not None:
            sys.modules.setdefault("sitecustomize", this)


def _join() -> None:
    """Have this process recorded."""
    try:
        from vor import _run
    except ImportError as error:
        print(f"vor: {sys.executable} is not recorded: {error}", file=sys.stderr)
    else:
        _run.join()


_chain()
if "VOR_PYTHON_RUN" in os.environ:
    _join()
