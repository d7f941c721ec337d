//! Finds the children of each span of a thread while the spans arrive in the order in which they ended.
//!
//! Scopes of one thread nest: two spans are disjoint, or one contains the other. When a span ends, everything inside it has
//! ended before, and everything that ended before and started no earlier than it did is inside it. So a stack of
//! ended subtrees suffices, ascending by start:
//!
//! ```text
//! on the end of span s:
//!     while the top of the stack started at or after s: pop it, it is a child of s
//!     self(s) = length(s) - sum of the lengths of the popped
//!     push s
//! ```
//!
//! What stays on the stack has no parent yet. Its parent may still be open and end in a later batch, so the stack outlives batches.
//!
//! A thread whose scopes never get a parent would grow the stack for ever. Two things bound it:
//!
//! - [`EndedSpans::settle`] is told which scopes are open. Neighbours on the stack with no open scope beginning between them will only
//!   ever be popped together, so they become one *run*. Nothing is lost by that.
//! - Without that knowledge, a stack of [`FOLD_AT`] subtrees gives up its older half: neighbours become runs two by two, and each
//!   time that it happens the runs before them are merged two by two as well. Runs therefore get longer with age, and the stack holds
//!   at most 1.5 × [`FOLD_AT`] entries. A span that begins inside a run takes the share of the run that follows from its position, as if
//!   the subtrees of the run were evenly spread; the rest of the run stays for the parent of both. Every nanosecond is so still subtracted
//!   exactly once, and the sum of all self times stays exact; which of two ancestors it was subtracted from is not, which
//!   [`EndedSpans::split_runs`] counts. A span that began fewer than `FOLD_AT / 2` siblings ago never meets a run.

/// Number of subtrees on the stack at which the older half is folded into runs. It exceeds what one drain of a ring of
/// 256 KiB brings, so that a drain that calls `settle` after each batch never folds.
pub(super) const FOLD_AT: usize = if cfg!(miri) { 64 } else { 32_768 };

/// A span that ended and has no parent yet, with all that it contains.
#[derive(Clone, Copy, Debug)]
struct Subtree {
    start_ticks: u64,
    total_ns: u64,
    spans: u64,
}

/// Consecutive subtrees that are expected to have the same parent.
#[derive(Clone, Copy, Debug)]
struct Run {
    first_start_ticks: u64,
    last_start_ticks: u64,
    total_ns: u64,
    subtrees: u64,
    spans: u64,
}

/// What a span contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Children {
    /// Sum of the lengths of its children.
    pub(crate) total_ns: u64,
    /// Number of its children.
    pub(super) children: u64,
    /// Number of its descendants.
    pub(super) descendants: u64,
}

/// The stack of one thread. `runs` lies below `recent`.
#[derive(Clone, Debug, Default)]
pub(crate) struct EndedSpans {
    runs: Vec<Run>,
    recent: Vec<Subtree>,
    split_runs: u64,
}

impl EndedSpans {
    /// Takes the next span that ended on the thread, and returns what is inside it.
    ///
    /// The children returned last no longer together than `total_ns` where spans nest.
    #[inline]
    pub(crate) fn end(&mut self, start_ticks: u64, total_ns: u64) -> Children {
        let mut inside = Children::default();
        let mut unfinished = self.recent.len();
        // A local count and a value passed by copy keep the sums in registers: the loop runs for every span of the program.
        while let Some(top) = unfinished.checked_sub(1).map(|last| self.recent[last]) {
            if top.start_ticks < start_ticks {
                break;
            }
            inside.total_ns = inside.total_ns.saturating_add(top.total_ns);
            inside.children += 1;
            inside.descendants += top.spans;
            unfinished -= 1;
        }
        self.recent.truncate(unfinished);
        if unfinished == 0 && !self.runs.is_empty() {
            inside = self.end_in_runs(start_ticks, total_ns, inside);
        } else if unfinished >= FOLD_AT {
            self.fold();
        }
        self.recent.push(Subtree {
            start_ticks,
            total_ns,
            spans: inside.descendants + 1,
        });
        inside
    }

