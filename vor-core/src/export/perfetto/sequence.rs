//! A thread's packets: a sequence with its own clock, its own track and its own table of texts.
//!
//! All events of a thread stand on one track, so that need not be said again. Times are steps from the event before, on a clock of the sequence; an event that
//! lies before the one written last, such as the begin of a scope that was open across drains, has a time of its own instead. A span is two packets:
//!
//! ```text
//! begin  packet { track_event { begin, name, category, place }, sequence, flags, step }    18 bytes where all numbers are small
//! end    packet { track_event { end }, sequence, step }                                     11 bytes
//! ```

use std::collections::BTreeMap;

use super::names::{MAX_BODY_BYTES, Name};
use super::schema::{PACKET, clock, event, packet, track};
use crate::export::proto::{MAX_VARINT_BYTES, put_i64, put_message, put_str, put_u64, write_varint};

/// Keys of the fields that the hot path writes by hand, as they stand in the bytes.
const PACKET_KEY: u8 = (PACKET << 3 | 2) as u8;
const TIMESTAMP_KEY: u8 = (packet::TIMESTAMP << 3) as u8;

/// Most bytes of a thread's part of a packet: a sequence number of 32 bits, and flags.
const MAX_PREFIX_BYTES: usize = 8;
/// Times of late begins that are remembered, where so many scopes are open.
const MAX_LATE: usize = 4096;

/// `track_event { type: END }`.
const END_BODY: [u8; 4] = [
    (packet::TRACK_EVENT << 3 | 2) as u8,
    2,
    (event::TYPE << 3) as u8,
    event::END as u8,
];

/// Room for a packet written by the hot path: key, length, body, prefix, and a time with its clock, in whole vectors.
const PACKET_ROOM: usize = 64;
const _: () = assert!(2 + MAX_BODY_BYTES + MAX_PREFIX_BYTES + 1 + MAX_VARINT_BYTES + 3 <= PACKET_ROOM);

/// A thread in the trace.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Its number, as packets have it.
    pub(super) id: u32,
    pub(super) track_uuid: u64,
    pub(super) label: String,
    pub(super) tid: u64,
    /// `sequence` and `flags` of a packet that refers to texts; the first `plain_bytes` of it are those of one that does not.
    prefix: [u8; MAX_PREFIX_BYTES],
    prefix_bytes: usize,
    plain_bytes: usize,
    /// Time of the last span's edge that was written in its turn, on the sequence's clock.
    last_ns: u64,
    /// Where the clock is coarse: the newest begin, and the newest of the blocks before this one. Begins up to that one come late.
    newest_ns: Option<u64>,
    settled_ns: Option<u64>,
    /// Times at which begins came late, with the number of blocks in which they did, and the last of these.
    late: BTreeMap<u64, (u64, u64)>,
    /// Number of the block, and its first begin.
    block: u64,
    first_ns: Option<u64>,
    /// Which names the sequence was told of, a bit each.
    known: Vec<u64>,
}

impl Sequence {
    pub(super) fn new(id: u32, track_uuid: u64, tid: u64) -> Self {
        let mut fields = Vec::new();
        put_u64(&mut fields, packet::SEQUENCE_ID, u64::from(id));
        let plain_bytes = fields.len();
        put_u64(&mut fields, packet::SEQUENCE_FLAGS, packet::NEEDS_STATE);
        let mut prefix = [0; MAX_PREFIX_BYTES];
        let prefix_bytes = fields.len();
        prefix[..prefix_bytes].copy_from_slice(&fields);
        Self {
            id,
            track_uuid,
            label: String::new(),
            tid,
            prefix,
            prefix_bytes,
            plain_bytes,
            last_ns: 0,
            newest_ns: None,
            settled_ns: None,
            late: BTreeMap::new(),
            block: 0,
            first_ns: None,
            known: Vec::new(),
        }
    }

