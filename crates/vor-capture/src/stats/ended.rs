//! Finds the children of each span of a thread while the spans arrive in the order in which they
//! ended.
//!
//! Scopes of one thread nest: two spans are disjoint, or one contains the other. When a span ends,
//! everything inside it has ended before, and everything that ended before and started no earlier
//! than it did is inside it. So a stack of ended subtrees suffices, ascending by start:
//!
//! ```text
//! on the end of span s:
//!     while the top of the stack started at or after s: pop it, it is a child of s
//!     self(s) = weight(s) - sum of the weights of the popped
//!     push s
//! ```
//!
//! A subtree that stays on the stack has no parent yet. Its parent may still be open and end in a
//! later batch, so the stack outlives batches.
//!
//! A thread whose scopes never get a parent would grow the stack for ever. Three things bound it:
//!
//! - [`EndedSpans::settle`] takes the open scopes. Neighbours on the stack with no open scope
//!   beginning between them will only ever be popped together, so they become one *run*. This loses
//!   nothing.
//! - Without the open scopes, a stack of [`FOLD_AT`] subtrees gives up its older half: neighbours
//!   become runs two by two, and each time that it happens the runs before them are merged two by
//!   two as well. Runs therefore get longer with age, and the stack holds at most 1.5 × [`FOLD_AT`]
//!   entries. A span that begins inside a run takes the share of the run that follows from its
//!   position, as if the subtrees of the run were evenly spread; the rest of the run stays for the
//!   parent of both. Every nanosecond is so still subtracted exactly once, and the sum of all self
//!   times stays exact; which of two ancestors it was subtracted from is not, which
//!   [`EndedSpans::split_runs`] counts. A span that began fewer than `FOLD_AT / 2` siblings ago
//!   never meets a run.
//! - The spans that met a run are few, since each of them contains `FOLD_AT / 2` subtrees or is
//!   open inside one that does, and their starts are recorded. A caller that can read the spans
//!   again gives these starts to a second stack ([`EndedSpans::for_second_pass`]), which merges
//!   only subtrees that none of them separates, and is exact in the same memory.

use std::sync::Arc;

use crate::model::measures::Weight;

/// Number of subtrees on the stack at which the older half is folded into runs. It exceeds what one
/// drain of a ring of 256 KiB brings, so that a drain that calls `settle` after each batch never
/// folds.
pub(super) const FOLD_AT: usize = if cfg!(miri) { 64 } else { 32_768 };

/// A span that ended and has no parent yet, with all spans inside it.
#[derive(Clone, Copy, Debug)]
struct Subtree<W> {
    start_ticks: u64,
    weight: W,
    spans: u64,
}

/// Consecutive subtrees that are expected to have the same parent.
#[derive(Clone, Copy, Debug)]
struct Run<W> {
    first_start_ticks: u64,
    last_start_ticks: u64,
    weight: W,
    subtrees: u64,
    spans: u64,
}

/// The contents of a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Children<W> {
    /// Sum of the weights of its children.
    pub(crate) sum: W,
    /// Number of its children.
    pub(super) children: u64,
    /// Number of its descendants.
    pub(super) descendants: u64,
}

/// The stack of one thread. `runs` lies below `recent`.
#[derive(Clone, Debug)]
pub(crate) struct EndedSpans<W> {
    runs: Vec<Run<W>>,
    recent: Vec<Subtree<W>>,
    split_runs: u64,
    /// Starts of the spans that met a run, in the order of their ends.
    met_runs: Vec<u64>,
    /// Starts of the spans that met a run in the first pass, ascending; `None` in the first pass.
    known: Option<Arc<[u64]>>,
}

impl<W> Default for EndedSpans<W> {
    fn default() -> Self {
        Self {
            runs: Vec::new(),
            recent: Vec::new(),
            split_runs: 0,
            met_runs: Vec::new(),
            known: None,
        }
    }
}

