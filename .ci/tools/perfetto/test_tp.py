"""`tp` answers, and finds what is wrong with a trace. `setup` must have found Perfetto's engine."""

import json
import pathlib
import subprocess
import tempfile
import unittest

TP = pathlib.Path(__file__).with_name("tp").resolve()


def event(phase, ts, name="work", **others):
    return {"ph": phase, "ts": ts, "pid": 1, "tid": 2, "name": name, **others}


class Tp(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.trace = pathlib.Path(folder.name, "trace.json")

    def tp(self, *arguments):
        command = [TP, *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def of(self, events, *arguments):
        self.trace.write_text(json.dumps(events))
        return self.tp(self.trace, *arguments)

    def test_nothing_is_wrong_with_a_sound_trace(self):
        done = self.of([event("B", 1), event("E", 3)], "--errors")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done)

    def test_what_is_wrong_is_named(self):
        done = self.of([event("B", 1)], "--errors")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("unfinished_slices", done.stdout)

    def test_a_packet_that_is_cut_off_is_named(self):
        # Field 1 of a trace, five bytes long, of which one is there.
        self.trace.write_bytes(bytes([0x0A, 0, 0x0A, 5, 8]))
        done = self.tp(self.trace, "--errors")
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("trailing_bytes", done.stdout)

    def test_queries_return_columns_and_rows(self):
        events = [event("B", 1), event("E", 3), event("X", 7, "rest", dur=2)]
        queries = "select name, ts, dur from slice order by ts", "select 9223372036854775807 as n"
        done = self.of(events, "--sql", queries[0], "--sql", queries[1])
        slices, number = done.stdout.splitlines()
        self.assertEqual(json.loads(slices)["columns"], ["name", "ts", "dur"])
        self.assertEqual(json.loads(slices)["rows"], [["work", 1000, 2000], ["rest", 7000, 2000]])
        # As text, since JavaScript would round it.
        self.assertIn("9223372036854775807", number)

    def test_slices_have_their_thread_and_arguments(self):
        done = self.of([event("X", 1, dur=2, args={"size": 7})], "--slices")
        (line,) = done.stdout.splitlines()
        found = json.loads(line)
        self.assertEqual((found["name"], found["ts"], found["dur"]), ("work", 1000, 2000))
        self.assertIn("7", json.dumps(found["args"]))
        self.assertEqual(found["tid"], 2)

    def test_bad_use_is_a_line(self):
        self.trace.write_text("[]")
        absent = self.trace.with_name("absent.json")
        wrong = self.trace, "--sql", "select nothing from it"
        for arguments in [(), (absent, "--errors"), wrong]:
            with self.subTest(arguments):
                done = self.tp(*arguments)
                self.assertEqual(done.returncode, 2, done)
                self.assertNotIn("    at ", done.stderr)
                self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
