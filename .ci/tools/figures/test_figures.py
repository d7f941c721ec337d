import pathlib
import tempfile
import unittest

import figures

RECORD = """# 2026-11-21, Xeon, two virtual cores

- Commit 0123abc; `cargo bench -p vor-benches --bench budget`

two clock reads (the floor)        -   16.455 ns
empty scope / two clock reads   <= 1.1  1.071 x

| CPython 3.11 | on | off |
|---|---|---|
| function | 27.3 | -0.2 |

| CPython 3.13 | on | off |
|---|---|---|
| function | 36.7–38.4 | − 1.25 |
"""

TABLE = r"""# Figures

| figure | of the introduction | is no | row |

## 2026-11-21.md

| figure | text before it | number | form |
|---|---|---|---|
| floor | two clock reads (the floor) | 1 | 0.0 |
| empty | empty scope / two clock reads | 2 | 0.00 |
| off | CPython 3.11 \| >> function \| | 2 | 0 |
| on | CPython 3.13 \| >> \| function \| | 1–2 | 0 |
| tenth | CPython 3.13 \| >> \| function \| | 1 | 0.0 ÷ 10 |

## Not measured

| document | text | what it is |
|---|---|---|
| docs/more.md | every 20 ms | a setting |
"""

README = """# vor

The floor is <!--fig floor-->16.5<!--/fig--> ns (`--frame-ms 5 ms`).

| empty | off | on |
|---|---|---|
| <!--fig empty-->1.07<!--/fig--> | <!--fig off-->0<!--/fig--> | <!--fig on-->37–38<!--/fig--> |

```rust
sleep(7 ms);
```
"""

MORE = "It drains every 20 ms.\nA tenth is <!--fig tenth-->3.7<!--/fig-->.\n"


class FiguresCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "benches/record").mkdir(parents=True)
        (self.root / "docs").mkdir()
        self.texts = {
            "README.md": README,
            "docs/more.md": MORE,
            "benches/record/2026-11-21.md": RECORD,
            "benches/record/figures.md": TABLE,
        }
        for name in self.texts:
            self.change(name)

    def change(self, name, before="", after=""):
        """Replaces text of a file, which occurs in it."""
        self.assertIn(before, self.texts[name])
        self.texts[name] = self.texts[name].replace(before, after, 1)
        (self.root / name).write_text(self.texts[name])

    def assert_errors(self, *errors, write=False):
        self.assertEqual(figures.check(self.root, write)[0], list(errors))

    def test_accepts_the_figures_of_the_records(self):
        self.assert_errors()

    def test_a_figure_that_differs(self):
        self.change("README.md", "16.5", "16.4")
        self.assert_errors(
            "README.md:3: floor is 16.4, the record says 16.5 (benches/record/2026-11-21.md:5)"
        )

    def test_a_record_that_differs(self):
        self.change("benches/record/2026-11-21.md", "1.071", "1.085")
        self.assert_errors(
            "README.md:7: empty is 1.07, the record says 1.09 (benches/record/2026-11-21.md:6)"
        )

    def test_writes_the_figures(self):
        self.change("README.md", "16.5", "")
        self.change("README.md", "37–38", "9")
        self.assert_errors(write=True)
        self.assertEqual((self.root / "README.md").read_text(), README)
        self.assert_errors()

    def test_checking_writes_nothing(self):
        self.change("README.md", "16.5", "16.4")
        figures.check(self.root)
        self.assertEqual((self.root / "README.md").read_text(), self.texts["README.md"])

    def test_an_unknown_figure(self):
        self.change("README.md", "fig empty", "fig full")
        self.assert_errors(
            "README.md:7: full has no row in benches/record/figures.md",
            "benches/record/figures.md:10: no document shows empty",
        )

    def test_half_a_marker(self):
        self.change("docs/more.md", "<!--/fig-->")
        self.assert_errors(
            "docs/more.md:2: a comment of a figure lacks its other half",
            "benches/record/figures.md:13: no document shows tenth",
        )

    def test_a_line_that_begins_with_a_marker(self):
        self.change("docs/more.md", "A tenth is ", "")
        self.assert_errors(
            "docs/more.md:2: Markdown does not format a line that begins with a figure"
        )

    def test_a_marker_in_a_block_of_code(self):
        self.change("README.md", "7 ms", "<!--fig floor-->16.5<!--/fig-->")
        self.assert_errors("README.md:10: a block of code shows the comments of a figure")

    def test_a_measurement_without_a_record(self):
        for text in ("5 ns", "1.5 µs", "12 MB", "3 %", "2 ×", "2 times as long", "9 million spans"):
            (self.root / "README.md").write_text(README + f"It takes {text}.\n")
            errors, _ = figures.check(self.root)
            self.assertEqual(len(errors), 1, text)
            self.assertRegex(errors[0], r"^README.md:12: `.+` is bound to no record$")

    def test_a_page_in_a_folder_is_checked_too(self):
        (self.root / "docs/deep").mkdir()
        (self.root / "docs/deep/page.md").write_text("It takes 5 ns.\n")
        self.assert_errors("docs/deep/page.md:1: `5 ns` is bound to no record")

    def test_a_setting_that_is_gone(self):
        self.change("docs/more.md", "every 20 ms", "often")
        self.assert_errors(
            "benches/record/figures.md:19: docs/more.md does not contain `every 20 ms`"
        )

    def test_a_text_that_occurs_twice(self):
        self.change(
            "benches/record/2026-11-21.md", "| CPython 3.11", "two clock reads (the  floor)\n| C"
        )
        errors, _ = figures.check(self.root)
        self.assertIn(
            "benches/record/figures.md:9: floor: `two clock reads (the floor)` occurs 2 times in "
            "2026-11-21.md, not once",
            errors,
        )

    def test_a_text_that_does_not_occur(self):
        self.change("benches/record/2026-11-21.md", "empty scope", "a scope")
        self.assert_errors(
            "benches/record/figures.md:10: empty: `empty scope / two clock reads` occurs 0 times "
            "in 2026-11-21.md, not once"
        )

    def test_a_text_that_does_not_occur_behind_another(self):
        self.change("benches/record/figures.md", r">> function \|", ">> method")
        self.assert_errors(
            "benches/record/figures.md:11: off: `method` does not occur behind `CPython 3.11 |` in "
            "2026-11-21.md"
        )

    def test_a_line_with_too_few_numbers(self):
        self.change("benches/record/2026-11-21.md", "1.071 x", "missed")
        self.assert_errors(
            "benches/record/figures.md:10: empty: 1 numbers stand behind `empty scope / two clock "
            "reads` in 2026-11-21.md"
        )

    def test_a_record_without_machine_command_or_commit(self):
        for statement, text in (
            ("machine", "two virtual cores"),
            ("command", "cargo bench"),
            ("commit", "Commit 0123abc"),
        ):
            (self.root / "benches/record/2026-11-21.md").write_text(RECORD.replace(text, ""))
            self.assert_errors(
                f"benches/record/2026-11-21.md: the record does not state its {statement}"
            )

    def test_an_old_record_without_a_commit(self):
        self.change("benches/record/2026-11-21.md", "Commit 0123abc")
        self.change("benches/record/figures.md", "11-21.md", "11-21.md\n\nNo commit: it is old.")
        self.assert_errors()
        self.change("benches/record/2026-11-21.md", "`cargo bench", "Commit 0123abc, `cargo bench")
        self.assert_errors("benches/record/figures.md:7: 2026-11-21.md states its commit")

    def test_a_new_record_without_a_commit(self):
        record = "benches/record/2026-11-24.md"
        (self.root / record).write_text(RECORD.replace("Commit 0123abc", ""))
        self.change("benches/record/figures.md", "11-21.md", "11-24.md\n\nNo commit: lost.")
        self.assert_errors(
            "benches/record/figures.md:7: 2026-11-24.md is too new to lack its commit"
        )

    def test_a_record_that_is_missing(self):
        (self.root / "benches/record/2026-11-21.md").unlink()
        self.assert_errors("benches/record/2026-11-21.md: there is no such record")

    def test_rows_that_are_none(self):
        self.change("benches/record/figures.md", "| 1 | 0.0 |", "| first | 0.0 |")
        self.change("benches/record/figures.md", "| empty |", "| off |")
        errors, _ = figures.check(self.root)
        self.assertIn("benches/record/figures.md:9: this row is no figure", errors)
        self.assertIn("benches/record/figures.md:11: off has two rows", errors)


class Numbers(unittest.TestCase):
    def test_forms(self):
        for number, form, text in (
            ("16.455", ("0.0", "1"), "16.5"),
            ("12.5", ("0", "1"), "13"),
            ("-0.2", ("0", "1"), "0"),
            ("− 1.25", ("0.0", "1"), "-1.3"),
            ("+4.6", ("0.0", "1"), "4.6"),
            ("553.5", ("0", "10"), "55"),
        ):
            self.assertEqual(figures.show(number, form), text)

    def test_signs_and_ranges(self):
        found = [match[0] for match in figures.NUMBER.finditer("- 5, -0.2, 3–4, + 7, p99, 0.20")]
        self.assertEqual(found, ["5", "-0.2", "3", "4", "+ 7", "0.20"])


if __name__ == "__main__":
    unittest.main()
