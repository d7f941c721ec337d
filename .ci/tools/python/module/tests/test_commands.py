import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from .. import commands, report
from ..report import Failed


def join(*tasks):
    """Joins tasks, and returns the output and the failure."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            commands.join_all(tasks)
        except Failed as error:
            return output.getvalue(), str(error)
    return output.getvalue(), None


class Commands(unittest.TestCase):
    def test_a_check_fails_with_its_command(self):
        commands.check("true")
        with self.assertRaisesRegex(Failed, "`false x`"):
            commands.check("false", "x")

    def test_a_log_has_the_output(self):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder, "log")
            self.assertFalse(commands.run("sh", "-c", "echo one; echo two >&2; exit 1", log=log))
            self.assertEqual(log.read_text(), "one\ntwo\n")

    def test_a_task_prints_its_output_when_it_is_joined(self):
        task = commands.Task("greeting", commands.check, "echo", "hello")
        self.assertEqual(join(task), ("python: greeting:\nhello\n", None))

    def test_a_failed_task_fails_those_who_join_it(self):
        good = commands.Task("good", commands.check, "echo", "fine")
        bad = commands.Task("bad", commands.check, "sh", "-c", "echo broken; exit 1")
        worse = commands.Task("worse", lambda: 1 / 0)
        output, failure = join(bad, good, worse)
        self.assertIn("broken", output)
        self.assertIn("fine", output)
        self.assertRegex(failure, "^bad: .*; worse: division by zero$")

    @unittest.skipUnless(hasattr(os, "SCHED_IDLE"), "only Linux has this policy")
    def test_a_task_leaves_the_processor_to_others(self):
        policy = sys.executable, "-c", "import os; print(os.sched_getscheduler(0))"

        def leave():
            commands.leave_processor()
            commands.check(*policy)

        tasks = commands.Task("polite", leave), commands.Task("usual", commands.check, *policy)
        output, failure = join(*tasks)
        expected = f"python: polite:\n{os.SCHED_IDLE}\npython: usual:\n{os.SCHED_OTHER}\n"
        self.assertEqual((output, failure), (expected, None))

    def test_a_skip_is_reported_at_the_end(self):
        with tempfile.TemporaryDirectory() as folder:
            skips = os.path.join(folder, "skips")
            with mock.patch.dict(os.environ, VOR_CI_SKIPS=skips):
                with contextlib.redirect_stderr(io.StringIO()) as output:
                    report.skip("a check", "a reason")
            self.assertEqual(output.getvalue(), "python: SKIPPED: a check: a reason\n")
            self.assertEqual(pathlib.Path(skips).read_text(), "python: a check: a reason\n")
