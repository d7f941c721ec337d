import importlib.util
import unittest

from .case import TraceCase

HAS_SCHEMA = importlib.util.find_spec("perfetto") and importlib.util.find_spec("google.protobuf")
SEQUENCE = 1
MAIN, WORKER, TASKS, FRAMES, MEM, LOAD = range(10, 16)


@unittest.skipUnless(HAS_SCHEMA, "the package `perfetto` is not installed")
class Schema(TraceCase):
    def setUp(self):
        super().setUp()
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

        self.types = protos.TrackEvent
        self.trace_message = protos.Trace()
        self.add_tracks()
        self.add_events()

    def packet(self, **fields):
        packet = self.trace_message.packet.add(**fields)
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def add_tracks(self):
        first = self.packet(sequence_flags=1)
        boot = first.clock_snapshot.clocks.add(clock_id=6)
        boot.timestamp = 1_000
        own = first.clock_snapshot.clocks.add(clock_id=64, is_incremental=True)
        own.timestamp = 0
        first.interned_data.event_names.add(iid=1, name="outer")
        first.interned_data.event_categories.add(iid=1, name="io")
        first.interned_data.debug_annotation_names.add(iid=1, name="n")
        first.interned_data.source_locations.add(iid=1, file_name="src/a.rs", line_number=7)
        for uuid, tid, name in (MAIN, 5, "main"), (WORKER, 6, "worker"):
            track = self.packet().track_descriptor
            track.uuid = uuid
            track.thread.tid, track.thread.thread_name = tid, name
        for uuid, name in (TASKS, "tasks"), (FRAMES, "frames of physics"):
            track = self.packet().track_descriptor
            track.uuid, track.name = uuid, name
        for uuid, name in (MEM, "mem"), (LOAD, "load"):
            track = self.packet().track_descriptor
            track.uuid, track.name = uuid, name
            track.counter.SetInParent()
            if name == "mem":
                track.counter.unit, track.counter.unit_multiplier = 3, 10**6

    def event(self, at, type_, track, **fields):
        """Adds an event at an absolute time, by the boot clock."""
        packet = self.packet(timestamp=at, timestamp_clock_id=6)
        event = packet.track_event
        event.type, event.track_uuid = type_, track
        for name, value in fields.items():
            setattr(event, name, value)
        return event

    def add_events(self):
        begin, end = self.types.TYPE_SLICE_BEGIN, self.types.TYPE_SLICE_END
        instant, counter = self.types.TYPE_INSTANT, self.types.TYPE_COUNTER
        frame = self.event(1_000, begin, FRAMES, name="frame")
        frame.debug_annotations.add(name="index", uint_value=4)
        self.mem = self.event(1_000, counter, MEM, double_counter_value=1.5)
        self.event(1_000, counter, LOAD, double_counter_value=2.0)
        self.outer = self.event(1_100, begin, MAIN, name_iid=1, source_location_iid=1)
        self.outer.debug_annotations.add(name_iid=1, int_value=3)
        self.outer.debug_annotations.add(name="x", double_value=0.5)
        self.event(1_100, begin, TASKS, name="job")
        self.event(1_150, begin, TASKS, name="poll")
        self.event(1_170, end, TASKS)
        inner = self.event(1_200, begin, MAIN, name="inner")
        self.flow(1_210, MAIN)
        self.message = self.event(1_250, instant, MAIN, name="hello")
        self.event(1_300, end, MAIN)
        self.event(1_300, instant, TASKS, name="wake")
        other = self.event(1_400, begin, WORKER, name="other")
        self.flow(1_410, WORKER, is_end=True)
        self.event(1_450, end, WORKER)
        self.flow(1_510, MAIN, is_end=True)
        self.event(1_800, end, TASKS)
        self.event(1_900, end, MAIN)
        self.frame_end = self.event(1_900, end, FRAMES)
        for event, line in (inner, 9), (other, 11):
            event.category_iids.append(1)
            event.source_location_iid = line
            self.trace_message.packet[0].interned_data.source_locations.add(
                iid=line, file_name="src/b.rs", line_number=line
            )

    def flow(self, at, track, is_end=False):
        packet = self.packet(timestamp=at, timestamp_clock_id=6)
        packet.track_event.track_uuid = track
        packet.track_event.legacy_event.unscoped_id = 1
        packet.track_event.legacy_event.phase = ord("f" if is_end else "s")

    def save(self, extra=b""):
        path = self.folder / "trace.pftrace"
        path.write_bytes(self.trace_message.SerializeToString() + extra)

    def test_accepts_what_was_recorded(self):
        self.save()
        self.assert_accepts("schema")

    def test_reads_times_of_the_incremental_clock(self):
        last = self.packet(timestamp=950).track_event
        last.type, last.track_uuid, last.name = self.types.TYPE_INSTANT, MAIN, "late"
        self.save()
        self.assert_rejects("schema", "Message(tid=5, at=1950, text='late')")

    def test_rejects_other_values(self):
        self.outer.debug_annotations[0].int_value = 4
        self.message.name = "hallo"
        self.mem.double_counter_value = 1.25
        self.save()
        for kind in "spans", "messages", "counters":
            self.assert_rejects("schema", f"{kind}, only in the trace")

    def test_rejects_slices_that_do_not_end(self):
        self.frame_end.type = self.types.TYPE_INSTANT
        self.save()
        self.assert_rejects("schema", "1 spans have no end")

    def test_rejects_an_end_without_a_begin(self):
        self.event(1_950, self.types.TYPE_SLICE_END, WORKER)
        self.save()
        self.assert_rejects("schema", "an end without a begin")

    def test_rejects_a_packet_of_no_sequence(self):
        self.trace_message.packet.add(timestamp=1)
        self.save()
        self.assert_rejects("schema", "belongs to no sequence")

    def test_rejects_fields_that_the_schema_does_not_know(self):
        # Field 4095 of a packet, of two bytes: 0xf8 0xff 0x01 is its tag, 0x01 its value.
        packet = bytes([0xF8, 0xFF, 0x01, 0x01])
        self.save(extra=bytes([0x0A, len(packet)]) + packet)
        self.assert_rejects("schema", "fields that the schema does not know")

    def test_rejects_a_clock_that_is_not_incremental(self):
        self.trace_message.packet[0].clock_snapshot.clocks[1].is_incremental = False
        self.save()
        self.assert_rejects("schema", "not incremental")
