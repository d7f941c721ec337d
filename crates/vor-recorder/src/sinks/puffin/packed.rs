//! A whole puffin frame as bytes, as puffin 0.20 writes it to files and sockets.
//!
//! ```text
//! frame   = "PFD4"  length u32  meta   length u32  1 u8  packed   length u32  scopes
//! meta    = index varint   begin_ns zigzag   end_ns zigzag   bytes varint   scopes varint
//! packed  = length u32 of streams   an LZ4 block of streams
//! streams = count varint   ( thread   length varint   bytes   scopes varint   depth varint
//!             begin_ns zigzag   end_ns zigzag ) ×
//! thread  = 0 u8 | 1 u8  start_ns zigzag      text
//! scopes  = count varint   ( 1 u8  id varint   0 u8 | 1 u8  name text   function text
//!             file text   line varint ) ×
//! text    = length varint   UTF-8
//! ```
//!
//! Lengths are in bytes; numbers are little-endian. A varint is one byte for numbers up to 250;
//! otherwise it is the byte 251, 252 or 253, and the number in 2, 4 or 8 bytes. Zigzag maps signed
//! numbers to unsigned ones: 0, -1, 1, -2 …
//!
//! Puffin's own writer needs serde with its macros, which would dominate the build time of a
//! program with this crate.

use puffin::{ScopeDetails, ScopeId, ThreadInfo};
use vor_capture::sort::sort_by;

/// The stream of one thread.
#[derive(Debug)]
pub(super) struct ThreadStream {
    pub(super) bytes: Vec<u8>,
    pub(super) num_scopes: usize,
    pub(super) depth: usize,
    pub(super) range_ns: (i64, i64),
}

/// Compression kind: an LZ4 block.
const LZ4: u8 = 1;

/// Returns the bytes of a frame, or `None` if there is no stream. The frame holds the last of
/// several streams of one thread. `scopes` are the scopes that the streams name.
pub(super) fn frame(
    index: u64,
    mut streams: Vec<(ThreadInfo, ThreadStream)>,
    scopes: &[(ScopeId, ScopeDetails)],
) -> Option<Vec<u8>> {
    sort_by(&mut streams, |a, b| a.0.cmp(&b.0));
    streams.dedup_by(|later, kept| {
        let same = later.0 == kept.0;
        if same {
            std::mem::swap(later, kept);
        }
        same
    });
    let all = || streams.iter().map(|(_, stream)| stream);
    let begin_ns = all().map(|stream| stream.range_ns.0).min()?;
    let end_ns = all().map(|stream| stream.range_ns.1).max()?;
    let mut meta = Vec::new();
    put_varint(&mut meta, index);
    put_range(&mut meta, (begin_ns, end_ns));
    put_size(&mut meta, all().map(|stream| stream.bytes.len()).sum());
    put_size(&mut meta, all().map(|stream| stream.num_scopes).sum());

    let packed = lz4_flex::compress_prepend_size(&streams_bytes(&streams));
    let scopes = scopes_bytes(scopes);
    let mut out = Vec::with_capacity(meta.len() + packed.len() + scopes.len() + 32);
    out.extend_from_slice(b"PFD4");
    put_length(&mut out, &meta)?;
    out.extend_from_slice(&meta);
    put_length(&mut out, &packed)?;
    out.push(LZ4);
    out.extend_from_slice(&packed);
    put_length(&mut out, &scopes)?;
    out.extend_from_slice(&scopes);
    Some(out)
}

