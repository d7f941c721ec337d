//! The spans of one thread at one depth.
//!
//! A row is a queue of chunks. A chunk holds up to [`CHUNK_SPANS`] spans in three columns, with 16
//! bytes per span, ascending and without overlap. Above them are three levels of nodes. A node
//! summarises 16 spans or 16 nodes: their time range, their longest span, and the sites that occur.
//! A node within one pixel is painted as its longest span without reading its children. The cost of
//! painting therefore depends on the number of pixels, not on the number of spans. With all levels,
//! a span takes 18.2 bytes.
//!
//! Chunks are removed at the front together with their frames. They move to another row as a whole
//! when a scope turns out to contain them: the scope may end many frames later than its content.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use vor_capture::model::batch::ArgValue;
use vor_capture::model::catalog::SiteId;

use super::block::RowBlock;
use super::off_cpu::OffCpu;

/// Maximum number of spans in a chunk.
pub(super) const CHUNK_SPANS: usize = 4096;

/// Number of children of a node.
pub(super) const FANOUT: usize = 16;

/// Number of levels: the topmost has one node, which covers the whole chunk.
pub(super) const LEVELS: usize = 3;

/// A span in an unpacked form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize, Serialize)]
pub struct Span {
    /// Begin, in nanoseconds since the store's origin.
    pub begin_ns: i64,
    /// Duration, in nanoseconds.
    pub duration_ns: u64,
    /// Its call site.
    pub site: SiteId,
}

impl Span {
    /// Returns the end of the span.
    #[inline]
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        self.begin_ns.saturating_add_unsigned(self.duration_ns)
    }
}

/// Summary of up to 16 spans or nodes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub(super) begin_ns: i64,
    pub(super) end_ns: i64,
    /// Duration and site of the longest span; durations saturate at `u32::MAX`.
    pub(super) longest_ns: u32,
    pub(super) site: SiteId,
    /// State of the longest span.
    pub(super) off_cpu: Option<OffCpu>,
    /// Bit `s % 32` is set for every site `s` that occurs.
    pub(super) sites: u32,
}

impl Node {
    const NONE: Self = Self {
        begin_ns: i64::MAX,
        end_ns: i64::MIN,
        longest_ns: 0,
        site: SiteId(0),
        off_cpu: None,
        sites: 0,
    };

    fn add(&mut self, other: &Self) {
        self.begin_ns = self.begin_ns.min(other.begin_ns);
        self.end_ns = self.end_ns.max(other.end_ns);
        if other.longest_ns >= self.longest_ns {
            self.longest_ns = other.longest_ns;
            self.site = other.site;
            self.off_cpu = other.off_cpu;
        }
        self.sites |= other.sites;
    }
}

/// Returns the bit of a site in [`Node::sites`].
pub(super) fn site_bit(site: SiteId) -> u32 {
    1 << (site.0 % 32)
}

