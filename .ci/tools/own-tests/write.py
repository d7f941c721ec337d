#!/usr/bin/env python3
"""write.py REPOSITORY OUT STD: a package with the tests of other libraries, over the types of vor.

STD is the folder `library/std` of the standard library. The other sources are those that cargo has
fetched.
"""

import json
import pathlib
import re
import subprocess
import sys

import rust

HERE = pathlib.Path(__file__).parent

# The files with tests of each library, and what replaces the paths of its types. `roots` has the
# modules that the new paths name, and the manifest the crates.
LIBRARIES = {
    "std": (
        "tests/sync",
        "barrier condvar mpsc mpsc_sync mutex once once_lock rwlock",
        {r"\bstd::sync::(?!atomic|mpmc)": "crate::of_vor::", r"\brand::": "rand_0_9::"},
    ),
    "parking_lot": (
        "src",
        "condvar fair_mutex mutex once remutex rwlock",
        {r"\bcrate::": "crate::of_vor::"},
    ),
    "crossbeam-channel": (
        "tests",
        "array iter list mpsc same_channel zero",
        {r"\bcrossbeam_channel\b": "crate::of_vor"},
    ),
    "flume": (
        "tests",
        # Its `mpsc` tests crossbeam-channel, and its other files are comments.
        "array basic check_same_channel iter list method_sharing zero",
        {r"\bflume::": "crate::of_vor::"},
    ),
    "tokio": (
        "tests",
        # `sync_notify_owned` needs what is newer than tokio 1.45.
        "support/mpsc_stream support/panic"
        " sync_barrier sync_broadcast sync_broadcast_weak sync_errors sync_mpsc sync_mpsc_weak"
        " sync_mutex sync_mutex_owned sync_notify sync_once_cell sync_oneshot"
        " sync_panic sync_rwlock sync_semaphore sync_semaphore_owned sync_watch",
        {r"\btokio::sync::": "crate::of_vor::", r"\brand::": "rand_0_9::"},
    ),
}


def left_out():
    """The items and modules that are left out, and why: `std::mutex::test_set` and a reason."""
    lines = (HERE / "left-out.tsv").read_text(encoding="utf-8").splitlines()
    return dict(line.split("\t") for line in lines if line and not line.startswith("#"))


def adapted(text, prefix, paths, out):
    """A file without the items that are left out, with other paths, and what it has left out.

    Lines keep their numbers."""
    parts, at, left, tests = [], 0, [], 0
    for item in rust.items(text):
        name = f"{prefix}::{item.name}"
        entry = name if name in out else name.rpartition("::")[0]
        if entry in out:
            parts += [text[at : item.start], "\n" * text[item.start : item.end].count("\n")]
            at = item.end
            left.append(entry)
        else:
            tests += item.is_test
    text = "".join(parts) + text[at:]
    text = re.sub(r"^#!\[[^\]]*\]", "", text, flags=re.M)
    for pattern, new in paths.items():
        text = re.sub(pattern, new, text)
    return text, left, tests


def sources(out):
    """The folders with the sources of the libraries that the package is built with."""
    command = ["cargo", "metadata", "--format-version=1", "--manifest-path", out / "Cargo.toml"]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    packages = (p for p in metadata["packages"] if p["name"] in LIBRARIES)
    return {p["name"]: pathlib.Path(p["manifest_path"]).parent for p in packages}


def main(repository, out, std):
    repository, out = pathlib.Path(repository).resolve(), pathlib.Path(out)
    manifest = (HERE / "manifest.toml").read_text(encoding="utf-8")
    write(out / "Cargo.toml", manifest.replace("REPOSITORY", str(repository)))
    write(out / "Cargo.lock", (repository / "Cargo.lock").read_text(encoding="utf-8"))
    write(out / "src/lib.rs", "")
    for root in (HERE / "roots").rglob("*.rs"):
        write(out / "tests" / root.relative_to(HERE / "roots"), root.read_text(encoding="utf-8"))
    out_of = left_out()
    unknown = set(out_of)
    for library, folder in sorted({**sources(out), "std": pathlib.Path(std)}.items()):
        subfolder, files, paths = LIBRARIES[library]
        count = 0
        for file in files.split():
            text = (folder / subfolder / f"{file}.rs").read_text(encoding="utf-8")
            if subfolder == "src":
                text = rust.only_tests(text)
            text, left, tests = adapted(text, f"{library}::{file}", paths, out_of)
            unknown -= set(left)
            count += tests
            write(out / "tests" / library.replace("-", "_") / f"{file}.rs", text)
        print(f"{library}: {count} tests")
    if unknown:
        sys.exit(f"left-out.tsv names what no library has: {', '.join(sorted(unknown))}")


def write(path, text):
    """Writes a file that differs. Cargo builds again what is newer."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
