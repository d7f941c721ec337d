"""The checks of the tables in a folder. Each returns a line of the report."""
from . import engines, rows

HOST = "the host"
# Spans and self time per name.
SUMS = "SELECT name, count(*), sum(self_ns) FROM read_parquet('{}') {} GROUP BY name ORDER BY name"


class Mismatch(Exception):
    """A table differs from the capture."""


def check_rows(folder):
    """Each engine reads the rows of the capture, from single files and from folders."""
    spans = rows.sorted_rows(rows.read_lines(folder / "spans.jsonl"))
    metrics = rows.sorted_rows(
        map(rows.recorded_metric, rows.read_lines(folder / "metrics.jsonl"))
    )
    for table, columns, shape, expected in [
        ("spans", rows.SPANS, rows.span, spans),
        ("metrics", rows.METRICS, rows.metric, metrics),
    ]:
        file, folders = folder / f"{table}.parquet", folder / "data" / table
        for engine, read, path in [
            ("pyarrow", engines.pyarrow_file, file),
            ("duckdb", engines.duckdb_rows, file),
            ("pyarrow, in folders", engines.pyarrow_folders, folders),
            ("duckdb, in folders", engines.duckdb_rows, folders),
        ]:
            found = rows.sorted_rows(map(shape, read(path, columns)))
            yield _compare(f"{table} by {engine}", found, expected)


def _compare(what, found, expected):
    if found != expected:
        different = [pair for pair in zip(found, expected) if pair[0] != pair[1]][:3]
        raise Mismatch(f"{what}: {len(found)} rows for {len(expected)}; the first: {different}")
    return f"{what}: {len(found)} rows are those of the capture"


def check_host(folder):
    """The host is the same as a column of a file and as a folder."""
    for files in "spans.parquet", "data/spans/**/*.parquet":
        hosts = engines.query(f"SELECT DISTINCT host FROM read_parquet('{folder}/{files}')")
        if hosts != [(HOST,)]:
            raise Mismatch(f"{files}: the hosts are {hosts}, not `{HOST}`")
    yield f"host: `{HOST}` in files and in folders"


def check_pruning(folder):
    """A WHERE clause that skips row groups by their minima and maxima loses no row."""
    path = folder / "spans.parquet"
    sums = engines.query(SUMS.format(path, ""))
    for name, *numbers in sums:
        quoted = name.replace("'", "''")
        found = engines.query(SUMS.format(path, f"WHERE name = '{quoted}'"))
        if found != [(name, *numbers)]:
            raise Mismatch(f"WHERE name = '{quoted}': {found}, of all rows {numbers}")
    yield f"row groups: {len(sums)} names by WHERE are those of all rows"


def check_sketches(folder):
    """The sums and the buckets of the sketches count the spans."""
    sums = engines.query(SUMS.format(folder / "spans.parquet", ""))
    sketches = f"read_parquet('{folder}/sketches.parquet')"
    columns = "name, sum(count), sum(self_sum_ns)"
    found = engines.query(f"SELECT {columns} FROM {sketches} GROUP BY name ORDER BY name")
    buckets = engines.query(
        f"SELECT name, sum(b.count) FROM (SELECT name, unnest(buckets) AS b FROM {sketches})"
        " GROUP BY name ORDER BY name"
    )
    if found != sums or buckets != [row[:2] for row in sums]:
        raise Mismatch(f"sketches: {found} and {buckets}, of all spans {sums}")
    yield f"sketches: the counts of {len(found)} scopes are those of the spans"


ALL = check_rows, check_host, check_pruning, check_sketches
