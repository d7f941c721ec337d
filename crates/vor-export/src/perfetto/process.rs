//! The parts of a trace that belong to the whole process: its track, the clocks, frames and
//! counters.
//!
//! They are one sequence of packets with absolute times, because their events are rare and arrive
//! from all threads.

use rustc_hash::FxHashSet;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::FrameSnapshot;

use super::Times;
use super::counters::CounterUnit;
use super::schema::{PACKET, annotation, clock, event, packet, track};
use crate::labels::{frame_label, process_label, process_number};
use crate::proto::{put_f64, put_i64, put_message, put_str, put_u64};

/// A counter that a `TraceBuilder` made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CounterTrack {
    uuid: u64,
}

/// The kind of a track, which is part of its number.
#[derive(Clone, Copy)]
enum Kind {
    Process,
    Thread,
    Frames,
    Metric,
    Dropped,
    Task,
    Counter,
    Flow,
    Group,
}

/// The place of a track in the process: its group, and its rank there. Viewers show tracks without
/// a group first, then the groups by name.
///
/// So frames come first, then metrics with one row each, and then tasks, of which hundreds may be
/// open at once.
#[derive(Clone, Copy)]
enum Place {
    Top,
    Metrics(u64),
    Tasks(SiteId),
}

impl Place {
    const DROPPED: Self = Self::Metrics(0);

    /// Metrics of the program come before those of the recorder, each in order of declaration.
    fn of_metric(column: u32, is_system: bool) -> Self {
        let first = if is_system { 1 << 28 } else { 1 };
        Self::Metrics(first + u64::from(column).min(1 << 26))
    }

    /// Counters whose values the program writes come between the metrics of program and recorder.
    fn of_counter(number: u64) -> Self {
        Self::Metrics((1 << 27) + number.min(1 << 26))
    }

    /// Returns the group's number and name, and the rank in it.
    fn in_group(self) -> Option<(u64, &'static str, u64)> {
        match self {
            Self::Top => None,
            Self::Metrics(rank) => Some((0, "metrics", rank)),
            Self::Tasks(site) => Some((1, "tasks", u64::from(site.0))),
        }
    }
}

/// The process in the trace.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) uuid: u64,
    pub(super) pid: u32,
    sequence: u32,
    /// The trace's clock minus the wall clock.
    offset_ns: i64,
    /// The seed of the numbers of all tracks.
    seed: u64,
    /// Declared tracks other than threads.
    declared: FxHashSet<u64>,
    counters: u64,
    has_drops: bool,
}

impl Process {
    pub(super) fn new(catalog: &Catalog, sequence: u32) -> Self {
        let syncs = catalog.timeline.syncs();
        let begin = syncs
            .first()
            .map_or((0, 0), |sync| (sync.ticks, sync.unix_ns));
        let mut seed =
            mix(u64::from(catalog.process.pid) ^ mix(begin.0) ^ mix(begin.1 as u64).rotate_left(1));
        for byte in catalog.machine.host.bytes() {
            seed = mix(seed ^ u64::from(byte));
        }
        let snapshot = catalog.machine.clocks;
        let offset_ns = snapshot.map_or(0, |clocks| {
            clocks
                .boottime_ns
                .saturating_sub(catalog.unix_ns(clocks.ticks))
        });
        let mut process = Self {
            uuid: 0,
            pid: process_number(catalog),
            sequence,
            offset_ns,
            seed,
            declared: FxHashSet::default(),
            counters: 0,
            has_drops: false,
        };
        process.uuid = process.track(Kind::Process, 0);
        process
    }