    /// Begins the sequence: its clock stands at `now_ns`, and its events are on its track.
    pub(super) fn put_begin(&mut self, out: &mut Vec<u8>, now_ns: u64) {
        self.last_ns = now_ns;
        put_message(out, PACKET, |out| {
            put_u64(out, packet::SEQUENCE_ID, u64::from(self.id));
            put_u64(out, packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
            put_u64(out, packet::FIRST_ON_SEQUENCE, 1);
            put_message(out, packet::DEFAULTS, |out| {
                put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::OF_SEQUENCE);
                put_message(out, packet::TRACK_EVENT, |out| {
                    put_u64(out, event::TRACK_UUID, self.track_uuid);
                });
            });
            put_message(out, packet::CLOCK_SNAPSHOT, |out| {
                put_message(out, clock::CLOCKS, |out| {
                    put_u64(out, clock::ID, clock::BOOTTIME);
                    put_u64(out, clock::TIMESTAMP, now_ns);
                });
                put_message(out, clock::CLOCKS, |out| {
                    put_u64(out, clock::ID, clock::OF_SEQUENCE);
                    put_u64(out, clock::TIMESTAMP, 0);
                    put_u64(out, clock::INCREMENTAL, 1);
                });
                put_u64(out, clock::PRIMARY, clock::BOOTTIME);
            });
        });
    }

    /// Says which thread of which process it is, and what it is called.
    pub(super) fn put_descriptor(&self, out: &mut Vec<u8>, process_uuid: u64, pid: u32) {
        put_message(out, PACKET, |out| {
            put_u64(out, packet::SEQUENCE_ID, u64::from(self.id));
            put_message(out, packet::TRACK_DESCRIPTOR, |out| {
                put_u64(out, track::UUID, self.track_uuid);
                put_u64(out, track::PARENT_UUID, process_uuid);
                put_message(out, track::THREAD, |out| {
                    put_i64(out, track::THREAD_PID, i64::from(pid));
                    put_u64(out, track::THREAD_TID, self.tid);
                    put_str(out, track::THREAD_NAME, &self.label);
                });
            });
        });
    }

    /// Tells the sequence of a name, unless it knows it. `index` is the name's among those used.
    #[inline]
    pub(super) fn learn(&mut self, out: &mut Vec<u8>, index: usize, name: &Name) {
        if self
            .known
            .get(index / 64)
            .is_none_or(|word| word & 1 << (index % 64) == 0)
        {
            self.learn_anew(out, index, name);
        }
    }

    #[cold]
    fn learn_anew(&mut self, out: &mut Vec<u8>, index: usize, name: &Name) {
        if self.known.len() <= index / 64 {
            self.known.resize(index / 64 + 1, 0);
        }
        self.known[index / 64] |= 1 << (index % 64);
        put_message(out, PACKET, |out| {
            out.extend_from_slice(&self.prefix[..self.prefix_bytes]);
            put_message(out, packet::INTERNED_DATA, |out| name.put_interned(out));
        });
    }

    /// Begins a block of edges that are in order among themselves.
    pub(super) fn begin_block(&mut self) {
        self.settled_ns = self.newest_ns;
        self.block += 1;
        // The span that began first has ended: what came late within it is over, and nothing else begins there.
        if let Some(first_ns) = self.first_ns.take() {
            self.late.split_off(&first_ns.saturating_add(1));
        }
    }

    /// Returns the time at which a begin is shown; with a clock that is not coarse, `slack_ns` is 0 and it is that of the begin.
    ///
    /// A begin that comes late belongs around those that came in blocks before with the same time, and behind the ends of that time.
    #[inline]
    pub(super) fn begin_ns(&mut self, ns: u64, slack_ns: u64) -> u64 {
        if slack_ns == 0 {
            return ns;
        }
        self.first_ns.get_or_insert(ns);
        if self.settled_ns.is_none_or(|settled_ns| ns > settled_ns) {
            self.newest_ns = Some(ns);
            return ns + slack_ns;
        }
        if self.late.len() == MAX_LATE && !self.late.contains_key(&ns) {
            self.late.pop_first();
        }
        let (blocks, last) = self.late.entry(ns).or_default();
        if *last != self.block {
            (*blocks, *last) = (*blocks + 1, self.block);
        }
        let before = *blocks - 1;
        ns + slack_ns.saturating_sub(1 + before).max(1)
    }

