//! Finds the spans of a call site that lie inside another span of the same call site, while spans
//! arrive in the order in which they ended.
//!
//! The time during which a scope was open at all counts the time of a recursive call once. The
//! outer call ends last: by then, the calls inside it were added already. Few sites recurse, and
//! whether a span contains one of its own site is cheap to know: it does if the last span of the
//! site ended after it began, which their positions in the order of ends say. A log of the last
//! spans of the thread then says which these are. Where the span has too many descendants to look
//! them through, its site is *tracked* from then on: the thread holds a stack of the site's ended
//! spans that no later one contains yet:
//!
//! ```text
//! on the end of span s of a tracked site, with n descendants, the k-th to end on the thread:
//!     while the top of the stack of the site ended as k - n or later: pop it, s contains it
//!     union(site) += weight(s) - sum of the weights of the popped
//!     push s
//! ```
//!
//! The log fills the stack when tracking begins. Spans that have left the log by then are unknown:
//!
//! - [`NestedSpans::settle`] is told which scopes are open. It begins to track their sites, and
//!   empties the log: spans of another site will not be contained by one of their own.
//! - Without that knowledge, a span of a site that began before the log and is the first to recurse
//!   is an estimate. A [second pass](NestedSpans::for_second_pass) tracks the sites that recurse
//!   from the beginning.
//!
//! Entries of a stack whose spans lie in the same ended subtree have the same ancestors from then
//! on. Where a thread holds many entries, such entries become one: then there is at most one per
//! site and waiting subtree.

use super::by_site::BySite;
use super::ended::EndedSpans;
use crate::model::catalog::SiteId;
use crate::model::measures::Weight;

/// Spans at which the log gives up its older half. It exceeds twice what one drain of a ring
/// brings.
const MAX_LOG: usize = if cfg!(miri) { 128 } else { 65_536 };

/// Most descendants of a span that are looked through for those of its own site. Each is looked at
/// for the innermost span of a site around it alone.
const MAX_WALK: u64 = if cfg!(miri) { 8 } else { 512 };

/// Least number of entries at which those of all subtrees are merged. Where the open scopes are
/// known, a quarter is enough.
const MERGE_AT: usize = if cfg!(miri) { 64 } else { 65_536 };

/// Number of entries left by merging at which [`EndedSpans`] has to merge subtrees as well. It
/// exceeds what one drain of a ring brings.
const MAX_ENTRIES: usize = if cfg!(miri) { 64 } else { 65_536 };

/// The ended spans of one thread that a later span of the same call site may contain.
#[derive(Clone, Debug)]
pub(super) struct NestedSpans<W> {
    /// Spans that ended on the thread.
    ended: u64,
    sites: BySite<SiteSpans<W>>,
    /// The last spans, up to number `ended`.
    log: Vec<Logged<W>>,
    /// Spans before this position will not be contained by one of their own site, unless that is
    /// tracked.
    settled: u64,
    /// Entries of all stacks.
    entries: usize,
    merge_at: usize,
    estimates: u64,
}

/// The state of a call site on a thread.
#[derive(Clone, Debug)]
struct SiteSpans<W> {
    /// One more than the position of the first span and of the last; 0 without spans.
    first: u64,
    last: u64,
    is_tracked: bool,
    /// Spans before this position are missing on the stack.
    missing_before: u64,
    stack: Vec<Entry<W>>,
}

#[derive(Clone, Copy, Debug)]
struct Logged<W> {
    site: SiteId,
    /// At most the largest number there is room for; only corrections need it.
    descendants: u32,
    weight: W,
}

/// One span, or several of the same site in the same subtree.
#[derive(Clone, Copy, Debug)]
struct Entry<W> {
    /// Position of the first of them in the order of ends.
    position: u64,
    spans: Nested<W>,
}

/// The outermost spans of one call site in some part of a recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Nested<W> {
    /// Number of them.
    pub(super) calls: u64,
    /// Sum of their weights.
    pub(super) sum: W,
    /// Number of their descendants.
    pub(super) descendants: u64,
}

