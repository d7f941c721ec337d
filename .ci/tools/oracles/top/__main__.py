"""python3 -m top VOR WATCHED FOLDER: drives `vor top` by keys, and reads its screens.

VOR is the command, WATCHED the example of that name, FOLDER is empty. The dashboard shows the
running program, a capture that grows, and a folder of segments.
"""
import contextlib
import os
import pathlib
import subprocess
import sys
import time

from .screen import Mismatch, expect, number
from .terminal import Terminal

SCOPES = {"request", "parse", "look up", "answer"}
# Times of the example: `parse` works for 100 µs. It is read as the screen is, since 100 × 1e-6 is
# less than 1e-4.
PARSE_S = number("100 µs")


@contextlib.contextmanager
def program(watched, **variables):
    """Runs the example, which listens, until the end of the block."""
    env = plain_env() | variables
    process = subprocess.Popen([watched, "600"], env=env, stdout=subprocess.PIPE, text=True)
    try:
        said = process.stdout.readline()
        expect(said.startswith("watch me"), f"the example does not listen: {said}")
        yield process
    finally:
        process.terminate()
        process.wait(20)


def plain_env():
    return {name: value for name, value in os.environ.items() if not name.startswith("VOR_")}


@contextlib.contextmanager
def dashboard(vor, folder, source):
    terminal = Terminal(folder, [vor, "top", source], plain_env())
    try:
        yield terminal
    finally:
        terminal.close()


def shows(names):
    return lambda screen: names <= screen.rows().keys()


def has_values(screen):
    rows = screen.rows()
    return SCOPES <= rows.keys() and all(number(rows[name]["calls/s"]) for name in SCOPES)


def judge_scopes(terminal):
    rows = terminal.until("a second of all scopes", has_values).rows()
    calls = {name: number(rows[name]["calls/s"]) for name in SCOPES}
    # A second cuts at most a request of each of the two workers.
    expect(max(calls.values()) - min(calls.values()) <= 4, f"a request has one of each: {calls}")
    mean = number(rows["parse"]["mean"])
    expect(PARSE_S <= mean < 100 * PARSE_S, f"`parse` takes {mean} s")
    request, inside = number(rows["request"]["total/s"]), 0.0
    for name in SCOPES - {"request"}:
        inside += number(rows[name]["total/s"])
    expect(inside <= request * 1.02, f"{inside} s of {request} s a second")


def judge_sorting(terminal):
    seen = []
    while True:
        title = terminal.screen().title
        column = title.partition(" by ")[2].split()[0]
        if column in seen:
            return seen
        seen.append(column)
        rows = terminal.screen().rows()
        if column in next(iter(rows.values())):
            values = [number(row[column]) for row in rows.values()]
            falls = all(a >= b for a, b in zip(values, values[1:]))
            expect(falls, f"not sorted by {column}: {values}")
        terminal.keys("s")
        terminal.until("the next order", lambda screen: screen.title != title)


def judge_keys(terminal):
    terminal.keys("/", "p", "a", "r", "Enter")
    terminal.until("only `parse`", lambda screen: screen.rows().keys() == {"parse"})
    terminal.keys("Down", "Enter")
    opened = terminal.until("the scope", lambda screen: "p99" in "\n".join(screen.lines[5:]))
    expect("parse" in opened.text, "the scope has another name")
    # Two of them at once would be one key with Alt.
    terminal.keys("Escape")
    terminal.until("the table", lambda screen: screen.rows().keys() == {"parse"})
    terminal.keys("Escape")
    terminal.until("all scopes", shows(SCOPES))
    for key, names in [("2", {"worker-0", "worker-1"}), ("3", {"queue"}), ("4", {"cache"})]:
        terminal.keys(key)
        shown = lambda screen: all(name in screen.text for name in names)
        terminal.until(f"{names} by the key {key}", shown)
    terminal.keys("1")
    terminal.until("the scopes again", shows(SCOPES))
    terminal.keys("f")
    frozen = terminal.until("that it is frozen", lambda screen: "FROZEN" in screen.text).text
    time.sleep(2.5)
    expect(terminal.screen().text == frozen, "a frozen screen changes")
    terminal.keys("f")
    terminal.until("the present", lambda screen: "FROZEN" not in screen.text)


def judge_end(terminal):
    terminal.keys("q")
    last = terminal.until("the end", lambda screen: "ended" in screen.text)
    expect("ended 0" in last.text and "scopes" not in last.text, f"the end:\n{last.text}")


def judge_growth(terminal, what):
    before = terminal.until(f"the scopes of {what}", has_values).text
    terminal.until(f"more of {what}", lambda screen: has_values(screen) and screen.text != before)


def main(argv):
    if len(argv) != 3:
        sys.exit(__doc__)
    vor, watched, folder = (pathlib.Path(arg).absolute() for arg in argv)
    try:
        with program(watched) as process, dashboard(vor, folder, process.pid) as terminal:
            judge_scopes(terminal)
            orders = judge_sorting(terminal)
            judge_keys(terminal)
            judge_end(terminal)
        print(f"a running program: {len(orders)} orders, filter, freeze, drill, four tables")
        capture = folder / "growing.vor"
        with program(watched, VOR_RECORD=str(capture), VOR_RECORD_SPANS="1"):
            wait_for(capture)
            with dashboard(vor, folder, capture) as terminal:
                judge_growth(terminal, "a growing capture")
                judge_end(terminal)
        segments = folder / "segments"
        with program(watched, VOR_RECORD=f"{segments}/", VOR_RECORD_SPANS="1",
                     VOR_RECORD_SEGMENT="1s"):
            wait_for(segments)
            with dashboard(vor, folder, segments) as terminal:
                judge_growth(terminal, "a folder of segments")
                count = len(list(segments.glob("*.vor")))
                while len(list(segments.glob("*.vor"))) < count + 2:
                    time.sleep(0.1)
                judge_growth(terminal, "the next segments")
                judge_end(terminal)
        print("a growing capture and a folder of segments go on")
    except Mismatch as error:
        sys.exit(str(error))


def wait_for(path):
    """Waits until there is a capture with records."""
    deadline = time.monotonic() + 60
    is_there = lambda: any(file.stat().st_size > 10_000 for file in
                           (path.glob("*.vor") if path.is_dir() else [path]) if file.exists())
    while not is_there():
        expect(time.monotonic() < deadline, f"{path} has no records")
        time.sleep(0.1)


if __name__ == "__main__":
    main(sys.argv[1:])
