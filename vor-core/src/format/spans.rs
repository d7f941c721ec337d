//! Blocks of spans: the columns of up to 4096 spans of one thread, with their arguments and messages.
//!
//! ```text
//! block  = thread varint | flags u8 | spans varint | [drops varint] | [base varint, times, sites] | [arguments] | [messages]
//! times  = gaps, durations                                        flat: no span begins before the previous one ended
//!        | children, gaps, durations of leaves, leads of parents  tree
//! ```
//!
//! Spans come in the order in which they ended. In a flat block each is a gap after the previous end, and a duration. In a
//! tree the span that closes over `k` earlier ones says `k`, how long before the first of them it began (the *lead*), and
//! how long after the last of them it ended; all of these are small, where its duration is large and repeats what the
//! children said. `k` is found, and undone, with a stack of the starts that no span has closed over yet.
//! All arithmetic wraps, so that any 64-bit values survive, however little sense they make as times.

use super::pack::{GROUP, Packer};
use super::wire::{Cursor, put_varint};
use crate::Error;
use crate::catalog::SiteId;

/// Most spans in a block.
pub(super) const BLOCK_SPANS: usize = 4096;

/// The block begins a new thread batch.
pub(super) const FLAG_FIRST: u8 = 1 << 0;
/// The times are a tree.
pub(super) const FLAG_TREE: u8 = 1 << 1;
/// Where the two bits for the sites are: one site, packed indices, or an index per byte.
const SITES_SHIFT: u32 = 2;
const SITES_ONE: u8 = 0;
const SITES_PACKED: u8 = 1;
const SITES_BYTES: u8 = 2;
/// Arguments follow.
pub(super) const FLAG_ARGS: u8 = 1 << 4;
/// Messages follow.
pub(super) const FLAG_MESSAGES: u8 = 1 << 5;
/// A count of dropped spans follows.
pub(super) const FLAG_DROPS: u8 = 1 << 6;

/// Codes the times and sites of blocks, and keeps the room for it.
#[derive(Debug)]
pub(super) struct BlockCoder {
    packer: Packer,
    gaps: Vec<u64>,
    durations: Vec<u64>,
    leads: Vec<u64>,
    children: Vec<u64>,
    /// Starts of the spans that none has closed over yet. One longer than a block, so that the slot above the top exists.
    open: Vec<u64>,
    site_indices: Vec<u32>,
    dictionary: Dictionary,
}

impl Default for BlockCoder {
    fn default() -> Self {
        Self {
            packer: Packer::default(),
            gaps: vec![0; BLOCK_SPANS],
            durations: vec![0; BLOCK_SPANS],
            leads: vec![0; BLOCK_SPANS],
            children: vec![0; BLOCK_SPANS],
            open: vec![0; BLOCK_SPANS + 1],
            site_indices: vec![0; BLOCK_SPANS],
            dictionary: Dictionary::default(),
        }
    }
}

impl BlockCoder {
    /// Appends times and sites of at most [`BLOCK_SPANS`] spans, and returns the flags that tell how. The slices have one length, not 0.
    pub(super) fn put(
        &mut self,
        out: &mut Vec<u8>,
        starts: &[u64],
        durations: &[u64],
        sites: &[SiteId],
    ) -> u8 {
        put_varint(out, starts[0]);
        let times = self.put_times(out, starts, durations);
        times | self.put_sites(out, sites) << SITES_SHIFT
    }

    fn put_times(&mut self, out: &mut Vec<u8>, starts: &[u64], durations: &[u64]) -> u8 {
        let len = starts.len();
        let gaps = &mut self.gaps[..len];
        gaps[0] = 0;
        let mut signs = 0;
        let previous = starts.iter().zip(durations);
        for ((gap, start), (before, lasted)) in gaps[1..].iter_mut().zip(&starts[1..]).zip(previous) {
            *gap = start.wrapping_sub(before.wrapping_add(*lasted));
            signs |= *gap;
        }
        if signs >> 63 == 0 {
            self.packer.put(out, gaps);
            self.packer.put(out, durations);
            return 0;
        }
        let (leaves, parents) = self.fold(starts, durations);
        self.packer.put(out, &self.children[..len]);
        self.packer.put(out, &self.gaps[..len]);
        self.packer.put(out, &self.durations[..leaves]);
        self.packer.put(out, &self.leads[..parents]);
        FLAG_TREE
    }

