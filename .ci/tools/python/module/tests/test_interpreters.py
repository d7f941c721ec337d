import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from .. import interpreters


class Interpreters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        path = f"{self.folder}:/usr/bin:/bin"
        patch = mock.patch.dict(os.environ, PYENV_ROOT=str(self.folder / "pyenv"), PATH=path)
        patch.start()
        self.addCleanup(patch.stop)

    def program(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    def test_finds_an_interpreter_of_pyenv_behind_a_shim_that_does_not_start(self):
        self.program("python9.1", "exit 127")
        expected = self.program("pyenv/versions/9.1.4/bin/python", "echo 9.1")
        self.assertEqual(interpreters.find("9.1"), expected)

    def test_prefers_the_path(self):
        expected = self.program("python9.1", "echo 9.1")
        self.program("pyenv/versions/9.1.4/bin/python", "echo 9.1")
        self.assertEqual(interpreters.find("9.1"), expected)

    def test_refuses_an_interpreter_of_another_version(self):
        self.program("python9.1", "echo 9.2")
        self.program("pyenv/versions/9.1.4/bin/python", "echo 9.10")
        self.assertIsNone(interpreters.find("9.1"))

    def test_knows_the_tag_of_each_wheel(self):
        self.assertEqual(interpreters.tag_of("cp311", True), "cp311-cp311")
        self.assertEqual(interpreters.tag_of("cp312", True), "cp312-abi3")
        self.assertEqual(interpreters.tag_of("cp314", True), "cp312-abi3")
        self.assertEqual(interpreters.tag_of("cp314", False), "cp314-cp314t")
        tag = interpreters.wheel_tag(sys.executable)
        self.assertTrue(tag.startswith("cp3"), tag)

    def test_reports_that_there_is_no_interpreter_without_a_lock(self):
        log = self.folder / "log"
        with mock.patch.object(interpreters, "FREE_THREADED", self.program("f", "echo no; exit 3")):
            self.assertIsNone(interpreters.find_free_threaded(log))
        with mock.patch.object(interpreters, "FREE_THREADED", self.program("f", "echo a; echo b")):
            self.assertEqual(interpreters.find_free_threaded(log), "b")
