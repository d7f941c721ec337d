import pathlib
import stat
import tempfile
import unittest

import batch


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def program(self, name, text):
        path = self.folder / name
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)


class Limited(Folder):
    def test_outcomes_are_those_of_the_program(self):
        for text, expected in [
            ("exit 0", "passed"),
            ("exit 101", "caught"),
            ("kill -ABRT $$", "caught"),
            ("while :; do :; done", "timeout"),
        ]:
            with self.subTest(text):
                outcome, _ = batch.limited([self.program("a", text)], self.folder, 0.1)
                self.assertEqual(outcome, expected)

    def test_the_cpu_time_is_that_of_the_program(self):
        text = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done"
        _, seconds = batch.limited([self.program("a", text)], self.folder, 60)
        _, idle = batch.limited([self.program("b", "sleep 0.2")], self.folder, 60)
        self.assertGreater(seconds, idle)


class Judge(Folder):
    def made(self, binary, name, seconds, reached):
        test = batch.Test(binary, name)
        test.seconds, test.reached = seconds, frozenset(reached)
        return test

    def test_a_mutant_is_caught_by_a_test_that_reaches_its_function(self):
        calls = self.folder / "calls"
        catches = f'echo "$VOR_MUTANT $*" >>{calls}; [ "$VOR_MUTANT" != 7 ]'
        program = self.program("a", catches)
        tests = [self.made(program, "one", 0.1, [3]), self.made(program, "other", 0.1, [4])]
        self.assertEqual(batch.judge(7, 3, tests, self.folder), ("caught", "one"))
        self.assertEqual(batch.judge(8, 3, tests, self.folder), ("missed", ""))
        self.assertEqual(batch.judge(7, 5, tests, self.folder), ("unreached", ""))
        lines = calls.read_text().splitlines()
        self.assertEqual([line.split()[0] for line in lines], ["7", "8"])
        self.assertTrue(all(line.endswith("--exact one") for line in lines), lines)

    def test_slow_tests_run_alone_and_last(self):
        calls = self.folder / "calls"
        program = self.program("a", f'while [ "$1" != --exact ]; do shift; done; echo $* >>{calls}')
        seconds = {"slow": 2, "quick": 0.1, "quicker": 0.05, "slower": 3}
        tests = [self.made(program, name, time, [1]) for name, time in seconds.items()]
        self.assertEqual(batch.judge(1, 1, tests, self.folder), ("missed", ""))
        expected = ["--exact quicker quick", "--exact slow", "--exact slower"]
        self.assertEqual(calls.read_text().splitlines(), expected)


class Messages(unittest.TestCase):
    def test_other_lines_are_skipped_and_inner_spans_are_found(self):
        output = 'warning\n{"spans": [1], "children": [{"spans": [2, 3]}, {}]}\n'
        (message,) = batch.messages(output)
        self.assertEqual(list(batch.spans_of(message)), [1, 2, 3])


if __name__ == "__main__":
    unittest.main()
