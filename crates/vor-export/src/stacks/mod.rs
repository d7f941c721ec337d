//! Sums per distinct stack, from spans in the order in which they ended. The sums are of their
//! times or of all their measures ([`Weight`]).
//!
//! A call tree merges siblings with equal names into one node. So it has as many nodes as there are
//! distinct stacks, however long the program ran. But a span arrives before its parents, so its
//! place in that tree is unknown at first. Each thread therefore has a row of subtrees that wait
//! for a parent, ascending by start:
//!
//! ```text
//! on the end of span s:
//!     while the last waiting subtree started at or after s:
//!         take it off, and merge it into the children of s
//!     self(s) = length(s) - sum of the lengths taken off
//!     s waits
//! ```
//!
//! The order of ends does not show where a scope began that is still open: any of the waiting
//! subtrees may be inside it, or none. So each of them waits separately, however many there are.
//! The older ones are stored as bytes in a [`Spill`](super::spill), which is a temporary file if
//! they are many. A parent takes its children from the top of the row and then from the top of the
//! stored ones, so each is stored and taken back once.
//!
//! A caller that knows the open scopes, such as the recorder, passes them to
//! [`PendingSubtrees::settle`]. Neighbours between whose starts no open scope began have one
//! parent, and are joined. Then at most as many subtrees wait as there are distinct stacks below
//! each open scope.
//!
//! `cut` takes the sums of a running program at intervals.
//!
//! The nodes of all threads are in one vector and refer to each other by index. So a tree of any
//! depth is merged and freed without recursion.

mod spilled;
#[cfg(feature = "pprof")]
mod cut;

use std::io;

#[cfg(feature = "pprof")]
pub(super) use self::cut::Open;
use self::spilled::SpilledSubtrees;
use super::spill::Spill;

/// Most subtrees of a thread that wait in memory between batches.
const MAX_WAITING: usize = if cfg!(any(test, miri)) { 64 } else { 1 << 14 };

/// Nodes of a thread's waiting subtrees at which the older ones are stored, unless they are that
/// many distinct stacks.
const MAX_NODES: usize = if cfg!(any(test, miri)) { 256 } else { 1 << 17 };

/// Subtrees that stay in memory however large they are.
const FEW_WAITING: usize = 16;

/// No node.
const NONE: u32 = u32::MAX;

/// The summed values: a time, or several numbers that are measured together. Each includes those of
/// the spans inside.
pub(super) trait Weight: Copy + Default {
    /// Combines each number with the number at the same position in `other`.
    #[must_use]
    fn each(self, other: Self, with: impl FnMut(u64, u64) -> u64) -> Self;

    /// Returns whether all numbers are 0.
    fn is_zero(self) -> bool;

    #[must_use]
    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    #[must_use]
    fn less(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }

    /// Returns `part` of `whole` parts of each number.
    #[must_use]
    fn share(self, part: u64, whole: u64) -> Self {
        let (part, whole) = (u128::from(part.min(whole)), u128::from(whole.max(1)));
        // A share of a 64-bit number fits in 64 bits.
        self.each(self, |number, _| (u128::from(number) * part / whole) as u64)
    }
}