impl<W> Default for NestedSpans<W> {
    fn default() -> Self {
        Self {
            ended: 0,
            sites: BySite::default(),
            log: Vec::new(),
            settled: 0,
            entries: 0,
            merge_at: MERGE_AT,
            estimates: 0,
        }
    }
}

impl<W> Default for SiteSpans<W> {
    fn default() -> Self {
        Self {
            first: 0,
            last: 0,
            is_tracked: false,
            missing_before: 0,
            stack: Vec::new(),
        }
    }
}

impl<W: Weight> NestedSpans<W> {
    /// Takes the next span that ended on the thread, and returns those of the same site inside it.
    /// [`bound`](Self::bound) is to be called now and then.
    #[inline]
    pub(super) fn end(&mut self, site: SiteId, descendants: u64, weight: W) -> Nested<W> {
        let position = self.ended;
        let known = self.sites.of(site);
        let contains_own = known.last > position.saturating_sub(descendants);
        known.last = position + 1;
        let mut inside = Nested::default();
        if known.is_tracked {
            inside = self.end_tracked(site, descendants, weight);
        } else if contains_own {
            inside = self.end_recursive(site, descendants, weight);
        } else if known.first == 0 {
            known.first = position + 1;
        }
        if self.log.len() >= MAX_LOG {
            self.log.drain(..MAX_LOG / 2);
        }
        self.log.push(Logged {
            site,
            descendants: u32::try_from(descendants).unwrap_or(u32::MAX),
            weight,
        });
        self.ended += 1;
        inside
    }

    /// As [`end`](Self::end), of a span that contains one of its own site, which is not tracked.
    #[inline(never)]
    fn end_recursive(&mut self, site: SiteId, descendants: u64, weight: W) -> Nested<W> {
        if descendants <= MAX_WALK
            && let Some(first) = self.log.len().checked_sub(descendants as usize)
        {
            let inside = outermost(site, &self.log[first..]);
            return inside.fold(Nested::default(), |sum, (_, logged)| sum.plus(logged.nested()));
        }
        self.track(site);
        self.end_tracked(site, descendants, weight)
    }

    #[inline(never)]
    fn end_tracked(&mut self, site: SiteId, descendants: u64, weight: W) -> Nested<W> {
        let position = self.ended;
        let begin = position.saturating_sub(descendants);
        let known = self.sites.of(site);
        self.estimates += u64::from(begin < known.missing_before);
        let stack = &mut known.stack;
        let before = stack.len();
        let mut inside = Nested::default();
        while let Some(top) = stack.pop_if(|top| top.position >= begin) {
            inside = top.spans.plus(inside);
        }
        stack.push(Entry {
            position,
            spans: Nested {
                calls: 1,
                sum: weight,
                descendants,
            },
        });
        self.entries = self.entries + stack.len() - before;
        inside
    }

    /// Merges entries where there are many. `waiting` took the same spans.
    #[inline]
    pub(super) fn bound(&mut self, waiting: &mut EndedSpans<W>) {
        if self.entries >= self.merge_at {
            self.merge(waiting);
        }
    }

    /// Begins to track a site.
    #[cold]
    fn track(&mut self, site: SiteId) {
        let known = self.sites.of(site);
        if known.is_tracked {
            return;
        }
        known.is_tracked = true;
        let log_begin = self.ended - self.log.len() as u64;
        if known.first > 0 && known.first <= log_begin && self.settled < log_begin {
            known.missing_before = log_begin;
        }
        let entries = outermost(site, &self.log).map(|(index, logged)| Entry {
            position: log_begin + index as u64,
            spans: logged.nested(),
        });
        known.stack.extend(entries);
        known.stack.reverse();
        self.entries += known.stack.len();
    }

