from .case import SPANS, ViewCase

RAW = """\
PeriodType: wall nanoseconds
Samples:
wall/nanoseconds
     500000: 1 
                thread:[main]
     500000: 2 1 
                thread:[main]
    1500000: 3 
                thread:[worker]
     500000: 3 3 
                thread:[worker]
Locations
     1: 0x0 M=1 outer /src/a.rs:7:0 s=0()
     2: 0x0 M=1 inner /src/a.rs:9:0 s=0()
     3: 0x0 M=1 walk :0 s=0
Mappings
"""


class Pprof(ViewCase):
    def test_accepts_what_was_recorded(self):
        self.assert_accepts("pprof", self.write("raw", RAW))

    def test_rejects_other_times_stacks_and_threads(self):
        for old, new in [
            ("500000: 2 1", "500001: 2 1"),
            ("500000: 2 1", "500000: 1 2"),
            ("inner", "inside"),
            ("thread:[worker]", "thread:[main]"),
            ("     500000: 3 3 \n                thread:[worker]\n", ""),
        ]:
            with self.subTest(old):
                raw = self.write("raw", RAW.replace(old, new))
                self.assert_rejects("pprof: (", "pprof", raw)

    def test_rejects_a_capture_with_another_span(self):
        self.write_spans([*SPANS, {**SPANS[0], "name": "more", "dur": 1}])
        self.assert_rejects("shows None, recorded 1", "pprof", self.write("raw", RAW))

    def test_rejects_a_capture_without_spans(self):
        self.write_spans([])
        self.assert_rejects("no spans", "pprof", self.write("raw", RAW))
