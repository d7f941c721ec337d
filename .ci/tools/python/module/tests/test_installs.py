import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from .. import installs
from ..report import Failed
from ..tools import Tools

# Each notes its arguments; uv also makes environments, whose Python runs the smoke test.
FAKE = """\
#!/bin/sh
echo "{name} $*" >>"{log}"
case "$*" in
{cases}
esac
"""
VENV = """\
venv*)
    for folder; do :; done
    mkdir -p "$folder/bin"
    cp "{folder}/pip" "$folder/bin/pip"
    cp "{folder}/python" "$folder/bin/python"
    ;;
"""


class Installs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log = self.folder / "calls"
        home = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, home)
        self.module = self.folder / "vor-py/python/vor/_core.abi3.so"
        self.module.parent.mkdir(parents=True)
        subprocess.run(["git", "init", "-q"], check=True)
        self.fake("pip", "")
        self.fake("python", "")
        self.fake("tools/bin/uv", VENV.format(folder=self.folder))
        self.fake(
            "tools/bin/maturin",
            f'develop*) touch "{self.module}" ;;\n'
            "build*) mkdir -p default/wheels; touch default/wheels/vor.whl ;;",
        )

    def fake(self, path, cases):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        name = path.name
        path.write_text(FAKE.format(name=name, log=self.log, cases=cases), encoding="utf-8")
        path.chmod(0o755)

    def run_check(self, every_tool=True):
        with contextlib.redirect_stdout(io.StringIO()):
            installs.check(Tools(self.folder), sys.executable, every_tool)
        return self.log.read_text(encoding="utf-8")

    def test_tries_every_tool_and_leaves_no_module(self):
        calls = self.run_check()
        for call in [
            "pip install -q --disable-pip-version-check ./vor-py",
            "install -q --disable-pip-version-check git+file:///",
            "/repository#subdirectory=vor-py",
            "maturin build -q -m vor-py/Cargo.toml --profile dev",
            "maturin develop -q -m vor-py/Cargo.toml --profile dev",
            "--refresh-package vor ./vor-py",
        ]:
            self.assertIn(call, calls)
        self.assertEqual(calls.count("smoke.py"), len(installs.TOOLS))
        self.assertEqual(calls.count("uv venv"), len(installs.TOOLS))
        self.assertFalse(self.module.exists())

    def test_tries_pip_alone_if_not_every_tool(self):
        calls = self.run_check(every_tool=False)
        self.assertIn("install -q --disable-pip-version-check ./vor-py", calls)
        self.assertEqual(calls.count("smoke.py"), 1)

    def test_fails_if_a_tool_fails(self):
        self.fake("pip", "install*) exit 1 ;;")
        with self.assertRaisesRegex(Failed, "pip cannot install the package"):
            self.run_check()

    def test_fails_if_the_package_does_not_work(self):
        self.fake("python", "*smoke.py) exit 1 ;;")
        with self.assertRaisesRegex(Failed, "that pip installs .* does not work"):
            self.run_check()

    def test_uses_a_new_environment_for_each_tool(self):
        with mock.patch.object(installs, "TOOLS", ("pip",)):
            self.run_check()
        self.assertFalse((self.folder / "default").exists())
