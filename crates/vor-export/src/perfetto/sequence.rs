//! A sequence of packets, with its own clock and its own table of texts.
//!
//! All events of a sequence are on one track, which its first packet names. Times are steps from
//! the previous event, on the clock of the sequence. An event that is earlier than the previous one
//! has an absolute time instead. A span is two packets:
//!
//! ```text
//! begin  packet { track_event { begin, name, category, place }, sequence, flags, step }
//! end    packet { track_event { end }, sequence, step }
//! ```
//!
//! They take 18 and 11 bytes if all numbers are small.

use super::names::{MAX_BODY_BYTES, Name};
use super::schema::{PACKET, clock, event, packet};
use crate::proto::{SHORT_VARINT_BYTES, put_message, put_u64, short_varint};

/// Keys of the fields that the hot path writes directly, as bytes of the format.
const PACKET_KEY: u8 = (PACKET << 3 | 2) as u8;
const TIMESTAMP_KEY: u8 = (packet::TIMESTAMP << 3) as u8;

/// Most bytes of the sequence's fields of a packet: a number of 32 bits, and flags.
const MAX_PREFIX_BYTES: usize = 8;

/// `track_event { type: END }`.
pub(super) const END_BODY: [u8; 4] = [
    (packet::TRACK_EVENT << 3 | 2) as u8,
    2,
    (event::TYPE << 3) as u8,
    event::END as u8,
];

/// Most bytes of a packet of the hot path: key, length, body, prefix, and a time, in whole vectors.
const MAX_SHORT_BYTES: usize = 64;
const _: () =
    assert!(2 + MAX_BODY_BYTES + MAX_PREFIX_BYTES + 1 + SHORT_VARINT_BYTES <= MAX_SHORT_BYTES);

/// A sequence of packets.
#[derive(Debug)]
pub(super) struct Sequence {
    /// Its number in packets.
    pub(super) id: u32,
    /// `sequence` and `flags` of a packet that refers to texts. Its first `plain_bytes` bytes are
    /// those of a packet without references.
    prefix: [u8; MAX_PREFIX_BYTES],
    prefix_bytes: usize,
    plain_bytes: usize,
    /// Time of the last event on the sequence's clock.
    last_ns: u64,
    /// A bit per name, set if the sequence defined it.
    defined: Vec<u64>,
}

impl Sequence {
    pub(super) fn new(id: u32) -> Self {
        let mut fields = Vec::new();
        put_u64(&mut fields, packet::SEQUENCE_ID, u64::from(id));
        let plain_bytes = fields.len();
        put_u64(&mut fields, packet::SEQUENCE_FLAGS, packet::NEEDS_STATE);
        let mut prefix = [0; MAX_PREFIX_BYTES];
        let prefix_bytes = fields.len();
        prefix[..prefix_bytes].copy_from_slice(&fields);
        Self {
            id,
            prefix,
            prefix_bytes,
            plain_bytes,
            last_ns: 0,
            defined: Vec::new(),
        }
    }

