//! Finds the spans of a call site that lie inside another span of the same call site, while spans
//! arrive in the order in which they ended.
//!
//! The time during which a scope was open at all counts the time of a recursive call once. So the
//! spans inside another one of their site are *nested*, and their weights are subtracted. The
//! descendants of a span are those that ended just before it. So from the last span of a batch to
//! the first, every span comes after those around it, and one number per call site decides:
//!
//! ```text
//! for each span, from the last to the first, in steps that are counted:
//!     nested = step < covered_until(site)
//!     covered_until(site) = max(covered_until(site), next step + descendants)
//! ```
//!
//! If a span contains spans of earlier batches, the walk continues in the log of the last spans of
//! the thread. Spans leave the log in two cases:
//!
//! - [`NestedSpans::settle`] is told which scopes are open, and empties the log. Only spans of the
//!   sites of these scopes can be contained by later ones of their site.
//! - Without that knowledge, a log of [`MAX_LOG`] spans gives up its older half.
//!
//! Where spans of a site that leave the log may be contained by later ones, the site is *tracked*:
//! those that are not nested go onto a stack of their own. Without knowledge of open scopes, these
//! are the sites that have recursed. A span that contains others of its site which left the log
//! before the site was tracked is an estimate. A [second pass](NestedSpans::for_second_pass) tracks
//! such sites from the beginning.
//!
//! Entries of a stack whose spans lie in the same ended subtree have the same ancestors from then
//! on. Where a thread holds many entries, such entries become one: then there is at most one per
//! site and waiting subtree.

use super::by_site::BySite;
use super::ended::EndedSpans;
use crate::model::catalog::SiteId;
use crate::model::measures::Weight;

/// Spans at which the log gives up its older half before the next batch. It exceeds what one drain
/// of a ring brings.
const MAX_LOG: usize = if cfg!(miri) { 128 } else { 65_536 };

/// Least number of entries at which those of all subtrees are merged. Where the open scopes are
/// known, a quarter is enough.
const MERGE_AT: usize = if cfg!(miri) { 64 } else { 65_536 };

/// Number of entries left by merging at which [`EndedSpans`] has to merge subtrees as well. It
/// exceeds what one drain of a ring brings.
const MAX_ENTRIES: usize = if cfg!(miri) { 64 } else { 65_536 };

/// The ended spans of one thread that a later span of the same call site may contain.
///
/// The position of a span is its place in the order in which the spans of the thread ended.
#[derive(Clone, Debug)]
pub(super) struct NestedSpans<W> {
    /// Position of the first span of the log.
    log_begin: u64,
    /// The last spans of the thread.
    log: Vec<Logged<W>>,
    /// Place in the log of the first span of the batch.
    batch_begin: usize,
    /// Whether a span of the batch has descendants.
    has_parents: bool,
    /// Places in the batch, and numbers of descendants, of the spans that have more than
    /// [`MAX_DESCENDANTS`].
    huge: Vec<(usize, u64)>,
    /// Spans of the batch that contain spans of earlier batches.
    crossing: Vec<Crossing>,
    /// The step that leaves the range of the spans of each site so far.
    covered_until: BySite<u64>,
    /// Steps so far, so that the ranges of one batch do not reach into the next.
    steps: u64,
    /// Which sites have recursed; for [`forget_half`](Self::forget_half).
    recursed: BySite<bool>,
    /// Boxed, because most sites of a program are tracked on no thread.
    tracked: BySite<Option<Box<Tracked<W>>>>,
    tracked_sites: Vec<SiteId>,
    /// One more than the position of the last span of each site that left the log while the site
    /// was not tracked and the open scopes were not known.
    lost_until: BySite<u64>,
    /// Entries of all stacks.
    entries: usize,
    merge_at: usize,
    estimates: u64,
}

/// A span of the log.
#[derive(Clone, Copy, Debug, Default)]
struct Logged<W> {
    weight: W,
    site: SiteId,
    /// The number of descendants, at most [`MAX_DESCENDANTS`], and [`NESTED`].
    descendants: u32,
}

/// Marks a span that lies inside another one of its site.
const NESTED: u32 = 1 << 31;

/// Exceeds every range inside the log.
const MAX_DESCENDANTS: u32 = NESTED - 1;

