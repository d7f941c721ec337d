"""The error of a build that only reads captures when a program uses more. No other imports this."""

from __future__ import annotations

REASON = (
    "this build of vor only reads captures; "
    "install vor with its recorder: `pip install ./vor-py` in the repository of vor"
)


def missing(name: str) -> ImportError:
    """Return the error for a use of `name`, which needs the recorder or the command."""
    return ImportError(f"{name}: {REASON}", name="vor")
