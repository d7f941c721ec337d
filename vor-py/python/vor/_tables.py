"""Tables as arrays, DataFrames, text and HTML. Other libraries are imported at first use."""

from __future__ import annotations

import html as _html
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vor._core import Column, Table

if TYPE_CHECKING:
    import numpy
    import pandas
    import polars
    import pyarrow

# The maximum number of rows that are shown.
_SHOWN = 10

# From this many rows on, a column with a single value is passed to Polars as one row.
_MANY = 1 << 16


def items(of: Column | Table) -> Iterator[Any]:
    """Iterate over the values of a column or the rows of a table."""
    return (of[at] for at in range(len(of)))


def array(column: Column, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray[Any, Any]:
    """Return a column as a NumPy array. Strings and maps become objects."""
    import numpy

    try:
        found = numpy.asarray(memoryview(column))
    except BufferError:
        if copy is False:
            raise ValueError(
                f"{column.name}: strings cannot become an array without a copy"
            ) from None
        found = _objects(column)
        copy = None
    if dtype is not None and found.dtype != dtype:
        if copy is False:
            raise ValueError(f"{column.name}: {found.dtype} cannot become {dtype} without a copy")
        return found.astype(dtype)
    return found.copy() if copy else found


def _objects(column: Column) -> numpy.ndarray[Any, Any]:
    import numpy

    try:
        values = column.values
    except TypeError:
        found = numpy.empty(len(column), dtype=object)
        found[:] = column.to_list()
        return found
    texts = numpy.empty(len(values), dtype=object)
    texts[:] = values
    return texts[numpy.asarray(memoryview(column.codes))]


def to_numpy(table: Table) -> dict[str, numpy.ndarray[Any, Any]]:
    """Return the columns by name as NumPy arrays."""
    return {name: array(table[name]) for name in table.columns}


def to_polars(table: Table) -> polars.DataFrame:
    """Return the table as a Polars DataFrame."""
    library = _imported("polars")
    varying, constant = table._apart() if len(table) >= _MANY else (table, None)
    found: polars.DataFrame = library.DataFrame(varying)
    if constant is not None and constant.columns:
        # One value for all rows. Polars stores it once.
        row = library.DataFrame(constant)
        found = found.with_columns(
            library.lit(row[name]).first().alias(name) for name in row.columns
        ).select(table.columns)
    return found


def to_arrow(table: Table) -> pyarrow.Table:
    """Return the table as a PyArrow Table."""
    library = _imported("pyarrow")
    found: pyarrow.Table = library.table(table)
    return found


def to_pandas(table: Table) -> pandas.DataFrame:
    """Return the table as a pandas DataFrame.

    Columns of repeated strings become categories. Integers with missing values become
    `IntegerArray`s.
    """
    library = _imported("pandas")
    columns: dict[str, Any] = {}
    for name in table.columns:
        column = table[name]
        if column.is_coded:
            codes = array(column.codes)
            columns[name] = library.Categorical.from_codes(codes, categories=column.values)
        elif column.null_count and column.kind != "map":
            columns[name] = library.arrays.IntegerArray(
                array(column, copy=True), array(column.missing, dtype=bool)
            )
        else:
            columns[name] = array(column)
    found: pandas.DataFrame = library.DataFrame(columns, copy=False)
    return found


def _imported(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        raise ModuleNotFoundError(
            f"{name} is not installed: `pip install {name}`", name=name
        ) from None


def _rows(table: Table) -> Iterator[tuple[str, ...]]:
    for row in range(min(len(table), _SHOWN)):
        yield tuple(shown(name, value) for name, value in table[row].items())


def shown(name: str, value: object) -> str:
    """Format a value of a column."""
    if value is None:
        return ""
    if isinstance(value, dict):
        return ", ".join(f"{key}={text}" for key, text in value.items())
    if isinstance(value, float):
        return duration(value) if name.endswith("_ns") else f"{value:.6g}"
    if isinstance(value, int) and name.endswith("_ns") and name not in ("start_ns", "time_ns"):
        return duration(value)
    return str(value)


def duration(ns: float) -> str:
    """Format a duration in the unit that fits it, as the command does."""
    for unit, of in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(ns) >= of:
            return f"{ns / of:.4g} {unit}"
    return f"{ns:.4g} ns"


def text(table: Table) -> str:
    """Format the first rows of a table as text."""
    names = tuple(table.columns)
    rows = [names, *_rows(table)]
    widths = [min(max(len(row[at]) for row in rows), 40) for at in range(len(names))]
    lines = [
        "  ".join(cell[:width].ljust(width) for cell, width in zip(row, widths)).rstrip()
        for row in rows
    ]
    return "\n".join([f"{len(table)} rows", *lines, *(["…"] if len(table) > _SHOWN else [])])


def html(table: Table, caption: str | None = None) -> str:
    """Format the first rows of a table as HTML."""
    head = "".join(f"<th>{_html.escape(name)}</th>" for name in table.columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{_html.escape(cell)}</td>" for cell in row) + "</tr>"
        for row in _rows(table)
    )
    more = f"{len(table):,} rows" if caption is None else caption
    return (
        f"<table><caption>{_html.escape(more)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )
