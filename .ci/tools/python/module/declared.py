"""The types of the module."""
import pathlib

from . import commands
from .report import skip


def check(environment):
    """mypy and pyright find the declared types, and stubtest the real ones."""
    project = pathlib.Path("vor-py/pyproject.toml")
    if environment.install("mypy"):
        mypy = environment.command("mypy")
        commands.check(mypy, "--config-file", project, "--strict", "-p", "vor")
        commands.check(
            environment.command("stubtest"), "vor", "--mypy-config-file", project,
            "--allowlist", "vor-py/stubtest.allow", "--ignore-unused-allowlist",
        )
        commands.check(
            mypy, "--config-file=", "--ignore-missing-imports", "--check-untyped-defs", ".",
            cwd="vor-py/tests",
        )
    else:
        skip("the types of the Python module, by mypy", "it cannot be installed")
    # pyright is a program of Node.js, which its package fetches if there is none.
    pyright = environment.command("pyright")
    if environment.install("pyright") and commands.run(pyright, "--version", log=environment.log):
        commands.check(pyright, "-p", project, "--pythonpath", environment.python)
    else:
        skip("the types of the Python module, by pyright", "it cannot be installed")
