"""Builds and installs the package as users do, with each tool and without options."""
import pathlib
import shutil

from . import commands, interpreters
from .report import Failed, say

# uv comes last, since it builds in a separate folder; the others share their build files.
TOOLS = "pip", "pip from git", "maturin build", "maturin develop", "uv pip"
SMOKE = pathlib.Path(__file__).parents[1] / "smoke.py"
# Unoptimised, so that little is compiled twice.
DEV_PROFILE = {"MATURIN_PEP517_ARGS": "--profile dev"}
# For builds in a separate folder, where nothing of the package is compiled yet.
PLAIN_PROFILE = {
    "MATURIN_PEP517_ARGS": "--profile dev --config profile.dev.package.vor-capture.opt-level=0"
}


def check(tools, python, every_tool):
    """Each tool, or only the first, installs a package that works, in an empty environment."""
    chosen = TOOLS if every_tool else TOOLS[:1]
    for tool in chosen:
        environment = tools.environment("default", python, "--seed")
        try:
            _install(tools, tool, environment)
        except Failed as error:
            raise Failed(f"{tool} cannot install the package for {python}: {error}") from error
        if not commands.run(environment.python, SMOKE):
            raise Failed(f"the package that {tool} installs for {python} does not work")
        # `maturin develop` leaves the module beside the sources.
        for module in pathlib.Path("vor-py/python/vor").glob("_core*.so"):
            module.unlink()
        shutil.rmtree(environment.folder)
    say(f"{', '.join(chosen)} can install the package on {interpreters.full_version(python)}")


def _install(tools, tool, environment):
    python, folder = environment.python, environment.folder
    if tool == "pip":
        pip = environment.command("pip")
        commands.check(
            pip, "install", "-q", "--disable-pip-version-check", "./vor-py", env=DEV_PROFILE
        )
    elif tool == "pip from git":
        pip = environment.command("pip")
        source = f"git+{_repository(folder / 'repository').as_uri()}#subdirectory=vor-py"
        commands.check(
            pip, "install", "-q", "--disable-pip-version-check", source, env=PLAIN_PROFILE
        )
    elif tool == "maturin build":
        tools.build(python, "dev", folder / "wheels")
        (wheel,) = (folder / "wheels").glob("*.whl")
        environment.install_wheel(wheel)
    elif tool == "maturin develop":
        develop = "develop", "-q", "-m", "vor-py/Cargo.toml", "--profile", "dev"
        commands.check(tools.maturin, *develop, env={"VIRTUAL_ENV": str(folder)})
    else:
        # For uv, the package is unchanged while `pyproject.toml` is.
        install = "pip", "install", "-q", "-p", python, "--refresh-package", "vor", "./vor-py"
        commands.check(tools.uv, *install, env=PLAIN_PROFILE)


def _repository(folder):
    """Makes a repository of the tracked files.

    pip makes a partial clone, which never ends if the source is a shallow one, as CI's checkout is.
    """
    folder.mkdir()
    commands.check("git", "checkout-index", "-a", f"--prefix={folder}/")
    git = "git", "-C", folder, "-c", "user.name=vor", "-c", "user.email=vor@localhost"
    commands.check(*git, "init", "-q")
    commands.check(*git, "add", "-A")
    commands.check(*git, "commit", "-q", "--allow-empty", "-m", "all files")
    return folder.resolve()
