from . import samples
from .case import TraceCase


class Processor(TraceCase):
    def test_accepts_what_was_recorded(self):
        samples.write_answers(self.trace, samples.slices())
        self.assert_accepts("processor")

    def test_rejects_each_changed_field(self):
        changes = {
            "dur": 801, "ts": 1_101, "depth": 1, "name": "outside", "tid": 6, "thread": "worker",
            "category": "io",
        }
        for field, value in changes.items():
            with self.subTest(field):
                slices = samples.slices()
                slices[0][field] = value
                samples.write_answers(self.trace, slices)
                self.assert_rejects("processor", "spans, only recorded: Span(tid=5")

    def test_rejects_each_changed_argument(self):
        for key, value in {"debug.n": 4, "debug.x": 0.25, "source.line_number": 8}.items():
            with self.subTest(key):
                slices = samples.slices()
                slices[0]["args"][key] = value
                samples.write_answers(self.trace, slices)
                self.assert_rejects("processor", "1 missing, 1 too many")

    def test_rejects_each_slice_that_is_missing(self):
        for index, slice_ in enumerate(samples.slices()):
            with self.subTest(slice_["name"]):
                slices = samples.slices()
                del slices[index]
                samples.write_answers(self.trace, slices)
                self.assert_rejects("processor", "1 missing, 0 too many")

    def test_rejects_each_slice_that_is_there_twice(self):
        for slice_ in samples.slices():
            with self.subTest(slice_["name"]):
                samples.write_answers(self.trace, [*samples.slices(), slice_])
                self.assert_rejects("processor", "0 missing, 1 too many")

    def test_rejects_other_flows_and_counters(self):
        samples.write_answers(self.trace, samples.slices(), flows=[])
        self.assert_rejects("processor", "flows: 2 recorded, 2 missing")
        for counter in ["mem", "bytes", 1_000, 1.5], ["mem", None, 1_000, 1.5e6]:
            samples.write_answers(
                self.trace, samples.slices(), counters=[counter, samples.COUNTERS[1]]
            )
            self.assert_rejects("processor", "counters: 2 recorded, 1 missing, 1 too many")

    def test_rejects_a_recording_without_events_of_a_kind(self):
        self.rows.write_text('{"kind": "begin", "ts": 1000}\n', encoding="utf-8")
        samples.write_answers(self.trace, [], flows=[], counters=[])
        self.assert_rejects("processor", "spans: none were recorded")
        self.assert_accepts(
            "processor", "spans", "messages", "tasks", "frames", "counters", "flows"
        )

    def test_rounds_floats_of_a_chrome_trace_to_14_digits(self):
        slices = samples.slices()
        for slice_ in slices:
            slice_["ts"] -= 1_000
            args = slice_["args"]
            slice_["args"] = {
                key.replace("debug.", "args."): value
                for key, value in args.items()
                if key.startswith("debug.")
            }
            slice_["track"] = slice_["track"] and slice_["track"].replace("frames", "frame")
        slices[0]["category"] = "app"
        counters = [["mem MB", None, 0, 1.5], ["load value", None, 0, 2.0]]
        flows = [["inner", 200, "other", 400], ["inner", 200, "outer", 100]]
        for value, accepted in (0.5 + 1e-16, True), (0.5 + 1e-12, False):
            slices[0]["args"]["args.x"] = value
            samples.write_answers(self.trace, slices, flows, counters)
            self.assertEqual(self.run_program("chrome")[1], accepted, value)
