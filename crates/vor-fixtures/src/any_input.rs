//! Reads arbitrary bytes in every way, and checks the guarantees of the readers for any input.
//!
//! The fuzz targets call these functions. So do ordinary tests with the committed corpus, so an
//! input that once failed is tested everywhere.

use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::sync::{Arc, Mutex};

use vor_capture::format::{Checkpoint, DamageReason, Decoder, Event, Header, PayloadDecoder, v2};
use vor_capture::model::batch::{SpanBatch, ThreadBatch};
use vor_capture::reader::{
    self, Capture, ColumnsBuilder, Lookahead, Piece, Pieces, Reader, Recovered,
};
use vor_capture::stats::StatsBuilder;

use crate::invariants;
use crate::random::Random;
use crate::sealed::file_of_input;

/// The maximum number of frames that a target reads; a small file can declare far more.
const MAX_FRAMES: u64 = 256;

/// Tests the streaming reader by frame, by recovered frame and by event, and the decoder below it
/// with input in uneven pieces.
pub fn reader(bytes: &[u8]) {
    if let Ok(mut reader) = Reader::new(bytes) {
        let mut frames = 0;
        while let Ok(Some(frame)) = reader.next_frame() {
            assert!(
                frame.system.len() <= reader.columns().len(),
                "a value without a column"
            );
            frames += 1;
            if frames == MAX_FRAMES {
                break;
            }
        }
        check_losses(reader.damage(), bytes);
    }
    if let Ok(mut reader) = Reader::new(bytes) {
        for _ in 0..MAX_FRAMES {
            let Ok(Some(recovered)) = reader.next_recovered() else {
                break;
            };
            invariants::frame(&recovered);
        }
    }
    if let Ok(mut reader) = Reader::new(bytes) {
        for _ in 0..MAX_FRAMES {
            let Ok(Some(event)) = reader.next_event() else {
                break;
            };
            if let reader::Event::Batch(batch) = event {
                invariants::batch(&batch.threads);
            }
        }
    }
    decoder(bytes);
}

/// Tests the decoder with input in uneven pieces: every byte is in a record or in damage, in the
/// order of the file.
fn decoder(bytes: &[u8]) {
    let Ok(Some((header, len))) = Header::decode(bytes) else {
        return;
    };
    let mut decoder = Decoder::new(header, Checkpoint::first(len as u64));
    let mut payloads = PayloadDecoder::new();
    let mut at = len as u64;
    let mut take = |event: Event<'_>| match event {
        Event::Record(raw) => {
            assert_eq!(raw.offset, at, "a record after the previous bytes");
            at += raw.head.record_bytes() as u64;
            let _ = raw.decode(&mut payloads);
        }
        Event::Damage(damage) => {
            assert_eq!(damage.offset, at, "damage after the previous bytes");
            // Other damage belongs to the record that follows it.
            if damage.reason == DamageReason::Corrupt {
                at += damage.bytes;
            }
        }
        _ => {}
    };
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte) + 1);
    for piece in bytes[len..].chunks(piece) {
        decoder.push(piece);
        while let Some(event) = decoder.next_event() {
            take(event);
        }
    }
    while let Some(event) = decoder.next_event_at_end() {
        take(event);
    }
    if let Some(unfinished) = decoder.unfinished() {
        assert_eq!(unfinished.offset, at, "bytes after the last record");
        at += unfinished.bytes;
    }
    assert_eq!(at, bytes.len() as u64, "bytes without an event");
}

/// Tests the seeking reader: the last frame, all frames, their summaries, the batches, and every
/// checksum.
pub fn capture(bytes: &[u8]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes.to_vec())) else {
        return;
    };
    let info = capture.info();
    check_losses(&info.damage, bytes);
    let frames = capture.frame_count();
    if let Some(last) = frames.checked_sub(1) {
        let _ = capture.frame(last);
    }
    let _ = capture.frame(frames);
    for frame in capture.frames(0..MAX_FRAMES).flatten() {
        for tree in &frame.threads {
            for (i, span) in tree.spans.iter().enumerate() {
                let subtree = span.subtree_len as usize;
                assert!(
                    subtree >= 1 && i + subtree <= tree.spans.len(),
                    "a subtree ends after its tree"
                );
                let _ = tree.args(span);
            }
        }
    }
    let recovered: Vec<_> = (0..frames.min(MAX_FRAMES))
        .filter_map(|i| Some((i, capture.recovered(i).ok()?)))
        .collect();
    recovered.iter().for_each(|(_, recovered)| {
        // A capture of version 2 gives its frames' own counts.
        if info.version == 3 {
            invariants::frame(recovered);
        }
    });
    check_summaries(&mut capture, &recovered, "fuzzed");
    check_backwards(bytes, &recovered);
    if let Ok(batches) = capture.batches() {
        for batch in batches.take(MAX_FRAMES as usize).flatten() {
            invariants::batch(&batch.threads);
        }
    }
    if let Ok(damage) = capture.verify() {
        check_losses(&damage, bytes);
    }
}