/// A span that contains spans of earlier batches.
#[derive(Clone, Copy, Debug)]
struct Crossing {
    site: SiteId,
    /// Their number.
    before_batch: u64,
}

/// The spans of a tracked call site that left the log and are not nested.
#[derive(Clone, Debug)]
struct Tracked<W> {
    stack: Vec<Entry<W>>,
    /// Whether the site is tracked even where no scope of it is open.
    is_permanent: bool,
}

/// One span, or several of the same site in the same subtree.
#[derive(Clone, Copy, Debug)]
struct Entry<W> {
    /// Position of the first of them.
    position: u64,
    spans: Nested<W>,
}

/// Spans of one call site, none of which contains another.
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
            log_begin: 0,
            log: Vec::new(),
            batch_begin: 0,
            has_parents: false,
            huge: Vec::new(),
            crossing: Vec::new(),
            covered_until: BySite::default(),
            steps: 0,
            recursed: BySite::default(),
            tracked: BySite::default(),
            tracked_sites: Vec::new(),
            lost_until: BySite::default(),
            entries: 0,
            merge_at: MERGE_AT,
            estimates: 0,
        }
    }
}

impl<W: Weight> NestedSpans<W> {
    /// Adds the next spans that ended on the thread: their call sites, weights and numbers of
    /// descendants. [`find`](Self::find) is to be called after each batch.
    #[inline]
    pub(super) fn extend(&mut self, spans: impl ExactSizeIterator<Item = (SiteId, W, u64)>) {
        if self.log.len() >= MAX_LOG {
            self.forget_half();
        }
        self.batch_begin = self.log.len();
        // The log has room already, since growing it one by one keeps the loop's state in memory.
        let end = self.batch_begin + spans.len();
        self.log.resize(end, Logged::default());
        let batch = &mut self.log[self.batch_begin..];
        let mut any_descendants = 0;
        for (place, (logged, (site, weight, descendants))) in
            batch.iter_mut().zip(spans).enumerate()
        {
            any_descendants |= descendants;
            if descendants > MAX_DESCENDANTS.into() {
                self.huge.push((place, descendants));
            }
            *logged = Logged {
                weight,
                site,
                descendants: descendants.min(MAX_DESCENDANTS.into()) as u32,
            };
        }
        self.has_parents = any_descendants > 0;
    }

    /// Calls `found` for the spans that lie inside a span of the batch: with their site, and their
    /// number and sums.
    pub(super) fn find(&mut self, mut found: impl FnMut(SiteId, Nested<W>)) {
        if !self.has_parents {
            return;
        }
        let mut step = self.steps;
        let batch = &mut self.log[self.batch_begin..];
        for (place, span) in batch.iter_mut().enumerate().rev() {
            let covered_until = self.covered_until.of(span.site);
            let is_nested = step < *covered_until;
            step += 1;
            *covered_until = (*covered_until).max(step + u64::from(span.descendants));
            if span.descendants as usize > place {
                let descendants = match self.huge.pop_if(|huge| huge.0 == place) {
                    Some((_, descendants)) => descendants,
                    None => span.descendants.into(),
                };
                self.crossing.push(Crossing {
                    site: span.site,
                    before_batch: descendants - place as u64,
                });
            }
            if is_nested {
                found(span.site, span.nested());
                span.descendants |= NESTED;
                *self.recursed.of(span.site) = true;
            }
        }
        self.steps = step;
        if !self.crossing.is_empty() {
            self.find_before_batch(&mut found);
        }
    }

    /// Finds the spans before the batch that lie inside a span of the batch.
    #[cold]
    fn find_before_batch(&mut self, found: &mut impl FnMut(SiteId, Nested<W>)) {
        let crossing = std::mem::take(&mut self.crossing);
        let reach = crossing.iter().map(|span| span.before_batch).max();
        let reach = reach.unwrap_or(0);
        let in_log = usize::try_from(reach).unwrap_or(usize::MAX);
        let inside = self.batch_begin.saturating_sub(in_log);
        let earlier = self.log[inside..self.batch_begin].iter_mut().rev();
        for (step, span) in (self.steps..).zip(earlier) {
            let is_nested = step < *self.covered_until.of(span.site);
            if is_nested && !span.is_nested() {
                found(span.site, span.nested());
                span.descendants |= NESTED;
                *self.recursed.of(span.site) = true;
            }
        }
        self.steps = self.steps.saturating_add(reach);
        // From the first to end, so that the spans of a stack go to the innermost around them.
        for span in crossing.iter().rev() {
            let before_log = span.before_batch.saturating_sub(self.batch_begin as u64);
            if before_log > 0 {
                let nested = self.nested_before_log(span.site, before_log);
                if nested.calls > 0 {
                    found(span.site, nested);
                }
            }
        }
    }

