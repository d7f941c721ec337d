"""Rules that say which scopes are recorded, while the program runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from recorded import Capture, needs_recorder, start

pytestmark = needs_recorder


def test_rules_hold_for_blocks_and_functions_and_change(tmp_path: Path) -> None:
    program = """
        import vor
        vor.enable(capture="run.vor", scopes="off=off")
        assert vor.scope_rules() == "off=off"
        @vor.profile
        def f(): pass
        def work():
            for name in ("block", "off"):
                with vor.scope(name, n=1):
                    pass
            f()
        work()
        vor.set_scopes("block=count, f=1/4000000000, name:off=record")
        assert vor.scope_rules() == "block=count,f=1/4000000000,name:off=record"
        work()
        try:
            vor.set_scopes("block=cuont")
        except ValueError as error:
            assert "`cuont` is not a mode" in str(error), error
        else:
            raise AssertionError
        work()
        rows = {}
        for row in vor.scopes():
            counts = rows.setdefault(row["name"], [0, 0, 0])
            for i, what in enumerate(("recorded", "counted", "skipped")):
                counts[i] += row[what]
        assert rows == {"block": [1, 2, 0], "off": [2, 0, 0], "f": [1, 0, 2]}, rows
        modes = {row["name"]: row["mode"] for row in vor.scopes()}
        assert modes == {"block": "count", "off": "record", "f": "1/4000000000"}, modes
        vor.set_scopes("")
        work()
        """
    run = start(tmp_path, program)
    assert run.done.returncode == 0, run.done.stderr
    assert Capture(tmp_path / "run.vor").counts == {"block": 2, "off": 3, "f": 2}


def test_a_variable_sets_the_rules_and_a_bad_one_is_one_line(tmp_path: Path) -> None:
    program = """
        import vor
        for name in ("a", "b"):
            with vor.scope(name):
                pass
        print(vor.scope_rules())
        """
    (tmp_path / "good").mkdir()
    run = start(
        tmp_path / "good",
        program,
        VOR_RECORD="a.vor",
        VOR_RECORD_SPANS="1",
        VOR_SCOPES="a=off",
    )
    assert run.done.returncode == 0 and run.done.stdout.strip() == "a=off", run.done
    assert Capture(tmp_path / "good" / "a.vor").counts == {"b": 1}
    (tmp_path / "bad").mkdir()
    run = start(
        tmp_path / "bad",
        program,
        VOR_RECORD="a.vor",
        VOR_RECORD_SPANS="1",
        VOR_SCOPES="a=of",
    )
    assert run.done.stdout.strip() == ""
    lines = [line for line in run.done.stderr.splitlines() if "VOR_SCOPES" in line]
    assert len(lines) == 1 and "`of` is not a mode" in lines[0], run.done.stderr
    assert Capture(tmp_path / "bad" / "a.vor").counts == {"a": 1, "b": 1}


@pytest.mark.parametrize(
    "keywords, error",
    [
        ('scopes="a"', "ValueError: enable: scopes: scope rules: `a`: a rule is"),
        ("scopes=1", "TypeError: enable: scopes: expected a str"),
        ("scope_budget=2", "ValueError: enable: scope_budget: expected a share"),
        ("scope_budget=True", "TypeError: enable: scope_budget: expected a share"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(
    tmp_path: Path, keywords: str, error: str
) -> None:
    run = start(tmp_path, f"import vor\nvor.enable({keywords})")
    assert run.done.returncode == 1
    assert error in run.done.stderr.splitlines()[-1], run.done.stderr
