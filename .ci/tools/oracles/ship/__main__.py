"""python3 -m ship VOR FLEET FOLDER [--spark]: ships a fleet to an S3 server that fails, and judges
the result.

VOR is the command, FLEET what the example `fleet` writes, FOLDER is empty. `vor ship` is killed at
random moments. Then each object is compared with its segment, and DuckDB, with --spark also Spark,
reads the tables where they lie. Then the fleet goes to Google's storage in the same way, and to
Azure's if the variable AZURITE has the path of the emulator. Ends with status 3 if DuckDB could not
read.
"""
import logging
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

from . import judge, storages
from .proxy import Proxy
from .shipping import Shipping

BUCKET, PREFIX = "oracle", "fleet/eu"
TARGET = f"s3://{BUCKET}/{PREFIX}"
SECRET = "not-to-be-printed"
SEED = 20261127
LARGE_BYTES = 20_000_000


def server():
    """Starts moto's S3 server in this process, and returns it with a client."""
    import boto3
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    host, port = moto.get_host_and_port()
    client = boto3.client(
        "s3", endpoint_url=f"http://{host}:{port}", region_name="us-east-1",
        aws_access_key_id="oracle", aws_secret_access_key=SECRET)
    client.create_bucket(Bucket=BUCKET)
    return moto, f"{host}:{port}", client


def all_objects(client):
    objects = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET):
        for entry in page.get("Contents", []):
            got = client.get_object(Bucket=BUCKET, Key=entry["Key"])
            objects[entry["Key"]] = got["Body"].read()
    return objects


def duckdb_counts(address):
    """Returns the spans of each host and scope, from the tables in the storage."""
    import duckdb
    import duckdb_extension_httpfs

    folder = pathlib.Path(duckdb_extension_httpfs.__file__).parent
    (extension,) = folder.rglob("httpfs.duckdb_extension")
    connection = duckdb.connect()
    connection.execute(f"LOAD '{extension}'")
    connection.execute(
        f"CREATE SECRET (TYPE s3, KEY_ID 'oracle', SECRET '{SECRET}', "
        f"ENDPOINT '{address}', URL_STYLE 'path', USE_SSL false)")
    rows = connection.execute(
        f"SELECT host, name, count(*) FROM read_parquet('{TARGET}/spans/**/*.parquet', "
        f"hive_partitioning = true) GROUP BY ALL").fetchall()
    return {(host, name): count for host, name, count in rows}


def local_counts(objects, folder):
    """The same from a copy of the tables."""
    import duckdb

    for name, content in objects.items():
        if "/spans/" in name:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    rows = duckdb.sql(
        f"SELECT host, name, count(*) FROM read_parquet('{folder}/**/*.parquet', "
        f"hive_partitioning = true) GROUP BY ALL").fetchall()
    return {(host, name): count for host, name, count in rows}


def versions(fleet):
    return sorted(path.name for path in (fleet / "captures").iterdir())


def segments_of(fleet):
    """Returns the segments of a fleet by host."""
    segments = {}
    for path in fleet.glob("captures/*/*.vor"):
        segments.setdefault(path.name.rsplit("-", 1)[0], []).append(path)
    return segments


def ship_to(storage, vor, fleet, folder):
    """Ships the captures of the fleet to another storage that fails, and judges the objects."""
    proxy = Proxy(storage.address, SEED, storage.answers)
    shipping = Shipping(vor, storage.env(proxy.address), storage.secret, storage.target, SEED)
    try:
        for version in versions(fleet):
            copy = folder / version
            shutil.copytree(fleet / "captures" / version, copy)
            shipping.once(copy, "--program-version", version, kills=4)
        found = judge.judge_objects(storage.objects(), segments_of(fleet), set(), PREFIX)
    finally:
        storage.stop()
    print(f"{storage.name}: {shipping.kills} kills, {proxy.counts}; {found}")


def ship_all(vor, fleet, folder, proxy):
    """Ships the captures of the fleet and a damaged one. Returns them by host, and the damaged."""
    env = {"AWS_ACCESS_KEY_ID": "oracle", "AWS_SECRET_ACCESS_KEY": SECRET,
           "AWS_ENDPOINT": proxy.address, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    shipping = Shipping(vor, env, SECRET, TARGET, SEED)
    segments, damaged = segments_of(fleet), set()
    for version in versions(fleet):
        source = fleet / "captures" / version
        options = ["--program-version", version]
        if version == "2.4.0":
            copy = folder / version
            shutil.copytree(source, copy)
            print(f"{version}, killed: {shipping.once(copy, *options, kills=10)}")
        else:
            print(f"{version}, followed: {shipping.follow(source, folder / version, *options)}")
    # Too large for one request, and no capture. Its recorder ended an hour ago.
    large = folder / "large"
    large.mkdir()
    path = large / "large-1.vor"
    path.write_bytes(random.Random(SEED).randbytes(LARGE_BYTES))
    before = time.time() - 3600
    os.utime(path, (before, before))
    segments["web-large"], damaged = [path], {path}
    # 3 by the run that shipped it, which may be one that was to be killed.
    line = shipping.once(large, "--host", "web-large", kills=6, codes=(0, 3))
    print(f"large and damaged, killed: {line}")
    judge.expect(shipping.kills > 3, f"only {shipping.kills} runs were killed")
    counts = proxy.counts
    print(f"{shipping.kills} kills; requests by fault: {counts}")
    for fault in ["busy", "cut", "lost"]:
        judge.expect(counts.get(fault), f"no request had the fault `{fault}`")
    return segments, damaged


def ask_the_fleet(fleet, address, engines):
    """Runs the questions of the example against the storage."""
    env = os.environ | {
        "AWS_ACCESS_KEY_ID": "oracle", "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_ENDPOINT": f"http://{address}"}
    command = [sys.executable, "examples/fleet/ask.py", fleet, "--data", TARGET, *engines]
    result = subprocess.run(command, env=env, timeout=400)
    judge.expect(result.returncode == 0, "the answers from the storage are wrong")


def other_storages():
    yield storages.Google
    if os.environ.get("AZURITE"):
        yield storages.Azure


def main(argv):
    engines = ["--only", "duckdb"]
    if argv[3:] == ["--spark"]:
        argv, engines = argv[:3], []
    if len(argv) != 3:
        sys.exit(__doc__)
    vor, fleet, folder = (pathlib.Path(arg).absolute() for arg in argv)
    moto, address, client = server()
    try:
        segments, damaged = ship_all(vor, fleet, folder, Proxy(address, SEED))
        objects = all_objects(client)
        print(judge.judge_objects(objects, segments, damaged, PREFIX))
        expected = judge.stats_counts(vor, segments, damaged)
        try:
            import duckdb_extension_httpfs  # noqa: F401
        except ImportError:
            found = local_counts(objects, folder / "local")
            print(judge.judge_counts(found, expected))
            sys.exit(3)
        print("in place:", judge.judge_counts(duckdb_counts(address), expected))
        ask_the_fleet(fleet, address, engines)
        for make in other_storages():
            folder_of = folder / make.__name__
            folder_of.mkdir()
            ship_to(make(folder_of, PREFIX), vor, fleet, folder_of)
    except judge.Mismatch as error:
        sys.exit(str(error))
    finally:
        moto.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
