import json

from .case import SPANS, ViewCase

# Total, self and name of each row, as the page shows them.
TABLES = [
    [("1.00ms (100%)", "500.00µs (50%)", "outer"), ("500.00µs (50%)", "500.00µs (50%)", "inner"),
     ("0ns (0%)", "0ns (0%)", "empty")],
    [("2.00ms (100%)", "2.00ms (100%)", "walk")],
]
# A browser that prints the table of the thread that the profile selects.
BROWSER = """\
#!/usr/bin/env python3
import base64, json, pathlib, re, sys

folder = pathlib.Path(__file__).parent
script = (folder / "profile.js").read_text()
profile = json.loads(base64.b64decode(re.search(r', "([^"]+)"', script).group(1)))
assert "&view=sandwich" in sys.argv[-1]
rows = json.loads((folder / "tables.json").read_text())[profile["activeProfileIndex"]]
cells = "".join(f"<td>{text}</td>" for row in rows for text in row)
print(f"<title>{(folder / 'title').read_text()}</title><th>Symbol Name</th>{cells}")
"""


class Speedscope(ViewCase):
    def show(self, tables, title="the run - speedscope"):
        """Returns the arguments of a viewer that shows these tables."""
        self.write("tables.json", json.dumps(tables))
        self.write("title", title)
        profile = self.write("run.json", json.dumps({"name": "the run"}))
        browser = self.write("chromium", BROWSER, executable=True)
        return "speedscope", "/index.html", profile, browser, str(self.folder)

    def test_accepts_what_was_recorded(self):
        self.assert_accepts(*self.show(TABLES))

    def test_accepts_a_time_as_far_as_it_is_shown(self):
        self.write_spans([{**SPANS[0], "dur": 1_004_900}, *SPANS[4:]])
        shown = [[("1.00ms (100%)", "1.00ms (100%)", "outer")], TABLES[1]]
        self.assert_accepts(*self.show(shown))
        self.write_spans([{**SPANS[0], "dur": 1_005_200}, *SPANS[4:]])
        self.assert_rejects("recorded 1005200 ns", *self.show(shown))

    def test_rejects_another_time(self):
        for column in 0, 1:
            row = list(TABLES[0][0])
            row[column] = "1.01ms (100%)"
            tables = [[row, *TABLES[0][1:]], TABLES[1]]
            self.assert_rejects("thread 5: outer: shows 1.01ms", *self.show(tables))

    def test_rejects_a_text_that_is_not_a_time(self):
        tables = [TABLES[0], [("much", "2.00ms (100%)", "walk")]]
        self.assert_rejects("`much` is not a time", *self.show(tables))

    def test_rejects_other_names(self):
        self.assert_rejects("thread 5: shows", *self.show([TABLES[0][:2], TABLES[1]]))

    def test_rejects_a_page_that_did_not_load_the_profile(self):
        self.assert_rejects("does not load", *self.show(TABLES, "speedscope"))