fn streams_bytes(streams: &[(ThreadInfo, ThreadStream)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_size(&mut out, streams.len());
    for (thread, stream) in streams {
        put_option(&mut out, thread.start_time_ns, put_zigzag);
        put_text(&mut out, &thread.name);
        put_size(&mut out, stream.bytes.len());
        out.extend_from_slice(&stream.bytes);
        put_size(&mut out, stream.num_scopes);
        put_size(&mut out, stream.depth);
        put_range(&mut out, stream.range_ns);
    }
    out
}

fn scopes_bytes(scopes: &[(ScopeId, ScopeDetails)]) -> Vec<u8> {
    let mut out = Vec::new();
    put_size(&mut out, scopes.len());
    for (id, details) in scopes {
        put_option(&mut out, Some(id.0.get().into()), put_varint);
        put_option(&mut out, details.scope_name.as_deref(), put_text);
        put_text(&mut out, &details.function_name);
        put_text(&mut out, &details.file_path);
        put_varint(&mut out, details.line_nr.into());
    }
    out
}

/// Appends the length of `bytes`; `None` if it does not fit in 32 bits.
fn put_length(out: &mut Vec<u8>, bytes: &[u8]) -> Option<()> {
    let length = u32::try_from(bytes.len()).ok()?;
    out.extend_from_slice(&length.to_le_bytes());
    Some(())
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(value.is_some().into());
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_size(out, text.len());
    out.extend_from_slice(text.as_bytes());
}

fn put_range(out: &mut Vec<u8>, (begin_ns, end_ns): (i64, i64)) {
    put_zigzag(out, begin_ns);
    put_zigzag(out, end_ns);
}

fn put_zigzag(out: &mut Vec<u8>, value: i64) {
    put_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

fn put_size(out: &mut Vec<u8>, size: usize) {
    put_varint(out, size as u64);
}

fn put_varint(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    match value {
        0..=250 => out.push(bytes[0]),
        251..=0xffff => put_prefixed(out, 251, &bytes[..2]),
        0x1_0000..=0xffff_ffff => put_prefixed(out, 252, &bytes[..4]),
        0x1_0000_0000.. => put_prefixed(out, 253, &bytes),
    }
}

fn put_prefixed(out: &mut Vec<u8>, prefix: u8, bytes: &[u8]) {
    out.push(prefix);
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use proptest::prelude::*;
    use puffin::{FrameData, Stream, StreamInfo};

    use super::super::draw_scope;
    use super::*;

    fn any_number() -> impl Strategy<Value = i64> {
        let edges = [
            250,
            251,
            0xffff,
            0x1_0000,
            0xffff_ffff,
            0x1_0000_0000,
            i64::MAX,
        ];
        prop_oneof![
            any::<i64>(),
            -200..200_i64,
            prop::sample::select(edges.to_vec())
        ]
    }

    /// Returns the unpacked streams, and the rest of a frame with its kind of compression.
    fn parts(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
        let length = |at: usize| u32::from_le_bytes(frame[at..at + 4].try_into().unwrap()) as usize;
        let streams = 8 + length(4);
        let scopes = streams + 5 + length(streams);
        let unpacked = lz4_flex::decompress_size_prepended(&frame[streams + 5..scopes]).unwrap();
        let mut rest = frame[..streams].to_vec();
        rest.push(frame[streams + 4]);
        rest.extend_from_slice(&frame[scopes..]);
        (unpacked, rest)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

        /// Compares with puffin's own writer.
        #[test]
        fn frames_are_as_puffin_writes_them(
            index: u64,
            threads in prop::collection::vec(
                (
                    any::<Option<i64>>(),
                    ".{0,9}",
                    prop::collection::vec(any::<u8>(), 0..600),
                    any_number(),
                    any_number(),
                ),
                1..4,
            ),
            names in prop::collection::vec((".{0,300}", ".{0,9}", any::<u32>()), 0..4),
        ) {
            let mut ours = Vec::new();
            let mut theirs = BTreeMap::new();
            for (i, (start_time_ns, name, bytes, number, other)) in threads.into_iter().enumerate()
            {
                let thread = ThreadInfo {
                    start_time_ns,
                    name,
                };
                let range_ns = (number.min(other), number.max(other));
                let num_scopes = number.unsigned_abs() as usize / 8;
                let info = StreamInfo {
                    stream: Stream::from(bytes.clone()),
                    num_scopes,
                    depth: i,
                    range_ns,
                };
                theirs.insert(thread.clone(), info);
                ours.push((
                    thread,
                    ThreadStream {
                        bytes,
                        num_scopes,
                        depth: i,
                        range_ns,
                    },
                ));
            }
            let scopes: Vec<_> = names
                .into_iter()
                .map(|(name, file, line_nr)| {
                    let (id, mut details) = draw_scope();
                    details.scope_name = (line_nr % 3 > 0).then(|| name.clone().into());
                    details.function_name = name.into();
                    details.file_path = file.into();
                    details.line_nr = line_nr;
                    (id, details)
                })
                .collect();
            let delta = scopes
                .iter()
                .map(|(_, details)| Arc::new(details.clone()))
                .collect();
            let mut expected = Vec::new();
            FrameData::new(index, theirs, delta, true)
                .unwrap()
                .write_into(None, &mut expected)
                .unwrap();
            let written = frame(index, ours, &scopes).unwrap();
            prop_assert_eq!(parts(&written), parts(&expected));
        }
    }

    #[test]
    fn a_frame_without_streams_is_not_written() {
        assert_eq!(frame(1, Vec::new(), &[]), None);
    }
}
