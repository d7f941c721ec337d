//! Blocks of spans: the columns of up to 4096 spans of one thread, with their arguments and
//! messages.
//!
//! ```text
//! block  = thread varint | flags u8 | spans varint | [drops varint] |
//!          [base varint, times, sites] | [arguments] | [messages] | [tasks]
//! times  = gaps, durations                                        flat: no two spans overlap
//!        | children, gaps, durations of leaves, leads of parents  tree
//! ```
//!
//! Spans come in the order in which they ended. In a flat block each is a gap after the previous
//! end, and a duration. In a tree a span that closes over `k` earlier ones stores `k`, how long
//! before the first of them it began (the *lead*), and how long after the last of them it ended;
//! all of these are small, where its duration is large and repeats those of the children. `k` is
//! found, and undone, with a stack of the starts that no span has closed over yet. All arithmetic
//! wraps, so that any 64-bit values survive, even if they are impossible as times.

use super::lanes::GROUP;
use super::pack::{self, Column, Packer};
use super::wire::{Cursor, put_varint};
use crate::Error;
use crate::model::catalog::SiteId;

/// Most spans in a block.
pub(super) const BLOCK_SPANS: usize = 4096;

/// Slots of the stack of open spans: a power of two, so that an index needs no check, with room for
/// a block and what is below and above it.
const OPEN_SLOTS: usize = 2 * BLOCK_SPANS;
/// Slots below the first open span.
const BELOW_OPEN: usize = 4;

/// The block begins a new thread batch.
pub(super) const FLAG_FIRST: u8 = 1 << 0;
/// The times are a tree.
pub(super) const FLAG_TREE: u8 = 1 << 1;
/// Shift of the two bits for the sites: one site, packed indices, or an index per byte.
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
/// Tasks follow.
pub(super) const FLAG_ASYNC: u8 = 1 << 7;

/// Encodes and decodes the times and sites of blocks, and keeps the buffers for it.
#[derive(Debug)]
pub(super) struct BlockCoder {
    packer: Packer,
    gaps: Box<[u64; BLOCK_SPANS]>,
    durations: Box<[u64; BLOCK_SPANS]>,
    leads: Box<[u64; BLOCK_SPANS]>,
    children: Box<[u64; BLOCK_SPANS]>,
    /// Starts of the spans that none has closed over yet, above [`BELOW_OPEN`] empty slots.
    open: Box<[u64; OPEN_SLOTS]>,
    site_indices: Vec<u32>,
    dictionary: Dictionary,
}

impl Default for BlockCoder {
    fn default() -> Self {
        Self {
            packer: Packer::default(),
            gaps: Box::new([0; BLOCK_SPANS]),
            durations: Box::new([0; BLOCK_SPANS]),
            leads: Box::new([0; BLOCK_SPANS]),
            children: Box::new([0; BLOCK_SPANS]),
            open: Box::new([0; OPEN_SLOTS]),
            site_indices: vec![0; BLOCK_SPANS],
            dictionary: Dictionary::default(),
        }
    }
}

