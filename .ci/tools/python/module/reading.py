"""A build of the module that only reads captures, which has no recorder and no command."""
from . import commands, interpreters, suite
from .report import Failed, say, skip

# As in docs/python.md. Unoptimised, so that little is compiled twice.
OPTIONS = "--no-default-features --features reading --profile dev"


def check(tools, wheels, python):
    """The tests of reading pass in it. The wheel of a release records what they read."""
    recorder = tools.environment("recorder", python)
    recorder.install_wheel(wheels.wait(python))
    environment = tools.environment("reading", python, "--seed")
    if not environment.install("pytest"):
        say(environment.reason())
        skip("a Python module that only reads captures", "pytest cannot be installed")
        return
    suite.install_tables(environment, "without the recorder")
    commands.check(
        environment.command("pip"), "install", "-q", "--disable-pip-version-check", "./vor-py",
        env={"MATURIN_PEP517_ARGS": OPTIONS},
    )
    pytest = "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."
    variables = {"VOR_TEST_RECORDER": str(recorder.python)}
    if not commands.run(environment.python, *pytest, cwd="vor-py/tests", env=variables):
        raise Failed("the tests of a module that only reads captures")
    say(f"reads captures without the recorder on CPython {interpreters.full_version(python)}")
