import copy
import json

from .case import ViewCase

# Answers of the command line, whose samples weigh a millisecond each.
ANSWERS = {
    "threads": [
        {"tid": "5", "threadHandle": "t-0"},
        {"tid": "6", "threadHandle": "t-1"},
    ],
    "t-0": {
        "tree": {"children": [
            {"name": "outer", "totalSamples": 1.0, "selfSamples": 0.5, "children": [
                {"name": "inner", "totalSamples": 0.5, "selfSamples": 0.5}]}]},
        "markers": [
            {"markerName": "outer", "count": 1},
            {"markerName": "inner", "count": 1},
            {"markerName": "message", "count": 7},
        ],
    },
    "t-1": {
        "tree": {"children": [
            {"name": "walk", "totalSamples": 2.0, "selfSamples": 1.5, "children": [
                {"name": "walk", "totalSamples": 0.5, "selfSamples": 0.5}]}]},
        "markers": [],
    },
}
COMMAND = """\
#!/usr/bin/env python3
import json, pathlib, sys

answers = json.loads((pathlib.Path(__file__).parent / "answers.json").read_text())
assert sys.argv[-1] == "--json"
thread = answers.get(sys.argv[sys.argv.index("--thread") + 1]) if "--thread" in sys.argv else None
print(json.dumps({
    "list": lambda: {"threads": answers["threads"]},
    "samples-top-down": lambda: {"regularCallTree": thread["tree"]},
    "markers": lambda: {"byType": thread["markers"]},
}[sys.argv[2]]()))
"""


class Firefox(ViewCase):
    def command(self, answers):
        self.write("answers.json", json.dumps(answers))
        return self.write("cli", COMMAND, executable=True)

    def test_accepts_what_was_recorded(self):
        self.assert_accepts("firefox", self.command(ANSWERS))

    def test_rejects_another_time(self):
        answers = copy.deepcopy(ANSWERS)
        answers["t-0"]["tree"]["children"][0]["selfSamples"] = 0.500001
        self.assert_rejects("thread 5: ('outer',)", "firefox", self.command(answers))

    def test_rejects_another_stack(self):
        answers = copy.deepcopy(ANSWERS)
        answers["t-1"]["tree"]["children"][0]["children"] = []
        self.assert_rejects("('walk', 'walk')", "firefox", self.command(answers))

    def test_rejects_a_missing_thread(self):
        answers = copy.deepcopy(ANSWERS)
        del answers["threads"][1]
        self.assert_rejects("thread 6 is missing", "firefox", self.command(answers))

    def test_rejects_other_markers(self):
        answers = copy.deepcopy(ANSWERS)
        answers["t-0"]["markers"][1]["count"] = 2
        self.assert_rejects("markers of thread 5: inner", "firefox", self.command(answers))
