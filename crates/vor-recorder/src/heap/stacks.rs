//! Numbers stacks of open scopes: a tree whose edges are call sites.
//!
//! Number 0 is the root, without open scopes. Every other number is a scope opened in the stack of
//! another number. A number is never reused, so it is the same stack in every snapshot.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;
use vor_capture::model::catalog::SiteId;

use crate::allocations::live::MAX_STACKS;
use crate::allocations::lock::Lock;
use crate::sync::statics;

struct Stacks {
    /// Parent and site of each stack but the root; stack `n` is at `n - 1`.
    nodes: Vec<(u32, u32)>,
    by_edge: HashMap<(u32, u32), u32, FxBuildHasher>,
}

statics! {
    static STACKS: Lock<Stacks> = Lock::new(Stacks {
        nodes: Vec::new(),
        by_edge: HashMap::with_hasher(FxBuildHasher),
    });
}

/// Returns the number of the stack in which a scope of `site` is open directly in `parent`. Returns
/// `parent` if there are too many stacks or no memory: allocations then count for the outer scope.
pub(super) fn child(parent: u32, site: u32) -> u32 {
    stacks().with(|stacks| stacks.child(parent, site))
}

/// Returns the number of the stack of these sites, outermost first.
pub(super) fn of(sites: impl Iterator<Item = u32>) -> u32 {
    stacks().with(|stacks| sites.fold(0, |parent, site| stacks.child(parent, site)))
}

/// Returns the sites of each of these stacks, outermost first.
pub(super) fn sites(numbers: impl Iterator<Item = u32>) -> Vec<Vec<SiteId>> {
    stacks().with(|stacks| numbers.map(|number| stacks.sites(number)).collect())
}

impl Stacks {
    fn child(&mut self, parent: u32, site: u32) -> u32 {
        if let Some(stack) = self.by_edge.get(&(parent, site)) {
            return *stack;
        }
        let stack = self.nodes.len() + 1;
        if stack >= MAX_STACKS
            || self.nodes.try_reserve(1).is_err()
            || self.by_edge.try_reserve(1).is_err()
        {
            return parent;
        }
        self.nodes.push((parent, site));
        self.by_edge.insert((parent, site), stack as u32);
        stack as u32
    }

    fn sites(&self, mut number: u32) -> Vec<SiteId> {
        let mut sites = Vec::new();
        while let Some((parent, site)) = (number as usize)
            .checked_sub(1)
            .and_then(|index| self.nodes.get(index))
        {
            sites.push(SiteId(*site));
            number = *parent;
        }
        sites.reverse();
        sites
    }
}

/// Returns the tree, and registers its lock to be held across forks.
fn stacks() -> &'static Lock<Stacks> {
    super::hold_locks_across_forks();
    &STACKS
}

#[cfg(unix)]
pub(super) fn take_lock_for_fork() {
    STACKS.take_for_fork();
}

#[cfg(unix)]
pub(super) fn release_lock_after_fork() {
    STACKS.release_after_fork();
}

#[cfg(any(unix, windows))]
pub(super) fn is_open() -> bool {
    STACKS.is_open()
}
