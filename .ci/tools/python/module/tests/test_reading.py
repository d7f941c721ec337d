import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest

from .. import reading
from ..report import Failed
from ..tools import Tools

# Each notes its arguments. uv also makes environments with the other two.
FAKE = """\
#!/bin/sh
echo "{name} $* [$MATURIN_PEP517_ARGS] [$VOR_TEST_RECORDER]" >>"{folder}/calls"
{then}
"""
VENV = """\
[ "$1" = venv ] || exit 0
for folder; do :; done
mkdir -p "$folder/bin"
cp "{folder}/pip" "{folder}/python" "$folder/bin"
"""


class FakeWheels:
    def wait(self, python):
        return "release.whl"


class Reading(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        home = os.getcwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, home)
        (self.folder / "vor-py/tests").mkdir(parents=True)
        self.fake("pip", "")
        self.fake("python", "")
        self.fake("tools/bin/uv", VENV.format(folder=self.folder))

    def fake(self, path, then):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        text = FAKE.format(name=path.name, folder=self.folder, then=then)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def run_check(self):
        with contextlib.redirect_stdout(io.StringIO()):
            reading.check(Tools(self.folder), FakeWheels(), sys.executable)
        return (self.folder / "calls").read_text(encoding="utf-8")

    def test_the_tests_read_what_the_wheel_of_a_release_records(self):
        calls = self.run_check()
        recorder = self.folder / "recorder/bin/python"
        self.assertIn(f"-p {recorder} release.whl", calls)
        self.assertIn("./vor-py [--no-default-features --features reading", calls)
        self.assertRegex(calls, rf"python -m pytest .* \[\] \[{recorder}\]")

    def test_fails_if_the_tests_fail(self):
        self.fake("python", "exit 1")
        with self.assertRaisesRegex(Failed, "a module that only reads captures"):
            self.run_check()

    def test_fails_if_the_package_cannot_be_built(self):
        self.fake("pip", "exit 1")
        with self.assertRaisesRegex(Failed, "pip install"):
            self.run_check()