impl Weight for u64 {
    fn each(self, other: Self, mut with: impl FnMut(u64, u64) -> u64) -> Self {
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
    /// Free nodes, linked by `next`.
    free: Option<u32>,
    /// Lists that must still be merged below a node.
    work: Vec<(u32, u32)>,
    /// Storage of the subtrees outside the row.
    spill: Spill,
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
pub(super) struct PendingSubtrees<V> {
    /// Subtrees that began before all in `row`.
    spilled: SpilledSubtrees,
    row: Vec<Subtrees<V>>,
    /// Nodes of the subtrees in `row`.
    nodes: usize,
    max_nodes: usize,
    cut: Cut,
}

/// The state of a thread's last cut; see `cut`.
#[derive(Debug, Default)]
struct Cut {
    ticks: u64,
    /// Starts of the scopes that were open then, outermost first.
    open: Vec<u64>,
}

/// One subtree, or neighbours with one parent.
#[derive(Clone, Copy, Debug)]
struct Subtrees<V> {
    /// Start of the first of them.
    start_ticks: u64,
    total: V,
    /// The first of their nodes, or none if they were already taken.
    first: u32,
}

impl<V> Default for PendingSubtrees<V> {
    fn default() -> Self {
        Self {
            spilled: SpilledSubtrees::default(),
            row: Vec::new(),
            nodes: 0,
            max_nodes: MAX_NODES,
            cut: Cut::default(),
        }
    }
}

impl<V: Weight> PendingSubtrees<V> {
    /// Takes the next span that ended on the thread.
    pub(super) fn end(
        &mut self,
        stacks: &mut Stacks<V>,
        frame: u32,
        start_ticks: u64,
        duration_ticks: u64,
        total: V,
    ) -> io::Result<()> {
        let total = if start_ticks < self.cut.ticks {
            self.since_cut(start_ticks, duration_ticks, total)
        } else {
            total
        };
        let node = stacks.take(frame);
        self.nodes += 1;
        let mut inside = V::default();
        while let Some(last) = self.row.last()
            && last.start_ticks >= start_ticks
        {
            inside = inside.plus(last.total);
            self.nodes -= stacks.merge(node, last.first);
            self.row.pop();
        }
        if self.row.is_empty() && !self.spilled.is_empty() {
            while let Some((last, nodes)) = self.spilled.take_from(stacks, start_ticks)? {
                inside = inside.plus(last.total);
                self.nodes += nodes;
                self.nodes -= stacks.merge(node, last.first);
            }
        }
        stacks.nodes[node as usize].own = total.less(inside);
        self.row.push(Subtrees {
            start_ticks,
            // If children claim more than their parent has, the parent's total is their sum.
            total: total.each(inside, u64::max),
            first: node,
        });
        Ok(())
    }

    /// Returns the part that counts of a span that began before the last cut. All of it counts if
    /// the taken part is known, or if no open scope was around it. If it was not known to be open,
    /// its part until the cut was taken for its parent.
    #[cold]
    fn since_cut(&self, start_ticks: u64, duration_ticks: u64, total: V) -> V {
        let has_parent = self
            .cut
            .open
            .first()
            .is_some_and(|&first| first < start_ticks);
        if !has_parent || self.cut.open.contains(&start_ticks) {
            return total;
        }
        let end_ticks = start_ticks.saturating_add(duration_ticks);
        total.share(end_ticks.saturating_sub(self.cut.ticks), duration_ticks)
    }

    /// Joins neighbours that no open scope separates.
    ///
    /// `open` are the starts of the thread's open scopes at `as_of_ticks`, ascending. Everything
    /// that had ended by then must have been taken.
    pub(super) fn settle(&mut self, stacks: &mut Stacks<V>, as_of_ticks: u64, open: &[u64]) {
        let known = self.row.partition_point(|it| it.start_ticks < as_of_ticks);
        let mut open = open.iter().copied().peekable();
        let mut settled: usize = 0;
        for at in 0..known {
            let next = self.row[at];
            if let Some(last) = settled.checked_sub(1).map(|last| &mut self.row[last]) {
                while open.next_if(|&start| start <= last.start_ticks).is_some() {}
                let is_apart = open.peek().is_some_and(|&start| start <= next.start_ticks);
                if !is_apart && (last.first == NONE) == (next.first == NONE) {
                    last.total = last.total.plus(next.total);
                    self.nodes -= stacks.join(&mut last.first, next.first);
                    continue;
                }
            }
            self.row[settled] = next;
            settled += 1;
        }
        self.row.drain(settled..known);
    }

    /// Stores the older half of the subtrees if they are many. Must be called before each batch:
    /// the open scopes after a batch may be reported until then.
    pub(super) fn bound(&mut self, stacks: &mut Stacks<V>) -> io::Result<()> {
        let is_large = self.nodes > self.max_nodes && self.row.len() > FEW_WAITING;
        if self.row.len() <= MAX_WAITING && !is_large {
            return Ok(());
        }
        while self.row.len() > MAX_WAITING / 2
            || (self.nodes > self.max_nodes / 2 && self.row.len() > FEW_WAITING)
        {
            let older = self.row.len().div_ceil(2);
            for subtrees in self.row.drain(..older) {
                self.nodes -= self.spilled.put(stacks, subtrees)?;
            }
        }
        self.max_nodes = MAX_NODES.max(2 * self.nodes);
        Ok(())
    }

    /// Merges all subtrees below `root`; no spans may follow.
    pub(super) fn finish(mut self, stacks: &mut Stacks<V>, root: u32) -> io::Result<()> {
        for subtrees in &self.row {
            stacks.merge(root, subtrees.first);
        }
        while let Some((subtrees, _)) = self.spilled.take_from(stacks, 0)? {
            stacks.merge(root, subtrees.first);
        }
        Ok(())
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
        // Fewer than 2^32 nodes of 24 bytes: a thread's are merged long before, and that many
        // distinct stacks would exhaust the memory first.
        (self.nodes.len() - 1) as u32
    }

    fn free_node(&mut self, at: u32) {
        self.nodes[at as usize].next = self.free.unwrap_or(NONE);
        self.free = Some(at);
    }

    /// Merges a list of siblings into another one. Returns the number of freed nodes.
    fn join(&mut self, list: &mut u32, other: u32) -> usize {
        let root = self.take(NONE);
        self.nodes[root as usize].below = *list;
        let freed = self.merge(root, other);
        *list = self.nodes[root as usize].below;
        self.free_node(root);
        freed
    }

    /// Merges a list of siblings into the children of `parent`. Returns the number of freed nodes.
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
                        self.free_node(from);
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

    /// Finds the child of a frame, and moves it to the front: recent frames recur.
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

    /// Calls `visit` for every node below `root` with its own weight, passing the frames from the
    /// outermost to its own.
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

    fn sums(stacks: &mut Stacks<u64>, waiting: PendingSubtrees<u64>) -> BTreeMap<Vec<u32>, u64> {
        let root = stacks.take(NONE);
        waiting.finish(stacks, root).unwrap();
        let mut sums = BTreeMap::new();
        let visited: Result<(), ()> = stacks.each(root, |path, ns| {
            assert_eq!(sums.insert(path.to_vec(), ns), None, "a stack is one node");
            Ok(())
        });
        visited.unwrap();
        sums
    }

    /// Returns the number of nodes below the subtrees in the row.
    fn nodes_in_row(stacks: &Stacks<u64>, waiting: &PendingSubtrees<u64>) -> usize {
        let mut lists: Vec<u32> = waiting.row.iter().map(|it| it.first).collect();
        let mut count = 0;
        while let Some(at) = lists.pop() {
            if at != NONE {
                let node = stacks.nodes[at as usize];
                lists.extend([node.below, node.next]);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn equal_stacks_are_summed_wherever_they_occur() {
        let mut stacks = Stacks::default();
        let mut waiting = PendingSubtrees::default();
        for turn in 0..3_u64 {
            let at = turn * 1_000;
            // A root of 100 around two leaves of 10, and around one of 20 with a leaf of 5 inside.
            // The first three of these are of frame 2.
            for (frame, start, total) in [
                (2, 10, 10),
                (2, 30, 10),
                (3, 51, 5),
                (2, 50, 20),
                (1, 0, 100),
            ] {
                waiting
                    .end(&mut stacks, frame, at + start, total, total)
                    .unwrap();
                assert_eq!(waiting.nodes, nodes_in_row(&stacks, &waiting));
            }
        }
        let expected = [(vec![1], 180), (vec![1, 2], 105), (vec![1, 2, 3], 15)];
        assert_eq!(sums(&mut stacks, waiting), BTreeMap::from(expected));
    }

    /// Turns of a root of 8 around a leaf of 4, 10 ticks apart. The roots alternate between two
    /// frames.
    fn turns(
        count: u64,
        mut after: impl FnMut(&mut Stacks<u64>, &mut PendingSubtrees<u64>, u64),
    ) -> (Stacks<u64>, PendingSubtrees<u64>) {
        let (mut stacks, mut waiting) = (Stacks::default(), PendingSubtrees::default());
        for turn in 0..count {
            let root = 1 + (turn % 2) as u32 * 2;
            for (frame, start, length) in [(2, 1, 4), (root, 0, 8)] {
                waiting
                    .end(&mut stacks, frame, 10 + turn * 10 + start, length, length)
                    .unwrap();
            }
            after(&mut stacks, &mut waiting, 20 + turn * 10);
            assert_eq!(waiting.nodes, nodes_in_row(&stacks, &waiting));
        }
        (stacks, waiting)
    }

    #[test]
    fn many_are_stored_and_each_nanosecond_finds_its_parent() {
        let count = 60 * MAX_WAITING as u64;
        let (mut stacks, mut waiting) = turns(count, |stacks, waiting, _| {
            waiting.bound(stacks).unwrap();
            assert!(waiting.row.len() <= MAX_WAITING && stacks.nodes.len() <= MAX_NODES + 8);
        });
        assert!(!waiting.spilled.is_empty());
        // One scope begins in the middle of all turns, one at a third, and one before all.
        for (frame, turns) in [(9, count / 2), (8, count / 3), (7, 0)] {
            let (begin, end) = (10 + turns * 10 - 1, 30 + count * 10 - frame);
            let length = end - begin;
            waiting
                .end(&mut stacks, frame as u32, begin, length, length)
                .unwrap();
            assert_eq!(waiting.nodes, nodes_in_row(&stacks, &waiting));
        }
        assert!(waiting.spilled.is_empty());
        let sums = sums(&mut stacks, waiting);
        let (in_9, in_8) = (count - count / 2, count / 2 - count / 3);
        // A turn of 10 leaves 2 to the scope around it.
        assert_eq!(sums[&vec![7, 8, 9]], in_9 * 2 + 12);
        assert_eq!(sums[&vec![7, 8]], in_8 * 2 + 1);
        assert_eq!(sums[&vec![7, 8, 9, 1, 2]], in_9 / 2 * 4);
        assert_eq!(sums.values().sum::<u64>(), count * 10 + 14);
    }

    #[test]
    fn settling_leaves_a_subtree_below_each_open_scope() {
        let count = 60 * MAX_WAITING as u64;
        // The open scopes began a tick before the second turn and before the one in the middle.
        let open = [19, 9 + count / 2 * 10];
        let (mut stacks, mut waiting) = turns(count, |stacks, waiting, now| {
            let known = open.iter().filter(|start| **start < now).count();
            waiting.settle(stacks, now, &open[..known]);
            assert!(waiting.row.len() <= 3 && stacks.nodes.len() <= 20);
        });
        let end = 20 + count * 10;
        for (frame, begin) in [(9, open[1]), (8, open[0])] {
            waiting
                .end(&mut stacks, frame, begin, end - begin, end - begin)
                .unwrap();
        }
        let sums = sums(&mut stacks, waiting);
        assert_eq!(
            (sums[&vec![1]], sums[&vec![1, 2]]),
            (4, 4),
            "the first turn is alone"
        );
        assert_eq!(sums[&vec![8, 9]], (count - count / 2) * 2 + 1 + 10);
        assert_eq!(sums[&vec![8]], (count / 2 - 1) * 2);
        assert_eq!(sums.values().sum::<u64>(), 8 + end - open[0]);
    }

    #[test]
    fn settling_leaves_alone_what_began_when_the_open_scopes_were_listed() {
        let (mut stacks, mut waiting) = (Stacks::default(), PendingSubtrees::default());
        // The last scope begins and ends around the second one, and was not open before.
        waiting.end(&mut stacks, 1, 0, 5, 5).unwrap();
        waiting.end(&mut stacks, 2, 10, 2, 2).unwrap();
        waiting.settle(&mut stacks, 10, &[]);
        waiting.end(&mut stacks, 3, 10, 20, 20).unwrap();
        let expected = [(vec![1], 5), (vec![3], 18), (vec![3, 2], 2)];
        assert_eq!(sums(&mut stacks, waiting), BTreeMap::from(expected));
    }

    /// Subtrees that wait, each a scope around leaves of different frames.
    #[derive(Default)]
    struct Waiting {
        stacks: Stacks<u64>,
        subtrees: PendingSubtrees<u64>,
        count: u64,
    }

    impl Waiting {
        fn of(sizes: impl IntoIterator<Item = usize>) -> Self {
            let mut this = Self::default();
            sizes.into_iter().for_each(|nodes| this.add(nodes));
            this
        }

        fn add(&mut self, nodes: usize) {
            let begin = self.count * 1_000;
            for leaf in 1..nodes as u64 {
                self.subtrees
                    .end(&mut self.stacks, leaf as u32, begin + leaf, 1, 1)
                    .unwrap();
            }
            self.subtrees
                .end(&mut self.stacks, 0, begin, 1_000, 1_000)
                .unwrap();
            self.count += 1;
        }

        /// Returns how many subtrees remain in memory after they were bounded.
        fn bounded(&mut self) -> usize {
            self.subtrees.bound(&mut self.stacks).unwrap();
            assert_eq!(
                self.subtrees.nodes,
                nodes_in_row(&self.stacks, &self.subtrees)
            );
            self.subtrees.row.len()
        }
    }

    #[test]
    fn the_older_half_is_stored_if_more_subtrees_wait_than_allowed() {
        let mut waiting = Waiting::of([1; MAX_WAITING]);
        assert_eq!(waiting.bounded(), MAX_WAITING);
        waiting.add(1);
        assert_eq!(waiting.bounded(), MAX_WAITING / 2);
        let first = waiting.subtrees.row[0].start_ticks;
        assert_eq!(
            first,
            (MAX_WAITING as u64 / 2 + 1) * 1_000,
            "the older half"
        );
    }

    #[test]
    fn older_subtrees_are_stored_if_they_have_more_nodes_than_allowed() {
        // As many nodes as allowed.
        assert_eq!(Waiting::of([MAX_NODES / 32; 32]).bounded(), 32);
        // Halves are stored until at most half of the nodes remain.
        let nodes = MAX_NODES / 40 + 1;
        assert_eq!(Waiting::of([nodes; 40]).bounded(), 10);
        // The newer half has exactly half of the allowed nodes, in the fewest subtrees that may be
        // stored.
        let newer = FEW_WAITING + 1;
        let each = MAX_NODES / 2 / newer;
        let last = MAX_NODES / 2 - (newer - 1) * each;
        let older = std::iter::repeat_n(MAX_NODES / newer, newer);
        let newer_nodes = std::iter::repeat_n(each, newer - 1).chain([last]);
        assert_eq!(Waiting::of(older.chain(newer_nodes)).bounded(), newer);
    }

    #[test]
    fn few_subtrees_stay_in_memory_however_many_nodes_they_have() {
        let nodes = MAX_NODES / FEW_WAITING + 1;
        let mut waiting = Waiting::of([nodes; FEW_WAITING]);
        assert_eq!(waiting.bounded(), FEW_WAITING);
        waiting.add(nodes);
        assert_eq!(waiting.bounded(), FEW_WAITING / 2);
    }

    #[test]
    fn nodes_that_cannot_be_stored_may_double_before_the_next_are_stored() {
        // The few that stay have more than half of the allowed nodes.
        let nodes = MAX_NODES / 2 / FEW_WAITING + 1;
        let mut waiting = Waiting::of([nodes; 2 * FEW_WAITING]);
        assert_eq!(waiting.bounded(), FEW_WAITING);
        for count in FEW_WAITING + 1..=2 * FEW_WAITING {
            waiting.add(nodes);
            assert_eq!(waiting.bounded(), count);
        }
        waiting.add(nodes);
        assert_eq!(waiting.bounded(), FEW_WAITING);
    }

    #[test]
    fn a_share_is_the_part_of_each_number() {
        assert_eq!(100_u64.share(3, 4), 75);
        assert_eq!(10_u64.share(2, 3), 6, "rounded down");
        assert_eq!(u64::MAX.share(1 << 62, 1 << 63), u64::MAX / 2);
        assert_eq!(7_u64.share(9, 5), 7, "no part is more than the whole");
        assert_eq!(7_u64.share(0, 0), 0);
    }

    #[test]
    fn merging_any_depth_uses_no_recursion() {
        let mut stacks = Stacks::default();
        let mut waiting = PendingSubtrees::default();
        let depth = if cfg!(miri) { 100 } else { 200_000 };
        for _ in 0..2 {
            for level in (0..depth).rev() {
                let length = 2 * (depth - level);
                waiting.end(&mut stacks, 1, level, length, length).unwrap();
            }
        }
        let root = stacks.take(NONE);
        waiting.finish(&mut stacks, root).unwrap();
        let mut deepest = 0;
        let visited: Result<(), ()> = stacks.each(root, |path, _| {
            deepest = deepest.max(path.len());
            Ok(())
        });
        visited.unwrap();
        assert!(deepest as u64 >= depth);
    }
}
