"""`python -m vor` and the command `vor`: `run` is in Python, all other subcommands are in Rust."""

from __future__ import annotations

import sys

from vor import _core


def main() -> None:
    """Run the command line."""
    arguments = sys.argv[1:]
    if not _core.RECORDS:
        from vor import _only_reads

        print(_only_reads.missing(" ".join(["vor", *arguments[:1]])), file=sys.stderr)
        sys.exit(2)
    if arguments[:1] == ["run"]:
        from vor import _run

        _run.main(arguments[1:])
    from vor import _command

    sys.exit(_command.call(arguments))


if __name__ == "__main__":
    main()
