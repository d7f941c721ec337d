//! The header and the log of a file of shared memory.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::format::{Checkpoint, Decoder, Event, Header, PayloadDecoder};
use vor_capture::model::catalog::Catalog;
use vor_capture::model::measures::Measures;
use vor_capture::model::timeline::{ClockSync, Timeline};
use vor_capture::sort::sort_by;

use crate::hot::callsite::Words;
use crate::hot::ring::MAX_SITE;
use crate::hot::ring::settled::newest;
use crate::hot::shared::layout::{
    self, BLOCK_HEAD_BYTES, HEADER_BYTES, LOG_AT, RING_WORDS, RingEntry, SYNCS, word,
};
use crate::os::shared_file;

/// Most bytes of a log that are read: far more than 2^21 sites need.
const MAX_LOG_BYTES: u64 = 1 << 30;
/// Bytes of the log that are read at once.
const PIECE_BYTES: u64 = 64 << 10;
/// Most rings of a process.
const MAX_RINGS: usize = 1 << 16;

/// A file of shared memory, open for reading.
#[derive(Debug)]
pub(super) struct SharedFile {
    file: File,
    name: String,
    bytes: u64,
    /// The header of a capture of the same recording.
    pub(super) header: Header,
    has_hardware_ticks: bool,
}

/// The state of the outputs at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) epoch: u64,
    /// The capture and its length, if there was one.
    pub(super) capture: Option<(u64, u64)>,
}

/// The declarations of the log.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub(super) catalog: Catalog,
    /// The meaning of the words of records, by site.
    pub(super) words: Arc<Vec<Words>>,
    pub(super) rings: Vec<Ring>,
}

/// A ring, and the threads that recorded into it, each from a position on, ascending.
#[derive(Debug)]
pub(super) struct Ring {
    pub(super) entry: RingEntry,
    pub(super) owners: Vec<(u64, u32)>,
}

impl SharedFile {
    pub(super) fn open(path: &Path) -> Result<Self, Error> {
        let name = path.display().to_string();
        let cannot = |error| Error::io(format!("cannot read {name}"), error);
        let file = File::open(path).map_err(cannot)?;
        let metadata = file.metadata().map_err(cannot)?;
        let this = Self {
            bytes: metadata.len(),
            file,
            name,
            header: Header::default(),
            has_hardware_ticks: false,
        };
        let is_known = metadata.is_file() && this.word(word::MAGIC) == Some(layout::MAGIC);
        if !is_known {
            return Err(this.not_one());
        }
        let version = this.word(word::VERSION).unwrap_or_default();
        if version != layout::VERSION {
            return Err(Error::config(format!(
                "{}: its version is {version}, and this `vor` reads {}; use the `vor` of the \
                program",
                this.name,
                layout::VERSION
            )));
        }
        let value = |at| this.word(at).unwrap_or_default();
        let header = Header {
            file_id: value(word::FILE_ID),
            pid: value(word::PID) as u32,
            flags: Header::KEEPS_SPANS,
            start_unix_ns: value(word::START_UNIX_NS) as i64,
            start_ticks: value(word::START_TICKS),
        };
        let has_hardware_ticks = value(word::HAS_HARDWARE_TICKS) != 0;
        Ok(Self {
            header,
            has_hardware_ticks,
            ..this
        })
    }

    fn not_one(&self) -> Error {
        Error::config(format!(
            "{} is no file of shared memory of vor; it is `vor-PID.shm`",
            self.name
        ))
    }

    pub(super) fn has_hardware_ticks(&self) -> bool {
        self.has_hardware_ticks
    }

    /// Returns the bytes that have memory, as far as the system says.
    pub(super) fn memory_bytes(&self) -> u64 {
        #[cfg(unix)]
        let bytes = self.file.metadata().map_or(0, |metadata| {
            512 * std::os::unix::fs::MetadataExt::blocks(&metadata)
        });
        #[cfg(not(unix))]
        let bytes = self.bytes;
        bytes
    }

    pub(super) fn is_locked(&self) -> bool {
        shared_file::is_locked(&self.file)
    }

