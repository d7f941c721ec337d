"""Spans of two threads, and a test case that compares a viewer with them."""
import contextlib
import io
import json
import pathlib
import tempfile
import unittest

from .. import __main__ as program


def _span(tid, depth, name, duration, **args):
    thread = {5: "main", 6: "worker"}[tid]
    return {
        "tid": tid, "thread": thread, "depth": depth, "name": name, "dur": duration, "args": args,
    }


SPANS = [
    _span(5, 0, "outer", 1_000_000, n=3),
    _span(5, 1, "inner", 400_000),
    _span(5, 1, "inner", 100_000, n=4),
    _span(5, 0, "empty", 0),
    _span(6, 0, "walk", 2_000_000),
    _span(6, 1, "walk", 500_000),
]


class ViewCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.write_spans(SPANS)

    def write_spans(self, spans):
        with open(self.folder / "spans.jsonl", "w", encoding="utf-8") as file:
            file.writelines(json.dumps(span) + "\n" for span in spans)

    def write(self, name, text, executable=False):
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        if executable:
            path.chmod(0o755)
        return str(path)

    def run_program(self, *arguments):
        """Returns why the program fails, or None if the viewer agrees."""
        with contextlib.redirect_stdout(io.StringIO()):
            try:
                program.main([str(self.folder / "spans.jsonl"), *arguments])
            except SystemExit as exit_:
                return str(exit_.code)
        return None

    def assert_accepts(self, *arguments):
        self.assertIsNone(self.run_program(*arguments))

    def assert_rejects(self, reason, *arguments):
        self.assertIn(reason, self.run_program(*arguments) or "nothing")
