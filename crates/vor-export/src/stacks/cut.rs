//! Takes sums while scopes are open.
//!
//! An open scope weighs its time until then, as if it ended, and its stacks are delivered with all
//! others. When it does end, or at the next cut, only the rest counts. To this end, the waiting
//! subtrees are replaced by one for each open scope, with the taken part and without stacks. That
//! part is subtracted like any child.

use std::io;

use super::{MAX_NODES, NONE, PendingSubtrees, Stacks, Subtrees, Weight};

/// A scope that is open when the sums are taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open<V> {
    pub(crate) frame: u32,
    pub(crate) start_ticks: u64,
    /// Its weight until then.
    pub(crate) total: V,
}

impl<V: Weight> PendingSubtrees<V> {
    /// Merges all subtrees below `root`, including the scopes that are open at `cut_ticks`, with
    /// their weight until then. When such a scope ends, only its rest counts: of each scope its
    /// taken part remains, without its stacks.
    ///
    /// Everything that ended on the thread by then must have been taken, and nothing that ended
    /// later. `open` is ordered from the outermost scope.
    pub(crate) fn cut(
        &mut self,
        stacks: &mut Stacks<V>,
        root: u32,
        cut_ticks: u64,
        open: &[Open<V>],
    ) -> io::Result<()> {
        let mut taken = Vec::with_capacity(open.len());
        for scope in open.iter().rev() {
            let duration_ticks = cut_ticks.saturating_sub(scope.start_ticks);
            self.end(
                stacks,
                scope.frame,
                scope.start_ticks,
                duration_ticks,
                scope.total,
            )?;
            let total = self.row.last().map_or_else(V::default, |last| last.total);
            // A part of it may have been taken for its parent, because it was not seen then. That
            // part counts as taken all the same.
            taken.push((scope.start_ticks, total.each(scope.total, u64::max)));
        }
        taken.reverse();
        // Stored subtrees are in no open scope; otherwise they were taken back above. They began
        // long ago, and are joined.
        let mut ended: Option<Subtrees<V>> = None;
        while let Some((subtrees, _)) = self.spilled.take_from(stacks, 0)? {
            stacks.merge(root, subtrees.first);
            let later = ended.map_or_else(V::default, |later| later.total);
            ended = Some(Subtrees {
                total: subtrees.total.plus(later),
                ..subtrees
            });
        }
        let mut row = std::mem::take(&mut self.row);
        for subtrees in &row {
            stacks.merge(root, subtrees.first);
        }
        // Subtrees in no open scope should have no parent, but the list of open scopes may be
        // incomplete: a missing scope still finds its children when it ends. Subtrees that had
        // ended before the last cut are not kept any longer.
        let outermost_ticks = taken
            .first()
            .map_or(u64::MAX, |&(start_ticks, _)| start_ticks);
        row.retain(|it| {
            let is_outside = it.start_ticks < outermost_ticks;
            is_outside && (it.first != NONE || self.cut.open.contains(&it.start_ticks))
        });
        row.splice(0..0, ended);
        for subtrees in &mut row {
            subtrees.first = NONE;
        }
        for (at, &(start_ticks, total)) in taken.iter().enumerate() {
            // The part inside the next scope remains with that scope.
            let inside = taken
                .get(at + 1)
                .map_or_else(V::default, |&(_, total)| total);
            row.push(Subtrees {
                start_ticks,
                total: total.less(inside),
                first: NONE,
            });
        }
        self.row = row;
        self.nodes = 0;
        self.max_nodes = MAX_NODES;
        self.cut.ticks = cut_ticks;
        self.cut.open.clear();
        self.cut
            .open
            .extend(taken.iter().map(|&(start_ticks, _)| start_ticks));
        Ok(())
    }

    /// Returns whether a scope was open at the last cut.
    pub(crate) fn has_open(&self) -> bool {
        !self.cut.open.is_empty()
    }
}

impl<V: Weight> Stacks<V> {
    /// Removes all nodes, and keeps memory for `most` of them. No waiting subtree may still have
    /// stacks.
    pub(crate) fn clear(&mut self, most: usize) {
        self.nodes.clear();
        self.nodes.shrink_to(most);
        self.free = None;
    }

    /// Returns the largest number of nodes since they were cleared.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::stacks::MAX_WAITING;

    type Sums = BTreeMap<Vec<u32>, u64>;