    /// Takes the children that are in runs, and returns them with those already found.
    #[cold]
    fn end_in_runs(&mut self, start_ticks: u64, total_ns: u64, mut inside: Children) -> Children {
        while let Some(run) = self.runs.last_mut() {
            if run.last_start_ticks < start_ticks {
                break;
            }
            if run.first_start_ticks >= start_ticks {
                inside.total_ns = inside.total_ns.saturating_add(run.total_ns);
                inside.children += run.subtrees;
                inside.descendants += run.spans;
                self.runs.pop();
                continue;
            }
            let share = run.split_off(start_ticks, total_ns.saturating_sub(inside.total_ns));
            inside.total_ns = inside.total_ns.saturating_add(share.total_ns);
            inside.children += share.children;
            inside.descendants += share.descendants;
            self.split_runs += 1;
            break;
        }
        inside
    }

    /// Halves the runs, and makes new ones of the older half of the recent subtrees.
    #[cold]
    fn fold(&mut self) {
        let mut halved = 0;
        for i in (0..self.runs.len()).step_by(2) {
            let mut run = self.runs[i];
            if let Some(next) = self.runs.get(i + 1) {
                run.append(next);
            }
            self.runs[halved] = run;
            halved += 1;
        }
        self.runs.truncate(halved);
        let older = self.recent.len() / 2;
        let pairs = self.recent[..older].chunks(2);
        self.runs.extend(pairs.map(|pair| Run::of(&pair[0], pair)));
        self.recent.drain(..older);
    }

    /// Merges what no scope that is open now can tell apart.
    ///
    /// `open_start_ticks` are the starts of the thread's open scopes, ascending, as they were at `as_of_ticks`; every scope that had
    /// ended by then must have been given to [`end`](Self::end).
    pub(super) fn settle(&mut self, as_of_ticks: u64, open_start_ticks: &[u64]) {
        let mut settled: usize = 0;
        let mut open = open_start_ticks.iter().peekable();
        for i in 0..self.runs.len() {
            let run = self.runs[i];
            settled = join_run(&mut self.runs[..i], settled, run, &mut open).unwrap_or_else(|| {
                self.runs[settled] = run;
                settled + 1
            });
        }
        self.runs.truncate(settled);
        let began_by = |ticks: u64| move |subtree: &Subtree| subtree.start_ticks < ticks;
        let known = self.recent.partition_point(began_by(as_of_ticks));
        let mut rest = &self.recent[..known];
        while let Some(first) = rest.first() {
            // Up to the next open scope, all have the same parent.
            let next_open = open_start_ticks.iter().find(|&&start| start > first.start_ticks);
            let together = next_open.map_or(rest.len(), |&start| rest.partition_point(began_by(start)));
            let (siblings, later) = rest.split_at(together);
            rest = later;
            let run = Run::of(first, siblings);
            let length = self.runs.len();
            if join_run(&mut self.runs, length, run, &mut open).is_none() {
                self.runs.push(run);
            }
        }
        self.recent.drain(..known);
    }

    /// Returns how often a span began inside a run, so that its self time is an estimate.
    pub(crate) fn split_runs(&self) -> u64 {
        self.split_runs
    }

    /// Returns the number of entries held.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.runs.len() + self.recent.len()
    }
}

/// Appends `next` to the last of the first `length` runs and returns `length`, or `None` when there is none or an open scope begins between the two.
fn join_run<'a>(
    runs: &mut [Run],
    length: usize,
    next: Run,
    open: &mut std::iter::Peekable<impl Iterator<Item = &'a u64>>,
) -> Option<usize> {
    let last = runs.get_mut(length.checked_sub(1)?)?;
    while open.next_if(|&&start| start <= last.last_start_ticks).is_some() {}
    if open.peek().is_some_and(|&&start| start <= next.first_start_ticks) {
        return None;
    }
    last.append(&next);
    Some(length)
}

impl Run {
    /// Makes a run of consecutive subtrees, the first of which is `first`.
    fn of(first: &Subtree, siblings: &[Subtree]) -> Self {
        Self {
            first_start_ticks: first.start_ticks,
            last_start_ticks: siblings.last().unwrap_or(first).start_ticks,
            total_ns: siblings
                .iter()
                .fold(0, |sum: u64, subtree| sum.saturating_add(subtree.total_ns)),
            subtrees: siblings.len() as u64,
            spans: siblings.iter().map(|subtree| subtree.spans).sum(),
        }
    }

