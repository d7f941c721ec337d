//! The records of a ring in a file, as batches.
//!
//! A chunk is read as a whole. If the process runs, the chunk counts only if it was not freed until
//! then, because the producer fills no chunk that is not free.

use std::collections::VecDeque;
use std::sync::Arc;

use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::file::{Ring, SharedFile};
use crate::drain::collect::{
    Context, Interner, MAX_SPANS, Pending, PendingTexts, SpareValues, collect,
};
use crate::hot::callsite::Words;
use crate::hot::ring::settled::{ENTRY_WORDS, newest};
use crate::hot::ring::{MAX_SITE, SITE_BITS, Slot, Special, TAG_SPECIAL, extensions};
use crate::hot::shared::layout::RingEntry;

/// Most slots of a ring that the settings allow.
const MAX_SLOTS: u64 = 1 << 26;
/// Most chunks of a ring, and the slots of one where there are fewer.
const MAX_CHUNKS: u64 = 256;
const MIN_CHUNK_SLOTS: u64 = 64;
/// Most chunks that a ring starts: more than in a thousand years.
const MAX_STARTED: u64 = 1 << 48;
/// Most open scopes that a state names, and the bytes of one.
const MAX_OPEN: u64 = 1 << 12;
const MAX_OPEN_BYTES: u64 = 64;
/// How often the position of a running producer is read until two readings agree.
const TRIES: u32 = 100;
const SLOT_BYTES: u64 = size_of::<Slot>() as u64;

/// Something in the file contradicts itself.
#[derive(Debug)]
pub(super) struct Damaged;

/// The positions of a ring at one moment, and its open scopes.
pub(super) struct Positions {
    /// The order of chunks: their numbers and used slots.
    order: Vec<[u64; 2]>,
    /// The first chunk that is not free, by its sequence number, and the number of those that were
    /// started.
    sequence: u64,
    started: u64,
    /// The cursor, in slots.
    cursor: u64,
    /// Records before this position are in the capture; texts of them are needed.
    settled: u64,
    /// Records that were dropped since.
    dropped: u64,
    open: Vec<(SiteId, u64)>,
}

impl Positions {
    /// Reads them. `epoch` is the published one.
    pub(super) fn read(file: &SharedFile, entry: &RingEntry, epoch: u64) -> Result<Self, Damaged> {
        let RingEntry {
            slot_count,
            chunk_slots,
            ..
        } = *entry;
        let chunks = slot_count.checked_div(chunk_slots).ok_or(Damaged)?;
        let most = (slot_count / MAX_CHUNKS).max(MIN_CHUNK_SLOTS);
        let is_sound = slot_count <= MAX_SLOTS && chunk_slots <= most && chunks > 0;
        if !is_sound || chunks * chunk_slots != slot_count {
            return Err(Damaged);
        }
        // Before the records, so that no scope is missing because it has ended in between.
        let open = read_open(file, entry).unwrap_or_default();
        let word = |at| file.words::<1>(at).map(|[word]| word).ok_or(Damaged);
        let second = entry.settled.checked_add(8 * ENTRY_WORDS as u64);
        let [first, second] = [Some(entry.settled), second].map(|at| file.words(at?));
        let settled = newest([first, second].into_iter().flatten(), epoch).ok_or(Damaged)?;
        let (mut started, mut cursor) = (word(entry.started)?, word(entry.cursor)?);
        for _ in 0..TRIES {
            let now = word(entry.started)?;
            if now == started {
                break;
            }
            (started, cursor) = (now, word(entry.cursor)?);
        }
        if started > MAX_STARTED {
            return Err(Damaged);
        }
        // After the producer's position: it fills chunks in this order.
        let order = file
            .read(entry.order, chunks as usize * 16)
            .ok_or(Damaged)?;
        let order = order.as_chunks::<16>().0.iter().map(|entry| {
            let (chunk, used) = entry.split_at(8);
            [chunk, used].map(|word| {
                let word = word.first_chunk().copied().unwrap_or_default();
                u64::from_ne_bytes(word)
            })
        });
        let order = order.collect();
        Ok(Self {
            order,
            sequence: word(entry.freed)?.max(started.saturating_sub(chunks)),
            started,
            cursor: cursor.wrapping_sub(entry.slots_address) / SLOT_BYTES,
            settled: settled[1],
            dropped: word(entry.dropped)?.saturating_sub(settled[2]),
            open,
        })
    }
}