impl<W: Weight> EndedSpans<W> {
    /// Takes the next span that ended on the thread, and returns the spans inside it.
    ///
    /// The children returned weigh no more together than `weight` where spans nest.
    #[inline]
    pub(crate) fn end(&mut self, start_ticks: u64, weight: W) -> Children<W> {
        let mut inside = Children::<W>::default();
        let mut unfinished = self.recent.len();
        // A local count and a value passed by copy keep the sums in registers: the loop runs for
        // every span of the program.
        while let Some(top) = unfinished.checked_sub(1).map(|last| self.recent[last]) {
            if top.start_ticks < start_ticks {
                break;
            }
            inside.sum = inside.sum.plus(top.weight);
            inside.children += 1;
            inside.descendants += top.spans;
            unfinished -= 1;
        }
        self.recent.truncate(unfinished);
        if unfinished == 0 && !self.runs.is_empty() {
            inside = self.end_in_runs(start_ticks, weight, inside);
        } else if unfinished >= FOLD_AT {
            self.fold();
        }
        self.recent.push(Subtree {
            start_ticks,
            weight,
            spans: inside.descendants + 1,
        });
        inside
    }

    /// Takes the children that are in runs, and returns them with those already found.
    #[cold]
    fn end_in_runs(&mut self, start_ticks: u64, weight: W, mut inside: Children<W>) -> Children<W> {
        let children = inside.children;
        while let Some(run) = self.runs.last_mut() {
            if run.last_start_ticks < start_ticks {
                break;
            }
            if run.first_start_ticks >= start_ticks {
                inside.sum = inside.sum.plus(run.weight);
                inside.children += run.subtrees;
                inside.descendants += run.spans;
                self.runs.pop();
                continue;
            }
            if run.last_start_ticks == start_ticks {
                // The last of the run are earlier siblings that took no time: where a clock is
                // coarse, several scopes begin in one tick. Or they are children, which a second
                // pass finds.
                self.split_runs += 1;
                self.met_runs.push(start_ticks);
                break;
            }
            let share = run.split_off(start_ticks, weight.less(inside.sum));
            inside.sum = inside.sum.plus(share.sum);
            inside.children += share.children;
            inside.descendants += share.descendants;
            self.split_runs += 1;
            break;
        }
        if inside.children > children {
            self.met_runs.push(start_ticks);
        }
        inside
    }

    /// Merges subtrees in the older half of the stack; returns whether there are fewer entries now.
    #[cold]
    pub(super) fn fold(&mut self) -> bool {
        let length = self.runs.len() + self.recent.len();
        let older = self.recent.len() / 2;
        if let Some(known) = self.known.clone() {
            let as_of_ticks = self
                .recent
                .get(older)
                .map_or(0, |subtree| subtree.start_ticks);
            self.settle(as_of_ticks, &known);
        } else {
            let mut merged = 0;
            for i in (0..self.runs.len()).step_by(2) {
                let mut run = self.runs[i];
                if let Some(next) = self.runs.get(i + 1) {
                    run.append(next);
                }
                self.runs[merged] = run;
                merged += 1;
            }
            self.runs.truncate(merged);
            let pairs = self.recent[..older].chunks(2);
            self.runs.extend(pairs.map(|pair| Run::of(&pair[0], pair)));
            self.recent.drain(..older);
        }
        self.runs.len() + self.recent.len() < length
    }

    /// Merges the subtrees that no open scope separates.
    ///
    /// `open_start_ticks` are the starts of the thread's open scopes, ascending, as they were at
    /// `as_of_ticks`; every scope that had ended by then must have been given to
    /// [`end`](Self::end).
    pub(super) fn settle(&mut self, as_of_ticks: u64, open_start_ticks: &[u64]) {
        // A scope that opened after the reading may separate later runs.
        let began_by = |run: &Run<W>| run.last_start_ticks < as_of_ticks;
        let known = self.runs.partition_point(began_by);
        let mut settled: usize = 0;
        for i in 0..known {
            let run = self.runs[i];
            let joined = join_run(&mut self.runs[..i], settled, run, open_start_ticks);
            settled = joined.unwrap_or_else(|| {
                self.runs[settled] = run;
                settled + 1
            });
        }
        self.runs.drain(settled..known);
        let began_by = |ticks: u64| move |subtree: &Subtree<W>| subtree.start_ticks < ticks;
        let known = self.recent.partition_point(began_by(as_of_ticks));
        let mut rest = &self.recent[..known];
        while let Some(first) = rest.first() {
            // Up to the next open scope, all have the same parent.
            let together = match first_after(open_start_ticks, first.start_ticks) {
                Some(next_open) => rest.partition_point(began_by(next_open)),
                None => rest.len(),
            };
            let (siblings, later) = rest.split_at(together);
            rest = later;
            let run = Run::of(first, siblings);
            let length = self.runs.len();
            if join_run(&mut self.runs, length, run, open_start_ticks).is_none() {
                self.runs.push(run);
            }
        }
        self.recent.drain(..known);
    }

