//! The locks and channels of `tokio::sync` that record who waited for what.
//!
//! Each is one of tokio's with a name beside it, and polls the futures of tokio, so it is as fair
//! and as cooperative as they are. A future that waits holds no thread, so its wait is a task and
//! not a scope:
//!
//! ```text
//! poll ─ ready ─▶ holder = innermost scope of the thread
//!      └ pending ─▶ begin the task `wait: NAME`, a step with the holder ── … ── poll ─ ready ─▶
//!                   end the flow ── end the task ── holder = innermost scope
//! drop while pending ─▶ step `cancelled` ── end the task
//! unlock ─ waiters > 0? begin a flow ── holder = none ── unlock
//! ```
//!
//! A task may lock on one thread and unlock on another, so the holder of a lock is not a thread. It
//! is the scope in which the lock was taken, which is the poll of a named future or a scope inside
//! it.
//!
//! | module | holds |
//! |---|---|
//! | `waited` | a future whose wait is a task |
//! | `held` | the name, the holder and the waiters of a lock |
//! | `mutex`, `rwlock` | the locks |
//! | `semaphore`, `notify` | waits without a holder |
//! | `mpsc`, `oneshot`, `broadcast`, `watch` | channels |

mod waited;
mod held;
pub mod mutex;
pub mod rwlock;
pub mod semaphore;
pub mod notify;
pub mod mpsc;
pub mod oneshot;
pub mod broadcast;
pub mod watch;
