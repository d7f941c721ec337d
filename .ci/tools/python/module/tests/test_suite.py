import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from .. import suite
from ..report import Failed


class FakeEnvironment:
    """Installs nothing, and runs the tests by a script that fails for one of the files."""

    def __init__(self, folder, failing):
        self.python = folder / "python"
        self.python.write_text(
            f"""#!{sys.executable}
import sys
files = [word for word in sys.argv if word.startswith("test_")] or ["everything"]
open("{folder}/ran", "a").write("".join(f"{{file}}\\n" for file in files))
sys.exit("{failing}" in files)
"""
        )
        self.python.chmod(0o755)

    def install(self, *packages):
        return True

    def install_wheel(self, path):
        pass


class Suite(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        tests = self.folder / "tests"
        tests.mkdir()
        for number in range(7):
            (tests / f"test_{number}.py").write_text("#" * number)
        (tests / "shared.py").touch()
        patch = mock.patch.object(suite, "TESTS", tests)
        patch.start()
        self.addCleanup(patch.stop)

    def check(self, parts, failing=None):
        """Runs the tests, and returns the sorted names of the files that ran."""
        tools, wheels = mock.Mock(), mock.Mock()
        tools.environment.return_value = FakeEnvironment(self.folder, failing)
        full_version = mock.patch.object(suite.interpreters, "full_version", str)
        with contextlib.redirect_stdout(io.StringIO()), full_version:
            suite.check(tools, wheels, "3", "python", parts)
        return sorted((self.folder / "ran").read_text().split())

    def test_each_file_runs_once_however_many_parts(self):
        files = [f"test_{number}.py" for number in range(7)]
        for parts in 1, 2, 3, 9:
            self.assertEqual(self.check(parts), files)
            os.remove(self.folder / "ran")

    def test_large_files_are_in_different_parts(self):
        first, second = suite.divided(2)
        self.assertEqual(first, ["test_6.py", "test_4.py", "test_2.py", "test_0.py"])
        self.assertEqual(second, ["test_5.py", "test_3.py", "test_1.py"])

    def test_a_part_that_fails_is_a_failure(self):
        for failing in "test_0.py", "test_5.py":
            with self.assertRaisesRegex(Failed, "the tests on CPython 3"):
                self.check(3, failing)