impl BlockCoder {
    /// Appends times and sites of at most [`BLOCK_SPANS`] spans, and returns the flags of their
    /// encoding. The slices have one length, not 0.
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
        if fill_gaps(gaps, starts, durations) {
            self.packer.put(out, Column::Gaps, gaps);
            self.packer.put(out, Column::Durations, durations);
            return 0;
        }
        let (leaves, parents) = self.fold(starts, durations);
        self.packer
            .put(out, Column::Children, &self.children[..len]);
        self.packer.put(out, Column::Gaps, &self.gaps[..len]);
        self.packer
            .put(out, Column::Durations, &self.durations[..leaves]);
        self.packer.put(out, Column::Leads, &self.leads[..parents]);
        FLAG_TREE
    }

    /// Fills the four columns of a tree, and returns how many leaves and how many parents there
    /// are.
    ///
    /// The number of spans that the next one closes over cannot be predicted, so a loop that pops
    /// them one by one mostly waits for wrong branches. The topmost four are compared at once
    /// instead, and only a span around more goes on in a loop. If the starts on the stack do not
    /// ascend, as those of real scopes do, the count differs, but the decoder uses it as it is.
    fn fold(&mut self, starts: &[u64], durations: &[u64]) -> (usize, usize) {
        let (mut top, mut leaves, mut parents) = (0, 0, 0);
        let mut previous_end = starts[0];
        let open = &mut self.open;
        open[..BELOW_OPEN].fill(0);
        let columns = self.children.iter_mut().zip(self.gaps.iter_mut());
        for ((&start, &duration), (child_count, gap)) in starts.iter().zip(durations).zip(columns) {
            let end = start.wrapping_add(duration);
            let closes =
                |depth: usize| usize::from(open[(top + BELOW_OPEN - depth) % OPEN_SLOTS] >= start);
            let mut closed = (closes(1) + closes(2) + closes(3) + closes(4)).min(top);
            if closed == 4 {
                while closed < top && open[(top + BELOW_OPEN - closed - 1) % OPEN_SLOTS] >= start {
                    closed += 1;
                }
            }
            top -= closed;
            let leaf = closed == 0;
            let slot = &mut open[(top + BELOW_OPEN) % OPEN_SLOTS];
            // Both columns are written and one of them advances: a branch would cost more than a
            // store.
            self.durations[leaves % BLOCK_SPANS] = duration;
            self.leads[parents % BLOCK_SPANS] = slot.wrapping_sub(start);
            leaves += usize::from(leaf);
            parents += usize::from(!leaf);
            *child_count = closed as u64;
            *gap = if leaf { start } else { end }.wrapping_sub(previous_end);
            *slot = start;
            top += 1;
            previous_end = end;
        }
        (leaves, parents)
    }

    fn put_sites(&mut self, out: &mut Vec<u8>, sites: &[SiteId]) -> u8 {
        let first = sites[0];
        if are_all(sites, first) {
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
        pack::put_fixed(out, indices, index_bits(entries.len()));
        SITES_PACKED
    }

    /// Reads times and sites of `len` spans, at most [`BLOCK_SPANS`] and not 0, and appends them to
    /// the columns.
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
        pack::get(cursor, &mut self.gaps[..len])?;
        pack::get(cursor, &mut self.durations[..len])?;
        let mut end = base;
        let spans = self.gaps[..len]
            .iter()
            .zip(&self.durations[..len])
            .map(|(gap, &duration)| {
                let start = end.wrapping_add(*gap);
                end = start.wrapping_add(duration);
                (start, duration)
            });
        extend_both(starts, durations, spans);
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
        pack::get(cursor, children)?;
        let leaves = children.iter().filter(|&&closed| closed == 0).count();
        let gaps = &mut self.gaps[..len];
        pack::get(cursor, gaps)?;
        pack::get(cursor, &mut self.durations[..leaves])?;
        pack::get(cursor, &mut self.leads[..len - leaves])?;
        let (mut top, mut leaf_at, mut parent_at) = (0_usize, 0, 0);
        let mut previous_end = base;
        let mut is_tree = true;
        let spans = children.iter().zip(&*gaps).map(|(&closed, &gap)| {
            is_tree &= closed <= top as u64;
            top = top.wrapping_sub(closed as usize);
            let leaf = closed == 0;
            let edge = previous_end.wrapping_add(gap);
            // As in `fold`, both sides are computed and one is chosen.
            let duration = self.durations[leaf_at % BLOCK_SPANS];
            let lead = self.leads[parent_at % BLOCK_SPANS];
            let slot = &mut self.open[top % OPEN_SLOTS];
            let start = if leaf { edge } else { slot.wrapping_sub(lead) };
            let end = if leaf {
                edge.wrapping_add(duration)
            } else {
                edge
            };
            leaf_at += usize::from(leaf);
            parent_at += usize::from(!leaf);
            *slot = start;
            top = top.wrapping_add(1);
            previous_end = end;
            (start, end.wrapping_sub(start))
        });
        extend_both(starts, durations, spans);
        if is_tree {
            Ok(())
        } else {
            Err(no_tree(children))
        }
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
            SITES_PACKED => pack::get_fixed(cursor, indices, index_bits(count))?,
            SITES_BYTES => {
                for (index, &byte) in indices.iter_mut().zip(cursor.take(len)?) {
                    *index = u32::from(byte);
                }
            }
            _ => {
                return Err(Error::corrupt(format!(
                    "the encoding of sites is {mode}, not 0, 1 or 2"
                )));
            }
        }
        let mut unknown = None;
        sites.extend(indices.iter().map(|&index| {
            entries.get(index as usize).copied().unwrap_or_else(|| {
                unknown = Some(index);
                SiteId(0)
            })
        }));
        match unknown {
            None => Ok(()),
            Some(index) => Err(Error::corrupt(format!(
                "site number {index} of a record that has {count}"
            ))),
        }
    }
}

