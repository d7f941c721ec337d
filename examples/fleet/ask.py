#!/usr/bin/env python3
"""Queries the data set of the fleet in DuckDB and in Spark, and compares the answers with each
other and with those of the library.

    ask.py <folder of the fleet> [--data s3://BUCKET/PREFIX] [--only duckdb]

With --data, the tables are read where `vor ship` has put them. Both engines take the credentials
from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, and a server other than Amazon's from
AWS_ENDPOINT.

Ends with status 1 if two answers differ, and with 3 without Spark, after checking DuckDB's answers.
"""

import argparse
import csv
import importlib.util
import os
import pathlib
import sys
import time

HERE = pathlib.Path(__file__).parent
QUESTIONS = ["p99", "p99_sketches", "regressed"]
TABLES = ["spans", "metrics", "sketches"]

# The error of a sketch's percentile: half a bucket, which is at most 1/32 of its lowest value wide.
SKETCH_ERROR = 1 / 64


def question(name):
    return (HERE / f"{name}.sql").read_text()


def duckdb_answers(data):
    import duckdb

    print(f"duckdb {duckdb.__version__}")
    connection = duckdb.connect()
    if data.startswith("s3://"):
        open_s3(connection)
    # Names of Spark for functions of DuckDB, so that both run the same SQL.
    connection.execute("CREATE MACRO explode(list) AS unnest(list)")
    connection.execute("CREATE MACRO date_add(day, days) AS day + CAST(days AS INTEGER)")
    for table in TABLES:
        files = f"{data}/{table}/**/*.parquet"
        rows = f"read_parquet('{files}', hive_partitioning = true)"
        connection.execute(f"CREATE VIEW {table} AS SELECT * FROM {rows}")
    for name in QUESTIONS:
        yield name, connection.execute(question(name)).fetchall()


def open_s3(connection):
    """Lets DuckDB read s3://. Its extension is a download of DuckDB or a package of PyPI."""
    try:
        import duckdb_extension_httpfs

        folder = pathlib.Path(duckdb_extension_httpfs.__file__).parent
        (extension,) = folder.rglob("httpfs.duckdb_extension")
        connection.execute(f"LOAD '{extension}'")
    except ImportError:
        connection.execute("INSTALL httpfs; LOAD httpfs")
    options = ["TYPE s3"]
    for option, name in [("KEY_ID", "AWS_ACCESS_KEY_ID"), ("SECRET", "AWS_SECRET_ACCESS_KEY")]:
        options.append(f"{option} '{os.environ[name]}'")
    if endpoint := os.environ.get("AWS_ENDPOINT"):
        scheme, _, server = endpoint.partition("://")
        tls = str(scheme == "https").lower()
        options += [f"ENDPOINT '{server}'", "URL_STYLE 'path'", f"USE_SSL {tls}"]
    connection.execute(f"CREATE SECRET ({', '.join(options)})")


def jars(package, *names):
    """Returns the Java archives with these names, from a Python package if it is installed."""
    spec = importlib.util.find_spec(package)
    folders = spec.submodule_search_locations if spec else []
    folders = [pathlib.Path(folder, "jars") for folder in folders]
    return [jar for folder in folders for name in names for jar in folder.glob(f"{name}-*.jar")]


def spark_s3(builder):
    """Lets Spark read s3a:// with the connector of Hadoop: that of the package sagemaker_pyspark if
    it is installed, or a download from Maven in the version of Spark's Hadoop."""
    if connector := jars("sagemaker_pyspark", "hadoop-aws", "aws-java-sdk-bundle"):
        builder = builder.config("spark.jars", ",".join(map(str, connector)))
    else:
        (hadoop,) = jars("pyspark", "hadoop-client-api")
        version = hadoop.stem.rpartition("-")[2]
        builder = builder.config("spark.jars.packages", f"org.apache.hadoop:hadoop-aws:{version}")
    builder = builder.config(
        "spark.hadoop.fs.s3a.access.key", os.environ["AWS_ACCESS_KEY_ID"]
    ).config("spark.hadoop.fs.s3a.secret.key", os.environ["AWS_SECRET_ACCESS_KEY"])
    if endpoint := os.environ.get("AWS_ENDPOINT"):
        builder = builder.config("spark.hadoop.fs.s3a.endpoint", endpoint).config(
            "spark.hadoop.fs.s3a.path.style.access", "true"
        )
    return builder