/// Up to [`CHUNK_SPANS`] spans.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    /// Number of its first span in the row.
    pub(super) first_number: u64,
    pub(super) begin_ns: Vec<i64>,
    pub(super) duration_ns: Vec<u32>,
    pub(super) sites: Vec<SiteId>,
    pub(super) long_ns: Vec<(u32, u64)>,
    pub(super) args: Vec<(u32, Box<[ArgValue]>)>,
    off_cpu: Vec<(u32, OffCpu)>,
    pub(super) levels: [Vec<Node>; LEVELS],
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        self.begin_ns.len()
    }

    /// Returns the node that covers all spans.
    pub(super) fn whole(&self) -> &Node {
        self.levels[LEVELS - 1].first().unwrap_or(&Node::NONE)
    }

    #[inline]
    pub(super) fn span(&self, i: usize) -> Span {
        Span {
            begin_ns: self.begin_ns[i],
            duration_ns: self.duration_ns(i),
            site: self.sites[i],
        }
    }

    #[inline]
    pub(super) fn duration_ns(&self, i: usize) -> u64 {
        match self.duration_ns[i] {
            u32::MAX => {
                let at = self
                    .long_ns
                    .binary_search_by_key(&(i as u32), |long| long.0);
                at.map_or(u64::from(u32::MAX), |at| self.long_ns[at].1)
            }
            short => u64::from(short),
        }
    }

    /// Returns the end of a span.
    pub(super) fn end_ns(&self, i: usize) -> i64 {
        self.begin_ns[i].saturating_add_unsigned(self.duration_ns(i))
    }

    /// Returns the state of a span that did not run for most of its time.
    #[inline]
    pub(super) fn off_cpu(&self, i: usize) -> Option<OffCpu> {
        state_of(&self.off_cpu, i)
    }

    /// Appends the spans `from..to` of a block.
    fn extend(&mut self, block: &RowBlock, from: usize, to: usize) {
        let first = self.len();
        let len = first + to - from;
        reserve_for(&mut self.begin_ns, len);
        reserve_for(&mut self.duration_ns, len);
        reserve_for(&mut self.sites, len);
        self.begin_ns.extend_from_slice(&block.begin_ns[from..to]);
        self.duration_ns
            .extend_from_slice(&block.duration_ns[from..to]);
        self.sites.extend_from_slice(&block.sites[from..to]);
        let here = |i: u32| (i as usize - from + first) as u32;
        let range = within(&block.long_ns, from, to);
        self.long_ns
            .extend(range.iter().map(|&(i, ns)| (here(i), ns)));
        let range = within(&block.args, from, to);
        self.args
            .extend(range.iter().map(|(i, args)| (here(*i), args.clone())));
        let range = within(&block.off_cpu, from, to);
        self.off_cpu
            .extend(range.iter().map(|&(i, state)| (here(i), state)));
        self.sum_up(first);
    }

    /// Rebuilds the nodes above the spans from `first` on.
    fn sum_up(&mut self, first: usize) {
        let mut first = first / FANOUT;
        let mut nodes = self.begin_ns.len();
        for level in &mut self.levels {
            nodes = nodes.div_ceil(FANOUT);
            reserve_for(level, nodes);
        }
        let [spans_level, ..] = &mut self.levels;
        spans_level.truncate(first);
        for from in (first * FANOUT..self.begin_ns.len()).step_by(FANOUT) {
            let to = self.begin_ns.len().min(from + FANOUT);
            let mut node = Node::NONE;
            let mut longest = from;
            for i in from..to {
                if self.duration_ns[i] >= node.longest_ns {
                    node.longest_ns = self.duration_ns[i];
                    longest = i;
                }
                node.sites |= site_bit(self.sites[i]);
            }
            node.site = self.sites[longest];
            node.off_cpu = state_of(&self.off_cpu, longest);
            node.begin_ns = self.begin_ns[from];
            node.end_ns = self.begin_ns[to - 1].saturating_add(i64::from(self.duration_ns[to - 1]));
            spans_level.push(node);
        }
        // The ends above are wrong for long spans, whose durations are saturated.
        for &(i, ns) in &self.long_ns {
            let (i, group) = (i as usize, i as usize / FANOUT);
            if group >= first {
                let end_ns = self.begin_ns[i].saturating_add_unsigned(ns);
                self.levels[0][group].end_ns = self.levels[0][group].end_ns.max(end_ns);
            }
        }
        for level in 1..LEVELS {
            first /= FANOUT;
            let (below, above) = self.levels.split_at_mut(level);
            let (below, above) = (&below[level - 1], &mut above[0]);
            above.truncate(first);
            for group in below[first * FANOUT..].chunks(FANOUT) {
                let mut node = Node::NONE;
                group.iter().for_each(|below| node.add(below));
                above.push(node);
            }
        }
    }

    /// Splits off the spans from `at` on.
    fn split_off(&mut self, at: usize) -> Self {
        let shift = |i: u32| i - at as u32;
        let long_at = self.long_ns.partition_point(|long| (long.0 as usize) < at);
        let args_at = self.args.partition_point(|args| (args.0 as usize) < at);
        let off_cpu_at = self
            .off_cpu
            .partition_point(|state| (state.0 as usize) < at);
        let mut tail = Self {
            first_number: self.first_number + at as u64,
            begin_ns: self.begin_ns.split_off(at),
            duration_ns: self.duration_ns.split_off(at),
            sites: self.sites.split_off(at),
            long_ns: self.long_ns.split_off(long_at),
            args: self.args.split_off(args_at),
            off_cpu: self.off_cpu.split_off(off_cpu_at),
            levels: Default::default(),
        };
        tail.long_ns
            .iter_mut()
            .for_each(|long| long.0 = shift(long.0));
        tail.args.iter_mut().for_each(|args| args.0 = shift(args.0));
        tail.off_cpu
            .iter_mut()
            .for_each(|state| state.0 = shift(state.0));
        tail.sum_up(0);
        self.sum_up(at.saturating_sub(1));
        tail
    }
}

