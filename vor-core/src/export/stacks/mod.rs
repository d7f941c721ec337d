//! Sums per distinct stack, from spans in the order in which they ended: of their times, or of all that is measured of them ([`Weight`]).
//!
//! A call tree in which siblings of equal name are one node holds as many nodes as there are distinct stacks, however long the program ran. But
//! a span arrives before its parents, so its place in that tree is unknown at first. Each thread therefore has a row of subtrees
//! that wait for a parent, ascending by start:
//!
//! ```text
//! on the end of span s:
//!     while the last waiting subtree started at or after s: take it off, and merge it into the children of s
//!     self(s) = length(s) - sum of the lengths taken off
//!     s waits
//! ```
//!
//! A scope that stays open lets the row grow for as long. Where it gets long, neighbours in the older half of it are merged, so the row holds *runs* that get longer with
//! age. A span that began inside a run is taken to contain the share of its time that follows from its position, as if that were evenly spread, but
//! the run's stacks stay beside the span: to part them would copy them, and a damaged capture could ask for that without end.
//! So that run stands one ancestor too high, and in what is around both no nanosecond is lost or counted twice. A span that began among
//! the last `MOST_WAITING / 2` subtrees never meets a run, or, where the subtrees are large, the last `FEW_WAITING / 2`.
//!
//! Where the sums of a running program are taken at intervals, `cut` says how.
//!
//! The nodes of all threads lie in one vector and refer to each other by index, so that a tree of any depth is merged and freed without recursion.

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
mod cut;

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub(super) use cut::Open;

/// Waiting subtrees of a thread at which the older half is merged.
const MOST_WAITING: usize = if cfg!(miri) { 64 } else { 16_384 };

/// Nodes of a thread's waiting subtrees at which they are merged, unless they are that many distinct stacks.
const MOST_NODES: usize = 1 << 17;

/// So few waiting subtrees are left alone, however large: a scope that ends soon after them would take them apart again.
const FEW_WAITING: usize = 64;

/// Subtrees that become one where the older half is merged. With two, what is old already would be merged again for every few new ones.
const TOGETHER: usize = 8;

/// No node.
const NONE: u32 = u32::MAX;

/// What is summed: a time, or several numbers that are measured together. Each of them includes those of the spans inside.
pub(super) trait Weight: Copy + Default {
    /// Combines each number with the one in its place.
    #[must_use]
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self;

    /// Returns whether all of it is 0.
    fn is_zero(self) -> bool;

    #[must_use]
    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    #[must_use]
    fn less(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Returns `part` of `whole` parts of it.
    #[must_use]
    fn share(self, part: u64, whole: u64) -> Self {
        let (part, whole) = (u128::from(part.min(whole)), u128::from(whole.max(1)));
        // A share of a 64-bit number, so it has no more bits itself.
        self.each(self, |number, _| (u128::from(number) * part / whole) as u64)
    }
}

impl Weight for u64 {
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        with(self, other)
    }

    fn is_zero(self) -> bool {
        self == 0
    }
}

/// The nodes of all threads.
#[derive(Debug, Default)]
pub(super) struct Stacks<V> {
    nodes: Vec<Node<V>>,
    /// Nodes that are free, linked by `next`.
    free: Option<u32>,
    /// Lists that are still to be merged below a node.
    work: Vec<(u32, u32)>,
}

/// A frame below a certain stack.
#[derive(Clone, Copy, Debug)]
struct Node<V> {
    own: V,
    frame: u32,
    /// The first of its children, which `next` links.
    below: u32,
    next: u32,
}

/// The subtrees of one thread that wait for a parent.
#[derive(Debug)]
pub(super) struct Waiting<V> {
    row: Vec<Subtrees<V>>,
    nodes: usize,
    most_nodes: usize,
    cut: Cut,
}

/// Where the sums of a thread were taken last; see `cut`.
#[derive(Debug, Default)]
struct Cut {
    ticks: u64,
    /// When the scopes began that were open then, outermost first.
    open: Vec<u64>,
}

/// One subtree, or a run of neighbours.
#[derive(Clone, Copy, Debug)]
struct Subtrees<V> {
    first_start_ticks: u64,
    last_start_ticks: u64,
    total: V,
    first: u32,
}

impl<V> Default for Waiting<V> {
    fn default() -> Self {
        Self {
            row: Vec::new(),
            nodes: 0,
            most_nodes: MOST_NODES,
            cut: Cut::default(),
        }
    }
}