    fn add_all(stacks: &Stacks<u64>, root: u32, sums: &mut Sums) {
        let visited: Result<(), ()> = stacks.each(root, |path, ns| {
            *sums.entry(path.to_vec()).or_default() += ns;
            Ok(())
        });
        visited.unwrap();
    }

    /// A thread that begins scopes (by frame), ends the innermost, and has its sums taken. At a
    /// cut, the given number of inner open scopes is not seen. Time passes between the steps.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin(u32),
        End,
        Cut(usize),
    }

    fn steps(max_unseen: usize) -> impl Strategy<Value = Vec<(u64, Step)>> {
        let step = prop_oneof![
            4 => (0_u32..4).prop_map(Step::Begin),
            4 => Just(Step::End),
            1 => (0..=max_unseen).prop_map(Step::Cut),
        ];
        proptest::collection::vec((1_u64..50, step), 0..300)
    }

    /// Returns the sums without and with cuts, and for each cut its sum and the busy time before
    /// it.
    fn run(steps: &[(u64, Step)]) -> (Sums, Sums, Vec<(u64, u64)>) {
        let (mut whole, mut whole_waiting) = (Stacks::default(), PendingSubtrees::default());
        let (mut stacks, mut waiting) = (Stacks::default(), PendingSubtrees::default());
        let (mut cut_sums, mut cuts) = (Sums::new(), Vec::new());
        let (mut open, mut now, mut last_cut, mut idle) = (Vec::new(), 0, 0, 0);
        let ends = std::iter::repeat_n((1, Step::End), 300);
        for (elapsed, step) in steps.iter().copied().chain(ends) {
            now += elapsed;
            if open.is_empty() {
                idle += elapsed;
            }
            match step {
                Step::Begin(frame) => open.push((frame, now)),
                Step::End => {
                    let Some((frame, start)) = open.pop() else {
                        continue;
                    };
                    whole_waiting
                        .end(&mut whole, frame, start, now - start, now - start)
                        .unwrap();
                    waiting
                        .end(&mut stacks, frame, start, now - start, now - start)
                        .unwrap();
                }
                Step::Cut(unseen) => {
                    let seen = open.iter().take(open.len().saturating_sub(unseen));
                    let seen: Vec<_> = seen
                        .filter(|(_, start_ticks)| *start_ticks < now)
                        .map(|&(frame, start_ticks)| Open {
                            frame,
                            start_ticks,
                            total: now - start_ticks,
                        })
                        .collect();
                    let root = stacks.take(NONE);
                    waiting.cut(&mut stacks, root, now, &seen).unwrap();
                    let before: u64 = cut_sums.values().sum();
                    add_all(&stacks, root, &mut cut_sums);
                    stacks.clear(0);
                    cuts.push((
                        cut_sums.values().sum::<u64>() - before,
                        now - last_cut - idle,
                    ));
                    (last_cut, idle) = (now, 0);
                }
            }
        }
        let (mut sums, whole_root) = (Sums::new(), whole.take(NONE));
        whole_waiting.finish(&mut whole, whole_root).unwrap();
        add_all(&whole, whole_root, &mut sums);
        let root = stacks.take(NONE);
        waiting.finish(&mut stacks, root).unwrap();
        add_all(&stacks, root, &mut cut_sums);
        (sums, cut_sums, cuts)
    }

    proptest! {
        #[test]
        fn cuts_add_up_to_the_whole_and_each_has_the_busy_time_before_it(steps in steps(0)) {
            let (whole, cut, cuts) = run(&steps);
            prop_assert_eq!(cut, whole);
            for (taken, busy) in cuts {
                prop_assert_eq!(taken, busy);
            }
        }

        #[test]
        fn no_time_is_lost_or_counted_twice_if_inner_open_scopes_are_not_seen(steps in steps(3)) {
            // The outermost scope is always seen, like any scope that is open for long.
            let mut steps = steps;
            steps.insert(0, (1, Step::Begin(9)));
            let mut depth = 0;
            steps.retain_mut(|(_, step)| match step {
                Step::Begin(_) => {
                    depth += 1;
                    true
                }
                Step::End => {
                    let ends = depth > 1;
                    depth -= usize::from(ends);
                    ends
                }
                Step::Cut(unseen) => {
                    *unseen = (*unseen).min(depth - 1);
                    true
                }
            });
            let (whole, cut, _) = run(&steps);
            let (whole, cut): (u64, u64) = (whole.values().sum(), cut.values().sum());
            // A share of a duration is rounded down, once for each span that a cut divided.
            prop_assert!(cut <= whole && whole - cut <= steps.len() as u64, "{} of {}", cut, whole);
        }
    }

    /// Takes the sums up to now, and adds them.
    fn cut(
        stacks: &mut Stacks<u64>,
        waiting: &mut PendingSubtrees<u64>,
        cut_ticks: u64,
        open: &[Open<u64>],
        sums: &mut Sums,
    ) {
        let root = stacks.take(NONE);
        waiting.cut(stacks, root, cut_ticks, open).unwrap();
        add_all(stacks, root, sums);
        stacks.clear(0);
    }

    #[test]
    fn a_scope_that_no_cut_has_seen_still_finds_its_children() {
        // Few children wait in memory, and most of many are stored.
        for count in [3, 10 * MAX_WAITING as u64] {
            let (mut stacks, mut waiting) = (Stacks::default(), PendingSubtrees::default());
            let mut sums = Sums::new();
            for child in 0..count {
                waiting.bound(&mut stacks).unwrap();
                waiting.end(&mut stacks, 2, 10 + child * 10, 4, 4).unwrap();
            }
            let end = 20 + count * 10;
            cut(&mut stacks, &mut waiting, end - 5, &[], &mut sums);
            waiting.end(&mut stacks, 1, 0, end, end).unwrap();
            cut(&mut stacks, &mut waiting, end, &[], &mut sums);
            let expected = [(vec![1], end - count * 4), (vec![2], count * 4)];
            assert_eq!(sums, Sums::from(expected));
        }
    }

    /// Takes the sums at 100, when a scope is open since 0.
    fn cut_at_100() -> (Stacks<u64>, PendingSubtrees<u64>, Sums) {
        let (mut stacks, mut waiting) = (Stacks::default(), PendingSubtrees::default());
        let mut sums = Sums::new();
        let outer = Open {
            frame: 1,
            start_ticks: 0,
            total: 100,
        };
        cut(&mut stacks, &mut waiting, 100, &[outer], &mut sums);
        (stacks, waiting, sums)
    }

    #[test]
    fn only_the_rest_counts_of_a_scope_that_the_last_cut_took_for_its_parent() {
        let (mut stacks, mut waiting, mut sums) = cut_at_100();
        assert_eq!(sums, Sums::from([(vec![1], 100)]));
        // It began at 60, so 30 of its 70 ticks are left. Its weight need not be its duration.
        waiting.end(&mut stacks, 2, 60, 70, 700).unwrap();
        waiting.end(&mut stacks, 1, 0, 1_000, 1_000).unwrap();
        cut(&mut stacks, &mut waiting, 1_000, &[], &mut sums);
        assert_eq!(sums, Sums::from([(vec![1], 700), (vec![1, 2], 300)]));
    }

    #[test]
    fn all_of_a_scope_counts_that_began_at_the_last_cut() {
        let (mut stacks, mut waiting, mut sums) = cut_at_100();
        // A scope without a duration may still have allocated.
        waiting.end(&mut stacks, 2, 100, 0, 9).unwrap();
        waiting.end(&mut stacks, 3, 100, 5, 20).unwrap();
        let root = stacks.take(NONE);
        waiting.finish(&mut stacks, root).unwrap();
        add_all(&stacks, root, &mut sums);
        let expected = [(vec![1], 100), (vec![3, 2], 9), (vec![3], 11)];
        assert_eq!(sums, Sums::from(expected));
    }

    #[test]
    fn memory_stays_bounded_while_a_scope_stays_open() {
        let (mut stacks, mut waiting) = (Stacks::<u64>::default(), PendingSubtrees::default());
        let mut now = 1;
        for _ in 0..1_000 {
            for frame in 1..20 {
                waiting.end(&mut stacks, frame, now, 5, 5).unwrap();
                now += 10;
            }
            let scope = Open {
                frame: 0,
                start_ticks: 0,
                total: now,
            };
            let root = stacks.take(NONE);
            waiting.cut(&mut stacks, root, now, &[scope]).unwrap();
            let mut sums = Sums::new();
            add_all(&stacks, root, &mut sums);
            assert_eq!(
                sums.values().sum::<u64>(),
                now.min(190) + u64::from(now == 191)
            );
            assert_eq!(sums[&vec![0, 7]], 5);
            stacks.clear(0);
            assert!(waiting.row.len() <= 2 && stacks.nodes.capacity() == 0);
        }
    }
}
