import unittest
from unittest import mock

import windows

GREY, RED = bytes([90, 90, 90, 0]), bytes([0, 0, 200, 0])
CHART = (0, 0, 30, 1)


def row(coloured):
    """Return thirty pixels; of the ten that are looked at, so many are coloured."""
    return RED * windows.STRIDE * coloured + GREY * windows.STRIDE * (10 - coloured)


class Clock:
    """A screen that shows a picture after the other, and the time at which it does."""

    def __init__(self, *shown):
        self.shown, self.now = list(shown), 0.0

    def pixels(self, chart):
        return [pixels for at, pixels in self.shown if at <= self.now][-1]

    def watched(self, still_s, *conditions):
        with mock.patch.object(windows.time, "monotonic", lambda: self.now):
            with mock.patch.object(windows.time, "sleep", self.pass_by):
                return windows.watch(self, CHART, still_s, *conditions)

    def pass_by(self, seconds):
        self.now += seconds


class Pixels(unittest.TestCase):
    def test_coloured_pixels_are_counted(self):
        self.assertEqual([windows.coloured(row(count)) for count in (0, 4, 10)], [0, 4, 10])

    def test_greys_are_not_coloured(self):
        self.assertEqual(windows.coloured(bytes([200, 180, 170, 0]) * 30), 0)

    def test_the_difference_is_a_share_of_the_pixels(self):
        self.assertEqual(windows.difference(row(0), row(0)), 0)
        self.assertAlmostEqual(windows.difference(row(0), row(3)), 0.3)

    def test_a_hundredth_is_no_move(self):
        still = GREY * windows.STRIDE * 100
        one = RED * windows.STRIDE + GREY * windows.STRIDE * 99
        two = RED * windows.STRIDE * 2 + GREY * windows.STRIDE * 98
        self.assertFalse(windows.differs(still, one))
        self.assertTrue(windows.differs(still, two))


class Shown(unittest.TestCase):
    def test_pictures_are_collected_until_none_comes(self):
        clock = Clock((0, row(0)), (0.5, row(2)), (1.2, row(9)), (3.5, row(1)))
        shown = clock.watched(1)
        self.assertEqual([pixels for _, pixels in shown], [row(0), row(2), row(9)])
        for (at, _), expected in zip(shown, [0, 0.5, 1.2]):
            self.assertAlmostEqual(at, expected, delta=0.01)

    def test_it_waits_for_spans(self):
        clock = Clock((0, row(0)), (20, row(5)))
        shown = clock.watched(1, lambda pixels: windows.coloured(pixels) > 0)
        self.assertEqual(shown[-1][1], row(5))

    def test_it_does_not_wait_forever(self):
        with self.assertRaises(RuntimeError):
            Clock((0, row(0))).watched(1, lambda pixels: windows.coloured(pixels) > 0)

    def test_a_picture_that_is_undone_is_not_the_first(self):
        shown = [(0, row(0)), (1, row(9)), (2, row(0)), (3, row(5)), (4, row(9))]
        has_spans = lambda pixels: windows.coloured(pixels) >= 5
        self.assertEqual(windows.since(shown, has_spans), 3)


if __name__ == "__main__":
    unittest.main()
