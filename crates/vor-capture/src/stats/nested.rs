//! Finds the spans of a call site that lie inside another span of the same call site, while spans
//! arrive in the order in which they ended.
//!
//! The time during which a scope was open at all counts the time of a recursive call once. The
//! outer call ends last: by then, the calls inside it were added already. So each span is linked to
//! the last one of its site that it does not contain, and the links of a site form a stack:
//!
//! ```text
//! on the end of span s, with n descendants, the k-th to end on the thread:
//!     last = the last span of the site
//!     while last ended as the (k - n)-th or later: s contains it; last = its link
//!     union(site) += weight(s) - sum of the weights of those that s contains
//!     link s to last
//! ```
//!
//! Few spans contain one of their site. These are collected, and the loop runs for them once their
//! batch has been added.
//!
//! The links are in a log of the last spans of the thread. Spans leave the log in two cases:
//!
//! - [`NestedSpans::settle`] is told which scopes are open, and empties the log. Only spans of the
//!   sites of these scopes can be contained by later ones of their site.
//! - Without that knowledge, a log of [`MAX_LOG`] spans gives up its older half.
//!
//! Where spans of a site that leave the log may be contained by later ones, the site is *tracked*:
//! they go onto a stack of their own. Without knowledge of open scopes, these are the sites that
//! have recursed. A span that contains others of its site which left the log before the site was
//! tracked is an estimate. A [second pass](NestedSpans::for_second_pass) tracks such sites from the
//! beginning.
//!
//! Entries of a stack whose spans lie in the same ended subtree have the same ancestors from then
//! on. Where a thread holds many entries, such entries become one: then there is at most one per
//! site and waiting subtree.

use rustc_hash::FxHashMap;

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
    /// One more than the position of the last span of each site; 0 without one.
    ends: BySite<u64>,
    /// Position of the first span of the log.
    log_begin: u64,
    log: Vec<Logged<W>>,
    /// Spans of the batch that contain others of their site, in their order.
    recursive: Vec<Recursive>,
    tracked: FxHashMap<SiteId, Tracked<W>>,
    /// Which sites have recursed; for [`forget_half`](Self::forget_half).
    recursed: BySite<bool>,
    /// Entries of all stacks.
    entries: usize,
    merge_at: usize,
    estimates: u64,
}

/// A span of the log.
#[derive(Clone, Copy, Debug)]
struct Logged<W> {
    weight: W,
    /// How many positions before it the last span of its site is that it does not contain. More
    /// than there are, where there is none.
    link: u32,
    /// At most the largest number there is room for; only corrections need it.
    descendants: u32,
}

/// A span that contains others of its site.
#[derive(Clone, Copy, Debug)]
struct Recursive {
    site: SiteId,
    position: u64,
    descendants: u64,
}

/// The spans of a tracked call site that left the log.
#[derive(Clone, Debug)]
struct Tracked<W> {
    stack: Vec<Entry<W>>,
    /// One more than the position of the last span that left the log before the site was tracked.
    missing_until: u64,
    /// Whether spans are held even where no scope of the site is open.
    is_permanent: bool,
}

/// One span, or several of the same site in the same subtree.
#[derive(Clone, Copy, Debug)]
struct Entry<W> {
    /// Position of the first of them.
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
            ends: BySite::default(),
            log_begin: 0,
            log: Vec::new(),
            recursive: Vec::new(),
            tracked: FxHashMap::default(),
            recursed: BySite::default(),
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
    pub(super) fn extend(&mut self, spans: impl Iterator<Item = (SiteId, W, u64)>) {
        if self.log.len() >= MAX_LOG {
            self.forget_half();
        }
        let mut position = self.log_begin + self.log.len() as u64;
        self.log.extend(spans.map(|(site, weight, descendants)| {
            let link = position + 1 - std::mem::replace(self.ends.of(site), position + 1);
            if link <= descendants {
                self.recursive.push(Recursive {
                    site,
                    position,
                    descendants,
                });
            }
            position += 1;
            Logged {
                weight,
                link: saturated(link),
                descendants: saturated(descendants),
            }
        }));
    }

    /// Calls `found` for each span of the last batch that contains others of its site: with its
    /// site, its weight, and these.
    pub(super) fn find(&mut self, mut found: impl FnMut(SiteId, W, Nested<W>)) {
        let recursive = std::mem::take(&mut self.recursive);
        for span in &recursive {
            let place = (span.position - self.log_begin) as usize;
            let (link, inside) = self.inside(span);
            self.log[place].link = saturated(link);
            if inside.calls > 0 {
                found(span.site, self.log[place].weight, inside);
            }
        }
        self.recursive = recursive;
        self.recursive.clear();
    }

