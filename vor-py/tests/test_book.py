"""The code in Python of README.md and of the book compiles, and runs if it may."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A block of code, with the word `no_run` if it needs what a test does not have.
BLOCK = re.compile(r"^```python(,no_run)?\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# Libraries that readers of tables have, and a test may lack.
OPTIONAL = ("numpy", "pandas", "polars", "pyarrow")


def documents() -> list[Path]:
    """Return the documents that have code in Python."""
    own = [ROOT / "README.md", ROOT / "vor-py" / "README.md"]
    paths = [*own, *sorted((ROOT / "docs").glob("**/*.md"))]
    return [path for path in paths if path.is_file() and BLOCK.search(path.read_text("utf-8"))]


def test_the_documents_are_found_in_a_checkout() -> None:
    if not (ROOT / "README.md").is_file():
        pytest.skip("the tests run outside of a checkout")
    names = {path.relative_to(ROOT).as_posix() for path in documents()}
    assert {"README.md", "docs/python.md", "docs/tutorials/training.md"} <= names


@pytest.mark.parametrize("path", documents(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_code_of_a_document_compiles_and_runs(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    runs = []
    for block in BLOCK.finditer(text):
        # Lines of the document, for messages.
        source = "\n" * text.count("\n", 0, block.start(2)) + block[2]
        compile(source, str(path), "exec", dont_inherit=True)
        if not block[1]:
            runs.append(block[2])
    if not runs:
        return
    # The blocks of a document continue each other.
    script = tmp_path / "script.py"
    script.write_text("\n".join(runs), "utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOR_")}
    done = subprocess.run(
        [sys.executable, script], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    missing = re.search(r"ModuleNotFoundError: (?:No module named ')?(\w+)", done.stderr)
    if missing and missing[1] in OPTIONAL:
        pytest.skip(f"{path.name} needs {missing[1]}")
    assert done.returncode == 0, done.stderr