/// Checks that a capture returns the same frames when it is read from its end.
fn check_backwards(bytes: &[u8], forwards: &[(u64, Recovered)]) {
    let Ok(mut capture) = Capture::new(Cursor::new(bytes.to_vec())) else {
        panic!("a capture cannot be opened a second time");
    };
    let count = capture.frame_count().min(MAX_FRAMES);
    let backwards = (0..count)
        .rev()
        .filter_map(|i| Some((i, capture.recovered(i).ok()?)));
    let backwards: Vec<_> = backwards.collect();
    assert_eq!(backwards.len(), forwards.len(), "number of frames");
    for ((i, found), (j, expected)) in backwards.iter().rev().zip(forwards) {
        assert_eq!(i, j, "position of a frame");
        assert_eq!(found.lost_records, expected.lost_records, "frame {i}");
        assert_eq!(found.frame.index, expected.frame.index, "frame {i}");
        assert_eq!(found.frame.threads, expected.frame.threads, "frame {i}");
    }
}

/// Checks the summary of every frame that could be read. `what` names the file in a failure.
pub fn check_summaries(capture: &mut Capture, given: &[(u64, Recovered)], what: &str) {
    let count = capture.frame_count();
    for from in [0, count / 2] {
        let summaries: Vec<_> = capture.summaries(from).take(MAX_FRAMES as usize).collect();
        let whole = (count - from).min(MAX_FRAMES);
        assert_eq!(summaries.len() as u64, whole, "{what}: summaries");
        for (i, recovered) in given {
            let Some(found) = i
                .checked_sub(from)
                .and_then(|at| summaries.get(at as usize))
            else {
                continue;
            };
            let Ok(found) = found else {
                panic!("{what}: frame {i} can be read, but its summary is {found:?}");
            };
            let frame = &recovered.frame;
            assert_eq!(
                (found.index, found.start_ticks, found.end_ticks),
                (frame.index, frame.start_ticks, frame.end_ticks),
                "{what}: frame {i} from {from}"
            );
            assert_eq!(
                (found.span_count, found.dropped_spans, found.merged_marks),
                (frame.span_count, frame.dropped_spans, frame.merged_marks),
                "{what}: frame {i} from {from}"
            );
            assert!(
                found.lost_records == 0 || recovered.lost_records > 0,
                "{what}: frame {i} from {from} is complete, but its summary has {} lost records",
                found.lost_records
            );
        }
    }
}

/// Tests the headers of both versions. A decoded header of version 3 encodes to the same bytes,
/// unless a later recorder added fields.
pub fn header(bytes: &[u8]) {
    if let Ok(Some((header, len))) = Header::decode(bytes) {
        let mut again = Vec::new();
        header.encode(&mut again);
        if again.len() == len {
            assert_eq!(again, bytes[..len], "a header encodes to its bytes");
        } else {
            assert!(
                again.len() < len,
                "an encoded header is not longer than its bytes"
            );
            let decoded = Header::decode(&again).expect("a header that was just written");
            assert_eq!(
                decoded,
                Some((header, again.len())),
                "a header decodes to itself"
            );
        }
    }
    if let Ok(Some(header)) = v2::parse_header(bytes) {
        assert!(
            header.len <= bytes.len(),
            "a header is longer than its file"
        );
        assert!(
            header.columns.len() <= bytes.len(),
            "more columns than bytes"
        );
    }
}

/// Tests the decoders of payloads: an input is a [description](file_of_input) of a file whose
/// checksums are right. Every record is decoded as the format says, and both readers return.
pub fn sealed(input: &[u8]) {
    let file = file_of_input(input);
    invariants::records(&file);
    reader(&file);
    capture(&file);
}

/// Reads a file in all ways.
pub fn read_everything(file: &[u8]) {
    invariants::records(file);
    reader(file);
    capture(file);
    check_pieces(file);
}

/// Tests pieces and columns against the events of the streaming reader; an input is a
/// [description](file_of_input) of a file.
pub fn pieces(input: &[u8]) {
    check_pieces(&file_of_input(input));
}

