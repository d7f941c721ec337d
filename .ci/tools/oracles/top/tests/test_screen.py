import unittest

from top.screen import Mismatch, Screen, number

TEXT = """vor top  app (7)  dropped 0
frames 0.20/s p50 5.00 s p99 5.00 s  spans 0/s
▇
█
█
1 scopes  2 threads  3 metrics  4 waits   by self/s
scope                self/s   total/s   calls/s      mean       max        trend
look up            200.0 ms     1.2 s     1,200  200.1 µs         -   ▅    █
parse                     -         -         0         -         -   ▇    █

a line of something else
"""


class ScreenTest(unittest.TestCase):
    def test_rows_have_the_cells_below_their_heads(self):
        rows = Screen(TEXT).rows()
        self.assertEqual(list(rows), ["look up", "parse"])
        names = ["self/s", "calls/s", "mean", "max"]
        row = {name: round(number(rows["look up"][name]), 9) for name in names}
        self.assertEqual(row, {"self/s": 0.2, "calls/s": 1200.0, "mean": 0.0002001, "max": 0.0})
        self.assertIn("by self/s", Screen(TEXT).title)

    def test_a_screen_that_is_too_large_is_refused(self):
        with self.assertRaises(Mismatch):
            Screen("\n".join(["x"] * 25))
        with self.assertRaises(Mismatch):
            Screen("x" * 81)

    def test_what_is_no_number_is_refused(self):
        for text in ["", "abc", "12 parsecs", "NaN"]:
            with self.assertRaises(Mismatch):
                number(text)


if __name__ == "__main__":
    unittest.main()