    /// Writes the begin of a span without arguments.
    #[inline]
    pub(super) fn put_span_begin(&mut self, out: &mut Vec<u8>, name: &Name, ns: u64) {
        self.put_short(out, &name.body, name.body_bytes, self.prefix_bytes, ns);
    }

    /// Writes the end of the innermost span that is open at that time. Ends come in their turn; one at the tick of the begin before it is shown as late as that.
    #[inline]
    pub(super) fn put_span_end(&mut self, out: &mut Vec<u8>, ns: u64) {
        let ns = ns.max(self.last_ns);
        let mut body = [0; MAX_BODY_BYTES];
        body[..END_BODY.len()].copy_from_slice(&END_BODY);
        self.put_short(out, &body, END_BODY.len(), self.plain_bytes, ns);
    }

    /// Writes a packet of fewer than 128 bytes. Copies of fixed length are a few instructions; what they write too much is overwritten.
    #[inline(always)]
    fn put_short(
        &mut self,
        out: &mut Vec<u8>,
        body: &[u8; MAX_BODY_BYTES],
        body_bytes: usize,
        prefix_bytes: usize,
        ns: u64,
    ) {
        let mut bytes = [0; PACKET_ROOM];
        bytes[0] = PACKET_KEY;
        bytes[2..2 + MAX_BODY_BYTES].copy_from_slice(body);
        let mut at = 2 + body_bytes.min(MAX_BODY_BYTES);
        bytes[at..at + MAX_PREFIX_BYTES].copy_from_slice(&self.prefix);
        at += prefix_bytes.min(MAX_PREFIX_BYTES);
        bytes[at] = TIMESTAMP_KEY;
        at += 1;
        let mut time = [0; MAX_VARINT_BYTES];
        let step = ns.wrapping_sub(self.last_ns);
        if ns >= self.last_ns {
            self.last_ns = ns;
            let time_bytes = write_varint(&mut time, step);
            bytes[at..at + MAX_VARINT_BYTES].copy_from_slice(&time);
            at += time_bytes;
        } else {
            let time_bytes = write_varint(&mut time, ns);
            bytes[at..at + MAX_VARINT_BYTES].copy_from_slice(&time);
            at += time_bytes;
            bytes[at..at + 3].copy_from_slice(&BOOTTIME_CLOCK);
            at += 3;
        }
        bytes[1] = (at - 2) as u8;
        let end = out.len() + at;
        out.extend_from_slice(&bytes);
        out.truncate(end);
    }

    /// Writes a begin of any length, whose event has these fields.
    pub(super) fn put_long_begin(&mut self, out: &mut Vec<u8>, ns: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        put_message(out, PACKET, |out| {
            out.extend_from_slice(&self.prefix[..self.prefix_bytes]);
            if ns >= self.last_ns {
                put_u64(out, packet::TIMESTAMP, ns - self.last_ns);
                self.last_ns = ns;
            } else {
                put_u64(out, packet::TIMESTAMP, ns);
                put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
            }
            put_message(out, packet::TRACK_EVENT, fields);
        });
    }

    /// Writes an event that is no span's edge, and refers to no text. Whatever its time, that of the edges goes on from where it was.
    pub(super) fn put_point(&self, out: &mut Vec<u8>, ns: u64, fields: impl FnOnce(&mut Vec<u8>)) {
        put_message(out, PACKET, |out| {
            out.extend_from_slice(&self.prefix[..self.plain_bytes]);
            put_u64(out, packet::TIMESTAMP, ns);
            put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
            put_message(out, packet::TRACK_EVENT, fields);
        });
    }
}

/// `timestamp_clock_id: BOOTTIME`.
const BOOTTIME_CLOCK: [u8; 3] = [
    (packet::TIMESTAMP_CLOCK_ID << 3 & 0x7f | 0x80) as u8,
    (packet::TIMESTAMP_CLOCK_ID << 3 >> 7) as u8,
    clock::BOOTTIME as u8,
];
