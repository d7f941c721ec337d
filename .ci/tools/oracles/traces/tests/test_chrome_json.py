from . import samples
from .case import TraceCase


class ChromeJson(TraceCase):
    def reject(self, reason, **changes):
        """Changes fields of events, and expects the reason."""
        events = samples.chrome()
        for name, fields in changes.items():
            events[name.replace("_", " ")].update(fields)
        samples.write_chrome(self.trace, events)
        self.assert_rejects("json", reason)

    def test_accepts_what_was_recorded(self):
        samples.write_chrome(self.trace, samples.chrome())
        self.assert_accepts("json")

    def test_rejects_other_values(self):
        self.reject("spans, only recorded", other={"dur": 0.051})
        self.reject("spans, only in the trace", other={"name": "another"})
        self.reject("spans: 3 recorded, 1 missing, 1 too many", outer={"args": {"n": 4, "x": 0.5}})
        self.reject("messages, only recorded", hello={"ts": 0.251})
        self.reject("tasks, only recorded", wake={"name": "sleep"})
        self.reject("frames, only recorded", frame_end={"args": {"index": 5}})
        self.reject("counters, only recorded", mem={"args": {"B": 1.5}})
        self.reject("flows, only recorded", flow={"ts": 0.15})

    def test_rejects_each_event_that_is_missing(self):
        for name in samples.chrome():
            with self.subTest(name):
                events = samples.chrome()
                del events[name]
                samples.write_chrome(self.trace, events)
                self.assertFalse(self.run_program("json")[1])

    def test_rejects_broken_rules(self):
        self.reject("is not a time in microseconds", other={"ts": 0.4001})
        self.reject("is not a time in microseconds", other={"ts": -0.4})
        self.reject("not of the one process", hello={"pid": 2})
        self.reject("ends after the span around it", inner={"dur": 0.75})
        self.reject("not a message of a thread", hello={"s": "g"})
        self.reject("a thread without a name", other={"tid": 7})
        self.reject("unknown phase", hello={"ph": "I"})
        self.reject("unknown metadata", worker={"name": "thread_sort_index"})
        self.reject("ends as", poll_end={"name": "pole"})
        self.reject("a begin without an end", job_end={"id2": {"local": "0x1"}, "ph": "n"})
        self.reject("an end without a begin", poll={"ph": "n"}, job={"ph": "n"})
        self.reject("not a flow between spans", flow={"bp": "s"})
        self.reject("the phases of a flow", flow={"ph": "t"})
        self.reject("is in no span", flow_end={"ts": 0.9})
        self.reject("two are at one time", load={"name": "mem", "args": {"MB": 1.5}})

    def test_rejects_spans_that_are_not_in_the_order_of_their_ends(self):
        events = samples.chrome()
        outer = events.pop("outer")
        samples.write_chrome(
            self.trace, {name: event for name, event in events.items() if name != "inner"}
            | {"outer": outer, "inner": events["inner"]}
        )
        self.assert_rejects("json", "not in the order in which they ended")

    def test_rejects_json_that_only_lenient_parsers_accept(self):
        samples.write_chrome(self.trace, samples.chrome())
        path = self.folder / "trace.json"
        text = path.read_text(encoding="utf-8")
        path.write_text(text.replace('"x": 0.5', '"x": NaN'), encoding="utf-8")
        self.assert_rejects("json", "NaN is not a number")
        path.write_text(text.replace('"x": 0.5', '"n": 3'), encoding="utf-8")
        self.assert_rejects("json", "a duplicate key")
        path.write_text(text[:-1], encoding="utf-8")
        with self.assertRaises(ValueError):
            self.run_program("json")
