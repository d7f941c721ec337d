import pathlib
import tempfile
import threading
import unittest
from unittest import mock

from .. import __main__ as program
from .. import installs, interpreters, reading
from ..report import Failed
from ..wheels import Wheels

TAGS = {"py311": "cp311-cp311", "py312": "cp312-abi3", "py313": "cp312-abi3"}


class FakeTools:
    """Records what maturin builds, and leaves an empty wheel."""

    def __init__(self, broken=None):
        self.broken, self.built = broken, []

    def build(self, python, profile, out, *features):
        self.built.append((python, profile, *features))
        if python == self.broken:
            raise Failed("maturin")
        out.mkdir(exist_ok=True)
        (out / f"vor-0-{TAGS[python]}-linux.whl").touch()


class WheelsCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        patch = mock.patch.object(interpreters, "wheel_tag", TAGS.get)
        patch.start()
        self.addCleanup(patch.stop)

    def test_builds_each_wheel_once(self):
        tools = FakeTools()
        wheels = Wheels(self.folder, tools)
        for python in TAGS:
            wheels.build(python)
        stable = "--features", "abi3"
        self.assertEqual(tools.built, [("py311", "dev"), ("py312", "wheel", *stable)])
        self.assertEqual(wheels.wait("py313").name, "vor-0-cp312-abi3-linux.whl")

    def test_waits_for_a_wheel(self):
        wheels = Wheels(self.folder, FakeTools())
        found = []
        waiting = threading.Thread(target=lambda: found.append(wheels.wait("py312").name))
        waiting.start()
        self.assertEqual(found, [])
        wheels.build("py312")
        waiting.join(10)
        self.assertEqual(found, ["vor-0-cp312-abi3-linux.whl"])

    def test_a_build_that_fails_ends_the_waiting(self):
        wheels = Wheels(self.folder, FakeTools(broken="py312"))
        with self.assertRaises(Failed):
            wheels.build("py312")
        with self.assertRaisesRegex(Failed, "was not built"):
            wheels.wait("py313")

    def test_refuses_two_wheels_of_a_tag(self):
        wheels = Wheels(self.folder, FakeTools())
        wheels.build("py311")
        (self.folder / "vor-1-cp311-cp311-linux.whl").touch()
        with self.assertRaisesRegex(Failed, "2 wheels"):
            wheels.wait("py311")

    def test_the_builder_tries_every_installation(self):
        tried = []
        log = self.folder / "log"

        def check(_, python, every_tool):
            tried.append((python, every_tool))

        with mock.patch.object(interpreters, "find_free_threaded", lambda _: None), \
                mock.patch.object(program, "skip", lambda *_: None), \
                mock.patch.object(reading, "check", lambda *_: tried.append("reading")), \
                mock.patch.object(installs, "check", check):
            tools = FakeTools()
            builder = program.Builder(tools, Wheels(self.folder, tools), TAGS, log)
            builder.run()
            self.assertIsNone(builder.free_threaded())
        first, *others = TAGS
        self.assertEqual(tried, ["reading", (first, True), *((tag, False) for tag in others)])

    def test_a_builder_that_fails_ends_the_wait_for_the_interpreter_without_a_lock(self):
        tools = FakeTools(broken="py311")
        builder = program.Builder(tools, Wheels(self.folder, tools), TAGS, self.folder / "log")
        with self.assertRaises(Failed):
            builder.run()
        self.assertIsNone(builder.free_threaded())