fn check_pieces(file: &[u8]) {
    // Pieces are read from a path.
    let name = format!(
        "vor-pieces-{}-{:?}",
        std::process::id(),
        std::thread::current().id()
    );
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, file).unwrap();
    let (pieces, columns) = pieces_of(&path);
    std::fs::remove_file(&path).unwrap();
    let is_v3 = matches!(Header::decode(file), Ok(Some(_)));
    let batches: Vec<_> = pieces.iter().filter_map(|piece| piece.batch()).collect();
    if let Some(columns) = columns {
        invariants::columns(&columns, &batches);
    }
    if !is_v3 {
        return;
    }
    let events = events_of(&mut Reader::new(file).unwrap());
    let events: Vec<_> = events.into_iter().filter_map(Part::of_event).collect();
    // The frame of a file without marks comes last, where the file has no end record.
    let common = events.len().min(MAX_PARTS);
    assert!(
        (common..=common + 1).contains(&pieces.len()),
        "{} pieces of {common} events",
        pieces.len()
    );
    for (found, expected) in pieces.iter().zip(&events) {
        invariants::assert_same(found, expected, "a piece");
    }
    if let [
        ..,
        Part::Frame {
            index, frame_set, ..
        },
    ] = pieces[common..]
    {
        assert_eq!((index, frame_set), (0, 0), "a frame without marks");
    }
}

/// Most batches and frames that are compared.
const MAX_PARTS: usize = 4096;

/// A batch or a frame, without its catalog.
#[derive(Debug, PartialEq)]
enum Part {
    Batch(Vec<ThreadBatch>),
    Frame {
        index: u64,
        frame_set: u32,
        ticks: (u64, u64),
        spans: u64,
        losses: (u64, u64),
        metrics: String,
    },
}

impl Part {
    fn of_event(event: reader::Event) -> Option<Self> {
        match event {
            reader::Event::Batch(batch) => Some(Self::Batch(batch.threads)),
            reader::Event::Frame(recovered) => Some(Self::of_frame(&recovered)),
            _ => None,
        }
    }

    fn of_frame(recovered: &Recovered) -> Self {
        let frame = &recovered.frame;
        Self::Frame {
            index: frame.index,
            frame_set: frame.frame_set,
            ticks: (frame.start_ticks, frame.end_ticks),
            spans: frame.span_count,
            losses: (frame.dropped_spans, recovered.lost_records),
            metrics: format!("{:?}", frame.metrics),
        }
    }

    fn batch(&self) -> Option<Vec<ThreadBatch>> {
        match self {
            Self::Batch(threads) => Some(threads.clone()),
            Self::Frame { .. } => None,
        }
    }
}

/// Returns the pieces of a capture, and its columns.
fn pieces_of(path: &std::path::Path) -> (Vec<Part>, Option<reader::Columns>) {
    let mut parts = Vec::new();
    let Ok(mut capture) = Capture::open(path) else {
        return (parts, None);
    };
    let mut pieces = Pieces::open(path, &mut capture).expect("a capture that was just opened");
    let mut columns = ColumnsBuilder::with_room(0);
    let (mut stats, mut ahead) = (StatsBuilder::new(), Lookahead::default());
    let mut batches = Vec::new();
    while parts.len() < MAX_PARTS {
        let Ok(Some(piece)) = pieces.next_piece() else {
            break;
        };
        parts.push(match piece {
            Piece::Batch(batch) => {
                let threads = batch.threads.clone();
                stats.add_batch(&batch);
                ahead.add(&batch);
                batches.push(batch.clone());
                columns.add_batch(batch);
                Part::Batch(threads)
            }
            Piece::Frame(recovered) => {
                if recovered.frame.frame_set == 0 {
                    columns.end_frame(recovered.frame.index);
                }
                Part::of_frame(&recovered)
            }
            _ => continue,
        });
    }
    let rows = stats.scope_stats(pieces.catalog());
    let spans: usize = batches.iter().map(SpanBatch::span_count).sum();
    assert_eq!(stats.span_count(), spans as u64, "spans of the statistics");
    let counts = rows.iter().map(|row| row.count);
    assert_eq!(counts.sum::<u64>(), spans as u64, "spans of the scopes");
    for batch in &batches {
        for (_, starts) in &ahead.after(batch).threads {
            assert!(starts.is_sorted(), "open scopes, outermost first");
        }
    }
    let (read, whole) = pieces.progress();
    assert!(read <= whole, "{read} of {whole} were read");
    (parts, Some(columns.finish()))
}

fn events_of<R: Read>(reader: &mut Reader<R>) -> Vec<reader::Event> {
    let mut events = Vec::new();
    while let Some(event) = reader.next_event().expect("memory can be read") {
        if !matches!(event, reader::Event::Loss(_)) {
            events.push(event);
        }
    }
    events
}

