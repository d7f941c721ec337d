"""Damaged captures: any bytes give a result or an exception of vor, and never a crash."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from recorded import record

import vor
from vor import _core

PROGRAM = """
    @vor.profile(args=True)
    def f(n, text="größe"): return n and f(n - 1)
    for step in range(30):
        f(step % 7)
        vor.message("text")
        vor.record_metric("loss", step / 3)
        vor.frame_mark()
        if step % 5 == 0: vor.flush()
"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return record(tmp_path_factory.mktemp("hostile"), PROGRAM).capture.path.read_bytes()


def use(path: Path) -> int:
    """Read everything, and return the number of spans."""
    try:
        capture = vor.read(path)
    except vor.CaptureError as error:
        assert str(error).startswith(f"{path}: ") and "\n" not in str(error)
        return 0
    try:
        spans = capture.spans
        for table in (
            spans,
            capture.frames,
            capture.metrics,
            capture.messages,
            capture.tasks,
            capture.stats(),
        ):
            for name in table.columns:
                assert len(table[name].to_list()) == len(table)
            table.__arrow_c_stream__()
        for frame in capture[-3:]:
            assert set(frame.spans["frame"]) <= {frame.index}
            assert all(isinstance(value, float) for value in frame.metrics.values())
        assert len(capture[1:4].spans) <= len(spans)
        assert len(capture[1:4].stats()) <= len(capture.stats())
        capture.refresh()
        capture.verify()
        skipped = capture.skipped
        assert skipped["count"] >= len(skipped["losses"]) or skipped["count"] >= 1000
        capture._repr_html_()
        return len(spans)
    except vor.CaptureError as error:
        assert str(path) in str(error)
        return 0


def test_cut_anywhere(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "cut.vor"
    found = []
    places = [*range(0, 64), *random.Random(1).sample(range(64, len(whole)), 120), len(whole)]
    for length in sorted(places):
        path.write_bytes(whole[:length])
        found.append(use(path))
    assert found[0] == 0 and found[-1] == max(found) > 0
    assert any(0 < count < found[-1] for count in found), "the intact part of a file is read"


def test_bits_flipped_anywhere(whole: bytes, tmp_path: Path) -> None:
    dice = random.Random(2)
    path = tmp_path / "flipped.vor"
    for _ in range(200):
        bytes_now = bytearray(whole)
        for _ in range(dice.choice((1, 1, 2, 8, 64))):
            bytes_now[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
        path.write_bytes(bytes_now)
        use(path)


def test_pieces_moved_and_noise(whole: bytes, tmp_path: Path) -> None:
    dice = random.Random(3)
    path = tmp_path / "moved.vor"
    for _ in range(100):
        begin, end = sorted(dice.sample(range(44, len(whole)), 2))
        piece = whole[begin:end]
        to = dice.randrange(44, len(whole))
        kind = dice.randrange(3)
        if kind == 0:
            content = whole[:begin] + whole[end:]
        elif kind == 1:
            content = whole[:to] + piece + whole[to:]
        else:
            content = whole[:to] + dice.randbytes(len(piece)) + whole[to + len(piece) :]
        path.write_bytes(content)
        use(path)


def test_frames_that_come_twice(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "twice.vor"
    places = range(44, len(whole), len(whole) // 24)
    for begin, to in itertools.product(places, places):
        path.write_bytes(whole[:to] + whole[begin : begin + len(whole) // 6] + whole[to:])
        use(path)


def test_a_file_that_shrinks_while_it_is_open(whole: bytes, tmp_path: Path) -> None:
    path = tmp_path / "shrinks.vor"
    path.write_bytes(whole)
    capture = vor.read(path)
    assert len(capture) == 30
    path.write_bytes(whole[: len(whole) // 3])
    for ask in (
        lambda: capture.spans,
        capture.stats,
        capture.refresh,
        capture.verify,
        lambda: capture[-1].spans,
    ):
        try:
            ask()
        except vor.CaptureError as error:
            assert str(error).startswith(f"{path}: ")


def test_damage_is_reported(whole: bytes, tmp_path: Path) -> None:
    content = bytearray(whole)
    for at in range(len(whole) // 2, len(whole) // 2 + 40):
        content[at] ^= 0x55
    path = tmp_path / "damaged.vor"
    path.write_bytes(content)
    capture = vor.read(path)
    (tmp_path / "whole.vor").write_bytes(whole)
    undamaged = vor.read(tmp_path / "whole.vor")
    assert (
        0
        < len(capture.spans) + len(capture.metrics)
        < len(undamaged.spans) + len(undamaged.metrics)
    )
    skipped = capture.verify()
    assert skipped["count"] >= 1 and skipped["bytes"] > 0
    assert set(skipped["losses"][0]) == {"offset", "bytes", "reason"}
    assert capture.skipped["count"] >= 1
    if _core.RECORDS:
        with pytest.warns(UserWarning, match="damaged"):
            capture.export(tmp_path / "out.pftrace")