    /// Reads bytes at a place; `None` if they are not all there. The caller bounds their number.
    pub(super) fn read(&self, at: u64, bytes: usize) -> Option<Vec<u8>> {
        let end = at.checked_add(bytes as u64)?;
        if end > self.bytes {
            return None;
        }
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at)).ok()?;
        let mut all = vec![0; bytes];
        file.read_exact(&mut all).ok()?;
        Some(all)
    }

    /// Reads words at a place.
    pub(super) fn words<const N: usize>(&self, at: u64) -> Option<[u64; N]> {
        let bytes = self.read(at, N * 8)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Some(words)
    }

    /// Reads a word of the header.
    fn word(&self, at: usize) -> Option<u64> {
        self.words::<1>(8 * at as u64).map(|[word]| word)
    }

    /// Returns the newest state of the outputs that was published.
    pub(super) fn position(&self) -> Position {
        // The epoch first: what a running process settles afterwards is later.
        let epoch = self.word(word::EPOCH).unwrap_or_default();
        let entries = [0, 1].map(|i| self.words::<3>(8 * (word::CAPTURE as u64 + 3 * i)));
        let entry = newest(entries.into_iter().flatten(), epoch);
        let capture = entry.filter(|[_, file_id, _]| *file_id != 0);
        Position {
            epoch,
            capture: capture.map(|[_, file_id, bytes]| (file_id, bytes)),
        }
    }

    /// Returns the capture that was being written, and its length.
    pub(super) fn capture(&self) -> Option<(u64, u64)> {
        self.position().capture
    }

    /// Returns the captures that the process has written.
    pub(super) fn captures(&self) -> impl Iterator<Item = (u64, PathBuf)> {
        let mut all = Vec::new();
        let _ = self.each_entry(|kind, payload| {
            if kind == layout::CAPTURE
                && let Some((id, path)) = payload.split_first_chunk()
            {
                let path = String::from_utf8_lossy(path).into_owned();
                all.push((u64::from_ne_bytes(*id), PathBuf::from(path)));
            }
        });
        all.into_iter()
    }

    /// Reads the log.
    pub(super) fn log(&self) -> Result<Log, Error> {
        let mut log = Log::default();
        let mut declarations = Vec::new();
        let mut words = Vec::new();
        self.each_entry(|kind, payload| match kind {
            layout::DECLARATION => declarations.extend_from_slice(payload),
            layout::WORDS => add_words(payload, &mut words),
            layout::RING => log.add_ring(payload),
            layout::OWNER => log.add_owner(payload),
            _ => {}
        })?;
        log.words = Arc::new(words);
        self.declare(&declarations, &mut log.catalog)?;
        log.catalog.timeline = Arc::new(self.timeline());
        Ok(log)
    }

    /// Calls `each` with every entry of the log.
    fn each_entry(&self, mut each: impl FnMut(u32, &[u8])) -> Result<(), Error> {
        let (mut block, mut read) = (LOG_AT, 0);
        loop {
            let Some([next, used]) = self.words::<2>(block) else {
                return Err(self.not_one());
            };
            if used > MAX_LOG_BYTES - read {
                return Err(self.not_one());
            }
            read += used;
            let mut bytes = Vec::new();
            let mut at = block + BLOCK_HEAD_BYTES;
            let end = at + used;
            while at < end {
                let piece = (end - at).min(PIECE_BYTES);
                let Some(more) = self.read(at, piece as usize) else {
                    return Err(self.not_one());
                };
                bytes.extend_from_slice(&more);
                at += piece;
            }
            let mut rest = &bytes[..];
            while let Some((head, after)) = rest.split_first_chunk::<8>() {
                let [kind, len] = [0, 4]
                    .map(|i| u32::from_ne_bytes([head[i], head[i + 1], head[i + 2], head[i + 3]]));
                let Some((payload, after)) = after.split_at_checked(len as usize) else {
                    break;
                };
                each(kind, payload);
                rest = after;
            }
            // Blocks are made one after the other, so a place before this one is damage.
            if next <= block {
                return Ok(());
            }
            block = next;
        }
    }

    /// Applies the bytes of a capture that hold declarations.
    fn declare(&self, bytes: &[u8], catalog: &mut Catalog) -> Result<(), Error> {
        let Ok(Some((header, header_bytes))) = Header::decode(bytes) else {
            return Err(self.not_one());
        };
        let mut decoder = Decoder::new(header, Checkpoint::first(header_bytes as u64));
        let mut payloads = PayloadDecoder::new();
        decoder.push(&bytes[header_bytes..]);
        while let Some(event) = decoder.next_event_at_end() {
            if let Event::Record(record) = event
                && let Ok(Some(record)) = record.decode(&mut payloads)
            {
                record.declare_into(catalog);
            }
        }
        Ok(())
    }

    /// Returns the clock: its first point, and the newest others.
    fn timeline(&self) -> Timeline {
        let count = self.word(word::SYNC_COUNT).unwrap_or_default();
        let sync = |at: usize| {
            let [ticks, unix_ns, rate, wall_ns] =
                self.words::<4>(8 * (word::SYNCS + 4 * at) as u64)?;
            let mut sync = ClockSync::default();
            sync.ticks = ticks;
            sync.unix_ns = unix_ns as i64;
            sync.rate = rate;
            sync.wall_ns = wall_ns as i64;
            Some(sync)
        };
        let known = count.min(SYNCS as u64) as usize;
        let mut syncs: Vec<_> = (0..known).filter_map(sync).collect();
        sort_by(&mut syncs, |a, b| a.ticks.cmp(&b.ticks));
        let mut timeline = Timeline::default();
        for sync in syncs {
            timeline.push(sync);
        }
        timeline
    }
}

const _: () = assert!(8 * (word::SYNCS + 4 * SYNCS) as u64 <= HEADER_BYTES);

fn words_of<const N: usize>(payload: &[u8]) -> Option<[u64; N]> {
    let (words, []) = payload.as_chunks::<8>() else {
        return None;
    };
    let words: &[[u8; 8]; N] = words.try_into().ok()?;
    Some(words.map(u64::from_ne_bytes))
}

fn add_words(payload: &[u8], all: &mut Vec<Words>) {
    let (numbers, _) = payload.as_chunks::<4>();
    let [id, kinds, measures] = match numbers {
        [id, kinds, measures] => [id, kinds, measures].map(|number| u32::from_ne_bytes(*number)),
        _ => return,
    };
    // Ids are dense, so this is the next one.
    if id as usize == all.len() + 1 && id < MAX_SITE {
        all.push(Words {
            kinds,
            measures: Measures::from_bits(measures as u8),
            ..Words::default()
        });
    }
}

impl Log {
    fn add_ring(&mut self, payload: &[u8]) {
        if let Some(words) = words_of::<RING_WORDS>(payload)
            && self.rings.len() < MAX_RINGS
        {
            self.rings.push(Ring {
                entry: RingEntry::from_words(words),
                owners: Vec::new(),
            });
        }
    }

    fn add_owner(&mut self, payload: &[u8]) {
        if let Some([ring, thread, position]) = words_of(payload)
            && let Some(ring) = usize::try_from(ring)
                .ok()
                .and_then(|at| self.rings.get_mut(at))
            && let Ok(thread) = u32::try_from(thread)
            && ring.owners.last().is_none_or(|(last, _)| *last <= position)
        {
            ring.owners.push((position, thread));
        }
    }
}
