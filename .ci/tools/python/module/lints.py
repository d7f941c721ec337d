"""Lints, documentation and types of the module."""
import pathlib

from . import commands
from .report import skip

# Lints need no Python: these files describe the interpreters that they build for.
INTERPRETERS = {
    "pyo3-3.11": "implementation=CPython\nversion=3.11\nshared=true\nabi3=false\n",
    "pyo3-3.14t": "implementation=CPython\nversion=3.14\nshared=true\nabi3=false\n"
    "build_flags=Py_GIL_DISABLED\n",
}
EXTENSION = {"PYO3_BUILD_EXTENSION_MODULE": "1"}


def check_rust(cache):
    """clippy has no complaint about any build of the module, and rustdoc none about two."""
    _clippy({"PYO3_NO_PYTHON": "1"}, "abi3")
    for name, description in INTERPRETERS.items():
        path = cache / name
        path.write_text(description, encoding="utf-8")
        env = {"PYO3_CONFIG_FILE": str(path)}
        for feature in "module", "reading":
            _clippy(env, feature)
            if name == "pyo3-3.14t":
                _document(env, feature)


def _clippy(env, feature):
    command = "cargo", "clippy", "-p", "vor-py", "--features", feature, "--all-targets"
    commands.check(*command, "--", "-D", "warnings", env={**env, **EXTENSION})


def _document(env, feature):
    command = "cargo", "doc", "-p", "vor-py", "--features", feature, "--no-deps"
    env = {**env, **EXTENSION, "RUSTDOCFLAGS": "-D warnings"}
    commands.check(*command, "--document-private-items", env=env)


def check_types(environment):
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
