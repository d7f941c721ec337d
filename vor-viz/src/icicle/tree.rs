//! Stacks, merged into a tree.
//!
//! A node is a stack: its key is the innermost element, and its ancestors are those around it.
//! Nodes are stored in the order of their first occurrence, a parent before its children, and are
//! linked by index. There are at most [`MAX_NODES`]. Spans of further stacks, with all inside
//! them, are only counted.

use std::hash::Hash;

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};

use crate::scopes::Gather;
use crate::store::{Extent, Span, SpanPart, SpanVisitor, TrackKind};

/// Maximum number of stacks in a tree.
pub const MAX_NODES: usize = 200_000;

/// No node.
pub const NONE: u32 = u32::MAX;

/// The root, which contains all other nodes. Its key has no meaning.
pub const ROOT: u32 = 0;

/// The sums of a stack.
pub trait Weight: Clone + Default {
    /// Returns the width of a box; at least the sum of the children's widths.
    fn weight(&self) -> f64;
}

/// A stack.
#[derive(Clone, Debug)]
pub struct Node<K, W> {
    /// The innermost element of the stack.
    pub key: K,
    /// The stack without its innermost element.
    pub parent: u32,
    first_child: u32,
    next: u32,
    /// The child of the last lookup, a likely target of the next one.
    latest: u32,
    /// Its sums.
    pub sums: W,
}

/// Stacks, merged by common prefixes.
#[derive(Clone, Debug)]
pub struct Tree<K, W> {
    nodes: Vec<Node<K, W>>,
    by_key: FxHashMap<(u32, K), u32>,
}

impl<K: Copy + Default + Eq + Hash, W: Weight> Default for Tree<K, W> {
    fn default() -> Self {
        let root = Node {
            key: K::default(),
            parent: NONE,
            first_child: NONE,
            next: NONE,
            latest: NONE,
            sums: W::default(),
        };
        Self {
            nodes: vec![root],
            by_key: FxHashMap::default(),
        }
    }
}

impl<K: Copy + Eq + Hash, W: Weight> Tree<K, W> {
    /// Returns the nodes; the first is the root.
    #[must_use]
    pub fn nodes(&self) -> &[Node<K, W>] {
        &self.nodes
    }

    /// Returns a node.
    #[must_use]
    pub fn node(&self, node: u32) -> Option<&Node<K, W>> {
        self.nodes.get(node as usize)
    }

    /// Returns the sums of a node.
    pub fn sums_mut(&mut self, node: u32) -> Option<&mut W> {
        self.nodes.get_mut(node as usize).map(|node| &mut node.sums)
    }

    /// Returns the children of a node.
    pub fn children(&self, node: u32) -> impl Iterator<Item = u32> {
        let mut next = self.node(node).map_or(NONE, |node| node.first_child);
        std::iter::from_fn(move || {
            let child = next;
            next = self.node(child)?.next;
            Some(child)
        })
    }

    /// Returns the child of a node with a key.
    #[must_use]
    pub fn find(&self, parent: u32, key: K) -> Option<u32> {
        self.by_key.get(&(parent, key)).copied()
    }

    /// Returns the keys from below the root down to a node.
    #[must_use]
    pub fn path(&self, node: u32) -> Vec<K> {
        let mut path: Vec<K> = self
            .upwards(node)
            .filter_map(|at| Some(self.node(at)?.key))
            .collect();
        path.reverse();
        path
    }

    /// Returns a node and its ancestors, without the root.
    pub fn upwards(&self, node: u32) -> impl Iterator<Item = u32> {
        let exists = |node: u32| (node != ROOT && self.node(node).is_some()).then_some(node);
        std::iter::successors(exists(node), move |&node| exists(self.node(node)?.parent))
    }

    /// Returns the node at the end of a path of keys, as far as the path exists.
    #[must_use]
    pub fn follow(&self, path: &[K]) -> u32 {
        let mut at = ROOT;
        for &key in path {
            match self.find(at, key) {
                Some(child) => at = child,
                None => break,
            }
        }
        at
    }

    /// Returns the child of a node with a key, and creates it if needed; [`NONE`] if the tree is
    /// full.
    #[inline]
    pub fn child(&mut self, parent: u32, key: K) -> u32 {
        let Some(above) = self.nodes.get(parent as usize) else {
            return NONE;
        };
        if let Some(latest) = self.nodes.get(above.latest as usize)
            && latest.key == key
        {
            return above.latest;
        }
        self.other_child(parent, key)
    }

    fn other_child(&mut self, parent: u32, key: K) -> u32 {
        let known = self.by_key.get(&(parent, key)).copied();
        let child = known.unwrap_or(self.nodes.len() as u32);
        if known.is_none() {
            if self.nodes.len() > MAX_NODES {
                return NONE;
            }
            self.by_key.insert((parent, key), child);
            let next = self.nodes[parent as usize].first_child;
            self.nodes.push(Node {
                key,
                parent,
                first_child: NONE,
                next,
                latest: NONE,
                sums: W::default(),
            });
            self.nodes[parent as usize].first_child = child;
        }
        self.nodes[parent as usize].latest = child;
        child
    }