def spark_session(data):
    # All traffic stays on this machine, and the executors need no host name that resolves.
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_LOCAL_HOSTNAME"] = "localhost"
    from pyspark.sql import SparkSession

    # Two executors in separate processes, as in a cluster.
    builder = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .appName("fleet")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # There are many small files; by default 32 of them would be a task.
        .config("spark.sql.files.openCostInBytes", "65536")
        .config("spark.driver.memory", "1g")
        .config("spark.executor.memory", "1g")
        .config("spark.sql.session.timeZone", "UTC")
    )
    if data.startswith("s3a://"):
        builder = spark_s3(builder)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def spark_answers(data):
    # Hadoop's name of the same storage.
    data = data.replace("s3://", "s3a://")
    session = spark_session(data)
    print(f"spark {session.version}, {session.sparkContext.master}")
    for table in TABLES:
        session.read.parquet(f"{data}/{table}").createOrReplaceTempView(table)
    for name in QUESTIONS:
        yield name, [tuple(row) for row in session.sql(question(name)).collect()]
    session.stop()


def gather(engine, answers):
    gathered = {}
    begin = time.monotonic()
    for name, rows in answers:
        print(f"{engine}: {name}: {len(rows)} rows, {time.monotonic() - begin:.1f} s")
        gathered[name] = rows
        begin = time.monotonic()
    return gathered


def check(condition, message):
    if not condition:
        sys.exit(f"ask.py: FAILED: {message}")


def compare_with_library(answers, expected):
    keys = ("host", "version", "name")
    numbers = ("count", "sum_ns", "self_sum_ns")
    exact, sketched = {}, {}
    for row in expected:
        key = tuple(row[column] for column in keys)
        sums = tuple(int(row[column]) for column in numbers)
        exact[key] = (*sums, int(row["exact_p99_ns"]))
        sketched[key] = (*sums, int(row["p99_ns"]))
    check(len(exact) > 0, "expected.tsv is empty")
    for name, values in [("p99", exact), ("p99_sketches", sketched)]:
        found = {row[:3]: row[3:] for row in answers[name]}
        check(found.keys() == values.keys(), f"{name}: the scopes differ from the library's")
        for key, value in values.items():
            check(found[key] == value, f"{name}: {key}: {found[key]}, in the library {value}")
    worst = max(abs(sketched[key][3] - exact[key][3]) / exact[key][3] for key in exact)
    check(worst <= SKETCH_ERROR, f"a sketch is {worst:.2%} off")
    print(f"p99 of {len(exact)} scopes is the library's; sketches are off by {worst:.2%} at most")
    regressed = [(row[0], row[1]) for row in answers["regressed"]]
    check(regressed == [("2.5.0", "decode")], f"not `decode` of 2.5.0 regressed, but {regressed}")
    ratio = answers["regressed"][0][-1]
    check(1.4 < ratio < 1.6, f"the ratio is {ratio}, not about 1.5")
    print(f"since yesterday: decode of 2.5.0 takes {ratio:.3f} times as long")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--data")
    parser.add_argument("--only", choices=["duckdb"])
    arguments = parser.parse_args()
    data = arguments.data or str(arguments.folder / "data")
    with open(arguments.folder / "expected.tsv", newline="") as file:
        expected = list(csv.DictReader(file, delimiter="\t"))

    duckdb = gather("duckdb", duckdb_answers(data))
    compare_with_library(duckdb, expected)
    if arguments.only:
        return
    try:
        import pyspark  # noqa: F401
    except ImportError:
        print("ask.py: pyspark is missing: only DuckDB's answers are checked", file=sys.stderr)
        sys.exit(3)
    spark = gather("spark", spark_answers(data))
    for name in QUESTIONS:
        check(spark[name] == duckdb[name], f"{name}: Spark and DuckDB differ")
    print("Spark and DuckDB give the same answers, to the last bit")


if __name__ == "__main__":
    main()
