//! Futures: a scope that is open while the future is polled, and closed across `.await`, and the task's whole life beside it.
//!
//! Each poll is a span on the thread that polls. The time from the first poll to the end, waiting included, is an
//! [`AsyncSpan`](crate::batch::AsyncSpan): it begins and ends at the very ticks of the first and the last poll, so it costs no clock reading of its own. A
//! future that is dropped before it completes ends with the drop of what it held.
//!
//! A task whose first poll found recording switched off has polls later, but no beginning, and leaves no such span. One that
//! began is recorded when it ends, as an open scope is, though recording may be off by then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::callsite::CallSite;

pin_project! {
    /// A future each of whose polls is a scope. It is `Send` where the inner future is.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ProfiledFuture<F> {
        #[pin]
        inner: F,
        // Behind the inner future, and so dropped after it: what it holds is let go within the task's time.
        task: Task,
    }
}

impl<F> ProfiledFuture<F> {
    /// Wraps a future.
    #[inline]
    pub fn new(site: &'static CallSite, inner: F) -> Self {
        Self {
            inner,
            task: Task::new(site),
        }
    }
}

impl<F: Future> Future for ProfiledFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let inner = this.inner;
        this.task.poll(|| inner.poll(context))
    }
}

#[cfg(not(feature = "off"))]
pub(crate) use on::Task;

#[cfg(feature = "off")]
pub(crate) use off::Task;

#[cfg(not(feature = "off"))]
mod on {
    use std::cell::Cell;
    use std::task::Poll;

    use crate::callsite::CallSite;
    use crate::ring::{SITE_BITS, Special, TAG_SPECIAL, word1};
    use crate::sync::Ordering;
    use crate::sync::global::AtomicU64;
    use crate::{clock, scope, thread};

    /// Ids that a thread takes at once, so that threads share the counter below once in as many tasks.
    const ID_BLOCK: u64 = 1 << 16;

    /// The next block of ids. Any thread takes from it (relaxed): all that counts is that no block is taken twice. Block 0 is not given, so no task has id 0.
    static NEXT_BLOCK: AtomicU64 = AtomicU64::new(1);

    thread_local! {
        /// Id of the next task that ends on this thread; at the begin of a block another one is taken.
        static NEXT_ID: Cell<u64> = const { Cell::new(0) };
    }

    fn new_id() -> u64 {
        let mut id = NEXT_ID.get();
        if id.is_multiple_of(ID_BLOCK) {
            id = NEXT_BLOCK.fetch_add(1, Ordering::Relaxed) * ID_BLOCK;
        }
        NEXT_ID.set(id + 1);
        id
    }

    /// What is known of a task between two polls.
    #[derive(Debug)]
    pub(crate) struct Task {
        site: &'static CallSite,
        stage: Stage,
    }

    #[derive(Clone, Copy, Debug)]
    enum Stage {
        Unpolled,
        /// Polled at least once; its site's id, and when that was.
        Begun {
            site: u32,
            start_ticks: u64,
        },
        /// Recorded, or begun while recording was off.
        Over,
    }

    impl Task {
        #[inline]
        pub(crate) fn new(site: &'static CallSite) -> Self {
            Self {
                site,
                stage: Stage::Unpolled,
            }
        }

        #[inline]
        pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            let scope = scope::open(self.site);
            if matches!(self.stage, Stage::Unpolled) {
                self.stage = match scope.begun() {
                    Some((site, start_ticks)) => Stage::Begun { site, start_ticks },
                    None => Stage::Over,
                };
            }
            let polled = poll();
            let end_ticks = scope.close();
            if polled.is_ready() {
                // The last poll and the task end at the same reading of the clock.
                match end_ticks {
                    Some(end_ticks) => self.end_at(end_ticks),
                    None => self.end(),
                }
            }
            polled
        }

        #[inline]
        fn end(&mut self) {
            if matches!(self.stage, Stage::Begun { .. }) {
                self.end_at(clock::ticks());
            }
        }

        fn end_at(&mut self, end_ticks: u64) {
            if let Stage::Begun { site, start_ticks } = std::mem::replace(&mut self.stage, Stage::Over) {
                let duration_ticks = scope::elapsed_ticks(start_ticks, end_ticks);
                let tag = TAG_SPECIAL | 1 << SITE_BITS | Special::Async as u32;
                let record = [[start_ticks, word1(site, tag)], [new_id(), duration_ticks]];
                match thread::current().or_else(thread::set_up) {
                    Some(state) => {
                        // A record that finds no room is counted by the ring.
                        if !thread::push(state, &record) {
                            state.ring.count_drop();
                        }
                    }
                    None => thread::push_anyhow(&record),
                }
            }
        }
    }

    impl Drop for Task {
        #[inline]
        fn drop(&mut self) {
            self.end();
        }
    }
}

#[cfg(feature = "off")]
mod off {
    use std::task::Poll;

    use crate::callsite::CallSite;

    /// Nothing: the wrapper is a pass-through.
    #[derive(Debug)]
    pub(crate) struct Task;

    impl Task {
        #[inline]
        pub(crate) fn new(_: &'static CallSite) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            poll()
        }
    }
}