/// Returns the error about the first span that closes over more spans than are open.
#[cold]
fn no_tree(children: &[u64]) -> Error {
    let mut open = 0;
    for &closed in children {
        if closed > open {
            return Error::corrupt(format!(
                "a span has {closed} children, but only {open} spans are open"
            ));
        }
        open = open - closed + 1;
    }
    Error::corrupt("the spans are not a tree")
}

/// Appends pairs to two columns. The capacity is reserved at once and not zeroed first.
fn extend_both(
    starts: &mut Vec<u64>,
    durations: &mut Vec<u64>,
    spans: impl Iterator<Item = (u64, u64)>,
) {
    let mut columns = (std::mem::take(starts), std::mem::take(durations));
    columns.extend(spans);
    (*starts, *durations) = columns;
}

/// Fills `gaps` with the time from each previous end to the next start. Returns whether none is
/// negative; where one is, the rest is unchanged.
fn fill_gaps(gaps: &mut [u64], starts: &[u64], durations: &[u64]) -> bool {
    gaps[0] = 0;
    // A group at a time, so that the loop is vector code and a tree is still known for one after
    // its first group.
    let groups = gaps[1..].chunks_mut(GROUP).zip(starts[1..].chunks(GROUP));
    let before = starts.chunks(GROUP).zip(durations.chunks(GROUP));
    for ((gaps, next), (starts, durations)) in groups.zip(before) {
        let mut signs = 0;
        let edges = starts.iter().zip(durations);
        for ((gap, next), (start, duration)) in gaps.iter_mut().zip(next).zip(edges) {
            *gap = next.wrapping_sub(start.wrapping_add(*duration));
            signs |= *gap;
        }
        if signs >> 63 != 0 {
            return false;
        }
    }
    true
}

/// Returns whether all sites are `first`.
fn are_all(sites: &[SiteId], first: SiteId) -> bool {
    // A group at a time, as in `fill_gaps`.
    sites.chunks(GROUP).all(|sites| {
        let differences = sites.iter().fold(0, |any, site| any | (site.0 ^ first.0));
        differences == 0
    })
}

/// Returns how many bits an index below `count` needs.
fn index_bits(count: usize) -> u8 {
    (usize::BITS - count.saturating_sub(1).leading_zeros()) as u8
}

/// Returns whether two indices nearly always predict the third, by a sample: LZ4 then makes bytes
/// smaller than packing does.
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

/// The different sites of a block, in the order in which they first occur.
#[derive(Debug)]
struct Dictionary {
    entries: Vec<SiteId>,
    /// Open addressing by site. A slot is taken when its round is the current one, so that a new
    /// block needs no clearing.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a block and reads it back unchanged. Returns its flags.
    fn through(coder: &mut BlockCoder, spans: &[(u64, u64)], sites: &[SiteId]) -> u8 {
        let (starts, durations): (Vec<u64>, Vec<u64>) = spans.iter().copied().unzip();
        let mut bytes = Vec::new();
        let flags = coder.put(&mut bytes, &starts, &durations, sites);
        let (mut cursor, mut back) = (Cursor::new(&bytes), (vec![1], vec![2], vec![SiteId(3)]));
        let (begun, ended, of) = (&mut back.0, &mut back.1, &mut back.2);
        let read = coder.get(&mut cursor, flags, spans.len(), begun, ended, of);
        read.unwrap();
        assert!(cursor.is_empty());
        assert_eq!(back.0, [vec![1], starts].concat());
        assert_eq!(back.1, [vec![2], durations].concat());
        assert_eq!(back.2, [&[SiteId(3)], sites].concat());
        flags
    }