    /// Takes the spans of a site among the last `count` before the log off its stack.
    fn nested_before_log(&mut self, site: SiteId, count: u64) -> Nested<W> {
        let begin = self.log_begin.saturating_sub(count);
        if begin < *self.lost_until.of(site) {
            self.estimates += 1;
            self.track(site, true);
        }
        let mut nested = Nested::default();
        let Some(tracked) = self.tracked.of(site) else {
            return nested;
        };
        let stack = &mut tracked.stack;
        let before = stack.len();
        while let Some(top) = stack.pop_if(|top| top.position >= begin) {
            nested = top.spans.plus(nested);
        }
        self.entries -= before - stack.len();
        nested
    }

    /// Merges entries where there are many. `waiting` took the same spans.
    #[inline]
    pub(super) fn bound(&mut self, waiting: &mut EndedSpans<W>) {
        if self.entries >= self.merge_at {
            self.merge(waiting);
        }
    }

    /// Begins to track a site, unless it is tracked.
    fn track(&mut self, site: SiteId, is_permanent: bool) {
        let tracked = self.tracked.of(site).get_or_insert_with(|| {
            self.tracked_sites.push(site);
            Box::new(Tracked {
                stack: Vec::new(),
                is_permanent: false,
            })
        });
        tracked.is_permanent |= is_permanent;
    }

    /// Drops the first spans of the log. Spans of tracked sites that are not nested go onto their
    /// stacks; the others are lost, unless nothing can contain them.
    fn drop_first(&mut self, count: usize, can_be_contained: bool) {
        if can_be_contained || !self.tracked_sites.is_empty() {
            for (position, span) in (self.log_begin..).zip(&self.log[..count]) {
                if let Some(tracked) = self.tracked.of(span.site) {
                    if !span.is_nested() {
                        let spans = span.nested();
                        tracked.stack.push(Entry { position, spans });
                        self.entries += 1;
                    }
                } else if can_be_contained {
                    *self.lost_until.of(span.site) = position + 1;
                }
            }
        }
        self.log.drain(..count);
        self.log_begin += count as u64;
    }

    /// Drops the older half of the log, and tracks the sites that have recursed.
    #[cold]
    fn forget_half(&mut self) {
        let recursed = self.recursed.iter().filter(|(_, has)| **has);
        let recursed: Vec<SiteId> = recursed.map(|(site, _)| site).collect();
        for site in recursed {
            self.track(site, true);
        }
        self.drop_first(self.log.len() - MAX_LOG / 2, true);
    }

    /// Empties the log. `open` are the scopes that may contain its spans. To be called after
    /// `waiting` was settled with the same scopes.
    pub(super) fn settle(
        &mut self,
        as_of_ticks: u64,
        open: &[(SiteId, u64)],
        waiting: &EndedSpans<W>,
    ) {
        // Spans that began after the scopes were read may be in a scope that began later, too.
        let end = self.log_begin + self.log.len() as u64;
        let recent_from = end.saturating_sub(waiting.spans_since(as_of_ticks));
        let (tracked, entries) = (&mut self.tracked, &mut self.entries);
        self.tracked_sites.retain(|&site| {
            if open.iter().any(|&(of, _)| of == site) {
                return true;
            }
            let of_site = tracked.of(site);
            let is_kept = of_site.as_mut().is_some_and(|of_site| {
                let settled = |entry: &Entry<W>| entry.position < recent_from;
                let ended = of_site.stack.partition_point(settled);
                of_site.stack.drain(..ended);
                *entries -= ended;
                of_site.is_permanent || !of_site.stack.is_empty()
            });
            if !is_kept {
                *of_site = None;
            }
            is_kept
        });
        for &(site, _) in open {
            self.track(site, false);
        }
        self.drop_first(recent_from.saturating_sub(self.log_begin) as usize, false);
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
        for tracked in self.tracked.values_mut().flatten() {
            let stack = &mut tracked.stack;
            let mut subtree = 0;
            if let Some(first) = stack.first() {
                subtree = subtree_of(first.position, 0, &ends);
            }
            stack.dedup_by(|later, earlier| {
                let of_later = subtree_of(later.position, subtree, &ends);
                let is_together = of_later == std::mem::replace(&mut subtree, of_later);
                if is_together {
                    earlier.spans = earlier.spans.plus(later.spans);
                }
                is_together
            });
            self.entries += stack.len();
        }
    }

