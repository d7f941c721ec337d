"""A test case with a folder, the recorded rows and the verdict of the program."""
import contextlib
import io
import pathlib
import tempfile
import unittest

from .. import __main__ as program
from . import samples


class TraceCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.rows = self.folder / "rows.jsonl"
        self.trace = self.folder / "trace"
        samples.write_rows(self.rows)

    def run_program(self, reader, *absent):
        """Returns the program's output, and whether it accepts the trace."""
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            try:
                status = program.main([str(self.rows), reader, str(self.trace), *absent])
            except SystemExit as exit_:
                return str(exit_.code), False
        return output.getvalue(), status == 0

    def assert_accepts(self, reader, *absent):
        output, accepted = self.run_program(reader, *absent)
        self.assertTrue(accepted, output)

    def assert_rejects(self, reader, reason):
        output, accepted = self.run_program(reader)
        self.assertFalse(accepted, output)
        self.assertIn(reason, output)
