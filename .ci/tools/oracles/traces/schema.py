"""Decodes a Perfetto trace with the published schema, packet by packet."""
import collections

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as protos

from .events import (
    CounterValue, Events, Frame, Invalid, Message, Span, Task, comparable_args, flows_of,
)

# Clocks of a snapshot: the machine's, which counts since boot, and the trace's own.
BOOT_CLOCK, TRACE_CLOCK = 6, 64
SEQ_INCREMENTAL_STATE_CLEARED = 1
UNIT_NAMES = {0: None, 1: "ns", 2: "count", 3: "bytes"}
NAME_TABLES = "event_names", "event_categories", "debug_annotation_names"


def read(trace):
    """Returns the events of `TRACE.pftrace`."""
    whole = protos.Trace()
    with open(f"{trace}.pftrace", "rb") as file:
        whole.ParseFromString(file.read())
    sequences = collections.defaultdict(_Sequence)
    tracks, track_events = {}, []
    for order, packet in enumerate(whole.packet):
        _refuse_unknown_fields(packet, "packet")
        if not packet.trusted_packet_sequence_id:
            raise Invalid("a packet belongs to no sequence")
        sequence = sequences[packet.trusted_packet_sequence_id]
        sequence.update(packet)
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if packet.HasField("track_event"):
            track_events.append((sequence.time_of(packet), order, sequence, packet.track_event))

    reader = _EventReader(tracks)
    for at, _, sequence, event in sorted(track_events, key=lambda entry: entry[:2]):
        reader.add(at, sequence, event)
    return reader.finish()


def _refuse_unknown_fields(message, path):
    if len(UnknownFieldSet(message)):
        raise Invalid(f"{path}: fields that the schema does not know")
    for field, value in message.ListFields():
        if field.type == field.TYPE_MESSAGE:
            for part in value if field.is_repeated else [value]:
                _refuse_unknown_fields(part, f"{path}.{field.name}")


class _Sequence:
    """The state that earlier packets of a sequence set for the later ones."""

    def __init__(self):
        self.texts, self.clock_ns, self.track = {}, None, None

    def update(self, packet):
        if packet.sequence_flags & SEQ_INCREMENTAL_STATE_CLEARED:
            self.texts.clear()
        if packet.HasField("trace_packet_defaults"):
            self.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        if packet.HasField("clock_snapshot"):
            self._set_clock(packet.clock_snapshot)
        data = packet.interned_data
        for table in NAME_TABLES:
            for entry in getattr(data, table):
                self.texts[table, entry.iid] = entry.name
        for entry in data.source_locations:
            self.texts["source_locations", entry.iid] = (entry.file_name, entry.line_number)

    def _set_clock(self, snapshot):
        clocks = {clock.clock_id: clock for clock in snapshot.clocks}
        if TRACE_CLOCK not in clocks:
            return
        if not clocks[TRACE_CLOCK].is_incremental:
            raise Invalid("the clock of the trace is not incremental")
        self.clock_ns = clocks[BOOT_CLOCK].timestamp - clocks[TRACE_CLOCK].timestamp

    def time_of(self, packet):
        """Returns the time of a packet, and advances the incremental clock if it uses that."""
        if packet.timestamp_clock_id or self.clock_ns is None:
            return packet.timestamp
        self.clock_ns += packet.timestamp
        return self.clock_ns


class _EventReader:
    def __init__(self, tracks):
        self.events = Events()
        self.tracks = tracks
        # The open slices of each track: start, name, category, source location and arguments.
        self.opened = collections.defaultdict(list)
        self.chains = collections.defaultdict(list)

    def add(self, at, sequence, event):
        uuid = event.track_uuid or sequence.track
        track, texts = self.tracks[uuid], sequence.texts
        name = texts["event_names", event.name_iid] if event.name_iid else event.name
        if event.HasField("legacy_event"):
            if not self.opened[uuid]:
                raise Invalid(f"a flow on track {uuid} at {at} is in no span")
            start, name, *_ = self.opened[uuid][-1]
            is_end = event.legacy_event.phase == ord("f")
            self.chains[event.legacy_event.unscoped_id].append(((name, start), is_end))
        elif event.type == protos.TrackEvent.TYPE_COUNTER:
            unit = track.counter.unit_name or UNIT_NAMES[track.counter.unit]
            value = event.double_counter_value * (track.counter.unit_multiplier or 1)
            self.events.counters.append(CounterValue(track.name, unit, at, value))
        elif event.type == protos.TrackEvent.TYPE_INSTANT and track.HasField("thread"):
            self.events.messages.append(Message(track.thread.tid, at, name))
        elif event.type == protos.TrackEvent.TYPE_INSTANT:
            self.events.tasks.append(Task(name, at, 0, len(self.opened[uuid])))
        elif event.type == protos.TrackEvent.TYPE_SLICE_BEGIN:
            self.opened[uuid].append((at, name, *_details(event, texts)))
        else:
            self._end(at, uuid, track)

    def _end(self, at, uuid, track):
        if not self.opened[uuid]:
            raise Invalid(f"an end without a begin on track {uuid} at {at}")
        start, name, category, location, args = self.opened[uuid].pop()
        depth, duration = len(self.opened[uuid]), at - start
        if track.HasField("thread"):
            self.events.spans.append(Span(
                track.thread.tid, track.thread.thread_name, start, duration, depth, name, category,
                *location, comparable_args(args),
            ))
        elif track.name.startswith("frames"):
            set_ = track.name.removeprefix("frames").removeprefix(" of ")
            self.events.frames.append(Frame(set_, str(args["index"]), start, duration))
        else:
            self.events.tasks.append(Task(name, start, duration, depth))

    def finish(self):
        left = sum(map(len, self.opened.values()))
        if left:
            raise Invalid(f"{left} spans have no end")
        self.events.flows = flows_of(self.chains.values())
        return self.events


def _details(event, texts):
    """Returns the first category, the source location and the arguments of a slice."""
    args = {}
    for annotation in event.debug_annotations:
        iid = annotation.name_iid
        key = texts["debug_annotation_names", iid] if iid else annotation.name
        args[key] = getattr(annotation, annotation.WhichOneof("value"))
    categories = [texts["event_categories", iid] for iid in event.category_iids]
    iid = event.source_location_iid
    location = texts["source_locations", iid] if iid else (None, None)
    return categories[0] if categories else None, location, args
