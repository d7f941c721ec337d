//! A thread that holds a lock, as a thread that waits for the lock sees it.

use std::sync::Arc;

use vor_capture::model::catalog::{SiteId, ThreadId, ThreadInfo};

use super::current::ThreadToken;
use super::list::threads;
use super::state::Innermost;
use super::while_busy;

/// The thread that holds a lock.
#[derive(Clone, Debug)]
#[cfg_attr(loom, allow(dead_code, reason = "the models read no names"))]
pub(crate) enum Holder {
    /// A thread of the program.
    Thread {
        id: ThreadId,
        info: Arc<ThreadInfo>,
        innermost: Innermost,
    },
    /// A thread inside vor, or one of vor's own.
    Vor,
    /// A thread that has recorded nothing, or that has ended.
    Unknown,
}

/// Returns the thread with this token, and its innermost scope at a moment at which `holds`
/// returned `true`. `holds` loads the word of a lock with acquire, which the thread stored with
/// release. A scope of the site `except` is skipped: the wait by which the thread got the lock.
///
/// The list of threads is locked meanwhile, so no other thread gets the state of this one.
pub(crate) fn read_holder(token: ThreadToken, except: SiteId, holds: impl Fn() -> bool) -> Holder {
    if token.is_inside_vor() {
        return Holder::Vor;
    }
    while_busy(|| {
        let threads = threads();
        let mut live = threads.live.iter();
        let Some(state) = live.find(|state| token.is_of(state.as_ptr())) else {
            return Holder::Unknown;
        };
        let innermost = state.innermost_while(except, holds);
        let id = state.id();
        match threads.infos.get(id.0 as usize) {
            Some(info) => Holder::Thread {
                id,
                info: Arc::clone(info),
                innermost,
            },
            None => Holder::Unknown,
        }
    })
}