    /// Appends a later run.
    fn append(&mut self, next: &Self) {
        self.last_start_ticks = next.last_start_ticks;
        self.total_ns = self.total_ns.saturating_add(next.total_ns);
        self.subtrees += next.subtrees;
        self.spans += next.spans;
    }

    /// Takes away the part that begins at or after `start_ticks`, at most `limit_ns` of it. The run begins before and ends not before `start_ticks`.
    fn split_off(&mut self, start_ticks: u64, limit_ns: u64) -> Children {
        let after = u128::from(self.last_start_ticks - start_ticks);
        let length = u128::from(self.last_start_ticks - self.first_start_ticks);
        let subtrees = u128::from(self.subtrees);
        // The first subtree begins before and the last one does not, so neither part is empty.
        let taken = 1 + subtrees.saturating_sub(1) * after / length;
        let part = |of: u64| u64::try_from(u128::from(of) * taken / subtrees).unwrap_or(of);
        let share = Children {
            total_ns: part(self.total_ns).min(limit_ns),
            children: part(self.subtrees),
            descendants: part(self.spans),
        };
        self.total_ns -= share.total_ns;
        self.subtrees -= share.children;
        self.spans -= share.descendants;
        // A run of one begins and ends with the start of its only subtree, so a run that can be split holds two at least.
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
        let mut ended = EndedSpans::default();
        let siblings = 40 * FOLD_AT as u64;
        let mut longest = 0;
        for i in 0..siblings {
            assert_eq!(ended.end(10 + i * 10, 7), Children::default());
            longest = longest.max(ended.len());
        }
        assert!(longest <= FOLD_AT + FOLD_AT / 2, "{longest} entries");
        // A parent of all of them still gets every one.
        let all = Children {
            total_ns: 7 * siblings,
            children: siblings,
            descendants: siblings,
        };
        assert_eq!(ended.end(10, 100 * siblings), all);
        assert_eq!(ended.split_runs(), 0);
        assert_eq!(ended.len(), 1);
    }

    #[test]
    fn a_parent_inside_a_run_takes_about_its_own_children_and_its_parent_the_rest() {
        let mut ended = EndedSpans::default();
        let siblings = 10 * FOLD_AT as u64;
        for i in 0..siblings {
            ended.end(10 + i * 10, 7);
        }
        let begins_before = siblings / 3;
        let inner = ended.end(10 + begins_before * 10 - 1, u64::MAX / 2);
        let expected = siblings - begins_before;
        assert_eq!(inner.total_ns, inner.children * 7);
        assert!(
            inner.children.abs_diff(expected) <= siblings / 1_000,
            "{} of {expected}",
            inner.children
        );
        let outer = ended.end(0, u64::MAX);
        assert_eq!(outer.children - 1 + inner.children, siblings);
        assert_eq!(outer.total_ns - u64::MAX / 2 + inner.total_ns, 7 * siblings);
        assert_eq!(outer.descendants, siblings + 1);
        assert!(ended.split_runs() <= 1);
    }

    #[test]
    fn settling_keeps_open_parents_apart() {
        let mut ended = EndedSpans::default();
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
                total_ns: 2,
                children: 2,
                descendants: 2
            }
        );
        assert_eq!(
            ended.end(105, 300),
            Children {
                total_ns: 10 * 3 + 10,
                children: 11,
                descendants: 13
            }
        );
        assert_eq!(
            ended.end(50, 400),
            Children {
                total_ns: 6 * 3 + 300,
                children: 7,
                descendants: 20
            }
        );
        assert_eq!(ended.split_runs(), 0);
    }

    #[test]
    fn settling_leaves_alone_what_began_after_it_was_asked() {
        let mut ended = EndedSpans::default();
        ended.end(10, 1);
        ended.end(20, 1);
        ended.end(30, 1);
        ended.settle(20, &[]);
        assert_eq!(
            ended.end(25, 9),
            Children {
                total_ns: 1,
                children: 1,
                descendants: 1
            }
        );
        assert_eq!(
            ended.end(20, 30),
            Children {
                total_ns: 10,
                children: 2,
                descendants: 3
            }
        );
        assert_eq!(ended.split_runs(), 0);
    }
}
