"""What must be in the storage once all segments are shipped."""
import collections
import json
import pathlib
import re
import subprocess

TABLES = ["spans", "metrics", "sketches"]


class Mismatch(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Mismatch(f"ship: FAILED: {message}")


def judge_objects(objects, segments, damaged, prefix):
    """`objects` has the bytes of each object by its name, `segments` the paths of all segments by
    host, and `damaged` those without Parquet. Returns a line about them."""
    captures, tables = {}, collections.defaultdict(set)
    pattern = re.compile(
        rf"{prefix}/(captures|{'|'.join(TABLES)})/host=([^/]+)/date=([^/]+)/([^/]+)")
    for name, content in objects.items():
        match = pattern.fullmatch(name)
        expect(match, f"{name} has another form")
        part, host, _, file = match.groups()
        if part == "captures":
            expect((host, file) not in captures, f"{file} of {host} is there twice")
            captures[host, file] = content
        else:
            expect(content[:4] == b"PAR1" == content[-4:], f"{name} is no whole Parquet file")
            # `<segment>-<process>-<begin>.parquet`, and a number where a day returns.
            stem = re.sub(r"-\d+-\d{10,}(-\d+)?\.parquet$", "", file)
            tables[host, f"{stem}.vor"].add(part)
    expected = {(host, path.name): path for host, paths in segments.items() for path in paths}
    missing = expected.keys() - captures.keys()
    expect(not missing, f"no object of {sorted(missing)}")
    extra = captures.keys() - expected.keys()
    expect(not extra, f"objects of no segment: {sorted(extra)}")
    for key, path in expected.items():
        expect(captures[key] == pathlib.Path(path).read_bytes(), f"{key} differs from its segment")
        found = tables.pop(key, set())
        wanted = set() if path in damaged else set(TABLES)
        expect(found == wanted, f"{key} has the tables {sorted(found)}")
    expect(not tables, f"tables of no segment: {sorted(tables)}")
    return f"{len(captures)} captures are their segments, {len(objects)} objects and no other"


def stats_counts(vor, segments, damaged):
    """Returns the spans of each host and scope, as `vor stats` counts them."""
    counts = collections.Counter()
    for host, paths in segments.items():
        for path in paths:
            if path in damaged:
                continue
            command = [vor, "stats", "--json", path]
            output = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
            for scope in json.loads(output)["scopes"]:
                counts[host, scope["name"]] += scope["count"]
    return counts


def judge_counts(found, expected):
    for key in found.keys() | expected.keys():
        expect(found.get(key, 0) == expected.get(key, 0),
               f"{key}: {found.get(key, 0)} spans in Parquet, {expected.get(key, 0)} in vor stats")
    return f"{sum(expected.values())} spans of {len(expected)} scopes, as in `vor stats`"
