//! Names and numbers by which viewers show processes, threads and frames.

use std::borrow::Cow;

use rustc_hash::FxHashSet;
use vor_capture::model::catalog::{Catalog, ThreadId};

/// Returns the displayed name of a thread: its own, or one made of its number.
#[must_use]
pub fn thread_label(catalog: &Catalog, id: ThreadId) -> Cow<'_, str> {
    match catalog.thread(id) {
        Some(thread) if !thread.name.is_empty() => Cow::Borrowed(&thread.name),
        Some(thread) if thread.os_id != 0 => Cow::Owned(format!("thread {}", thread.os_id)),
        _ => Cow::Owned(format!("thread #{}", id.0)),
    }
}

/// Returns the displayed name of the process.
pub(crate) fn process_label(catalog: &Catalog) -> &str {
    match catalog.process.name.as_str() {
        "" => "process",
        name => name,
    }
}

/// Returns the number of the process. Viewers treat 0 as the idle process.
pub(crate) fn process_number(catalog: &Catalog) -> u32 {
    catalog.process.pid.max(1)
}

/// Returns the name of the frames of a set: `kind`, or `kind of NAME`.
pub(crate) fn frame_label(catalog: &Catalog, frame_set: u32, kind: &str) -> String {
    match catalog
        .frame_sets
        .get(frame_set as usize)
        .map(String::as_str)
    {
        None | Some("") => kind.to_owned(),
        Some(set) => format!("{kind} of {set}"),
    }
}

/// The first of vor's own thread numbers; those of Linux stay below 2^22.
pub(crate) const FIRST_OWN_TID: u32 = 1 << 30;

/// The thread numbers of a trace.
///
/// The operating system reuses the numbers of ended threads, but a track must not show two threads.
#[derive(Debug, Default)]
pub(crate) struct ThreadNumbers {
    used: FxHashSet<u64>,
}

impl ThreadNumbers {
    /// Returns a number that no other thread gets. Called once for each thread.
    pub(crate) fn assign(&mut self, catalog: &Catalog, thread: ThreadId) -> u64 {
        let os_id = catalog.thread(thread).map_or(0, |thread| thread.os_id);
        if os_id != 0 && os_id < u64::from(FIRST_OWN_TID) && self.used.insert(os_id) {
            os_id
        } else {
            u64::from(FIRST_OWN_TID) + u64::from(thread.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::catalog::{ProcessInfo, ThreadInfo};

    use super::*;

    #[test]
    fn what_has_no_name_or_number_gets_one() {
        let mut catalog = filled!(Catalog {
            threads: Arc::new(
                [7, 0]
                    .map(|os_id| Some(Arc::new(filled!(ThreadInfo { os_id }))))
                    .into()
            ),
            frame_sets: Arc::new(vec![String::new(), "physics".into()])
        });
        assert_eq!(process_label(&catalog), "process");
        assert_eq!(process_number(&catalog), 1, "0 is the idle process");
        let labels = [0, 1, 2].map(|id| thread_label(&catalog, ThreadId(id)).into_owned());
        assert_eq!(labels, ["thread 7", "thread #1", "thread #2"]);
        let labels = [0, 1, 2].map(|set| frame_label(&catalog, set, "frames"));
        assert_eq!(labels, ["frames", "frames of physics", "frames"]);
        catalog.process = Arc::new(filled!(ProcessInfo {
            pid: 9,
            name: "program".into()
        }));
        assert_eq!(
            (process_label(&catalog), process_number(&catalog)),
            ("program", 9)
        );
    }

    #[test]
    fn a_reused_thread_number_is_replaced_by_one_of_our_own() {
        let thread = |os_id| Some(Arc::new(filled!(ThreadInfo { os_id })));
        let catalog = filled!(Catalog {
            threads: Arc::new(
                [7, 7, 0, 1 << 40, u64::from(FIRST_OWN_TID)]
                    .map(thread)
                    .into()
            )
        });
        let mut numbers = ThreadNumbers::default();
        let numbers = [0, 1, 2, 3, 4, 9].map(|id| numbers.assign(&catalog, ThreadId(id)));
        let own = |id: u64| u64::from(FIRST_OWN_TID) + id;
        assert_eq!(numbers, [7, own(1), own(2), own(3), own(4), own(9)]);
    }
}
