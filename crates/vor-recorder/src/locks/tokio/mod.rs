//! The locks and channels of `tokio::sync` that record who waited for what.
//!
//! Each has a name and one of tokio's inside, so it is as fair and as cooperative. A free lock is
//! taken at once; otherwise a future of tokio is polled. A future that waits holds no thread, so
//! its wait is a task and not a scope:
//!
//! ```text
//! try ── free ─▶ holder = innermost scope of the thread
//! poll ─ ready ─▶ the same
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
//! | `reads` | since when tasks read locks |
//! | `unread` | the depth of a channel whose receivers all get each message |
//! | `mutex`, `rwlock` | the locks |
//! | `once_cell` | an initialisation, whose task is the holder |
//! | `semaphore`, `notify`, `barrier` | waits without a holder |
//! | `mpsc`, `oneshot`, `broadcast`, `watch` | channels |

mod waited;
mod held;
mod reads;
mod unread;
pub mod mutex;
pub mod rwlock;
pub mod once_cell;
pub mod semaphore;
pub mod notify;
pub mod barrier;
pub mod mpsc;
pub mod oneshot;
pub mod broadcast;
pub mod watch;