    /// Forgets all spans so far: those that end later contain none of them.
    pub(super) fn restart(&mut self) {
        for tracked in self.tracked.values_mut().flatten() {
            tracked.stack.clear();
        }
        self.lost_until.clear();
        self.log_begin += self.log.len() as u64;
        self.log.clear();
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
        for (site, tracked) in self.tracked.iter() {
            if let Some(tracked) = tracked {
                next.track(site, tracked.is_permanent);
            }
        }
        next
    }
}

impl<W: Weight> Logged<W> {
    fn is_nested(&self) -> bool {
        self.descendants & NESTED != 0
    }

    #[inline]
    fn nested(&self) -> Nested<W> {
        Nested {
            calls: 1,
            sum: self.weight,
            descendants: u64::from(self.descendants & MAX_DESCENDANTS),
        }
    }
}

/// Returns which subtree holds the span at a position, by where each subtree ends; it is not before
/// the subtree `from`. Nearly always it is one of the next, so these are looked at first.
fn subtree_of(position: u64, mut from: usize, ends: &[u64]) -> usize {
    let mut step = 1;
    while ends
        .get(from + step - 1)
        .is_some_and(|&end| end <= position)
    {
        from += step;
        step *= 2;
    }
    let rest = &ends[from..ends.len().min(from + step)];
    from + rest.partition_point(|&end| end <= position)
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

#[cfg(test)]
mod tests {
    use super::*;

    const SITE: SiteId = SiteId(3);
    const OTHER: SiteId = SiteId(4);

    fn nested(calls: u64, sum: u64, descendants: u64) -> Nested<u64> {
        Nested {
            calls,
            sum,
            descendants,
        }
    }

    /// Adds a batch, and returns what is found in it.
    fn add(
        spans: &mut NestedSpans<u64>,
        batch: &[(SiteId, u64, u64)],
    ) -> Vec<(SiteId, Nested<u64>)> {
        let mut found = Vec::new();
        spans.extend(batch.iter().copied());
        spans.find(|site, nested| found.push((site, nested)));
        found
    }

    #[test]
    fn the_subtree_of_a_span_is_the_first_that_ends_behind_it() {
        let ends = [3, 5, 6, 10, 20, 21, 40, 50, 51, 52];
        for position in 0..60 {
            let expected = ends.iter().filter(|&&end| end <= position).count();
            for from in 0..=expected {
                assert_eq!(
                    subtree_of(position, from, &ends),
                    expected,
                    "{position} from {from}"
                );
            }
        }
    }

    #[test]
    fn spans_of_the_batch_and_before_it_are_found_once() {
        let mut spans = NestedSpans::default();
        assert!(add(&mut spans, &[(SITE, 5, 0), (OTHER, 6, 0)]).is_empty());
        // One inside the other, around the two of the first batch.
        let batch = [(SITE, 10, 1), (SITE, 20, 0), (OTHER, 40, 1), (SITE, 100, 5)];
        let found = add(&mut spans, &batch);
        let expected = [nested(1, 20, 0), nested(1, 10, 1), nested(1, 5, 0)];
        assert_eq!(found, expected.map(|nested| (SITE, nested)));
        let found = add(&mut spans, &[(OTHER, 200, 6)]);
        assert_eq!(found, [(OTHER, nested(1, 40, 1)), (OTHER, nested(1, 6, 0))]);
        assert!(add(&mut spans, &[(OTHER, 300, 0), (SITE, 300, 0)]).is_empty());
        assert_eq!(spans.estimates(), 0);
    }

    #[test]
    fn a_span_may_have_more_descendants_than_a_number_of_the_log() {
        let most = u64::from(MAX_DESCENDANTS);
        for descendants in [most - 1, most, most + 1, most + 2, 1 << 40] {
            let mut spans = NestedSpans {
                log_begin: descendants - 1,
                ..NestedSpans::default()
            };
            add(&mut spans, &[(SITE, 5, 0), (OTHER, 6, 0)]);
            spans.track(SITE, true);
            let (outside, inside) = (nested(1, 70, 7), nested(2, 30, 3));
            let tracked = spans.tracked.of(SITE).as_mut().unwrap();
            for (position, spans) in [(0, outside), (1, inside)] {
                tracked.stack.push(Entry { position, spans });
            }
            spans.entries = 2;
            // It reaches over the two of the log to the second entry, and not to the first.
            let found = add(&mut spans, &[(SITE, 1000, descendants)]);
            assert_eq!(
                found,
                [(SITE, nested(1, 5, 0)), (SITE, inside)],
                "{descendants}"
            );
            assert_eq!(spans.entries, 1);
            let found = add(&mut spans, &[(SITE, 2000, descendants + 2)]);
            let [of_log, before] = found.as_slice() else {
                panic!("{found:?}")
            };
            let held = descendants.min(most);
            assert_eq!(*of_log, (SITE, nested(1, 1000, held)));
            assert_eq!(*before, (SITE, outside));
        }
    }

    #[test]
    #[cfg(not(miri))]
    fn a_log_of_65_536_spans_gives_up_all_but_32_768() {
        let mut spans = NestedSpans::default();
        let mut lengths = Vec::new();
        for _ in 0..11 {
            add(&mut spans, &[(SITE, 1, 0); 8192]);
            lengths.push((spans.log_begin, spans.log.len()));
        }
        let expected = (1..=8).map(|n| (0, 8192 * n));
        let later = (1..=3).map(|n| (32_768, 32_768 + 8192 * n));
        assert_eq!(lengths, expected.chain(later).collect::<Vec<_>>());
        assert_eq!(*spans.lost_until.of(SITE), 32_768);
        // A span around what left the log is an estimate, and its site is tracked from then on.
        let in_log = 7 * 8192;
        assert_eq!(add(&mut spans, &[(SITE, 9, in_log)]).len(), 57_344);
        assert_eq!((spans.estimates(), spans.tracked_sites.len()), (0, 0));
        let found = add(&mut spans, &[(SITE, 9, in_log + 2)]);
        assert_eq!(found, [(SITE, nested(1, 9, in_log))]);
        assert_eq!((spans.estimates(), &*spans.tracked_sites), (1, &[SITE][..]));
        assert_eq!(spans.for_second_pass().tracked_sites, [SITE]);
    }

    #[test]
    fn entries_of_one_subtree_become_one() {
        let mut waiting = EndedSpans::<u64>::default();
        for start_ticks in [10, 20, 30, 5, 50, 60, 45, 80, 90, 100, 110] {
            waiting.end(start_ticks, 1);
        }
        assert_eq!(
            waiting.span_counts().collect::<Vec<_>>(),
            [4, 3, 1, 1, 1, 1]
        );
        let mut spans = NestedSpans::default();
        let positions = [(SITE, &[0, 1, 4, 5, 7][..]), (OTHER, &[2, 6])];
        for (site, positions) in positions {
            spans.track(site, true);
            let stack = positions.iter().map(|&position| Entry {
                position,
                spans: nested(1, 1 << position, position),
            });
            spans.tracked.of(site).as_mut().unwrap().stack = stack.collect();
        }
        spans.merge(&mut waiting);
        let of = |spans: &mut NestedSpans<u64>, site| {
            let stack = spans.tracked.of(site).as_ref().unwrap().stack.iter();
            stack
                .map(|entry| (entry.position, entry.spans))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(&mut spans, SITE),
            [
                (0, nested(2, 3, 1)),
                (4, nested(2, 48, 9)),
                (7, nested(1, 128, 7))
            ]
        );
        assert_eq!(
            of(&mut spans, OTHER),
            [(2, nested(1, 4, 2)), (6, nested(1, 64, 6))]
        );
        assert_eq!((spans.entries, spans.merge_at), (5, MERGE_AT));
        spans.entries = MERGE_AT - 1;
        spans.bound(&mut waiting);
        assert_eq!(spans.entries, MERGE_AT - 1, "fewer are left alone");
        spans.entries = MERGE_AT;
        spans.bound(&mut waiting);
        assert_eq!(spans.entries, 5);
    }
}
