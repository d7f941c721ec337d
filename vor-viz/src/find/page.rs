//! A page of a list that has a total order: memory is that of the page, and further pages reach
//! every item.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::hash::BuildHasher;

use rustc_hash::FxBuildHasher;
use vor_capture::model::catalog::{SiteId, ThreadId};

use crate::store::{Span, TrackKind};

/// Number of items on a page.
pub const PAGE: usize = 10_000;

/// The order of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The longest first.
    #[default]
    Longest,
    /// The shortest first.
    Shortest,
    /// In the order of their begins.
    Earliest,
    /// In the reverse order of their begins.
    Latest,
    /// Waits by the names of their holders, the longest first of each.
    Holder,
    /// Waits in the reverse order of the names of their holders.
    HolderReversed,
}

/// The place of a name among others: its first 16 bytes in their order, and names that differ
/// later by a hash, so that equal names are together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct NamePlace(u128, u64);

impl NamePlace {
    fn of(name: &str) -> Self {
        let mut first = [0; 16];
        first
            .iter_mut()
            .zip(name.bytes())
            .for_each(|(to, byte)| *to = byte.to_ascii_lowercase());
        Self(u128::from_be_bytes(first), FxBuildHasher.hash_one(name))
    }

    fn reversed(self) -> Self {
        Self(!self.0, !self.1)
    }
}

/// The place of an item in an order; it is smaller for an earlier place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    holder: NamePlace,
    main: u64,
    begin_ns: i64,
    thread: ThreadId,
    kind: TrackKind,
    /// Calls around others come first; messages of one moment in the order in which they came.
    nth: usize,
    duration_ns: Reverse<u64>,
}

impl Rank {
    /// Returns the place of a span; `depth` is the number of spans around it.
    pub(super) fn of_span(
        order: Order,
        thread: ThreadId,
        kind: TrackKind,
        span: &Span,
        depth: usize,
    ) -> Self {
        // Signed numbers in the order of unsigned ones.
        let begin = (span.begin_ns as u64) ^ (1 << 63);
        Self {
            holder: NamePlace::default(),
            main: match order {
                Order::Longest | Order::Holder | Order::HolderReversed => !span.duration_ns,
                Order::Shortest => span.duration_ns,
                Order::Earliest => begin,
                Order::Latest => !begin,
            },
            begin_ns: span.begin_ns,
            thread,
            kind,
            nth: depth,
            duration_ns: Reverse(span.duration_ns),
        }
    }

    /// Returns the place of a wait with a holder.
    pub(super) fn with_holder(self, order: Order, holder: &str) -> Self {
        let holder = match order {
            Order::Holder => NamePlace::of(holder),
            Order::HolderReversed => NamePlace::of(holder).reversed(),
            _ => return self,
        };
        Self { holder, ..self }
    }

    /// Returns the place of a message; `nth` is its number among those of one thread and moment.
    /// Messages have no duration, so an order by it is that of their moments.
    pub(super) fn of_message(order: Order, thread: ThreadId, ns: i64, nth: usize) -> Self {
        let moment = Span {
            begin_ns: ns,
            duration_ns: 0,
            site: SiteId(0),
        };
        Self::of_span(order, thread, TrackKind::Scopes, &moment, nth)
    }
}

/// Keeps the first items after a place, of all that are offered.
///
/// They are in a heap whose top is the last of them, so an item costs one comparison unless it
/// belongs to the page.
#[derive(Clone, Debug)]
pub(super) struct Page<T> {
    after: Option<Rank>,
    most: usize,
    kept: BinaryHeap<Entry<T>>,
    before: u64,
}

impl<T> Page<T> {
    pub(super) fn new(after: Option<Rank>, most: usize) -> Self {
        Self {
            after,
            most,
            kept: BinaryHeap::new(),
            before: 0,
        }
    }

    /// Offers an item, which is made only if it belongs to the page so far.
    pub(super) fn offer(&mut self, rank: Rank, item: impl FnOnce() -> T) {
        if self.after.is_some_and(|after| rank <= after) {
            self.before += 1;
            return;
        }
        let is_full = self.kept.len() >= self.most;
        if is_full && self.kept.peek().is_none_or(|last| last.rank <= rank) {
            return;
        }
        if is_full {
            self.kept.pop();
        }
        self.kept.push(Entry { rank, item: item() });
    }

    /// Returns the items in their order, and the number of those before the page.
    pub(super) fn finish(self) -> (Vec<T>, u64) {
        let kept = self.kept.into_sorted_vec().into_iter();
        (kept.map(|kept| kept.item).collect(), self.before)
    }
}

/// An item, which is compared by its rank.
#[derive(Clone, Debug)]
struct Entry<T> {
    rank: Rank,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.rank == other.rank
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.rank.cmp(&other.rank)
    }
}
