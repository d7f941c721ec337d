//! The index that a clean close writes, and declarations applied to a catalog.

use std::sync::Arc;

use super::{MAX_DECLARED_ID, Record};
use crate::catalog::{Catalog, Column};

/// Applies a declaration; see [`Record::declare_into`].
pub(super) fn declare_into(record: &Record, catalog: &mut Catalog) -> bool {
    match record {
        Record::Process(process) => {
            if *catalog.process != *process {
                catalog.process = Arc::new(process.clone());
            }
        }
        Record::Sites { first, sites } => {
            let Some(begin) = first.0.checked_sub(1) else {
                return true;
            };
            fill(&mut catalog.sites, begin, sites, |site| {
                Some(Arc::new(site.clone()))
            });
        }
        Record::Threads { first, threads } => {
            fill(&mut catalog.threads, first.0, threads, |thread| {
                Some(Arc::new(thread.clone()))
            });
        }
        Record::Columns { first, columns } => {
            fill(&mut catalog.columns, *first, columns, Column::clone);
        }
        Record::FrameSets { first, names } => {
            fill(&mut catalog.frame_sets, *first, names, String::clone);
        }
        Record::Clock(sync) => {
            let known = catalog.timeline.syncs().last();
            if known.is_none_or(|last| last.ticks < sync.ticks) {
                Arc::make_mut(&mut catalog.timeline).push(*sync);
            }
        }
        _ => return false,
    }
    true
}

/// Puts `entries` at `begin` and after, with gaps filled by defaults. A table that already says the same is not touched,
/// so that the second of two declarations does not copy what a batch shares.
fn fill<T, E>(table: &mut Arc<Vec<T>>, begin: u32, entries: &[E], make: impl Fn(&E) -> T)
where
    T: Clone + Default + PartialEq,
{
    if u64::from(begin) + entries.len() as u64 > u64::from(MAX_DECLARED_ID) {
        return;
    }
    let begin = begin as usize;
    let same = table
        .get(begin..begin + entries.len())
        .is_some_and(|old| old.iter().zip(entries).all(|(old, entry)| *old == make(entry)));
    if same {
        return;
    }
    let table = Arc::make_mut(table);
    if table.len() < begin + entries.len() {
        table.resize(begin + entries.len(), T::default());
    }
    for (slot, entry) in table[begin..].iter_mut().zip(entries) {
        *slot = make(entry);
    }
}
