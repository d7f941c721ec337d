import pathlib
import subprocess
import sys
import tempfile
import unittest

PAGE = """# Page

```sh
mkdir -p work && cd work
```

Put this into `src/name.txt`.
It is a line, `here`:

```rust
from the page
```

Nobody runs what is no command:

```bash
exit 3
```

```sh
cat src/name.txt
test -f "$VOR/README.md"
```

The command exits with 5:

```sh
(exit 5)
```
"""


def follow(page):
    """Follow a page and return the exit code, the output, and the files that it left."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder)
        (path / "page.md").write_text(page, "utf-8")
        program = pathlib.Path(__file__).with_name("follow.py")
        command = [sys.executable, str(program), str(path / "page.md"), str(path / "here")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        made = {str(file.relative_to(path)) for file in path.rglob("*.txt")}
        return done.returncode, done.stdout, made


class Follow(unittest.TestCase):
    def test_files_are_written_and_commands_run_in_one_shell(self):
        code, output, made = follow(PAGE)
        self.assertEqual((code, made), (0, {"here/work/src/name.txt"}), output)
        self.assertIn("\nfrom the page\n", output)
        self.assertIn("page.md: done after 0.0 minutes", output)

    def test_a_command_that_fails_ends_it(self):
        code, output, _ = follow(PAGE.replace("cat src/", "cat elsewhere/"))
        self.assertEqual(code, 1)
        self.assertIn("FAILED with 1", output)
        self.assertNotIn("(exit 5)", output)

    def test_a_command_must_exit_as_the_page_says(self):
        for wrong in ("(exit 0)", "(exit 4)"):
            code, output, _ = follow(PAGE.replace("(exit 5)", wrong))
            self.assertEqual(code, 1, output)


if __name__ == "__main__":
    unittest.main()