    /// Returns the outermost spans of the same site inside a span, and the link to the one before.
    fn inside(&mut self, span: &Recursive) -> (u64, Nested<W>) {
        let place = (span.position - self.log_begin) as usize;
        let mut inside = Nested::default();
        let mut link = u64::from(self.log[place].link);
        while link <= span.descendants {
            let Some(other) = place.checked_sub(link as usize) else {
                inside = self.inside_before_log(span, link).plus(inside);
                link = span.descendants + 1;
                break;
            };
            inside = self.log[other].nested().plus(inside);
            link += u64::from(self.log[other].link);
        }
        *self.recursed.of(span.site) = true;
        (link, inside)
    }

    /// Takes the spans inside a span off the stack of its site. `link` leads to the last one that
    /// left the log.
    #[cold]
    fn inside_before_log(&mut self, span: &Recursive, link: u64) -> Nested<W> {
        let begin = span.position.saturating_sub(span.descendants);
        let tracked = self.tracked.entry(span.site).or_insert_with(|| Tracked {
            stack: Vec::new(),
            missing_until: span.position + 1 - link,
            is_permanent: true,
        });
        if begin < tracked.missing_until {
            self.estimates += 1;
            tracked.is_permanent = true;
        }
        let before = tracked.stack.len();
        let mut inside = Nested::default();
        while let Some(top) = tracked.stack.pop_if(|top| top.position >= begin) {
            inside = top.spans.plus(inside);
        }
        self.entries -= before - tracked.stack.len();
        inside
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
        let mut end = *self.ends.of(site);
        while let Some(place) = end.checked_sub(self.log_begin + 1) {
            end = end.saturating_sub(self.log[place as usize].link.into());
        }
        let tracked = self.tracked.entry(site).or_insert(Tracked {
            stack: Vec::new(),
            missing_until: end,
            is_permanent: false,
        });
        tracked.is_permanent |= is_permanent;
    }

    /// Drops the first spans of the log; those of tracked sites go onto their stacks.
    fn drop_first(&mut self, count: usize) {
        for (&site, tracked) in &mut self.tracked {
            let before = tracked.stack.len();
            let mut end = *self.ends.of(site);
            while let Some(place) = end.checked_sub(self.log_begin + 1) {
                let span = &self.log[place as usize];
                if place < count as u64 {
                    tracked.stack.push(Entry {
                        position: self.log_begin + place,
                        spans: span.nested(),
                    });
                }
                end = end.saturating_sub(span.link.into());
            }
            tracked.stack[before..].reverse();
            self.entries += tracked.stack.len() - before;
        }
        self.log.drain(..count);
        self.log_begin += count as u64;
    }

    /// Drops the older half of the log, and holds the spans of the sites that have recursed.
    #[cold]
    fn forget_half(&mut self) {
        let recursed: Vec<SiteId> = self
            .recursed
            .iter()
            .filter(|(_, is)| **is)
            .map(|(site, _)| site)
            .collect();
        for site in recursed {
            self.track(site, true);
        }
        self.drop_first(self.log.len() - MAX_LOG / 2);
    }

    /// Empties the log. `open` are the scopes that may contain its spans. To be called after
    /// `waiting` was settled with the same scopes.
    pub(super) fn settle(&mut self, open: &[(SiteId, u64)], waiting: &EndedSpans<W>) {
        self.tracked.retain(|&site, tracked| {
            let is_kept = tracked.is_permanent || open.iter().any(|&(of, _)| of == site);
            if !is_kept {
                self.entries -= tracked.stack.len();
            }
            is_kept
        });
        for &(site, _) in open {
            self.track(site, false);
        }
        // Spans that began after the scopes were read may be in a scope that began later, too.
        let recent = usize::try_from(waiting.recent_spans()).unwrap_or(usize::MAX);
        self.drop_first(self.log.len().saturating_sub(recent));
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
        for tracked in self.tracked.values_mut() {
            let mut subtree = 0;
            if let Some(first) = tracked.stack.first() {
                subtree = subtree_of(first.position, 0, &ends);
            }
            tracked.stack.dedup_by(|later, earlier| {
                let of_later = subtree_of(later.position, subtree, &ends);
                let is_together = of_later == std::mem::replace(&mut subtree, of_later);
                if is_together {
                    earlier.spans = earlier.spans.plus(later.spans);
                }
                is_together
            });
            self.entries += tracked.stack.len();
        }
    }

    /// Forgets all spans so far: those that end later contain none of them.
    pub(super) fn restart(&mut self) {
        for tracked in self.tracked.values_mut() {
            tracked.missing_until = 0;
            tracked.stack.clear();
        }
        self.ends.clear();
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
        for (&site, tracked) in &self.tracked {
            next.track(site, tracked.is_permanent);
        }
        next
    }
}

#[inline]
fn saturated(count: u64) -> u32 {
    count.min(u32::MAX.into()) as u32
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