    /// Returns how often a span began inside a run, so that its self time is an estimate.
    pub(crate) fn split_runs(&self) -> u64 {
        self.split_runs
    }

    /// Returns an empty stack for the same spans once more, which merges nothing that a span of
    /// this pass separated.
    pub(super) fn for_second_pass(&self) -> Self {
        let known = self.known.iter().flat_map(|known| known.iter());
        let mut known: Vec<u64> = known.chain(&self.met_runs).copied().collect();
        known.sort_unstable();
        known.dedup();
        Self {
            known: Some(known.into()),
            ..Self::default()
        }
    }

    /// Returns how many of the last spans there are from the first on that may have begun at or
    /// after a tick. To be called after [`settle`](Self::settle) with this tick.
    pub(super) fn spans_since(&self, ticks: u64) -> u64 {
        let single = self.recent.iter().map(|subtree| subtree.spans);
        let runs = self.runs.iter().rev();
        let recent_runs = runs.take_while(|run| run.last_start_ticks >= ticks);
        single.chain(recent_runs.map(|run| run.spans)).sum()
    }

    /// Returns the number of spans of each entry of the stack, in the order in which they ended.
    pub(super) fn span_counts(&self) -> impl Iterator<Item = u64> {
        let runs = self.runs.iter().map(|run| run.spans);
        runs.chain(self.recent.iter().map(|subtree| subtree.spans))
    }

    /// Returns the number of entries held.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.runs.len() + self.recent.len()
    }
}

/// Returns the first of ascending ticks that is after `ticks`.
fn first_after(ascending: &[u64], ticks: u64) -> Option<u64> {
    let after = ascending.partition_point(|&start| start <= ticks);
    ascending.get(after).copied()
}

/// Appends `next` to the last of the first `length` runs and returns `length`, or `None` when there
/// is none or an open scope begins between the two.
fn join_run<W: Weight>(
    runs: &mut [Run<W>],
    length: usize,
    next: Run<W>,
    open_start_ticks: &[u64],
) -> Option<usize> {
    let last = runs.get_mut(length.checked_sub(1)?)?;
    let open = first_after(open_start_ticks, last.last_start_ticks);
    if open.is_some_and(|start| start <= next.first_start_ticks) {
        return None;
    }
    last.append(&next);
    Some(length)
}

impl<W: Weight> Run<W> {
    /// Makes a run of consecutive subtrees, the first of which is `first`.
    fn of(first: &Subtree<W>, siblings: &[Subtree<W>]) -> Self {
        Self {
            first_start_ticks: first.start_ticks,
            last_start_ticks: siblings.last().unwrap_or(first).start_ticks,
            weight: siblings
                .iter()
                .fold(W::default(), |sum, subtree| sum.plus(subtree.weight)),
            subtrees: siblings.len() as u64,
            spans: siblings.iter().map(|subtree| subtree.spans).sum(),
        }
    }

    /// Appends a later run.
    fn append(&mut self, next: &Self) {
        self.last_start_ticks = next.last_start_ticks;
        self.weight = self.weight.plus(next.weight);
        self.subtrees += next.subtrees;
        self.spans += next.spans;
    }