/// Reads the records of one ring.
pub(super) struct RingRecords<'a> {
    file: &'a SharedFile,
    ring: &'a Ring,
    words: Arc<Vec<Words>>,
    /// The positions; those of what is left.
    here: Positions,
    /// Chunks that were read early.
    fetched: VecDeque<(u64, Vec<u8>)>,
    /// The slots of a chunk that are left, and the position of the first one.
    part: Vec<Slot>,
    at: usize,
    position: u64,
    texts: PendingTexts,
    text_owner: Option<u32>,
    interner: Interner,
    spare: SpareValues,
    pub(super) overwritten: u64,
    pub(super) is_damaged: bool,
}

impl<'a> RingRecords<'a> {
    /// Begins at the oldest record. `ring` and `words` were read after the positions.
    pub(super) fn new(
        file: &'a SharedFile,
        ring: &'a Ring,
        positions: Positions,
        words: &Arc<Vec<Words>>,
    ) -> Self {
        Self {
            file,
            ring,
            words: Arc::clone(words),
            here: positions,
            fetched: VecDeque::new(),
            part: Vec::new(),
            at: 0,
            position: 0,
            texts: PendingTexts::default(),
            text_owner: None,
            interner: Interner::default(),
            spare: SpareValues::default(),
            overwritten: 0,
            is_damaged: false,
        }
    }

    /// Returns the next records of one thread; `None` when there are no more.
    pub(super) fn next_batch(&mut self) -> Option<ThreadBatch> {
        let mut batch = ThreadBatch::default();
        loop {
            if self.at >= self.part.len() && !self.read_chunk() {
                if batch.is_empty()
                    && let Some(owner) = self.owner(u64::MAX).0
                {
                    batch.thread = ThreadId(owner);
                }
                batch.dropped_spans = std::mem::take(&mut self.here.dropped);
                break;
            }
            let (owner, until) = self.owner(self.position);
            let until = if self.position < self.here.settled {
                until.min(self.here.settled)
            } else {
                until
            };
            let left = self.part.len() - self.at;
            let len = usize::try_from(until - self.position).map_or(left, |len| len.min(left));
            if self.text_owner != owner {
                self.texts = PendingTexts::default();
                self.text_owner = owner;
            }
            let part = std::mem::take(&mut self.part);
            let slots = &part[self.at..self.at + len];
            let taken = if self.position < self.here.settled {
                self.keep_texts(slots);
                len
            } else if let Some(owner) = owner {
                if !batch.is_empty() && batch.thread != ThreadId(owner) {
                    self.part = part;
                    break;
                }
                batch.thread = ThreadId(owner);
                self.collect(slots, &mut batch)
            } else {
                len
            };
            self.part = part;
            self.at += taken;
            self.position += taken as u64;
            if batch.len() >= MAX_SPANS {
                break;
            }
        }
        self.leave_open(&batch);
        (!batch.is_empty()).then_some(batch)
    }

    /// Returns the open scopes that have not ended, with their thread.
    pub(super) fn take_open(&mut self) -> Option<(ThreadId, Vec<(SiteId, u64)>)> {
        let (owner, _) = self.owner(u64::MAX);
        let open = std::mem::take(&mut self.here.open);
        match owner {
            Some(owner) if !open.is_empty() => Some((ThreadId(owner), open)),
            _ => None,
        }
    }

    /// Forgets open scopes that have ended since they were read.
    fn leave_open(&mut self, batch: &ThreadBatch) {
        if Some(batch.thread.0) != self.owner(u64::MAX).0 {
            return;
        }
        self.here.open.retain(|(site, start)| {
            let mut ended = batch.sites.iter().zip(&batch.start_ticks);
            !ended.any(|ended| ended == (site, start))
        });
    }

    /// Returns the thread that recorded at a position, and the position at which the next one
    /// begins.
    fn owner(&self, position: u64) -> (Option<u32>, u64) {
        let owners = &self.ring.owners;
        let next = owners.partition_point(|(begin, _)| *begin <= position);
        let owner = next.checked_sub(1).map(|last| owners[last].1);
        (
            owner,
            owners.get(next).map_or(u64::MAX, |(begin, _)| *begin),
        )
    }

    /// Reads the chunks that are left, before the process overwrites them, as far as they fit into
    /// `room` bytes. Subtracts what they take.
    pub(super) fn fetch(&mut self, room: &mut u64) {
        let chunk_bytes = self.ring.entry.chunk_slots * SLOT_BYTES;
        while *room >= chunk_bytes {
            let Some(chunk) = self.next_chunk() else {
                break;
            };
            *room -= chunk_bytes;
            self.fetched.push_back(chunk);
        }
    }