    /// Tracks the sites of the open scopes from now on, and empties the log. To be called after
    /// `waiting` was settled with the same scopes.
    pub(super) fn settle(&mut self, open: &[(SiteId, u64)], waiting: &EndedSpans<W>) {
        for &(site, _) in open {
            self.track(site);
        }
        // Spans that began after the scopes were read may be in a scope that began later, too.
        let recent = usize::try_from(waiting.recent_spans()).unwrap_or(usize::MAX);
        let settled = self.log.len().saturating_sub(recent);
        self.log.drain(..settled);
        self.settled = self.ended - self.log.len() as u64;
        if self.entries >= MERGE_AT / 4 {
            self.merge_within(waiting);
        }
    }

    /// Merges the entries whose spans have the same ancestors to come, and where that is not
    /// enough, waiting subtrees as well.
    #[cold]
    fn merge(&mut self, waiting: &mut EndedSpans<W>) {
        self.merge_within(waiting);
        while self.entries > MAX_ENTRIES && waiting.fold() {
            self.merge_within(waiting);
        }
        self.merge_at = MERGE_AT.max(2 * self.entries);
    }

    fn merge_within(&mut self, waiting: &EndedSpans<W>) {
        let mut ended = 0;
        let ends: Vec<u64> = waiting
            .span_counts()
            .map(|spans| {
                ended += spans;
                ended
            })
            .collect();
        self.entries = 0;
        for known in self.sites.iter_mut() {
            let mut subtree = 0;
            if let Some(first) = known.stack.first() {
                subtree = subtree_of(first.position, 0, &ends);
            }
            known.stack.dedup_by(|later, earlier| {
                let of_later = subtree_of(later.position, subtree, &ends);
                let is_together = of_later == std::mem::replace(&mut subtree, of_later);
                if is_together {
                    earlier.spans = earlier.spans.plus(later.spans);
                }
                is_together
            });
            self.entries += known.stack.len();
        }
    }

    /// Forgets all spans so far: those that end later contain none of them.
    pub(super) fn restart(&mut self) {
        for known in self.sites.iter_mut() {
            *known = SiteSpans {
                is_tracked: known.is_tracked,
                ..SiteSpans::default()
            };
        }
        self.log.clear();
        self.settled = self.ended;
        self.entries = 0;
        self.merge_at = MERGE_AT;
    }

    /// Returns how many spans may contain others of their site that are not known.
    pub(super) fn estimates(&self) -> u64 {
        self.estimates
    }

    /// Returns an empty one for the same spans once more, which tracks from the beginning what this
    /// one found to recurse.
    pub(super) fn for_second_pass(&self) -> Self {
        let mut next = Self::default();
        for (site, known) in self.sites.iter() {
            if known.is_tracked {
                next.track(site);
            }
        }
        next
    }
}

/// Returns which subtree holds the span at a position, by where each subtree ends; it is not before
/// the subtree `from`. Nearly always it is one of the next, so these are looked at first.
fn subtree_of(position: u64, mut from: usize, ends: &[u64]) -> usize {
    let mut step = 1;
    while ends.get(from + step - 1).is_some_and(|&end| end <= position) {
        from += step;
        step *= 2;
    }
    let rest = &ends[from..ends.len().min(from + step)];
    from + rest.partition_point(|&end| end <= position)
}

/// Returns the outermost spans of a site among these, with their places, the last one first.
fn outermost<W>(site: SiteId, mut spans: &[Logged<W>]) -> impl Iterator<Item = (usize, &Logged<W>)> {
    std::iter::from_fn(move || {
        while let Some((last, before)) = spans.split_last() {
            spans = before;
            if last.site == site {
                // The spans inside it ended directly before it.
                spans = &before[..before.len().saturating_sub(last.descendants as usize)];
                return Some((before.len(), last));
            }
        }
        None
    })
}

impl<W: Weight> Logged<W> {
    fn nested(&self) -> Nested<W> {
        Nested {
            calls: 1,
            sum: self.weight,
            descendants: self.descendants.into(),
        }
    }
}

impl<W: Weight> Nested<W> {
    #[must_use]
    #[inline]
    pub(super) fn plus(self, other: Self) -> Self {
        Self {
            calls: self.calls + other.calls,
            sum: self.sum.plus(other.sum),
            descendants: self.descendants + other.descendants,
        }
    }
}