    /// Sorts the children of up to `most` nodes from `from` on, the widest first. Returns whether
    /// further nodes follow.
    pub fn put_in_order(&mut self, from: usize, most: usize) -> bool {
        let to = from.saturating_add(most).min(self.nodes.len());
        let mut children: Vec<u32> = Vec::new();
        for parent in from..to {
            children.clear();
            let of = self.children(parent as u32);
            children.extend(of);
            if children.len() < 2 {
                continue;
            }
            let weight = |child: u32| self.nodes[child as usize].sums.weight();
            // Among equally wide children, the first one seen comes first.
            children.sort_by(|&a, &b| weight(b).total_cmp(&weight(a)).then(a.cmp(&b)));
            self.nodes[parent].first_child = children[0];
            for (i, &child) in children.iter().enumerate() {
                self.nodes[child as usize].next = children.get(i + 1).copied().unwrap_or(NONE);
            }
        }
        to < self.nodes.len()
    }
}

/// The innermost element of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackKey {
    /// A thread, the parent of its scopes.
    Thread(ThreadId),
    /// A scope.
    Scope(SiteId),
}

impl Default for StackKey {
    fn default() -> Self {
        Self::Scope(SiteId(0))
    }
}

/// Sums over the spans of a stack; for a thread, over its outermost spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackSums {
    /// Number of spans.
    pub count: u64,
    /// Total of their measured parts, in nanoseconds.
    pub total_ns: u64,
    /// Total of their measured parts without those of the spans directly inside, in nanoseconds; 0
    /// for a thread.
    pub self_ns: u64,
    /// Sum of their durations, in nanoseconds.
    pub durations_ns: u64,
}

impl StackSums {
    fn add(&mut self, span: &Span, part: SpanPart) {
        self.count += 1;
        // A damaged capture may contain durations of centuries.
        self.total_ns = self.total_ns.saturating_add(part.ns);
        self.self_ns = self.self_ns.saturating_add(part.self_ns());
        self.durations_ns = self.durations_ns.saturating_add(span.duration_ns);
    }

    /// Returns the mean duration in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.durations_ns as f64 / self.count.max(1) as f64
    }
}

impl Weight for StackSums {
    fn weight(&self) -> f64 {
        self.total_ns as f64
    }
}

/// Options for merging stacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StackOptions {
    /// Whether stacks of different threads stay separate.
    pub by_thread: bool,
    /// Which spans the stacks contain, and how much of each counts.
    pub extent: Extent,
}

/// The stacks of some frames.
#[derive(Clone, Debug, Default)]
pub struct Stacks {
    /// The tree. Its root holds the sums over all stacks.
    pub tree: Tree<StackKey, StackSums>,
    /// Spans that are not in the tree because it is full.
    pub hidden_spans: u64,
    /// Number of frames.
    pub frames: usize,
    /// Total duration of the frames, in nanoseconds.
    pub time_ns: u64,
    /// The node of each open span during the walk.
    open: Vec<u32>,
    /// The parent node of the current thread's scopes.
    base: u32,
    by_thread: bool,
    ordered: usize,
}

impl SpanVisitor for Stacks {
    #[inline]
    fn enter(&mut self, span: &Span, depth: usize) {
        self.open.truncate(depth);
        let parent = self.open.last().copied().unwrap_or(self.base);
        let node = self.tree.child(parent, StackKey::Scope(span.site));
        self.open.push(node);
    }

    #[inline]
    fn leave(&mut self, span: &Span, depth: usize, part: SpanPart) {
        let node = self.open.get(depth).copied().unwrap_or(NONE);
        match self.tree.sums_mut(node) {
            Some(sums) => sums.add(span, part),
            None => self.hidden_spans += 1,
        }
        if depth == 0 {
            // The root and the thread's node hold the sums of the spans directly below them.
            let outermost = SpanPart {
                inside_ns: part.ns,
                ..part
            };
            if self.base != ROOT
                && let Some(sums) = self.tree.sums_mut(self.base)
            {
                sums.add(span, outermost);
            }
            if let Some(sums) = self.tree.sums_mut(ROOT) {
                sums.add(span, outermost);
            }
        }
    }
}

impl Gather for Stacks {
    type Options = StackOptions;
    type Output = Self;

    fn extent(options: &StackOptions) -> Extent {
        options.extent
    }

    fn new(options: &StackOptions) -> Self {
        Self {
            by_thread: options.by_thread,
            ..Self::default()
        }
    }

    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool {
        self.open.clear();
        // Tasks overlap, so their durations cannot be added up.
        if kind == TrackKind::Tasks {
            return false;
        }
        self.base = ROOT;
        if self.by_thread {
            self.base = self.tree.child(ROOT, StackKey::Thread(thread));
        }
        true
    }

    fn extra_cost(&self) -> usize {
        // A node costs a push and a map entry.
        self.tree.nodes().len() * 5
    }

    fn settle(&mut self, _: &Catalog, most: usize) -> bool {
        let from = self.ordered;
        self.ordered = from.saturating_add(most);
        self.tree.put_in_order(from, most)
    }

    fn finish(mut self, frames: usize, time_ns: u64) -> Self {
        self.frames = frames;
        self.time_ns = time_ns;
        self
    }
}
