"""Tables in NumPy, Polars, pandas and PyArrow, by value. Missing packages are skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from recorded import environment, record

import vor


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> vor.Capture:
    program = """
        import threading
        @vor.profile(args=True)
        def f(n, text="größe"): return n and f(n - 1)
        for step in range(5):
            threading.Thread(target=f, args=(3,), name="other").start()
            f(step)
            with vor.scope("plain"): pass
            vor.record_metric("loss", step / 3)
            vor.frame_mark()
        f(1)
    """
    return vor.read(record(tmp_path_factory.mktemp("arrays"), program).capture.path)


def tables(capture: vor.Capture) -> list[vor.Table]:
    whole = [
        capture.spans,
        capture.frames,
        capture.metrics,
        capture.messages,
        capture.tasks,
        capture.stats(),
    ]
    return [
        *whole,
        capture.spans[3:9],
        capture[1:3].spans,
        capture[2:2].spans,
        capture[1:3].metrics,
    ]


def expected(table: vor.Table) -> list[dict[str, Any]]:
    return [table[at] for at in range(len(table))]


def test_numpy(capture: vor.Capture) -> None:
    numpy = pytest.importorskip("numpy")
    for table in tables(capture):
        arrays = table.to_numpy()
        for name, array in arrays.items():
            column = table[name]
            assert isinstance(array, numpy.ndarray) and array.shape == (len(table),)
            missing = {"frame": -1, "line": 0}.get(name)
            assert array.tolist() == [
                missing if value is None else value for value in column.to_list()
            ]
            assert (
                array.tolist()
                == numpy.array(column).tolist()
                == numpy.asarray(column, dtype=object).tolist()
            )
            if column.kind not in ("text", "map"):
                assert array.dtype == column.kind and not array.flags.writeable
                if len(table):
                    address = numpy.asarray(column).__array_interface__["data"][0]
                    assert address == array.__array_interface__["data"][0], "no copy"
            else:
                assert array.dtype == object
                with pytest.raises(ValueError, match="without a copy"):
                    numpy.asarray(column, copy=False)
    assert numpy.asarray(capture.spans["dur_ns"], dtype="float32").dtype == "float32"
    # An array outlives its capture.
    array = numpy.asarray(vor.read(capture.path).spans["start_ns"])
    assert array.tolist() == capture.spans["start_ns"].to_list()


def test_polars(capture: vor.Capture) -> None:
    polars = pytest.importorskip("polars")
    for table in tables(capture):
        frame = table.to_polars()
        assert tuple(frame.columns) == table.columns
        assert frame.drop("args", strict=False).to_dicts() == [
            {name: value for name, value in row.items() if name != "args"}
            for row in expected(table)
        ]
    spans = capture.to_polars()
    assert [
        dict(pairs.items() if isinstance(pairs, dict) else ((p["key"], p["value"]) for p in pairs))
        if pairs is not None
        else None
        for pairs in spans["args"].to_list()
    ] == capture.spans["args"].to_list()
    sums = spans.group_by("name").agg(polars.col("self_ns").sum()).rows()
    assert dict(sums) == {row["name"]: row["self_ns"] for row in expected(capture.stats())}


# `ALIKE` has one thread, whose scopes have neither places nor arguments. `UNLIKE` has two threads
# with both. Only the first has columns of one value.
ALIKE = """
    block = vor.Scope("block")
    for step in range(1000):
        for _ in range(80):
            with block: pass
        vor.frame_mark()
"""
UNLIKE = """
    import threading
    @vor.profile(args=True)
    def f(n): return n
    def work():
        for n in range(40_000): f(n)
    thread = threading.Thread(target=work, name="other")
    thread.start()
    work()
    thread.join()
"""


@pytest.mark.parametrize(
    "program, one_value", [(ALIKE, {"thread", "tid", "file", "line", "args"}), (UNLIKE, set())]
)
def test_polars_of_many_rows(tmp_path: Path, program: str, one_value: set[str]) -> None:
    polars = pytest.importorskip("polars")
    spans = vor.read(record(tmp_path, program).capture.path).spans
    varying, constant = spans._apart()
    assert (
        set(constant.columns) == one_value
        and set(varying.columns) == set(spans.columns) - one_value
    )
    for table in (spans, spans[70:70_000]):
        frame, as_it_is = table.to_polars(), polars.DataFrame(table)
        assert frame.schema == as_it_is.schema and frame.equals(as_it_is)
        for name in one_value:
            assert frame[name].n_unique() == 1 and frame[name].len() == len(table)
        assert frame.filter(polars.col("thread") == "MainThread").height == table[
            "thread"
        ].to_list().count("MainThread")
        assert frame[100:200].equals(as_it_is[100:200]) and frame.sort("start_ns").equals(
            as_it_is.sort("start_ns")
        )
    assert len(spans) == 80_000


def test_pyarrow(capture: vor.Capture) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for table in tables(capture):
        arrow = table.to_arrow()
        arrow.validate(full=True)
        assert arrow.to_pydict().keys() == set(table.columns)
        rows = arrow.to_pylist(maps_as_pydicts="strict")
        assert rows == expected(table)
        assert pyarrow.schema(table) == arrow.schema
        batch = pyarrow.record_batch(table)
        batch.validate(full=True)
        assert batch.to_pylist(maps_as_pydicts="strict") == rows
        for name in table.columns:
            column = pyarrow.array(table[name])
            column.validate(full=True)
            assert column.equals(arrow[name].combine_chunks()) or not len(table)
            assert pyarrow.field(table[name]).name == name
            assert pyarrow.array(table[name][1:]).equals(column[1:])


def test_pandas(capture: vor.Capture) -> None:
    pandas = pytest.importorskip("pandas")
    for table in tables(capture):
        frame = table.to_pandas()
        assert tuple(frame.columns) == table.columns and len(frame) == len(table)
        for name in table.columns:
            values = [
                None if not isinstance(value, dict) and pandas.isna(value) else value
                for value in frame[name].tolist()
            ]
            assert values == table[name].to_list(), name
    spans = capture.to_pandas()
    assert spans["name"].dtype == "category" and str(spans["frame"].dtype) == "Int64"
    sums: Any = spans.groupby("name", observed=True)["self_ns"].sum()
    assert dict(sums) == {row["name"]: row["self_ns"] for row in expected(capture.stats())}


def test_missing_parts_are_named(capture: vor.Capture) -> None:
    for name, convert in (
        ("polars", "to_polars"),
        ("pandas", "to_pandas"),
        ("pyarrow", "to_arrow"),
    ):
        program = f"""
import sys
sys.modules[{name!r}] = None
import vor
try:
    vor.read({str(capture.path)!r}).spans.{convert}()
except ModuleNotFoundError as error:
    assert {name!r} in str(error), error
else:
    raise AssertionError
libraries = ("numpy", "polars", "pandas", "pyarrow", "torch")
assert not [name for name in libraries if sys.modules.get(name)]
"""
        done = subprocess.run(
            [sys.executable, "-c", program],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