    fn site_ids(ids: impl IntoIterator<Item = u32>) -> Vec<SiteId> {
        ids.into_iter().map(SiteId).collect()
    }

    #[test]
    fn a_tree_has_the_spans_that_each_span_closes_over() {
        let spans = [
            (100, 10),
            (121, 4),
            (130, 1),
            (132, 1),
            (134, 2),
            (140, 3),
            // Over the last five.
            (120, 30),
            // Over all, of which the first begins with it.
            (100, 60),
            (170, 5),
            (160, 20),
            (190, 1),
            (50, 150),
            (210, 5),
            (220, 5),
            (230, 5),
            (240, 5),
            // Over the last four.
            (205, 50),
        ];
        let (starts, durations): (Vec<u64>, Vec<u64>) = spans.into_iter().unzip();
        let mut coder = BlockCoder::default();
        // The columns of a block before it do not matter.
        through(&mut coder, &[(7, 9); 40], &site_ids([1; 40]));
        let (leaves, parents) = coder.fold(&starts, &durations);
        assert_eq!((leaves, parents), (12, 5));
        let children = [0, 0, 0, 0, 0, 0, 5, 2, 0, 1, 0, 3, 0, 0, 0, 0, 4];
        assert_eq!(coder.children[..17], children);
        let gaps = [0, 11, 5, 1, 1, 4, 7, 10, 10, 5, 10, 9, 10, 5, 5, 5, 10];
        assert_eq!(coder.gaps[..17], gaps);
        assert_eq!(coder.durations[..12], [10, 4, 1, 1, 2, 3, 5, 1, 5, 5, 5, 5]);
        assert_eq!(coder.leads[..5], [1, 0, 10, 50, 5]);
        let sites = site_ids(1..=17);
        assert_eq!(through(&mut coder, &spans, &sites) & FLAG_TREE, FLAG_TREE);

        // No slot below the first open span is closed over.
        for (count, closed) in [(1, 1), (3, 3), (4, 4), (5, 5), (6, 6)] {
            let mut spans: Vec<_> = (1..=count).map(|i| (10 * i, 3)).collect();
            spans.push((0, 100));
            let (starts, durations): (Vec<u64>, Vec<u64>) = spans.into_iter().unzip();
            assert_eq!(coder.fold(&starts, &durations), (closed, 1));
            assert_eq!(coder.children[closed], closed as u64);
            assert_eq!(coder.fold(&[0], &[7]), (1, 0));
            assert_eq!(coder.children[0], 0);
        }
    }

    #[test]
    fn spans_without_overlap_are_flat() {
        let mut coder = BlockCoder::default();
        let sites = site_ids([5; 700]);
        let mut spans: Vec<_> = (0..700).map(|i| (10 + 7 * i, 7)).collect();
        assert_eq!(through(&mut coder, &spans, &sites), 0);
        // The first and the last overlap show, in whichever group of 256 they are.
        for at in [1, 255, 256, 257, 512, 513, 699] {
            let whole = spans[at];
            spans[at] = (whole.0 - 1, 8);
            assert_eq!(through(&mut coder, &spans, &sites), FLAG_TREE, "{at}");
            spans[at] = whole;
        }
    }

    #[test]
    fn sites_are_one_packed_or_a_byte_each() {
        let mut coder = BlockCoder::default();
        let mode = |coder: &mut BlockCoder, sites: &[SiteId]| {
            let spans: Vec<_> = (0..sites.len() as u64).map(|i| (10 * i, 3)).collect();
            through(coder, &spans, sites) >> SITES_SHIFT
        };
        assert_eq!(mode(&mut coder, &site_ids([9; 600])), SITES_ONE);
        for other in [0, 255, 256, 511, 512, 599] {
            let mut sites = site_ids([9; 600]);
            sites[other] = SiteId(8);
            assert_ne!(mode(&mut coder, &sites), SITES_ONE, "{other}");
        }
        // Two in turn for as long as the sample, and then so many others.
        for (others, expected) in [(254, SITES_BYTES), (255, SITES_PACKED)] {
            let sites = (0..520).map(|i| i % 2).chain(1000..1000 + others);
            assert_eq!(mode(&mut coder, &site_ids(sites)), expected);
        }
        let bits = [1, 2, 3, 4, 5, 256, 257, 4096].map(index_bits);
        assert_eq!(bits, [0, 1, 2, 2, 3, 8, 9, 12]);
    }

