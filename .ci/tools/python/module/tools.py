"""maturin and uv, and the environments that uv makes.

uv installs in half a second where pip takes half a minute.
"""
import os

from . import commands
from .report import Failed


class Tools:
    def __init__(self, folder):
        self.maturin = folder / "tools/bin/maturin"
        self.uv = folder / "tools/bin/uv"
        self._folder = folder

    def install(self, python, cache):
        """Installs both, and returns whether that worked; the log has the reason."""
        os.environ["UV_CACHE_DIR"] = str(cache / "uv")
        os.environ["UV_PYTHON_DOWNLOADS"] = "never"
        if index := os.environ.get("PIP_INDEX_URL"):
            os.environ.setdefault("UV_DEFAULT_INDEX", index)
        pip = self._folder / "tools/bin/pip", "install", "-q", "--disable-pip-version-check"
        log = self.log
        return commands.run(python, "-m", "venv", self._folder / "tools", log=log) and (
            commands.run(*pip, "maturin", "uv", log=log)
        )

    @property
    def log(self):
        return self._folder / "log"

    def build(self, python, profile, out, *features):
        """Builds the wheel of an interpreter."""
        commands.check(
            self.maturin, "build", "-q", "-m", "vor-py/Cargo.toml", "--profile", profile,
            "-o", out, "-i", python, *features,
        )

    def environment(self, name, python, *options):
        """Makes an environment with nothing but the interpreter."""
        folder = self._folder / name
        commands.check(self.uv, "venv", "-q", *options, "-p", python, folder)
        return Environment(self, folder)


class Environment:
    def __init__(self, tools, folder):
        self.folder = folder
        self.python = folder / "bin/python"
        self.log = folder / "log"
        self._tools = tools

    def command(self, name):
        return self.folder / "bin" / name

    def install(self, *packages):
        """Installs packages, and returns whether that worked; the log has the reason."""
        uv = self._tools.uv
        return commands.run(uv, "pip", "install", "-q", "-p", self.python, *packages, log=self.log)

    def install_wheel(self, path):
        if not self.install(path):
            raise Failed(f"{path}: {self.reason()}")

    def reason(self):
        """Returns the last line of the log."""
        lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "no reason in the log"
