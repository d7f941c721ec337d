import contextlib
import cProfile
import io
import json
import pathlib
import tempfile
import unittest

import counts
import judge

SCOPE = {"name": "load", "count": 3, "file": "/a/pipeline.py"}


def stats(*scopes, dropped=0):
    return {"dropped_spans": dropped, "scopes": [SCOPE | scope for scope in scopes]}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, name, content):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path


class Counts(Case):
    def test_adds_lines_of_a_name(self):
        path = self.write("a", "load\t2\na b\t1\nload\t3\n")
        self.assertEqual(counts.lines(path), {"load": 5, "a b": 1})

    def test_counts_begins_of_a_chrome_trace(self):
        events = [{"ph": phase, "name": "load"} for phase in "BEBEi"]
        for trace in events, {"traceEvents": events}:
            self.assertEqual(counts.chrome_begins(self.write("a", trace)), {"load": 2})

    def test_reads_a_report_of_hotpath(self):
        report = {"functions_timing": {"data": [{"name": "a::load", "calls": 4}]}}
        self.assertEqual(counts.hotpath(self.write("a", report)), {"a::load": 4})

    def test_reads_recursive_calls_of_one_file_from_cprofile(self):
        code = "def f(n):\n    return n and f(n - 1)\nf(4)\nsorted([1], key=lambda x: x)\n"
        profile = cProfile.Profile()
        for file in "/a/pipeline.py", "/a/other.py":
            space = {}
            profile.runctx(compile(code, file, "exec"), space, space)
        profile.dump_stats(self.folder / "a")
        self.assertEqual(counts.cprofile(self.folder / "a"), {"f": 5, "<lambda>": 1, "<module>": 1})

    def test_takes_the_place_off_a_name_of_viztracer(self):
        events = [{"ph": "X", "name": "A.load (a (1).py:3)"}, {"ph": "C", "name": "counter"}]
        self.assertEqual(counts.viztracer(self.write("a", {"traceEvents": events})), {"A.load": 1})

    def test_counts_tasks_instead_of_the_polls_of_a_name(self):
        path = self.write("a", stats({}, {"count": 2}, {"name": "ask", "count": 9}))
        task = {"ph": "b", "cat": "task"}
        poll, frame = task | {"name": "poll"}, {"ph": "b", "cat": "frame", "name": "load"}
        trace = self.write("b", [task | {"name": "ask"}, poll, frame])
        self.assertEqual(counts.vor(path, trace), {"load": 5, "ask": 1})

    def test_refuses_a_capture_with_dropped_spans(self):
        path = self.write("a", stats({}, dropped=1))
        with self.assertRaisesRegex(ValueError, "1 spans were dropped"):
            counts.vor(path, self.write("b", []))

    def test_reads_the_last_part_of_names_of_one_file(self):
        elsewhere = {"file": "/a/json.py"}
        path = self.write("a", stats({"name": "A.load"}, {"name": "B.load"}, elsewhere))
        self.assertEqual(counts.vor_pipeline(path, None), {"load": 6})


class Judge(Case):
    def judge(self, before, after, name="puffin"):
        self.write(f"{name}/before", before)
        self.write(f"{name}/stats.json", after)
        self.write(f"{name}/trace.json", [])
        return judge.judge(self.folder / name, name)

    def test_accepts_equal_counts(self):
        lines, equal = self.judge("puffin_before::load\t3\n", stats({}))
        self.assertEqual((lines, equal), (["puffin: 1 scopes have 3 calls in both"], True))

    def test_refuses_another_count_and_scopes_of_one_side(self):
        found = self.judge("load\t4\na\t1\n", stats({}, {"name": "b"}))
        lines = [
            "puffin: `a` has 1 calls before and 0 after",
            "puffin: `b` has 0 calls before and 3 after",
            "puffin: `load` has 4 calls before and 3 after",
        ]
        self.assertEqual(found, (lines, False))

    def test_refuses_a_pair_without_scopes(self):
        self.assertEqual(
            self.judge("", stats()), (["puffin: the other tool has no scopes"], False)
        )

    def test_compares_the_capture_from_before(self):
        self.write("vor-0.2/before-stats.json", stats({"count": 2}))
        self.write("vor-0.2/before-trace.json", [])
        line = "vor-0.2: the capture from before: `load` has 3 calls before and 2 after"
        self.assertEqual(self.judge("load\t3\n", stats({}), "vor-0.2"), ([line], False))

    def test_exits_with_1_if_one_pair_differs(self):
        self.judge("load\t3\n", stats({}))
        self.judge("load\t3\n", stats({"count": 2}), "tracy")
        with contextlib.redirect_stdout(io.StringIO()):
            self.assertEqual(judge.main([str(self.folder), "puffin"]), 0)
            self.assertEqual(judge.main([str(self.folder), "puffin", "tracy"]), 1)


if __name__ == "__main__":
    unittest.main()