    /// Fills the four columns of a tree, and returns how many leaves and how many parents there are.
    fn fold(&mut self, starts: &[u64], durations: &[u64]) -> (usize, usize) {
        let len = starts.len();
        let gaps = &mut self.gaps[..len];
        let children = &mut self.children[..len];
        let open = &mut self.open[..];
        let (mut top, mut leaves, mut parents) = (0, 0, 0);
        let mut previous_end = starts[0];
        for (i, (&start, &duration)) in starts.iter().zip(durations).enumerate() {
            let end = start.wrapping_add(duration);
            let below = top;
            while top > 0 && open[top - 1] >= start {
                top -= 1;
            }
            let closed = below - top;
            let leaf = closed == 0;
            // Both columns are written and one of them advances: which it is cannot be predicted, so a branch would cost more than a store.
            self.durations[leaves] = duration;
            self.leads[parents] = open[top].wrapping_sub(start);
            leaves += usize::from(leaf);
            parents += usize::from(!leaf);
            children[i] = closed as u64;
            gaps[i] = if leaf { start } else { end }.wrapping_sub(previous_end);
            open[top] = start;
            top += 1;
            previous_end = end;
        }
        (leaves, parents)
    }

    fn put_sites(&mut self, out: &mut Vec<u8>, sites: &[SiteId]) -> u8 {
        let first = sites[0];
        if sites.iter().all(|&site| site == first) {
            put_varint(out, u64::from(first.0));
            return SITES_ONE;
        }
        let indices = &mut self.site_indices[..sites.len()];
        self.dictionary.index(sites, indices);
        let entries = &self.dictionary.entries;
        put_varint(out, entries.len() as u64);
        for entry in entries {
            put_varint(out, u64::from(entry.0));
        }
        if entries.len() <= 256 && is_repetitive(indices) {
            out.extend(indices.iter().map(|&index| index as u8));
            return SITES_BYTES;
        }
        self.packer.put_fixed(out, indices, index_bits(entries.len()));
        SITES_PACKED
    }

    /// Reads times and sites of `len` spans, at most [`BLOCK_SPANS`] and not 0, and appends them to the columns.
    pub(super) fn get(
        &mut self,
        cursor: &mut Cursor<'_>,
        flags: u8,
        len: usize,
        starts: &mut Vec<u64>,
        durations: &mut Vec<u64>,
        sites: &mut Vec<SiteId>,
    ) -> Result<(), Error> {
        let base = cursor.varint()?;
        if flags & FLAG_TREE == 0 {
            self.get_flat(cursor, base, len, starts, durations)?;
        } else {
            self.get_tree(cursor, base, len, starts, durations)?;
        }
        self.get_sites(cursor, flags >> SITES_SHIFT & 3, len, sites)
    }

    fn get_flat(
        &mut self,
        cursor: &mut Cursor<'_>,
        base: u64,
        len: usize,
        starts: &mut Vec<u64>,
        durations: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let gaps = &mut self.gaps[..len];
        self.packer.get(cursor, gaps)?;
        let begin = durations.len();
        durations.resize(begin + len, 0);
        self.packer.get(cursor, &mut durations[begin..])?;
        let mut end = base;
        starts.extend(gaps.iter().zip(&durations[begin..]).map(|(gap, duration)| {
            let start = end.wrapping_add(*gap);
            end = start.wrapping_add(*duration);
            start
        }));
        Ok(())
    }

    fn get_tree(
        &mut self,
        cursor: &mut Cursor<'_>,
        base: u64,
        len: usize,
        starts: &mut Vec<u64>,
        durations: &mut Vec<u64>,
    ) -> Result<(), Error> {
        let children = &mut self.children[..len];
        self.packer.get(cursor, children)?;
        let leaves = children.iter().filter(|&&closed| closed == 0).count();
        let gaps = &mut self.gaps[..len];
        self.packer.get(cursor, gaps)?;
        self.packer.get(cursor, &mut self.durations[..leaves])?;
        self.packer.get(cursor, &mut self.leads[..len - leaves])?;
        let (mut top, mut leaf_at, mut parent_at) = (0_usize, 0, 0);
        let mut previous_end = base;
        starts.reserve(len);
        durations.reserve(len);
        for (&closed, &gap) in children.iter().zip(&*gaps) {
            if closed > top as u64 {
                return Err(Error::corrupt(format!(
                    "expected a span around at most {top} others, found one around {closed}"
                )));
            }
            top -= closed as usize;
            let leaf = closed == 0;
            let edge = previous_end.wrapping_add(gap);
            // As in `fold`, both sides are worked out. Each index is at most the length of its column, which is below
            // that of a block while any span is left; at the very end the other column's index may reach it.
            let duration = self.durations[leaf_at.min(BLOCK_SPANS - 1)];
            let lead = self.leads[parent_at.min(BLOCK_SPANS - 1)];
            let start = if leaf {
                edge
            } else {
                self.open[top].wrapping_sub(lead)
            };
            let end = if leaf { edge.wrapping_add(duration) } else { edge };
            leaf_at += usize::from(leaf);
            parent_at += usize::from(!leaf);
            self.open[top] = start;
            top += 1;
            previous_end = end;
            starts.push(start);
            durations.push(end.wrapping_sub(start));
        }
        Ok(())
    }

