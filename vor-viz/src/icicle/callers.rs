//! The stacks turned around: each scope with its own time, and below it who called it.

use super::tree::{NONE, ROOT, StackKey, StackSums, Stacks};

/// Steps in a pass: a look-up of a node each, so a pass takes a few milliseconds.
const STEPS: usize = 100_000;

/// The callers of all scopes, made from stacks in several passes. The previous result stays until
/// the next one is complete.
#[derive(Clone, Debug, Default)]
pub(super) struct Callers {
    /// The generation of the stacks that were turned around, and the result.
    done: Option<(u64, Stacks)>,
    work: Work,
}

/// Stacks that are being turned around.
#[derive(Clone, Debug, Default)]
struct Work {
    /// The generation of the stacks; `None` for no work.
    generation: Option<u64>,
    /// Stacks that were turned around, and nodes whose children are in order.
    turned: usize,
    ordered: usize,
    stacks: Stacks,
}

impl Callers {
    /// Does a part of the work if the result is of another generation. Returns whether it is of
    /// this one now.
    pub(super) fn advance(&mut self, stacks: &Stacks, generation: u64) -> bool {
        self.advance_by(stacks, generation, STEPS)
    }

    /// Returns the latest result, and the generation of its stacks.
    pub(super) fn latest(&self) -> Option<(&Stacks, u64)> {
        self.done
            .as_ref()
            .map(|(generation, stacks)| (stacks, *generation))
    }

    /// Returns the progress of the work on stacks, from 0 to 1.
    pub(super) fn progress(&self, stacks: &Stacks) -> f32 {
        self.work.turned as f32 / stacks.tree.nodes().len() as f32
    }

    fn advance_by(&mut self, stacks: &Stacks, generation: u64, steps: usize) -> bool {
        if self
            .done
            .as_ref()
            .is_some_and(|(done, _)| *done == generation)
        {
            return true;
        }
        if self.work.generation != Some(generation) {
            self.work = Work {
                generation: Some(generation),
                // The root is no stack.
                turned: 1,
                ..Work::default()
            };
            self.work.stacks.hidden_spans = stacks.hidden_spans;
        }
        let is_done = self.work.advance(stacks, steps);
        if is_done {
            self.done = Some((generation, std::mem::take(&mut self.work).stacks));
        }
        is_done
    }
}

impl Work {
    /// Does up to about `steps` steps. Returns whether all is done.
    fn advance(&mut self, stacks: &Stacks, steps: usize) -> bool {
        let mut left = steps;
        let nodes = stacks.tree.nodes();
        while self.turned < nodes.len() {
            let depth = self.turn(stacks, self.turned as u32);
            self.turned += 1;
            match left.checked_sub(depth) {
                Some(rest) => left = rest,
                None => return false,
            }
        }
        let (from, most) = (self.ordered, left.max(1));
        self.ordered = from.saturating_add(most);
        !self.stacks.tree.put_in_order(from, most)
    }

    /// Adds a stack from its innermost scope outwards. Returns its depth.
    fn turn(&mut self, stacks: &Stacks, node: u32) -> usize {
        let Some(stack) = stacks.tree.node(node) else {
            return 0;
        };
        let sums = stack.sums;
        if sums.self_ns == 0 {
            return 1;
        }
        self.add(ROOT, &sums);
        let (mut at, mut depth) = (ROOT, 0);
        for around in stacks.tree.upwards(node) {
            let key = stacks
                .tree
                .node(around)
                .map_or_else(StackKey::default, |node| node.key);
            at = self.stacks.tree.child(at, key);
            depth += 1;
            if at == NONE {
                self.stacks.hidden_spans += sums.count;
                return depth;
            }
            self.add(at, &sums);
        }
        // All of the stack: its time is here.
        if let Some(outermost) = self.stacks.tree.sums_mut(at) {
            outermost.self_ns = outermost.self_ns.saturating_add(sums.self_ns);
        }
        depth
    }

    /// Adds a stack's own time to a node.
    fn add(&mut self, node: u32, stack: &StackSums) {
        if let Some(sums) = self.stacks.tree.sums_mut(node) {
            sums.count += stack.count;
            sums.total_ns = sums.total_ns.saturating_add(stack.self_ns);
            sums.durations_ns = sums.durations_ns.saturating_add(stack.durations_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use vor_capture::model::catalog::SiteId;

    use super::*;

    /// Makes stacks of paths with their own time.
    fn stacks(paths: &[(Vec<u32>, u32)]) -> Stacks {
        let mut stacks = Stacks::default();
        for (path, self_ns) in paths {
            let self_ns = u64::from(*self_ns);
            let mut at = ROOT;
            for &site in path {
                at = stacks.tree.child(at, StackKey::Scope(SiteId(site)));
                stacks.tree.sums_mut(at).unwrap().total_ns += self_ns;
            }
            let sums = stacks.tree.sums_mut(at).unwrap();
            sums.self_ns += self_ns;
            sums.count += 1;
        }
        stacks
    }

    /// Returns the own time of each stack that has any.
    fn own(stacks: &Stacks, turned: bool) -> BTreeMap<Vec<u32>, u64> {
        let nodes = (0..).zip(stacks.tree.nodes()).skip(1);
        let timed = nodes.filter(|(_, node)| node.sums.self_ns > 0);
        let path = |node| {
            let keys = stacks.tree.path(node).into_iter();
            let mut path: Vec<u32> = keys
                .map(|key| match key {
                    StackKey::Scope(site) => site.0,
                    StackKey::Thread(thread) => thread.0,
                })
                .collect();
            if turned {
                path.reverse();
            }
            path
        };
        timed
            .map(|(at, node)| (path(at), node.sums.self_ns))
            .collect()
    }

    proptest! {
        #[test]
        fn every_stack_is_turned_around_with_its_own_time(
            paths in proptest::collection::vec(
                (proptest::collection::vec(1_u32..6, 1..7), 0_u32..1_000),
                1..40,
            ),
            steps in 1_usize..200,
        ) {
            let stacks = stacks(&paths);
            let mut callers = Callers::default();
            while !callers.advance_by(&stacks, 7, steps) {
                prop_assert!(callers.latest().is_none());
            }
            let (turned, generation) = callers.latest().unwrap();
            prop_assert_eq!(generation, 7);
            prop_assert_eq!(own(turned, true), own(&stacks, false));
            let mut by_site = BTreeMap::new();
            for (path, self_ns) in own(&stacks, false) {
                *by_site.entry(*path.last().unwrap()).or_insert(0) += self_ns;
            }
            let tree = &turned.tree;
            let tops = tree.children(ROOT).map(|top| {
                let node = tree.node(top).unwrap();
                let StackKey::Scope(site) = node.key else {
                    panic!("{:?} is no scope", node.key);
                };
                (site.0, node.sums.total_ns)
            });
            prop_assert_eq!(tops.collect::<BTreeMap<_, _>>(), by_site.clone());
            let root = tree.node(ROOT).unwrap();
            prop_assert_eq!(root.sums.total_ns, by_site.values().sum::<u64>());
            // A child is never wider than its parent.
            for node in tree.nodes().iter().skip(1) {
                prop_assert!(node.sums.total_ns <= tree.node(node.parent).unwrap().sums.total_ns);
            }
        }
    }
}