/// Returns the state of the span with an index.
#[inline]
fn state_of(states: &[(u32, OffCpu)], i: usize) -> Option<OffCpu> {
    if states.is_empty() {
        return None;
    }
    let at = states.binary_search_by_key(&(i as u32), |state| state.0);
    Some(states[at.ok()?].1)
}

/// Reserves capacity for `len` entries, in steps that end exactly with a full chunk.
fn reserve_for<T>(column: &mut Vec<T>, len: usize) {
    if column.capacity() < len {
        column.reserve_exact(len.next_power_of_two() - column.len());
    }
}

/// Returns the entries with an index in `from..to`.
fn within<T>(entries: &[(u32, T)], from: usize, to: usize) -> &[(u32, T)] {
    let begin = entries.partition_point(|entry| (entry.0 as usize) < from);
    let end = entries.partition_point(|entry| (entry.0 as usize) < to);
    &entries[begin..end]
}

/// The spans of one thread at one depth, ascending. They are numbered from 0 in the order of
/// arrival; a number stays valid when other spans leave.
#[derive(Clone, Debug, Default)]
pub struct Row {
    pub(super) chunks: VecDeque<Chunk>,
    len: usize,
    pub(super) next_number: u64,
}

impl Row {
    /// Returns the number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are no spans.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the end of the last span; `i64::MIN` if there is none.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        self.chunks
            .back()
            .map_or(i64::MIN, |chunk| chunk.whole().end_ns)
    }

    /// Appends spans; none of them may begin before [`end_ns`](Self::end_ns).
    pub(super) fn extend(&mut self, block: &RowBlock) {
        let mut from = 0;
        while from < block.len() {
            let room = self
                .chunks
                .back()
                .map_or(0, |chunk| CHUNK_SPANS - chunk.len());
            if room == 0 {
                self.chunks.push_back(Chunk {
                    first_number: self.next_number + from as u64,
                    ..Chunk::default()
                });
                continue;
            }
            let to = block.len().min(from + room);
            if let Some(chunk) = self.chunks.back_mut() {
                chunk.extend(block, from, to);
            }
            from = to;
        }
        self.len += block.len();
        self.next_number += block.len() as u64;
    }

    /// Splits off the spans that begin at `begin_ns` or later.
    pub(super) fn split_off(&mut self, begin_ns: i64) -> Self {
        let at = self
            .chunks
            .partition_point(|chunk| chunk.whole().begin_ns < begin_ns);
        let mut tail = self.chunks.split_off(at);
        if let Some(chunk) = self.chunks.back_mut() {
            let i = chunk.begin_ns.partition_point(|&begin| begin < begin_ns);
            if i < chunk.len() {
                tail.push_front(chunk.split_off(i));
            }
        }
        let len = tail.iter().map(Chunk::len).sum();
        self.len -= len;
        Self {
            chunks: tail,
            len,
            // Its spans keep their numbers, so later ones must not begin below them.
            next_number: self.next_number,
        }
    }

    /// Appends spans that were split off another row.
    pub(super) fn append(&mut self, mut tail: Self) {
        for chunk in &mut tail.chunks {
            chunk.first_number = self.next_number;
            self.next_number += chunk.len() as u64;
        }
        self.chunks.append(&mut tail.chunks);
        self.len += tail.len;
    }

    /// Removes chunks whose spans all ended by `ns`; returns the number of removed spans.
    pub(super) fn evict(&mut self, ns: i64) -> usize {
        let mut gone = 0;
        while let Some(chunk) = self.chunks.front()
            && chunk.whole().end_ns <= ns
        {
            gone += chunk.len();
            self.chunks.pop_front();
        }
        self.len -= gone;
        gone
    }

    /// Returns the spans that overlap the time between `begin_ns` and `end_ns`, ascending. A span
    /// of zero duration counts if it lies at or after the begin.
    pub fn spans(&self, begin_ns: i64, end_ns: i64) -> impl Iterator<Item = Span> {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns < begin_ns);
        let chunks = self.chunks.range(first..);
        chunks
            .take_while(move |chunk| chunk.whole().begin_ns < end_ns)
            .flat_map(move |chunk| {
                let first = chunk.first_ending_after(begin_ns);
                let last = chunk.begin_ns.partition_point(|&begin| begin < end_ns);
                (first..last.max(first)).map(|i| chunk.span(i))
            })
            .filter(move |span| {
                span.end_ns() > begin_ns || (span.duration_ns == 0 && span.begin_ns >= begin_ns)
            })
    }

    /// Returns the number of the first span that ends after a moment.
    pub(super) fn number_ending_after(&self, ns: i64) -> u64 {
        let at = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns <= ns);
        self.chunks.get(at).map_or(self.next_number, |chunk| {
            chunk.first_number + chunk.first_ending_after(ns) as u64
        })
    }

    /// Returns the span at a moment: one that began by then and ended after it, or one of zero
    /// duration exactly there.
    #[must_use]
    pub fn span_at(&self, ns: i64) -> Option<Span> {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.whole().begin_ns <= ns);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let i = chunk
            .begin_ns
            .partition_point(|&begin| begin <= ns)
            .checked_sub(1)?;
        let span = chunk.span(i);
        (span.end_ns() > ns || span.begin_ns == ns).then_some(span)
    }

    /// Returns the last span that ended at or before a moment.
    #[must_use]
    pub fn span_before(&self, ns: i64) -> Option<Span> {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.whole().begin_ns < ns);
        let mut chunks = self.chunks.range(..after).rev();
        chunks.find_map(|chunk| {
            let after = chunk.begin_ns.partition_point(|&begin| begin < ns);
            (0..after)
                .rev()
                .take(2)
                .map(|i| chunk.span(i))
                .find(|span| span.end_ns() <= ns)
        })
    }

    /// Returns the first span that began at or after a moment.
    #[must_use]
    pub fn span_after(&self, ns: i64) -> Option<Span> {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns < ns);
        self.chunks.range(first..).find_map(|chunk| {
            let i = chunk.begin_ns.partition_point(|&begin| begin < ns);
            (i < chunk.len()).then(|| chunk.span(i))
        })
    }

    /// Returns whether any span of the row has arguments.
    #[must_use]
    pub fn has_args(&self) -> bool {
        self.chunks.iter().any(|chunk| !chunk.args.is_empty())
    }

    /// Returns the arguments of a span of this row; empty if it has none.
    #[must_use]
    pub fn args(&self, span: &Span) -> &[ArgValue] {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.whole().begin_ns <= span.begin_ns);
        let Some(chunk) = after.checked_sub(1).and_then(|at| self.chunks.get(at)) else {
            return &[];
        };
        let first = chunk
            .begin_ns
            .partition_point(|&begin| begin < span.begin_ns);
        // Several spans of zero duration may begin at the same moment.
        let alike = (first..chunk.len()).take_while(|&i| chunk.begin_ns[i] == span.begin_ns);
        let found = alike.filter(|&i| chunk.span(i) == *span).find_map(|i| {
            let at = chunk.args.binary_search_by_key(&(i as u32), |args| args.0);
            at.ok().map(|at| &*chunk.args[at].1)
        });
        found.unwrap_or(&[])
    }

    /// Returns the number of spans that begin at `begin_ns` or later and before `end_ns`.
    #[must_use]
    pub fn count(&self, begin_ns: i64, end_ns: i64) -> usize {
        let first = self
            .chunks
            .partition_point(|chunk| chunk.whole().end_ns < begin_ns);
        let chunks = self.chunks.range(first..);
        let counted = chunks
            .take_while(|chunk| chunk.whole().begin_ns < end_ns)
            .map(|chunk| {
                let from = chunk.begin_ns.partition_point(|&begin| begin < begin_ns);
                let to = chunk.begin_ns.partition_point(|&begin| begin < end_ns);
                to.saturating_sub(from)
            });
        counted.sum()
    }

    /// Returns the bytes of the spans and of the levels above them; arguments are not included.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let of = |chunk: &Chunk| {
            let nodes: usize = chunk.levels.iter().map(Vec::capacity).sum();
            size_of::<Chunk>()
                + chunk.begin_ns.capacity() * 8
                + chunk.duration_ns.capacity() * 4
                + chunk.sites.capacity() * 4
                + chunk.long_ns.capacity() * 16
                + chunk.off_cpu.capacity() * 8
                + nodes * size_of::<Node>()
        };
        self.chunks.iter().map(of).sum()
    }
}

impl Chunk {
    /// Returns the index of the first span that ends after a moment, or begins there or later.
    fn first_ending_after(&self, ns: i64) -> usize {
        let i = self.begin_ns.partition_point(|&begin| begin < ns);
        match i.checked_sub(1) {
            Some(before) if self.end_ns(before) > ns => before,
            _ => i,
        }
    }
}
