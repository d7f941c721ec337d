"""Records with the installed package, and reads the capture back: exit code 0 if that works."""

import asyncio
import os
import subprocess
import sys
import tempfile

import vor

here = os.path.dirname(os.path.abspath(__file__))
assert not os.path.abspath(vor.__file__).startswith(here), vor.__file__


@vor.profile
def call(n):
    with vor.scope("block", n=n):
        return n


@vor.profile
async def waits():
    await asyncio.sleep(0.001)


with tempfile.TemporaryDirectory() as folder:
    os.chdir(folder)
    vor.enable(capture="run.vor")
    assert [call(n) for n in range(3)] == [0, 1, 2]
    asyncio.run(waits())
    vor.frame_mark()
    vor.disable()
    vor.close_capture()
    capture = vor.read("run.vor")
    rows = list(zip(capture.stats()["name"].to_list(), capture.stats()["count"].to_list()))
    assert sorted(rows) == [("block", 3), ("call", 3), ("waits", 2)], rows
    with open("program.py", "w") as file:
        file.write("def f(): pass\nfor _ in range(5): f()\n")
    command = [sys.executable, "-m", "vor"]
    subprocess.run([*command, "run", "--out", "whole.vor", "program.py"], check=True)
    stats = [*command, "stats", "whole.vor"]
    done = subprocess.run(stats, check=True, capture_output=True, text=True)
    assert " frame" in done.stdout and "\nf " in done.stdout, done.stdout