    fn get_sites(
        &mut self,
        cursor: &mut Cursor<'_>,
        mode: u8,
        len: usize,
        sites: &mut Vec<SiteId>,
    ) -> Result<(), Error> {
        if mode == SITES_ONE {
            let site = SiteId(cursor.varint_u32()?);
            sites.resize(sites.len() + len, site);
            return Ok(());
        }
        let count = cursor.count(1, len)?;
        let entries = &mut self.dictionary.entries;
        entries.clear();
        for _ in 0..count {
            entries.push(SiteId(cursor.varint_u32()?));
        }
        let indices = &mut self.site_indices[..len];
        match mode {
            SITES_PACKED => self.packer.get_fixed(cursor, indices, index_bits(count))?,
            SITES_BYTES => {
                for (index, &byte) in indices.iter_mut().zip(cursor.take(len)?) {
                    *index = u32::from(byte);
                }
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "expected sites in way 0, 1 or 2, found {mode}"
                )));
            }
        }
        let largest = indices.iter().copied().max().unwrap_or(0);
        if largest as usize >= count {
            return Err(Error::corrupt(format!(
                "expected one of {count} sites, found number {largest}"
            )));
        }
        sites.extend(indices.iter().map(|&index| entries[index as usize]));
        Ok(())
    }
}

/// Returns how many bits an index below `count` needs.
fn index_bits(count: usize) -> u8 {
    (usize::BITS - count.saturating_sub(1).leading_zeros()) as u8
}

/// Returns whether two indices tell the third nearly always, by a sample: LZ4 then makes less of bytes than packing would.
fn is_repetitive(indices: &[u32]) -> bool {
    if indices.len() < 32 {
        return false;
    }
    let sample = &indices[..indices.len().min(2 * GROUP)];
    let mut guesses = [0_u8; 1024];
    let mut hits = 0;
    for window in sample.windows(3) {
        let context = (window[0].wrapping_mul(37) ^ window[1]) as usize % guesses.len();
        hits += usize::from(guesses[context] == window[2] as u8);
        guesses[context] = window[2] as u8;
    }
    hits * 10 >= sample.len() * 9
}

/// The different sites of a block, in the order in which they come up.
#[derive(Debug)]
struct Dictionary {
    entries: Vec<SiteId>,
    /// Open addressing by site. A slot is taken when its round is the current one, so that a new block needs no clearing.
    slots: Vec<Slot>,
    round: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    site: u32,
    round: u32,
    index: u32,
}

/// Slots for twice as many sites as a block can have.
const SLOT_BITS: u32 = 13;
const _: () = assert!(1 << SLOT_BITS == 2 * BLOCK_SPANS);

impl Default for Dictionary {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            slots: vec![Slot::default(); 1 << SLOT_BITS],
            round: 0,
        }
    }
}

impl Dictionary {
    /// Replaces the entries by those of `sites`, and fills `indices` with where each one is.
    fn index(&mut self, sites: &[SiteId], indices: &mut [u32]) {
        self.entries.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
        for (index, &site) in indices.iter_mut().zip(sites) {
            let mut at = (site.0.wrapping_mul(0x9e37_79b1) >> (32 - SLOT_BITS)) as usize;
            *index = loop {
                let slot = &mut self.slots[at & ((1 << SLOT_BITS) - 1)];
                if slot.round != self.round {
                    *slot = Slot {
                        site: site.0,
                        round: self.round,
                        index: self.entries.len() as u32,
                    };
                    self.entries.push(site);
                    break slot.index;
                }
                if slot.site == site.0 {
                    break slot.index;
                }
                at += 1;
            };
        }
    }
}