impl<V: Weight> Waiting<V> {
    /// Takes the next span that ended on the thread.
    pub(super) fn end(
        &mut self,
        stacks: &mut Stacks<V>,
        frame: u32,
        start_ticks: u64,
        duration_ticks: u64,
        total: V,
    ) {
        let total = if start_ticks < self.cut.ticks {
            self.since_cut(start_ticks, duration_ticks, total)
        } else {
            total
        };
        let node = stacks.take(frame);
        self.nodes += 1;
        let mut inside = V::default();
        while let Some(last) = self.row.last_mut() {
            if last.first_start_ticks >= start_ticks {
                inside = inside.plus(last.total);
                self.nodes -= stacks.merge(node, last.first);
                self.row.pop();
                continue;
            }
            if last.last_start_ticks >= start_ticks {
                inside = inside.plus(last.take_share(start_ticks, total.less(inside)));
            }
            break;
        }
        stacks.nodes[node as usize].own = total.less(inside);
        self.row.push(Subtrees {
            first_start_ticks: start_ticks,
            last_start_ticks: start_ticks,
            // Where children claim more than their parent has, what is above it loses no more than them.
            total: total.each(inside, u64::max),
            first: node,
        });
        if self.row.len() > MOST_WAITING || (self.nodes > self.most_nodes && self.row.len() > FEW_WAITING) {
            self.make_room(stacks);
        }
    }

    /// Returns what counts of a span that began before the last cut: all of it where what it took until then is known, or where nothing was around it. Where it
    /// was not known to be open, what it took until then was taken for its parent's.
    #[cold]
    fn since_cut(&self, start_ticks: u64, duration_ticks: u64, total: V) -> V {
        let has_parent = self.cut.open.first().is_some_and(|&first| first < start_ticks);
        if !has_parent || self.cut.open.contains(&start_ticks) {
            return total;
        }
        let end_ticks = start_ticks.saturating_add(duration_ticks);
        total.share(end_ticks.saturating_sub(self.cut.ticks), duration_ticks)
    }

    /// Merges all subtrees below `root`: nothing comes after them.
    pub(super) fn finish(self, stacks: &mut Stacks<V>, root: u32) {
        for subtrees in self.row {
            stacks.merge(root, subtrees.first);
        }
    }

    #[cold]
    fn make_room(&mut self, stacks: &mut Stacks<V>) {
        self.fold(stacks);
        while self.nodes > self.most_nodes / 2 && self.row.len() > FEW_WAITING {
            self.fold(stacks);
        }
        self.most_nodes = MOST_NODES.max(2 * self.nodes);
    }

    /// Merges the older half of the row, [`TOGETHER`] subtrees into one.
    fn fold(&mut self, stacks: &mut Stacks<V>) {
        let older = self.row.len() / 2;
        let mut kept = 0;
        for i in (0..older).step_by(TOGETHER) {
            let mut run = self.row[i];
            let root = stacks.take(NONE);
            stacks.nodes[root as usize].below = run.first;
            for next in &self.row[i + 1..older.min(i + TOGETHER)] {
                self.nodes -= stacks.merge(root, next.first);
                run.last_start_ticks = next.last_start_ticks;
                run.total = run.total.plus(next.total);
            }
            run.first = stacks.nodes[root as usize].below;
            stacks.give(root);
            self.row[kept] = run;
            kept += 1;
        }
        self.row.drain(kept..older);
    }
}

impl<V: Weight> Subtrees<V> {
    /// Takes the weight of what began at or after `start_ticks` from a run, at most `most`.
    #[cold]
    fn take_share(&mut self, start_ticks: u64, most: V) -> V {
        let later_ticks = self.last_start_ticks - start_ticks;
        let ticks = self.last_start_ticks - self.first_start_ticks;
        let share = self
            .total
            .share(later_ticks.saturating_add(1), ticks.saturating_add(1));
        let share = share.each(most, u64::min);
        self.total = self.total.less(share);
        self.last_start_ticks = start_ticks - 1;
        share
    }
}

impl<V: Weight> Stacks<V> {
    /// Makes a node without children or time.
    pub(super) fn take(&mut self, frame: u32) -> u32 {
        let node = Node {
            own: V::default(),
            frame,
            below: NONE,
            next: NONE,
        };
        if let Some(at) = self.free {
            let next = self.nodes[at as usize].next;
            self.free = (next != NONE).then_some(next);
            self.nodes[at as usize] = node;
            return at;
        }
        self.nodes.push(node);
        // Fewer than 2^32 nodes of 24 bytes: a thread's are merged long before, and so many distinct stacks exhaust the memory first.
        (self.nodes.len() - 1) as u32
    }