    pub(super) fn times<'a>(&self, catalog: &'a Catalog) -> Times<'a> {
        Times::new(catalog, self.offset_ns)
    }

    /// Returns the number of a track, which differs from those of other processes in the trace.
    fn track(&self, kind: Kind, number: u64) -> u64 {
        mix(mix(self.seed ^ kind as u64) ^ number).max(1)
    }

    pub(super) fn uuid_of_thread(&self, thread: ThreadId) -> u64 {
        self.track(Kind::Thread, u64::from(thread.0))
    }

    /// Returns the number of a flow, unique among processes.
    pub(super) fn flow(&self, flow: u64) -> u64 {
        self.track(Kind::Flow, flow)
    }

    /// Writes the first packets: the clocks and the process.
    pub(super) fn put_begin(&self, out: &mut Vec<u8>, catalog: &Catalog) {
        let sync = catalog.timeline.syncs().first();
        let (unix_ns, monotonic_ns) = match catalog.machine.clocks {
            Some(clocks) => (catalog.unix_ns(clocks.ticks), Some(clocks.monotonic_ns)),
            None => (sync.map_or(0, |sync| sync.unix_ns), None),
        };
        let boottime_ns = unix_ns.saturating_add(self.offset_ns);
        self.put_packet(out, Some(packet::STATE_CLEARED), |out| {
            put_u64(out, packet::FIRST_ON_SEQUENCE, 1);
            put_message(out, packet::CLOCK_SNAPSHOT, |out| {
                let clocks = [
                    (clock::BOOTTIME, Some(boottime_ns)),
                    (clock::MONOTONIC, monotonic_ns),
                    (clock::REALTIME, Some(unix_ns)),
                ];
                for (id, ns) in clocks {
                    let Some(ns) = ns.and_then(|ns| u64::try_from(ns).ok()) else {
                        continue;
                    };
                    put_message(out, clock::CLOCKS, |out| {
                        put_u64(out, clock::ID, id);
                        put_u64(out, clock::TIMESTAMP, ns);
                    });
                }
                put_u64(out, clock::PRIMARY, clock::BOOTTIME);
            });
        });
        self.put_packet(out, None, |out| {
            put_message(out, packet::TRACK_DESCRIPTOR, |out| {
                put_u64(out, track::UUID, self.uuid);
                put_message(out, track::PROCESS, |out| {
                    put_i64(out, track::PROCESS_PID, i64::from(self.pid));
                    put_str(out, track::PROCESS_NAME, process_label(catalog));
                });
            });
        });
    }

    /// Writes a frame and its metrics.
    pub(super) fn put_frame(&mut self, out: &mut Vec<u8>, frame: &FrameSnapshot) {
        let catalog = &*frame.catalog;
        let times = self.times(catalog);
        let start_ns = times.ns(frame.start_ticks);
        let end_ns = times.ns(frame.end_ticks).max(start_ns);
        let uuid = self.track(Kind::Frames, u64::from(frame.frame_set));
        let name = frame_label(catalog, frame.frame_set, "frames");
        self.declare(out, uuid, &name, Place::Top);
        self.put_event(out, start_ns, |out| {
            put_u64(out, event::TYPE, event::BEGIN);
            put_u64(out, event::TRACK_UUID, uuid);
            put_str(out, event::NAME, "frame");
            put_arg(out, "index", frame.index);
            if frame.merged_marks > 0 {
                put_arg(out, "merged_marks", frame.merged_marks);
            }
        });
        self.put_event(out, end_ns, |out| {
            put_u64(out, event::TYPE, event::END);
            put_u64(out, event::TRACK_UUID, uuid);
        });
        for metric in &frame.metrics {
            let column = catalog.columns.get(metric.column as usize);
            let Some(declared) = column.filter(|_| metric.value.is_finite()) else {
                continue;
            };
            let uuid = self.track(Kind::Metric, u64::from(metric.column));
            let (unit, multiplier) = CounterUnit::of_metric(&declared.metric.unit);
            let place = Place::of_metric(metric.column, declared.system);
            self.declare_counter(
                out,
                uuid,
                &declared.metric.name,
                place,
                &unit,
                multiplier,
                false,
            );
            self.put_counter(out, CounterTrack { uuid }, start_ns, metric.value);
        }
        if frame.dropped_spans > 0 || self.has_drops {
            self.has_drops = true;
            let uuid = self.track(Kind::Dropped, u64::from(frame.frame_set));
            self.declare_counter(
                out,
                uuid,
                "dropped_spans",
                Place::DROPPED,
                &CounterUnit::Count,
                1,
                false,
            );
            self.put_counter(
                out,
                CounterTrack { uuid },
                start_ns,
                frame.dropped_spans as f64,
            );
        }
    }

    /// Returns the track of a task's lane, declared under the task's name.
    pub(super) fn track_of_task(
        &mut self,
        out: &mut Vec<u8>,
        site: SiteId,
        lane: u32,
        name: &str,
    ) -> u64 {
        let uuid = self.track(Kind::Task, u64::from(site.0) << 32 | u64::from(lane));
        self.declare(out, uuid, name, Place::Tasks(site));
        uuid
    }

    /// Declares a counter whose values the program writes.
    pub(super) fn add_counter(
        &mut self,
        out: &mut Vec<u8>,
        name: &str,
        unit: &CounterUnit,
        multiplier: u64,
        is_incremental: bool,
    ) -> CounterTrack {
        self.counters += 1;
        let uuid = self.track(Kind::Counter, self.counters);
        let place = Place::of_counter(self.counters);
        self.declare_counter(out, uuid, name, place, unit, multiplier, is_incremental);
        CounterTrack { uuid }
    }

    pub(super) fn put_counter(
        &self,
        out: &mut Vec<u8>,
        counter: CounterTrack,
        ns: u64,
        value: f64,
    ) {
        self.put_counter_event(out, counter, ns, |out| {
            put_f64(out, event::DOUBLE_COUNTER_VALUE, value);
        });
    }

    pub(super) fn put_integer_counter(
        &self,
        out: &mut Vec<u8>,
        counter: CounterTrack,
        ns: u64,
        value: i64,
    ) {
        self.put_counter_event(out, counter, ns, |out| {
            put_i64(out, event::COUNTER_VALUE, value);
        });
    }

    fn put_counter_event(
        &self,
        out: &mut Vec<u8>,
        counter: CounterTrack,
        ns: u64,
        value: impl FnOnce(&mut Vec<u8>),
    ) {
        self.put_event(out, ns, |out| {
            put_u64(out, event::TYPE, event::COUNTER);
            put_u64(out, event::TRACK_UUID, counter.uuid);
            value(out);
        });
    }

    /// Writes an event at a time of the trace.
    pub(super) fn put_event(&self, out: &mut Vec<u8>, ns: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        self.put_packet(out, None, |out| {
            put_u64(out, packet::TIMESTAMP, ns);
            put_message(out, packet::TRACK_EVENT, fields);
        });
    }

    fn put_packet(&self, out: &mut Vec<u8>, flags: Option<u64>, fields: impl FnOnce(&mut Vec<u8>)) {
        put_message(out, PACKET, |out| {
            put_u64(out, packet::SEQUENCE_ID, u64::from(self.sequence));
            if let Some(flags) = flags {
                put_u64(out, packet::SEQUENCE_FLAGS, flags);
            }
            fields(out);
        });
    }

    /// Declares a track of the process, once.
    fn declare(&mut self, out: &mut Vec<u8>, uuid: u64, name: &str, place: Place) {
        self.declare_track(out, uuid, name, place, |_| {});
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "each is a field of the descriptor"
    )]
    fn declare_counter(
        &mut self,
        out: &mut Vec<u8>,
        uuid: u64,
        name: &str,
        place: Place,
        unit: &CounterUnit,
        multiplier: u64,
        is_incremental: bool,
    ) {
        self.declare_track(out, uuid, name, place, |out| {
            put_message(out, track::COUNTER, |out| {
                let (code, unit_name) = unit.code();
                if let Some(code) = code {
                    put_u64(out, track::COUNTER_UNIT, code);
                }
                if let Some(name) = unit_name {
                    put_str(out, track::COUNTER_UNIT_NAME, name);
                }
                if multiplier != 1 {
                    put_u64(out, track::COUNTER_MULTIPLIER, multiplier);
                }
                if is_incremental {
                    put_u64(out, track::COUNTER_INCREMENTAL, 1);
                }
            });
        });
    }

    fn declare_track(
        &mut self,
        out: &mut Vec<u8>,
        uuid: u64,
        name: &str,
        place: Place,
        more: impl FnOnce(&mut Vec<u8>),
    ) {
        if !self.declared.insert(uuid) {
            return;
        }
        let group = place
            .in_group()
            .map(|(number, name, rank)| (self.declare_group(out, number, name), rank));
        self.put_packet(out, None, |out| {
            put_message(out, packet::TRACK_DESCRIPTOR, |out| {
                put_u64(out, track::UUID, uuid);
                put_u64(
                    out,
                    track::PARENT_UUID,
                    group.map_or(self.uuid, |group| group.0),
                );
                put_str(out, track::NAME, name);
                if let Some((_, rank)) = group {
                    put_u64(out, track::SIBLING_ORDER_RANK, rank);
                }
                more(out);
            });
        });
    }

    /// Declares a group of tracks, once, and returns its number.
    fn declare_group(&mut self, out: &mut Vec<u8>, number: u64, name: &str) -> u64 {
        let uuid = self.track(Kind::Group, number);
        if self.declared.insert(uuid) {
            self.put_packet(out, None, |out| {
                put_message(out, packet::TRACK_DESCRIPTOR, |out| {
                    put_u64(out, track::UUID, uuid);
                    put_u64(out, track::PARENT_UUID, self.uuid);
                    put_str(out, track::NAME, name);
                    put_u64(out, track::CHILD_ORDERING, track::EXPLICIT);
                });
            });
        }
        uuid
    }
}

