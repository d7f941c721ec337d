"""Runs the module's own tests on an interpreter."""
from . import commands, interpreters
from .report import Failed, say, skip

TABLES = "polars", "pandas", "pyarrow"


def check(tools, wheels, name, python):
    """The tests pass in an environment that has the wheel and nothing of this folder.

    Returns the environment, or None if pytest cannot be installed.
    """
    environment = tools.environment(name, python)
    if not environment.install("pytest"):
        say(environment.reason())
        skip(f"the Python module on CPython {name}", "pytest cannot be installed")
        return None
    _install_optional(environment, name)
    environment.install_wheel(wheels.wait(python))
    pytest = "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."
    if not commands.run(environment.python, *pytest, cwd="vor-py/tests"):
        raise Failed(f"the tests on CPython {name}")
    say(f"passed on CPython {interpreters.full_version(python)}")
    return environment


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
