"""Measures `vor-viz` and `puffin_viewer` as programs, with the same spans: the time until the first
picture, and the time from a move of the pointer that drags until the chart has moved.

    windows.py VOR_VIZ PUFFIN_VIEWER WORK ROUNDS PICTURES

`.ci/viewer-peers` calls it. WORK has the spans in `one.vor` and `one.puffin`, in one frame,
since puffin's viewer shows a frame at a time. Each round starts both programs in turn, and the next
round begins with the other one. A program whose spans do not appear or do not move ends this one
with status 1.

The judge is the one of `peers.mjs`: it looks at pixels only, here in the memory of an X server
without a screen, every few milliseconds.
"""

import ctypes
import mmap
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

WIDTH, HEIGHT = 1440, 1000
# Every so many pixels of a row, and every so many rows, are looked at.
STRIDE = 3
PATIENCE_S = 120
STILL_LOADING_S = 10
STILL_PANNING_S = 0.35
STEPS = 40
STEP = 30
# Turns of the wheel until about half of the time is in view.
TURNS = 3
# The code of the control key, and the button that the wheel is.
CONTROL, WHEEL_UP = 37, 4
# x, y, width and height of the rows of spans.
VOR_CHART = (165, 231, 1040, 95)
PUFFIN_CHART = (10, 206, 1380, 116)


@dataclass
class Contestant:
    name: str
    command: list[str]
    # Where the rows of spans are.
    chart: tuple[int, int, int, int]
    # The height at which the pointer drags, below the rows.
    hand: int
    # Whether the wheel zooms while the control key is down.
    has_control: bool