    /// Takes the next chunk that is still there. Returns `false` if there is none.
    fn read_chunk(&mut self) -> bool {
        let fetched = self.fetched.pop_front();
        let Some((sequence, bytes)) = fetched.or_else(|| self.next_chunk()) else {
            return false;
        };
        self.part.clear();
        self.part
            .extend(bytes.as_chunks::<16>().0.iter().map(|slot| {
                [0, 8].map(|at| {
                    let word = slot[at..].first_chunk().copied().unwrap_or_default();
                    u64::from_ne_bytes(word)
                })
            }));
        self.at = 0;
        self.position = sequence.saturating_mul(self.ring.entry.chunk_slots);
        true
    }

    /// Reads the next chunk that is still there and has records: its sequence number and its bytes.
    fn next_chunk(&mut self) -> Option<(u64, Vec<u8>)> {
        let RingEntry {
            chunk_slots, slots, ..
        } = self.ring.entry;
        let chunks = self.here.order.len() as u64;
        while self.here.sequence < self.here.started {
            let sequence = self.here.sequence;
            self.here.sequence += 1;
            let [chunk, used] = self.here.order[(sequence % chunks) as usize];
            if chunk >= chunks {
                self.is_damaged = true;
                continue;
            }
            let used = if self.here.sequence < self.here.started {
                used.min(chunk_slots)
            } else {
                // A cursor that is still in the previous chunk is outside of this one.
                let used = self.here.cursor.wrapping_sub(chunk * chunk_slots);
                if used <= chunk_slots { used } else { 0 }
            };
            let at = slots.checked_add(chunk * chunk_slots * SLOT_BYTES);
            let bytes = at.and_then(|at| self.file.read(at, (used * SLOT_BYTES) as usize));
            let freed = self.file.words::<1>(self.ring.entry.freed);
            match (bytes, freed) {
                (Some(_), Some([freed])) if sequence < freed => self.overwritten += used,
                (Some(bytes), Some(_)) if !bytes.is_empty() => return Some((sequence, bytes)),
                (Some(_), Some(_)) => {}
                _ => self.is_damaged = true,
            }
        }
        None
    }

    /// Keeps the texts of records that are in the capture, for spans that are not.
    fn keep_texts(&mut self, slots: &[Slot]) {
        let mut rest = slots;
        while let Some([word0, word1]) = rest.first().copied() {
            let tag = (word1 >> 32) as u32;
            let len = (1 + extensions(tag)).min(rest.len());
            let is_text = tag & TAG_SPECIAL != 0
                && Special::from_code(tag & ((1 << SITE_BITS) - 1)) == Some(Special::Text);
            if is_text {
                let bytes = (word1 & 0xffff_ffff) as usize;
                let text = Pending::unread(&rest[1..len], bytes, &mut self.interner);
                self.texts.insert(word0, text);
            }
            rest = &rest[len..];
        }
    }

    /// Collects records into a batch. Returns how many slots it has taken, at least one.
    fn collect(&mut self, slots: &[Slot], batch: &mut ThreadBatch) -> usize {
        let words = &self.words;
        let mut words_of = |site: SiteId| {
            let at = (site.0 as usize).wrapping_sub(1);
            words.get(at).copied().unwrap_or_default()
        };
        let mut context = Context {
            texts: &mut self.texts,
            interner: &mut self.interner,
            spare: &mut self.spare,
            words: &mut words_of,
        };
        collect(slots, u64::MAX, batch, &mut context).max(1)
    }
}

/// Reads the open scopes of a state; none if its thread has ended.
fn read_open(file: &SharedFile, entry: &RingEntry) -> Option<Vec<(SiteId, u64)>> {
    let RingEntry {
        open_bytes,
        open_start,
        open_site,
        ..
    } = *entry;
    let sizes = [open_start.checked_add(8)?, open_site.checked_add(4)?];
    if open_bytes > MAX_OPEN_BYTES || sizes.iter().any(|end| *end > open_bytes) {
        return None;
    }
    if file.read(entry.exited, 1)? != [0] {
        return None;
    }
    let top = file.read(entry.top, 4)?;
    let top = u32::from_ne_bytes(*top.first_chunk()?);
    let depth = u64::from(top) / open_bytes;
    let depth = depth.min(entry.open_count).min(MAX_OPEN);
    let all = file.read(entry.open, (depth * open_bytes) as usize)?;
    let scopes = all.chunks_exact(open_bytes as usize).map(|scope| {
        let start = scope[open_start as usize..].first_chunk()?;
        let site = scope[open_site as usize..].first_chunk()?;
        Some((u32::from_ne_bytes(*site), u64::from_ne_bytes(*start)))
    });
    // Deeper ones are unknown where one is not whole.
    let known = scopes.map_while(|scope| scope.filter(|(site, _)| (1..=MAX_SITE).contains(site)));
    Some(known.map(|(site, start)| (SiteId(site), start)).collect())
}
