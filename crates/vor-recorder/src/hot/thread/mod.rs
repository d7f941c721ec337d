//! Threads: the state that each one records into, and its lifecycle.
//!
//! A thread's first scope sets up its `ThreadState`: a ring, and the stack of its open scopes. The
//! thread accesses it through a pointer (`current`). At the thread's end, the worker takes the
//! state, collects the last records, and passes the memory to the next thread (`list`).
//!
//! | module | holds |
//! |---|---|
//! | `state` | the state: ring, stack of open scopes, and the protocol with signal handlers |
//! | `state_box` | the memory of a state |
//! | `current` | the calling thread's pointer to its state, or to a stand-in where it has none |
//! | `list` | the states of all threads |
//! | `push` | records of any size, and records of threads without a state |
//! | `counted` | sums of scopes that are counted and not recorded |
//! | `usage`, `open_scopes` | reads by other threads: resource usage, open scopes |
//! | `holder` | reads by a thread that waits for a lock: the innermost scope of its holder |

mod state;
mod state_box;
mod current;
mod list;
mod push;
mod once_box;
mod counted;
mod counter_block;
mod usage;
mod open_scopes;
#[cfg(feature = "locks")]
mod holder;
mod os_id;
#[cfg(all(test, loom))]
mod models;

pub(crate) use counted::{LAST_SITE, SiteSums, read_counted};
pub(crate) use counted::{
    begin_counting, bound_of, count, count_skipped, count_without_state, take_sample,
};
#[cfg(unix)]
pub(crate) use counted::{forget_counted, lock_counted_for_fork};
pub(crate) use counter_block::{BLOCK_COUNTERS, CounterBlock};
#[cfg(windows)]
pub(crate) use current::abandon_state;
#[cfg(all(test, loom))]
pub(crate) use current::end_thread;
#[cfg(all(feature = "tracing", not(feature = "off")))]
pub(crate) use current::while_silent;
#[cfg(unix)]
pub(crate) use current::{OwnOpen, forget_current, own_open};
#[cfg(feature = "locks")]
pub(crate) use current::{ThreadToken, own_token};
pub(crate) use current::{
    current, hot, is_busy, is_silent, set_up, while_busy, while_recording, with_state,
};
pub use current::{name_threads_by, stay_silent};
#[cfg(feature = "locks")]
pub(crate) use holder::{Holder, read_holder};
#[cfg(any(unix, windows))]
pub(crate) use list::is_open;
pub(crate) use list::{declare_new, own_name, reclaim, set_ring_slots, take_added};
#[cfg(unix)]
pub(crate) use list::{forget_all, lock_for_fork, try_each_open, try_lock};
#[cfg(feature = "shared-memory")]
pub(crate) use list::{lock_list, take_spare};
pub(crate) use once_box::OnceBox;
pub(crate) use open_scopes::open_scopes_at_end;
pub use open_scopes::{OpenScope, OpenThread, open_scopes};
pub(crate) use os_id::os_id;
pub(crate) use push::{count_drop, drop_if_busy, take_lost};
#[cfg(feature = "tracing-subscriber")]
pub(crate) use push::{kept_until, push_kept_text};
pub(crate) use push::{push_message, push_record, push_special, push_text, push_without_state};
#[cfg(feature = "locks")]
pub(crate) use state::Innermost;
pub use state::MAX_OPEN;
pub(crate) use state::ThreadState;
pub(crate) use state_box::StateBox;
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
pub(crate) use usage::{Usage, usages};
