"""`python -m vor`, and the command `vor` that is installed with the package: `run` is here, everything else is what the command does in Rust."""

from __future__ import annotations

import sys


def main() -> None:
    """Do what the command line says."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from vor import _run

        _run.main(arguments[1:])
    from vor import _command

    sys.exit(_command.call(arguments))


if __name__ == "__main__":
    main()