    #[test]
    fn indices_repeat_if_two_of_them_predict_nine_tenths_of_the_others() {
        let repeated = |period: &[u32], count: usize| {
            let indices: Vec<u32> = period.iter().copied().cycle().take(count).collect();
            is_repetitive(&indices)
        };
        assert!(repeated(&[0, 1], 32) && !repeated(&[0, 1], 31));
        // Two of the guesses are wrong, and three.
        assert!(repeated(&[0, 1, 2], 40) && !repeated(&[0, 1, 2], 39));
        assert!(repeated(&[0, 1, 2, 3], 50) && !repeated(&[0, 1, 2, 3], 49));
        // Pairs that share their bits are different.
        assert!(repeated(&[1, 0, 1], 40));
        // The first 512 decide.
        let noise = |at: u32| at.wrapping_mul(0x9e37_79b1) >> 24;
        let until = |end: u32| {
            let indices: Vec<u32> = (0..1000)
                .map(|at| if at < end { at % 2 } else { noise(at) })
                .collect();
            is_repetitive(&indices)
        };
        assert!(until(512) && !until(300) && !until(0));
    }

    #[test]
    fn a_dictionary_finds_sites_whose_slots_are_taken() {
        // The slots of these are the first and the last.
        let first = [0, 244_002_641, 488_005_282];
        let last = [4_050_964_655, 3_806_962_014, 3_562_959_373];
        let sites = site_ids(first.into_iter().chain(last).chain([first[1], last[2], 7]));
        let mut dictionary = Dictionary::default();
        for round in [0, 5, u32::MAX - 1, u32::MAX] {
            dictionary.round = round;
            for _ in 0..2 {
                let mut indices = [99; 9];
                dictionary.index(&sites, &mut indices);
                assert_eq!(indices, [0, 1, 2, 3, 4, 5, 1, 5, 6]);
                assert_eq!(dictionary.entries.len(), 7);
                assert_eq!(dictionary.entries[..6], sites[..6]);
                // None of those in the block before it is there.
                dictionary.index(&[SiteId(7); 2], &mut indices[..2]);
                assert_eq!(indices[..2], [0, 0]);
            }
        }
    }

    #[test]
    fn a_span_with_more_children_than_open_spans_is_named() {
        let expected = "a span has 3 children, but only 2 spans are open";
        assert_eq!(no_tree(&[0, 0, 2, 1, 0, 3]).to_string(), expected);
        assert_eq!(no_tree(&[0, 0, 3, 9]).to_string(), expected);
        let mut coder = BlockCoder::default();
        coder.open.fill(5);
        let mut bytes = Vec::new();
        put_varint(&mut bytes, 1);
        // Three columns of two spans, of which the second has two children, and one of a parent.
        let mut packer = Packer::default();
        packer.put(&mut bytes, Column::Children, &[0, 2]);
        packer.put(&mut bytes, Column::Gaps, &[1, 2]);
        packer.put(&mut bytes, Column::Durations, &[3]);
        packer.put(&mut bytes, Column::Leads, &[1]);
        put_varint(&mut bytes, 1);
        let (mut starts, mut durations, mut sites) = (vec![], vec![], vec![]);
        let error = coder
            .get(
                &mut Cursor::new(&bytes),
                FLAG_TREE,
                2,
                &mut starts,
                &mut durations,
                &mut sites,
            )
            .unwrap_err();
        let expected = "a span has 2 children, but only 1 spans are open";
        assert_eq!(error.to_string(), expected);
    }
}