/// Appends an argument that is a number.
pub(super) fn put_arg(out: &mut Vec<u8>, name: &str, value: u64) {
    put_message(out, event::DEBUG_ANNOTATIONS, |out| {
        put_str(out, annotation::NAME, name);
        put_u64(out, annotation::UINT, value);
    });
}

/// Appends an argument that is true.
pub(super) fn put_flag(out: &mut Vec<u8>, name: &str) {
    put_message(out, event::DEBUG_ANNOTATIONS, |out| {
        put_str(out, annotation::NAME, name);
        put_u64(out, annotation::BOOL, 1);
    });
}

/// Spreads the bits of a number over all 64: the finalizer of SplitMix64 (Steele, Lea and Flood,
/// OOPSLA 2014).
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_the_program_come_first_and_those_of_the_recorder_last() {
        let most = u32::MAX;
        let ranks = [
            Place::DROPPED,
            Place::of_metric(0, false),
            Place::of_metric(7, false),
            Place::of_metric(most, false),
            Place::of_counter(1),
            Place::of_counter(7),
            Place::of_counter(u64::MAX),
            Place::of_metric(0, true),
            Place::of_metric(7, true),
            Place::of_metric(most, true),
        ]
        .map(|place| place.in_group().unwrap().2);
        assert!(ranks.is_sorted_by(|before, after| before < after));
        assert!(ranks[9] <= i32::MAX as u64, "a rank is an `int32`");
    }
}