    /// Takes away the part that begins at or after `start_ticks`, at most `limit` of it. The run
    /// begins before and ends not before `start_ticks`.
    fn split_off(&mut self, start_ticks: u64, limit: W) -> Children<W> {
        let after = u128::from(self.last_start_ticks - start_ticks);
        let ticks = u128::from(self.last_start_ticks - self.first_start_ticks);
        let subtrees = u128::from(self.subtrees);
        // The first subtree begins before and the last one does not, so neither part is empty.
        let taken = 1 + subtrees.saturating_sub(1) * after / ticks;
        let part = |of: u64| u64::try_from(u128::from(of) * taken / subtrees).unwrap_or(of);
        let share = Children {
            sum: self
                .weight
                .each(limit, |weight, limit| part(weight).min(limit)),
            children: part(self.subtrees),
            descendants: part(self.spans),
        };
        self.weight = self.weight.less(share.sum);
        self.subtrees -= share.children;
        self.spans -= share.descendants;
        // A run of one begins and ends with the start of its only subtree, so a run that can be
        // split holds two at least.
        self.last_start_ticks = if self.subtrees == 1 {
            self.first_start_ticks
        } else {
            start_ticks - 1
        };
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_input_needs_bounded_memory() {
        let mut ended = EndedSpans::<u64>::default();
        let siblings = 40 * FOLD_AT as u64;
        let mut longest = 0;
        for i in 0..siblings {
            assert_eq!(ended.end(10 + i * 10, 7), Children::default());
            longest = longest.max(ended.len());
        }
        assert!(longest <= FOLD_AT + FOLD_AT / 2, "{longest} entries");
        // A parent of all of them still gets every one.
        let all = Children {
            sum: 7 * siblings,
            children: siblings,
            descendants: siblings,
        };
        assert_eq!(ended.end(10, 100 * siblings), all);
        assert_eq!(ended.split_runs(), 0);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn a_parent_inside_a_run_takes_about_its_own_children_and_its_parent_the_rest() {
        let mut ended = EndedSpans::<u64>::default();
        let siblings = 10 * FOLD_AT as u64;
        for i in 0..siblings {
            ended.end(10 + i * 10, 7);
        }
        let begins_before = siblings / 3;
        let inner = ended.end(10 + begins_before * 10 - 1, u64::MAX / 2);
        let expected = siblings - begins_before;
        assert_eq!(inner.sum, inner.children * 7);
        assert!(
            inner.children.abs_diff(expected) <= siblings / 1_000,
            "{} of {expected}",
            inner.children
        );
        let outer = ended.end(0, u64::MAX);
        assert_eq!(outer.children - 1 + inner.children, siblings);
        assert_eq!(outer.sum - u64::MAX / 2 + inner.sum, 7 * siblings);
        assert_eq!(outer.descendants, siblings + 1);
        assert!(ended.split_runs() <= 1);
    }

    #[test]
    fn settling_keeps_open_parents_apart() {
        let mut ended = EndedSpans::<u64>::default();
        // Open scopes began at 50 and 105; a third will begin after the last settling, at 300.
        for i in 0..20 {
            ended.end(10 + i * 10, 3);
            ended.settle(
                10 + i * 10 + 4,
                &[50, 105][..usize::from(i >= 4) + usize::from(i >= 10)],
            );
        }
        assert_eq!(ended.len(), 3, "before 50, 50 to 100, and from 110 on");
        ended.end(301, 1);
        ended.end(302, 1);
        let third = ended.end(300, 10);
        assert_eq!(
            third,
            Children {
                sum: 2,
                children: 2,
                descendants: 2
            }
        );
        assert_eq!(
            ended.end(105, 300),
            Children {
                sum: 10 * 3 + 10,
                children: 11,
                descendants: 13
            }
        );
        assert_eq!(
            ended.end(50, 400),
            Children {
                sum: 6 * 3 + 300,
                children: 7,
                descendants: 20
            }
        );
        assert_eq!(ended.split_runs(), 0);
    }

    /// A scope reads the clock before anyone sees that it is open.
    #[test]
    fn siblings_that_began_in_the_tick_of_an_unseen_scope_are_no_children() {
        let mut ended = EndedSpans::<u64>::default();
        for (start_ticks, weight) in [(10, 10), (20, 10), (30, 0), (30, 0)] {
            ended.end(start_ticks, weight);
        }
        ended.settle(31, &[0]);
        let spans = [(40, 5), (30, 90), (0, 200)];
        let found = spans.map(|(start_ticks, weight)| ended.end(start_ticks, weight).sum);
        assert_eq!(found, [0, 5, 110]);
        assert_eq!(ended.split_runs(), 1);
        // In a second pass they are, and weigh nothing.
        let mut again = ended.for_second_pass();
        for (start_ticks, weight) in [(10, 10), (20, 10), (30, 0), (30, 0)] {
            again.end(start_ticks, weight);
        }
        let found = spans.map(|(start_ticks, weight)| again.end(start_ticks, weight));
        assert_eq!(found.map(|inside| inside.sum), [0, 5, 110]);
        assert_eq!(again.split_runs(), 0);
    }

    #[test]
    fn settling_skips_spans_that_began_after_its_moment() {
        let mut ended = EndedSpans::<u64>::default();
        ended.end(10, 1);
        ended.end(20, 1);
        ended.end(30, 1);
        ended.settle(20, &[]);
        assert_eq!(
            ended.end(25, 9),
            Children {
                sum: 1,
                children: 1,
                descendants: 1
            }
        );
        assert_eq!(
            ended.end(20, 30),
            Children {
                sum: 10,
                children: 2,
                descendants: 3
            }
        );
        assert_eq!(ended.split_runs(), 0);
    }

    fn children(sum: u64, children: u64, descendants: u64) -> Children<u64> {
        Children {
            sum,
            children,
            descendants,
        }
    }

    #[test]
    fn a_part_of_a_run_is_as_large_as_its_time() {
        let run = |subtrees, weight, spans| Run {
            first_start_ticks: 10,
            last_start_ticks: 110,
            weight,
            subtrees,
            spans,
        };
        let split = |mut run: Run<u64>, start_ticks, limit| {
            let share = run.split_off(start_ticks, limit);
            (
                share,
                (run.weight, run.subtrees, run.spans, run.last_start_ticks),
            )
        };
        // The last one, and half of the nine before it.
        let ten = || run(10, 70, 20);
        assert_eq!(
            split(ten(), 60, 1000),
            (children(35, 5, 10), (35, 5, 10, 59))
        );
        assert_eq!(split(ten(), 60, 20), (children(20, 5, 10), (50, 5, 10, 59)));
        assert_eq!(
            split(ten(), 110, 1000),
            (children(7, 1, 2), (63, 9, 18, 109))
        );
        assert_eq!(split(ten(), 11, 1000), (children(63, 9, 18), (7, 1, 2, 10)));
        assert_eq!(
            split(run(2, 9, 5), 105, 1000),
            (children(4, 1, 2), (5, 1, 3, 10))
        );
    }

    #[test]
    fn folding_merges_the_older_half_two_by_two() {
        let mut ended = EndedSpans::<u64>::default();
        for i in 0..7 {
            ended.end(10 + 10 * i, 1 << i);
        }
        let mut folds = Vec::new();
        for _ in 0..5 {
            let has_fewer = ended.fold();
            folds.push((ended.span_counts().collect::<Vec<_>>(), has_fewer));
        }
        assert_eq!(
            folds,
            [
                (vec![2, 1, 1, 1, 1, 1], true),
                (vec![3, 2, 1, 1], true),
                (vec![5, 1, 1], true),
                (vec![6, 1], true),
                (vec![6, 1], false),
            ]
        );
        // All but the first two, of which the last is no run.
        assert_eq!(ended.end(30, 1000), children(64 + (127 - 64) * 4 / 6, 5, 5));
        assert_eq!((ended.split_runs(), &ended.met_runs), (1, &vec![30]));
        assert_eq!(ended.end(5, 5000), children(1000 + 63 - 42, 3, 8));
        assert_eq!((ended.split_runs(), &ended.met_runs), (1, &vec![30, 5]));
        assert!(ended.len() == 1 && ended.runs.is_empty());
    }

    #[test]
    fn a_span_behind_all_runs_meets_none() {
        let mut ended = EndedSpans::<u64>::default();
        for start_ticks in [10, 20, 30] {
            ended.end(start_ticks, 1);
        }
        ended.settle(31, &[]);
        ended.end(50, 2);
        assert_eq!(ended.end(40, 9), children(2, 1, 1));
        assert!(ended.met_runs.is_empty() && ended.split_runs() == 0);
        assert_eq!(ended.spans_since(41), 2);
        assert_eq!((ended.spans_since(31), ended.spans_since(30)), (2, 5));
        assert_eq!(ended.end(10, 99), children(12, 4, 5));
        assert_eq!(ended.met_runs, [10]);
    }

    #[test]
    fn an_open_scope_separates_what_began_in_its_own_tick_from_what_began_before() {
        for settles_each in [true, false] {
            let mut ended = EndedSpans::<u64>::default();
            for start_ticks in [10, 20, 30, 40] {
                ended.end(start_ticks, start_ticks);
                if settles_each {
                    let open = usize::from(start_ticks >= 30);
                    ended.settle(start_ticks + 5, &[30][..open]);
                }
            }
            ended.settle(50, &[30]);
            assert_eq!(ended.span_counts().collect::<Vec<_>>(), [2, 2]);
            assert_eq!(ended.end(30, 100), children(70, 2, 2));
            assert_eq!(ended.end(5, 500), children(130, 3, 5));
        }
    }
}