    fn give(&mut self, at: u32) {
        self.nodes[at as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(at);
    }

    /// Merges a list of siblings into the children of `parent`. Returns how many nodes became free.
    fn merge(&mut self, parent: u32, list: u32) -> usize {
        let mut freed = 0;
        self.work.push((parent, list));
        while let Some((parent, mut from)) = self.work.pop() {
            while from != NONE {
                let node = self.nodes[from as usize];
                match self.find(parent, node.frame) {
                    Some(same) => {
                        let same_node = &mut self.nodes[same as usize];
                        same_node.own = same_node.own.plus(node.own);
                        if node.below != NONE {
                            self.work.push((same, node.below));
                        }
                        self.give(from);
                        freed += 1;
                    }
                    None => {
                        self.nodes[from as usize].next = self.nodes[parent as usize].below;
                        self.nodes[parent as usize].below = from;
                    }
                }
                from = node.next;
            }
        }
        freed
    }

    /// Looks for a child of a frame, and puts it first: what ran lately runs again.
    fn find(&mut self, parent: u32, frame: u32) -> Option<u32> {
        let first = self.nodes[parent as usize].below;
        let (mut before, mut at) = (NONE, first);
        while at != NONE {
            let node = self.nodes[at as usize];
            if node.frame == frame {
                if before != NONE {
                    self.nodes[before as usize].next = node.next;
                    self.nodes[at as usize].next = first;
                    self.nodes[parent as usize].below = at;
                }
                return Some(at);
            }
            (before, at) = (at, node.next);
        }
        None
    }

    /// Calls `visit` for every node below `root` that has weight of its own, with the frames from the outermost to its own.
    pub(super) fn each<E>(
        &self,
        root: u32,
        mut visit: impl FnMut(&[u32], V) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut path = Vec::new();
        let mut open = vec![self.nodes[root as usize].below];
        while let Some(at) = open.pop() {
            if at == NONE {
                path.pop();
                continue;
            }
            let node = self.nodes[at as usize];
            path.push(node.frame);
            if !node.own.is_zero() {
                visit(&path, node.own)?;
            }
            open.push(node.next);
            open.push(node.below);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn sums(stacks: &mut Stacks<u64>, waiting: Waiting<u64>) -> BTreeMap<Vec<u32>, u64> {
        let root = stacks.take(NONE);
        waiting.finish(stacks, root);
        let mut sums = BTreeMap::new();
        let visited: Result<(), ()> = stacks.each(root, |path, ns| {
            assert_eq!(sums.insert(path.to_vec(), ns), None, "a stack is one node");
            Ok(())
        });
        visited.unwrap();
        sums
    }

    #[test]
    fn equal_stacks_are_summed_wherever_they_stand() {
        let mut stacks = Stacks::default();
        let mut waiting = Waiting::default();
        for turn in 0..3_u64 {
            let at = turn * 1_000;
            // A root of 100 around two leaves of 10 and one of 5, all of frame 2, and one around a leaf.
            for (frame, start, total) in [(2, 10, 10), (2, 30, 10), (3, 51, 5), (2, 50, 20), (1, 0, 100)] {
                waiting.end(&mut stacks, frame, at + start, total, total);
            }
        }
        let expected = [(vec![1], 180), (vec![1, 2], 105), (vec![1, 2, 3], 15)];
        assert_eq!(sums(&mut stacks, waiting), BTreeMap::from(expected));
    }

    #[test]
    fn memory_follows_distinct_stacks_and_no_time_is_lost() {
        let mut stacks = Stacks::default();
        let mut waiting = Waiting::default();
        let turns = 6 * MOST_WAITING as u64;
        for turn in 0..turns {
            waiting.end(&mut stacks, 2, 1 + turn * 10, 4, 4);
            waiting.end(&mut stacks, 1 + (turn % 2) as u32 * 2, turn * 10, 8, 8);
        }
        assert!(waiting.row.len() <= MOST_WAITING && stacks.nodes.len() <= MOST_NODES + 2 * MOST_WAITING);
        // A span that began in the middle of all takes what is about half of it.
        let begin = turns / 2 * 10;
        let length = turns * 10 - begin;
        waiting.end(&mut stacks, 9, begin, length, length);
        waiting.end(&mut stacks, 7, 0, turns * 10, turns * 10);
        let sums = sums(&mut stacks, waiting);
        assert_eq!(sums.values().sum::<u64>(), turns * 10);
        // Every turn leaves 2 of its 10 to what is around it.
        let own = sums[&vec![7, 9]];
        assert!(
            own.abs_diff(turns / 2 * 2) <= turns / 50,
            "{own} of about {turns}"
        );
    }

    #[test]
    fn depth_costs_no_stack() {
        let mut stacks = Stacks::default();
        let mut waiting = Waiting::default();
        let depth = if cfg!(miri) { 100 } else { 200_000 };
        for _ in 0..2 {
            for level in (0..depth).rev() {
                let length = 2 * (depth - level);
                waiting.end(&mut stacks, 1, level, length, length);
            }
        }
        let root = stacks.take(NONE);
        waiting.finish(&mut stacks, root);
        let mut deepest = 0;
        let visited: Result<(), ()> = stacks.each(root, |path, _| {
            deepest = deepest.max(path.len());
            Ok(())
        });
        visited.unwrap();
        assert!(deepest as u64 >= depth);
    }
}
