"""The engines that read the tables: pyarrow and DuckDB."""
import duckdb
import pyarrow.dataset
import pyarrow.parquet


def pyarrow_file(path, columns):
    return pyarrow.parquet.read_table(path, columns=list(columns)).to_pylist()


def pyarrow_folders(path, columns):
    dataset = pyarrow.dataset.dataset(path, partitioning="hive")
    return dataset.to_table(columns=list(columns)).to_pylist()


def duckdb_rows(path, columns):
    """Reads a file, or all files below a folder."""
    files = f"{path}/**/*.parquet" if path.is_dir() else path
    rows = query(f"SELECT {', '.join(columns)} FROM read_parquet('{files}')")
    return [dict(zip(columns, row)) for row in rows]


def query(sql):
    return duckdb.sql(sql).fetchall()
