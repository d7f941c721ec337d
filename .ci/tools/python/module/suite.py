"""Runs the module's own tests on an interpreter."""
import pathlib

from . import commands, interpreters
from .commands import Task
from .report import Failed, say, skip

TABLES = "polars", "pandas", "pyarrow"
TESTS = pathlib.Path("vor-py/tests")


def check(tools, wheels, name, python, parts=1):
    """The tests pass in an environment that has the wheel and nothing of this folder.

    Parts of them run at a time, each in a process. Returns the environment, or None if pytest
    cannot be installed.
    """
    environment = tools.environment(name, python)
    if not environment.install("pytest"):
        say(environment.reason())
        skip(f"the Python module on CPython {name}", "pytest cannot be installed")
        return None
    _install_optional(environment, name)
    environment.install_wheel(wheels.wait(python))

    def run(files):
        pytest = "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", *files
        if not commands.run(environment.python, *pytest, cwd=TESTS):
            raise Failed(f"the tests on CPython {name}")

    commands.join_all([Task(f"tests on CPython {name}", run, files) for files in divided(parts)])
    say(f"passed on CPython {interpreters.full_version(python)}")
    return environment


def divided(parts):
    """Divides the files of tests into parts that take about as long."""
    files = sorted(TESTS.glob("test_*.py"), key=lambda file: file.stat().st_size, reverse=True)
    return [[file.name for file in files[part::parts]] for part in range(min(parts, len(files)))]


def _install_optional(environment, name):
    """Installs the packages that some tests need, which skip themselves without."""
    # black in Python: the profiler sees no calls in its compiled modules.
    jobs = "--no-binary", "black", "--only-binary", "numpy", "numpy", "black"
    if not environment.install(*jobs):
        skip(f"real jobs on CPython {name}", "NumPy and black cannot be installed")
    install_tables(environment, f"on CPython {name}")
    if not environment.install("--only-binary", ":all:", "anyio", "trio", "uvloop"):
        skip(f"other event loops on CPython {name}", "anyio, trio and uvloop cannot be installed")
    if not environment.install("ipython"):
        skip(f"cells of notebooks on CPython {name}", "IPython cannot be installed")


def install_tables(environment, where):
    """Installs the libraries that read tables."""
    for library in TABLES:
        if not environment.install("--only-binary", ":all:", library):
            skip(f"tables in {library} {where}", "it cannot be installed")