class Screen:
    """An X server without a screen."""

    def __init__(self, folder):
        read, write = os.pipe()
        size = f"{WIDTH}x{HEIGHT}x24"
        self.server = subprocess.Popen(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", size, "-fbdir", folder],
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as number:
            self.display = f":{number.readline().strip()}"
        self.file = open(Path(folder) / "Xvfb_screen0", "rb")
        self.memory = mmap.mmap(self.file.fileno(), 0, access=mmap.ACCESS_READ)
        header, *_ = struct.unpack_from(">I", self.memory, 0)
        self.row_bytes, *_ = struct.unpack_from(">I", self.memory, 48)
        colours, *_ = struct.unpack_from(">I", self.memory, 76)
        self.begin = header + colours * 12
        self.x11 = ctypes.CDLL("libX11.so.6")
        self.xtst = ctypes.CDLL("libXtst.so.6")
        self.x11.XOpenDisplay.restype = ctypes.c_void_p
        self.x11.XSync.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.xtst.XTestFakeMotionEvent.argtypes = [ctypes.c_void_p, *[ctypes.c_int] * 3]
        self.xtst.XTestFakeMotionEvent.argtypes += [ctypes.c_ulong]
        self.xtst.XTestFakeButtonEvent.argtypes = [ctypes.c_void_p, ctypes.c_uint, ctypes.c_int]
        self.xtst.XTestFakeButtonEvent.argtypes += [ctypes.c_ulong]
        self.xtst.XTestFakeKeyEvent.argtypes = self.xtst.XTestFakeButtonEvent.argtypes
        self.connection = self.x11.XOpenDisplay(self.display.encode())

    def move(self, x, y):
        self.xtst.XTestFakeMotionEvent(self.connection, -1, int(x), int(y), 0)
        self.x11.XSync(self.connection, 0)

    def button(self, is_down, number=1):
        self.xtst.XTestFakeButtonEvent(self.connection, number, is_down, 0)
        self.x11.XSync(self.connection, 0)

    def control(self, is_down):
        self.xtst.XTestFakeKeyEvent(self.connection, CONTROL, is_down, 0)
        self.x11.XSync(self.connection, 0)

    def pixels(self, chart):
        """Return some pixels of a rectangle, as bytes of blue, green, red and nothing."""
        x, y, width, height = chart
        rows = []
        for row in range(y, y + height, STRIDE):
            at = self.begin + row * self.row_bytes + x * 4
            rows.append(self.memory[at : at + width * 4])
        return b"".join(rows)

    def picture(self, path):
        command = ["import", "-display", self.display, "-window", "root", str(path)]
        subprocess.run(command, check=True)

    def stop(self):
        self.server.terminate()
        self.server.wait()


def coloured(pixels):
    """Return how many of some pixels are coloured, not grey."""
    parts = zip(pixels[:: 4 * STRIDE], pixels[1 :: 4 * STRIDE], pixels[2 :: 4 * STRIDE])
    return sum(max(part) - min(part) > 40 for part in parts)


def difference(one, other):
    """Return the share of pixels that differ."""
    # Green says enough.
    pairs = list(zip(one[1 :: 4 * STRIDE], other[1 :: 4 * STRIDE]))
    return sum(abs(a - b) > 40 for a, b in pairs) / len(pairs)


def differs(one, other):
    return difference(one, other) > 0.01


def watch(screen, chart, still_s, is_enough=lambda pixels: True):
    """Collect the pictures that differ from the one before, until none comes for a while."""
    begin = time.monotonic()
    shown = [(begin, screen.pixels(chart))]
    while True:
        pixels = screen.pixels(chart)
        now = time.monotonic()
        if pixels != shown[-1][1]:
            shown.append((now, pixels))
        if now - shown[-1][0] > still_s and is_enough(shown[-1][1]):
            return shown
        if now - begin > PATIENCE_S:
            raise RuntimeError("no spans appear, or they do not move")
        time.sleep(0.002)


def since(shown, is_so):
    """Return the time of the first picture from which on all pictures are as they should be."""
    at = shown[-1][0]
    for time_s, pixels in reversed(shown):
        if not is_so(pixels):
            break
        at = time_s
    return at


def show(screen, contestant, picture):
    """Return the milliseconds until the first and the whole picture, and those of steps."""
    home = tempfile.mkdtemp()
    environment = {**os.environ, "DISPLAY": screen.display, "HOME": home}
    environment |= {"XDG_RUNTIME_DIR": home, "LIBGL_ALWAYS_SOFTWARE": "1"}
    for name in ["WAYLAND_DISPLAY", "XDG_DATA_HOME", "XDG_CONFIG_HOME"]:
        environment.pop(name, None)
    chart = contestant.chart
    begin = time.monotonic()
    program = subprocess.Popen(contestant.command, env=environment, stderr=subprocess.DEVNULL)
    try:
        shown = watch(screen, chart, STILL_LOADING_S, lambda pixels: coloured(pixels) > 100)
        screen.picture(f"{picture}.png")
        last = shown[-1][1]
        all_coloured = coloured(last)
        first = since(shown, lambda pixels: coloured(pixels) >= all_coloured / 10)
        whole = since(shown, lambda pixels: difference(pixels, last) < 0.005)
        steps = pan(screen, contestant)
        screen.picture(f"{picture}-panned.png")
    finally:
        program.kill()
        program.wait()
        shutil.rmtree(home, ignore_errors=True)
    return (first - begin) * 1e3, (whole - begin) * 1e3, steps


def pan(screen, contestant):
    chart = contestant.chart
    x = chart[0] + chart[2] // 2
    screen.move(x, contestant.hand)
    screen.control(contestant.has_control)
    for _ in range(TURNS):
        screen.button(True, WHEEL_UP)
        screen.button(False, WHEEL_UP)
    watch(screen, chart, STILL_LOADING_S)
    screen.control(False)
    screen.button(True)
    # The first move is where programs find out that this is no click.
    x += STEP
    screen.move(x, contestant.hand)
    watch(screen, chart, STILL_LOADING_S)
    steps = []
    for step in range(STEPS):
        x += STEP if step // (STEPS // 8) % 2 == 0 else -STEP
        before = screen.pixels(chart)
        sent = time.monotonic()
        screen.move(x, contestant.hand)
        has_moved = partial(differs, before)
        shown = watch(screen, chart, STILL_PANNING_S, has_moved)
        moved = [at for at, pixels in shown if has_moved(pixels)]
        steps.append((moved[0] - sent) * 1e3)
    screen.button(False)
    return steps


def main():
    vor_viz, puffin_viewer, work, rounds, pictures = sys.argv[1:]
    ours = [vor_viz, f"{work}/one.vor", "--theme", "light"]
    contestants = [
        Contestant("vor-viz", ours, VOR_CHART, 520, has_control=False),
        Contestant("puffin_viewer", [puffin_viewer, f"{work}/one.puffin"], PUFFIN_CHART, 900, True),
    ]
    results = {contestant.name: [] for contestant in contestants}
    for number in range(int(rounds)):
        for contestant in contestants if number % 2 == 0 else contestants[::-1]:
            with tempfile.TemporaryDirectory() as folder:
                screen = Screen(folder)
                try:
                    picture = Path(pictures) / f"{contestant.name}-{number}"
                    first, whole, steps = show(screen, contestant, picture)
                except RuntimeError as error:
                    sys.exit(f"FAILED: {contestant.name}: {error}")
                finally:
                    screen.stop()
            results[contestant.name].append((first, whole, steps))
            print(
                f"round {number}, {contestant.name}: first picture {first:.0f} ms, "
                f"whole {whole:.0f} ms, step {statistics.median(steps):.0f} ms",
                flush=True,
            )
    print("| ms | first picture | whole picture | step | p95 |")
    print("|---|---|---|---|---|")
    rows = {}
    for name, found in results.items():
        steps = sorted(step for *_, steps in found for step in steps)
        medians = [statistics.median(values) for values in list(zip(*found))[:2]]
        rows[name] = [*medians, statistics.median(steps), steps[int(len(steps) * 0.95)]]
        print(f"| {name} | {' | '.join(f'{value:.0f}' for value in rows[name])} |")
    ratios = [other / ours for ours, other in zip(*rows.values())]
    print(f"| puffin_viewer ÷ vor-viz | {' | '.join(f'{ratio:.1f} ×' for ratio in ratios)} |")


if __name__ == "__main__":
    main()