    /// Begins the sequence: its clock starts at `now_ns`, and its events are on the track.
    pub(super) fn put_begin(&mut self, out: &mut Vec<u8>, track_uuid: u64, now_ns: u64) {
        self.last_ns = now_ns;
        put_message(out, PACKET, |out| {
            put_u64(out, packet::SEQUENCE_ID, u64::from(self.id));
            put_u64(out, packet::SEQUENCE_FLAGS, packet::STATE_CLEARED);
            put_u64(out, packet::FIRST_ON_SEQUENCE, 1);
            put_message(out, packet::DEFAULTS, |out| {
                put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::OF_SEQUENCE);
                put_message(out, packet::TRACK_EVENT, |out| {
                    put_u64(out, event::TRACK_UUID, track_uuid);
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

    /// Defines a name in the sequence, once. `index` is its index among the used names.
    #[inline]
    pub(super) fn define(&mut self, out: &mut Vec<u8>, index: usize, name: &Name) {
        if self
            .defined
            .get(index / 64)
            .is_none_or(|word| word & 1 << (index % 64) == 0)
        {
            self.define_slow(out, index, name);
        }
    }

    #[cold]
    fn define_slow(&mut self, out: &mut Vec<u8>, index: usize, name: &Name) {
        if self.defined.len() <= index / 64 {
            self.defined.resize(index / 64 + 1, 0);
        }
        self.defined[index / 64] |= 1 << (index % 64);
        put_message(out, PACKET, |out| {
            out.extend_from_slice(&self.prefix[..self.prefix_bytes]);
            put_message(out, packet::INTERNED_DATA, |out| name.put_interned(out));
        });
    }

    /// Writes the begin of a span without arguments.
    #[inline]
    pub(super) fn put_span_begin(&mut self, out: &mut Vec<u8>, name: &Name, ns: u64) {
        let body = |room: &mut [u8; MAX_BODY_BYTES]| {
            *room = name.body;
            name.body_bytes
        };
        self.put_short(out, self.prefix_bytes, ns, body);
    }

    /// Writes the end of the innermost open span.
    #[inline]
    pub(super) fn put_span_end(&mut self, out: &mut Vec<u8>, ns: u64) {
        let body = |room: &mut [u8; MAX_BODY_BYTES]| {
            room[..END_BODY.len()].copy_from_slice(&END_BODY);
            END_BODY.len()
        };
        self.put_short(out, self.plain_bytes, ns, body);
    }

    /// Writes an event of any size, which includes its key and length. `refers` is whether it
    /// refers to texts.
    #[inline]
    pub(super) fn put_event(&mut self, out: &mut Vec<u8>, ns: u64, refers: bool, event: &[u8]) {
        let prefix_bytes = if refers {
            self.prefix_bytes
        } else {
            self.plain_bytes
        };
        if event.len() > MAX_BODY_BYTES {
            return self.put_long(out, prefix_bytes, ns, event);
        }
        self.put_short(out, prefix_bytes, ns, |room| {
            room[..event.len()].copy_from_slice(event);
            event.len()
        });
    }

    /// Writes a packet of fewer than 128 bytes. `put_body` writes its event to the beginning of the
    /// room, and returns the number of bytes.
    ///
    /// Copies of fixed size are a few instructions; the next field overwrites excess bytes. All
    /// fields go to `out` directly: a vector that is loaded just after its parts were stored waits
    /// for the stores.
    #[inline(always)]
    fn put_short(
        &mut self,
        out: &mut Vec<u8>,
        prefix_bytes: usize,
        ns: u64,
        put_body: impl FnOnce(&mut [u8; MAX_BODY_BYTES]) -> usize,
    ) {
        let step = ns.checked_sub(self.last_ns).and_then(short_varint);
        let Some((step, step_bytes)) = step else {
            let mut body = [0; MAX_BODY_BYTES];
            let body_bytes = put_body(&mut body);
            return self.put_long(out, prefix_bytes, ns, &body[..body_bytes]);
        };
        self.last_ns = ns;
        let begin = out.len();
        out.extend_from_slice(&[0; MAX_SHORT_BYTES]);
        let Some(bytes) = out.last_chunk_mut::<MAX_SHORT_BYTES>() else {
            return;
        };
        bytes[0] = PACKET_KEY;
        let Some(room) = bytes[2..].first_chunk_mut() else {
            return;
        };
        let mut at = 2 + put_body(room).min(MAX_BODY_BYTES);
        bytes[at..at + MAX_PREFIX_BYTES].copy_from_slice(&self.prefix);
        at += prefix_bytes.min(MAX_PREFIX_BYTES);
        bytes[at] = TIMESTAMP_KEY;
        at += 1;
        bytes[at..at + SHORT_VARINT_BYTES].copy_from_slice(&step);
        at += step_bytes;
        bytes[1] = (at - 2) as u8;
        out.truncate(begin + at);
    }

    /// Writes a packet of any size.
    #[cold]
    fn put_long(&mut self, out: &mut Vec<u8>, prefix_bytes: usize, ns: u64, event: &[u8]) {
        put_message(out, PACKET, |out| {
            out.extend_from_slice(event);
            out.extend_from_slice(&self.prefix[..prefix_bytes]);
            if ns >= self.last_ns {
                put_u64(out, packet::TIMESTAMP, ns - self.last_ns);
                self.last_ns = ns;
            } else {
                put_u64(out, packet::TIMESTAMP, ns);
                put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
            }
        });
    }

    /// Writes an event that is not a span's edge and refers to no text. Its time does not change
    /// the sequence's clock.
    pub(super) fn put_point(&self, out: &mut Vec<u8>, ns: u64, event: &[u8]) {
        put_message(out, PACKET, |out| {
            out.extend_from_slice(event);
            out.extend_from_slice(&self.prefix[..self.plain_bytes]);
            put_u64(out, packet::TIMESTAMP, ns);
            put_u64(out, packet::TIMESTAMP_CLOCK_ID, clock::BOOTTIME);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::perfetto::names::Names;
    use vor_capture::filled;
    use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

    #[test]
    fn a_name_is_defined_once_and_takes_a_bit() {
        let site = Some(std::sync::Arc::new(SiteInfo::default()));
        let catalog = filled!(Catalog {
            sites: std::sync::Arc::new(vec![site; 200])
        });
        let mut names = Names::default();
        let indices: Vec<_> = (1..=200)
            .map(|id| names.index(&catalog, SiteId(id)))
            .collect();
        let mut sequence = Sequence::new(1);
        let mut out = Vec::new();
        // A late name first, and then one whose bit is in another word.
        for index in [130, 3, 70, 199] {
            let bytes = out.len();
            for _ in 0..2 {
                sequence.define(&mut out, indices[index], names.get(indices[index]));
            }
            assert!(out.len() > bytes);
        }
        let bytes = out.len();
        for index in [130, 3, 70, 199] {
            sequence.define(&mut out, indices[index], names.get(indices[index]));
        }
        assert_eq!(out.len(), bytes, "all are defined already");
        assert_eq!(sequence.defined.len(), 200_usize.div_ceil(64));
    }

    #[test]
    fn an_event_of_any_size_is_written_alike() {
        for bytes in [1, MAX_BODY_BYTES - 1, MAX_BODY_BYTES, MAX_BODY_BYTES + 1] {
            let event = vec![7; bytes];
            let (mut short, mut long) = (Sequence::new(300), Sequence::new(300));
            let (mut found, mut expected) = (Vec::new(), Vec::new());
            for ns in [5, 1_000, 1_000, 70] {
                short.put_event(&mut found, ns, true, &event);
                long.put_long(&mut expected, long.prefix_bytes, ns, &event);
            }
            assert_eq!(found, expected, "{bytes} bytes");
        }
    }
}
