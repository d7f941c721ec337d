"""A build that only reads captures says what it lacks. It also passes all tests of reading."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recorded import OTHER, environment, record

import vor
from vor import _core

if _core.RECORDS and OTHER is None:
    pytest.skip("this build records", allow_module_level=True)

REASON = (
    "this build of vor only reads captures; "
    "install vor with its recorder: `pip install ./vor-py` in the repository of vor"
)
READS = {"Capture", "CaptureError", "Column", "Frame", "Table", "merge", "read", "view"}
RECORDS = (
    "Scope",
    "calibrate",
    "disable",
    "enable",
    "frame_mark",
    "is_enabled",
    "load_ipython_extension",
    "profile",
    "record_metric",
    "scope",
    "steps",
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = """
        for step in range(3):
            with vor.scope("step", number=step): pass
            vor.frame_mark()
    """
    return record(tmp_path_factory.mktemp("reading"), program).capture.path


def run(folder: Path, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """Run this interpreter, and return its exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_the_module_has_only_the_names_that_read() -> None:
    assert not _core.RECORDS
    assert {name for name in dir(_core) if not name.startswith("_")} == {
        "CaptureError",
        "Column",
        "RECORDS",
        "Reading",
        "Table",
        "contents",
    }
    assert set(vor.__all__) == READS
    assert {name for name in dir(vor) if not name.startswith("_")} == {*READS, "annotations"}


@pytest.mark.parametrize("name", RECORDS)
def test_a_name_that_records_is_reported_missing(name: str) -> None:
    with pytest.raises(ImportError) as raised:
        getattr(vor, name)
    assert str(raised.value) == f"vor.{name}: {REASON}"
    with pytest.raises(ImportError) as raised:
        exec(f"from vor import {name}")
    assert str(raised.value) == f"vor.{name}: {REASON}"


def test_other_names_are_missing_as_in_any_module() -> None:
    with pytest.raises(AttributeError, match="^module 'vor' has no attribute 'no_such_name'$"):
        getattr(vor, "no_such_name")
    assert not hasattr(vor, "__wrapped__")
    names: dict[str, object] = {}
    exec("from vor import *", names)
    assert names.keys() - {"__builtins__"} == READS


@pytest.mark.parametrize("module", ["_recording", "_run"])
def test_modules_that_record_cannot_be_imported(module: str) -> None:
    with pytest.raises(ImportError, match="^this build of vor only reads"):
        importlib.import_module(f"vor.{module}")


def test_a_program_that_records_ends_with_the_reason(tmp_path: Path) -> None:
    code, _, stderr = run(tmp_path, "-c", "import vor\n@vor.profile\ndef f(): pass")
    assert code == 1
    assert stderr.splitlines()[-1] == f"ImportError: vor.profile: {REASON}"


def test_the_command_is_reported_missing(path: Path) -> None:
    for arguments in ([], ["--version"], ["stats", path.name], ["run", "program.py"]):
        # The variable adds no line: a command never records.
        done = run(path.parent, "-m", "vor", *arguments, VOR_RECORD="by-command.vor")
        name = " ".join(["vor", *arguments[:1]])
        assert done == (2, "", f"{name}: {REASON}\n")
    assert not path.with_name("by-command.vor").exists()


def test_exports_are_reported_missing(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ImportError) as raised:
        vor.read(path).export(tmp_path / "run.csv")
    assert str(raised.value) == f"vor export: {REASON}"
    with pytest.raises(ImportError) as raised:
        vor.merge([path, path], tmp_path / "all.pftrace")
    assert str(raised.value) == f"vor merge: {REASON}"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("variable", ["VOR_RECORD", "VOR_COUNT_SCOPES", "VOR_WATCHDOG_MS"])
def test_a_variable_that_would_record_is_reported(
    path: Path, tmp_path: Path, variable: str
) -> None:
    program = f"import vor\nprint(len(vor.read({os.fspath(path)!r})))"
    done = run(tmp_path, "-c", program, **{variable: "1"})
    assert done == (0, "3\n", f"vor: {variable}: {REASON}\n")
    assert list(tmp_path.iterdir()) == []


def test_a_child_of_a_recorded_program_runs(tmp_path: Path) -> None:
    assert vor.__file__ is not None
    package = Path(vor.__file__).parent
    places = os.pathsep.join([str(package / "_child"), str(package.parent)])
    done = run(tmp_path, "-c", "print('done')", PYTHONPATH=places, VOR_PYTHON_RUN="{}")
    expected = f"vor: {sys.executable} is not recorded: {REASON}\n"
    assert done == (0, "done\n", expected)
