import pathlib
import tempfile
import unittest

import book

README = """# Title

[a page](docs/page.md), [its part](docs/page.md#a-part--two), [here](#title), [out](https://x.y/z).
![a picture](docs/panel.png) and `[no link](nowhere.md)`.

```sh
[no link](nowhere.md)
```
"""
PAGE = """# Page

## A `part` & two

[up](../README.md#title), [twin](#twin-1), [a folder](../docs), [out](../more/one.md)

## Twin

## Twin

```rust,no_run
# not_a_heading();
```
"""
FILES = {
    "README.md": README,
    "docs/page.md": PAGE,
    "docs/deep/other.md": "# Other\n\n[page](../page.md)\n",
    "docs/panel.png": "",
    "more/one.md": "# One\n\n[two](two.md)\n",
    "more/two.md": "# Two\n",
    "docs/book.toml": "",
    book.VARIABLES: "# Variables\n\n| `VOR_A` | `VOR_B` |\n",
    book.SUMMARY: "# Summary\n\n- [Page](page.md)\n- [Other](deep/other.md)\n- [Later]()\n"
    "- [Variables](variables.md)\n",
    book.DOCTESTS: 'Page = "docs/page.md";\n',
    book.KNOWN: 'const KNOWN: &[&str] = &[\n    "VOR_A",\n    "VOR_B",\n];\n',
}


class Book(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name) / "repository"
        for name, text in FILES.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def change(self, name, before, after):
        self.assertIn(before, FILES[name])
        self.write(name, FILES[name].replace(before, after, 1))

    def assert_errors(self, *errors):
        self.assertEqual(book.check(self.root)[0], list(errors))

    def test_good_documents_have_no_errors(self):
        self.assertEqual(book.check(self.root), ([], 5))

    def test_a_link_to_no_file_is_an_error(self):
        self.change("README.md", "(docs/page.md)", "(docs/pages.md)")
        self.assert_errors("README.md:3: `docs/pages.md` leads nowhere")

    def test_a_link_out_of_the_repository_is_an_error(self):
        self.change("docs/deep/other.md", "../page.md", "../../../etc")
        (self.root.parent / "etc").mkdir()
        self.assert_errors("docs/deep/other.md:3: `../../../etc` leads nowhere")

    def test_a_picture_that_is_missing_is_an_error(self):
        (self.root / "docs/panel.png").unlink()
        self.assert_errors("README.md:4: `docs/panel.png` leads nowhere")

    def test_an_anchor_without_a_heading_is_an_error(self):
        self.change("README.md", "#a-part--two", "#a-part")
        self.assert_errors("README.md:3: `docs/page.md#a-part` has no such heading")
        self.write("README.md", README.replace("(#title)", "(#not_a_heading)"))
        self.assert_errors("README.md:3: `#not_a_heading` has no such heading")

    def test_headings_with_the_same_name_are_numbered(self):
        self.change("docs/page.md", "#twin-1", "#twin-2")
        self.assert_errors("docs/page.md:5: `#twin-2` has no such heading")

    def test_an_empty_link_is_allowed_in_the_summary_only(self):
        self.change("README.md", "(#title)", "()")
        self.assert_errors("README.md:3: `` leads nowhere")

    def test_a_long_readme_is_an_error(self):
        self.write("README.md", README + "\n" * (200 - len(README.splitlines())))
        self.assert_errors()
        self.write("README.md", README + "\n" * (201 - len(README.splitlines())))
        self.assert_errors("README.md: 201 lines, at most 200")

    def test_a_page_outside_the_summary_is_an_error(self):
        self.change(book.SUMMARY, "- [Other](deep/other.md)\n", "")
        self.assert_errors("docs/deep/other.md: docs/SUMMARY.md does not list it")

    def test_code_in_rust_without_a_doctest_is_an_error(self):
        self.write(book.DOCTESTS, "")
        self.assert_errors("docs/page.md: examples/src/book.rs does not test its code")

    def test_a_variable_that_is_not_in_the_table_is_an_error(self):
        self.change(book.VARIABLES, "`VOR_B`", "`VOR_BC`")
        self.assert_errors("docs/variables.md: VOR_B is missing")
        self.write(book.KNOWN, "")
        self.assert_errors(f"{book.KNOWN}: no list of variables")

    def test_the_staged_book_has_all_pages_that_it_links_to(self):
        folder = self.root.parent / "stage"
        book.stage(self.root, folder)
        self.assertEqual(
            (folder / "SUMMARY.md").read_text(),
            "# Summary\n\n[README](README.md)\n- [Page](docs/page.md)\n"
            "- [Other](docs/deep/other.md)\n- [Later]()\n- [Variables](docs/variables.md)\n\n# In the repository\n\n"
            "- [more/one.md](more/one.md)\n"
            "- [more/two.md](more/two.md)\n",
        )
        for name in ("book.toml", "docs/page.md", "docs/panel.png", "more/two.md", "README.md"):
            self.assertTrue((folder / name).is_file(), name)

    def test_a_rendered_link_to_no_page_is_an_error(self):
        self.write("built/a.html", '<a href="deep/b.html#x"></a><a href="https://x.y/z.html"></a>')
        errors = book.check_built(self.root / "built")
        self.assertEqual(errors, ["a.html: `deep/b.html` leads nowhere"])
        self.write("built/deep/b.html", '<a href="../a.html"></a>')
        self.assertEqual(book.check_built(self.root / "built"), [])


if __name__ == "__main__":
    unittest.main()