/// Tests both readers on a file that arrives in pieces: they return what they return for the whole
/// file. An input is a seed of the pieces' sizes, 1 byte, and a [description](file_of_input) of the
/// file.
pub fn growing(input: &[u8]) {
    let Some((&seed, input)) = input.split_first() else {
        return;
    };
    check_growing(&file_of_input(input), u64::from(seed));
}

/// Reads a file as it grows; see [`growing`].
pub fn check_growing(file: &[u8], seed: u64) {
    let Ok(Some((_, header_bytes))) = Header::decode(file) else {
        return;
    };
    let is_ambiguous = invariants::is_ambiguous(file);
    let mut random = Random(seed);
    let most = [3, 40, 700, 9000][random.below(4)];
    // Every piece of a large file costs a pass over its end.
    let most = most.max(file.len() / 500);
    let growing = Growing::default();
    growing.push(&file[..header_bytes]);
    let mut stream = Reader::new(growing.clone()).expect("a whole header");
    let mut frames = Reader::new(growing.clone()).expect("a whole header");
    let mut capture = Capture::new(growing.clone()).expect("a whole header");
    let (mut events, mut recovered) = (Vec::new(), Vec::new());
    let mut rest = &file[header_bytes..];
    loop {
        events.extend(events_of(&mut stream));
        while let Some(frame) = frames.next_recovered().expect("memory can be read") {
            invariants::frame(&frame);
            recovered.push(frame);
        }
        capture.extend().expect("memory can be read");
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((1 + random.below(most)).min(rest.len()));
        growing.push(piece);
        rest = after;
    }
    if is_ambiguous {
        return;
    }
    let whole = events_of(&mut Reader::new(file).unwrap());
    assert_eq!(events.len(), whole.len(), "number of events");
    for (found, expected) in events.iter().zip(&whole) {
        invariants::assert_same(found, expected, "an event");
    }
    let mut whole = Reader::new(file).unwrap();
    for found in &recovered {
        let expected = whole.next_recovered().unwrap().expect("a frame");
        invariants::assert_same(found, &expected, "a frame");
    }
    assert!(whole.next_recovered().unwrap().is_none(), "a frame less");
    let mut whole = Capture::new(Cursor::new(file.to_vec())).unwrap();
    let info = whole.info();
    if info.indexed || !info.marked && !info.closed {
        // The index of a closed file counts frames that a growing file only loses. And a file
        // without marks is read again at its end, not whenever it grows.
        return;
    }
    assert_eq!(capture.frame_count(), whole.frame_count(), "frames");
    for i in 0..whole.frame_count().min(MAX_FRAMES) {
        match (capture.recovered(i), whole.recovered(i)) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.lost_records, expected.lost_records, "frame {i}");
                let (found, expected) = (&found.frame, &expected.frame);
                assert_eq!(found.index, expected.index, "frame {i}");
                invariants::assert_same(&found.threads, &expected.threads, "trees of a frame");
            }
            (found, expected) => {
                let (found, expected) = (found.err(), expected.err());
                assert_eq!(
                    found.is_some(),
                    expected.is_some(),
                    "{found:?}, {expected:?}"
                );
            }
        }
    }
}

/// A file in memory that grows. Its clones share the bytes, and each has a place of its own.
#[derive(Debug, Default)]
struct Growing {
    bytes: Arc<Mutex<Vec<u8>>>,
    at: u64,
}

impl Clone for Growing {
    fn clone(&self) -> Self {
        Self {
            bytes: Arc::clone(&self.bytes),
            at: 0,
        }
    }
}

impl Growing {
    fn push(&self, bytes: &[u8]) {
        self.bytes.lock().unwrap().extend_from_slice(bytes);
    }
}

impl Read for Growing {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.bytes.lock().unwrap();
        let left = bytes.get(self.at as usize..).unwrap_or(&[]);
        let len = left.len().min(into.len());
        into[..len].copy_from_slice(&left[..len]);
        self.at += len as u64;
        Ok(len)
    }
}

impl Seek for Growing {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let len = self.bytes.lock().unwrap().len() as u64;
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(step) => len.checked_add_signed(step),
            SeekFrom::Current(step) => self.at.checked_add_signed(step),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

fn check_losses(damage: &vor_capture::reader::Damage, bytes: &[u8]) {
    for loss in damage.losses.iter().chain(&damage.tail) {
        let end = loss.offset.saturating_add(loss.bytes);
        assert!(
            end <= bytes.len() as u64,
            "a loss after the end of the file: {loss:?}"
        );
        assert!(!loss.reason.is_empty());
    }
}
