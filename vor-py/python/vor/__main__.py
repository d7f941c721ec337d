"""`python -m vor` and the command `vor`: `run` is in Python, all other subcommands are in Rust."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["run"]:
        from vor import _run

        _run.main(arguments[1:])
    from vor import _command

    sys.exit(_command.call(arguments))


if __name__ == "__main__":
    main()
