//! Futures: a scope that is open while the future is polled, and closed across `.await`, and the
//! task's whole life beside it.
//!
//! Each poll is a span on the thread that polls, and an event of the task. The time from the first
//! poll to the end, waiting included, is an [`AsyncSpan`](vor_capture::model::batch::AsyncSpan):
//! it begins and ends at the very ticks of the first and the last poll, so it costs no clock
//! reading of its own.
//! A future that is dropped before it completes ends with the drop of what it held.
//!
//! A task whose first poll found recording switched off has polls later, but no beginning, and
//! leaves no such span. One that began is recorded when it ends, as an open scope is, though
//! recording may be off by then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::hot::callsite::CallSite;

/// Profiles a future where it is used.
pub trait ProfileFuture: Future + Sized {
    /// Makes each poll of the future a scope, and its whole life an asynchronous span, as
    /// `#[profile]` does for an `async fn`.
    ///
    /// A name that this thread has used before costs a look-up in its own cache, once per future.
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub use vor_recorder::hot::future::ProfileFuture; }
    /// use vor::ProfileFuture as _;
    ///
    /// # fn block_on(_: impl Future) {}
    /// block_on(async { 6 * 7 }.profiled("answer"));
    /// ```
    fn profiled(self, name: &str) -> ProfiledFuture<Self> {
        ProfiledFuture {
            inner: self,
            task: Task::named(name),
        }
    }
}

impl<F: Future> ProfileFuture for F {}

pin_project! {
    /// A future each of whose polls is a scope. It is `Send` where the inner future is.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ProfiledFuture<F> {
        #[pin]
        inner: F,
        // Behind the inner future, and so dropped after it: what it holds is let go within the
        // task's time.
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
    use std::task::Poll;

    use crate::clock;
    use crate::hot::callsite::CallSite;
    use crate::hot::ring::Special;
    use crate::hot::scope::{self, Scope};
    use crate::hot::{task, thread};

    /// What is known of a task between two polls.
    #[derive(Debug)]
    pub(crate) struct Task {
        place: Place,
        stage: Stage,
    }

    /// Where the future stands in the source.
    #[derive(Clone, Copy, Debug)]
    enum Place {
        Site(&'static CallSite),
        /// A name made at run time, by its id.
        Name(u32),
    }

    #[derive(Clone, Copy, Debug)]
    enum Stage {
        Unpolled,
        /// Polled at least once; its site's id, when that was, and its own id.
        Begun {
            site: u32,
            start_ticks: u64,
            id: u64,
        },
        /// Recorded, or begun while recording was off.
        Over,
    }

    impl Task {
        #[inline]
        pub(crate) fn new(site: &'static CallSite) -> Self {
            Self {
                place: Place::Site(site),
                stage: Stage::Unpolled,
            }
        }

        pub(crate) fn named(name: &str) -> Self {
            Self {
                place: Place::Name(scope::name_id(name)),
                stage: Stage::Unpolled,
            }
        }

        #[inline]
        fn open(&self) -> Scope {
            match self.place {
                Place::Site(site) => scope::open(site),
                Place::Name(id) => scope::open_named(id),
            }
        }

        #[inline]
        pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            let scope = self.open();
            let begun = scope.begun();
            if matches!(self.stage, Stage::Unpolled) {
                self.stage = match begun {
                    Some((site, start_ticks)) => Stage::Begun {
                        site,
                        start_ticks,
                        id: task::new_id(),
                    },
                    None => Stage::Over,
                };
            }
            let polled = poll();
            let end_ticks = scope.close();
            if let (Some((_, start_ticks)), Some(end_ticks)) = (begun, end_ticks) {
                self.push_poll(start_ticks, end_ticks);
            }
            if polled.is_ready() {
                // The last poll and the task end at the same reading of the clock.
                match end_ticks {
                    Some(end_ticks) => self.end_at(end_ticks),
                    None => self.end(),
                }
            }
            polled
        }

        fn push_poll(&self, start_ticks: u64, end_ticks: u64) {
            if let Stage::Begun { site, id, .. } = self.stage {
                let duration_ticks = scope::elapsed_ticks(start_ticks, end_ticks);
                thread::push_special(Special::Poll, start_ticks, site, [id, duration_ticks]);
            }
        }

        #[inline]
        fn end(&mut self) {
            if matches!(self.stage, Stage::Begun { .. }) {
                self.end_at(clock::ticks());
            }
        }

        fn end_at(&mut self, end_ticks: u64) {
            if let Stage::Begun {
                site,
                start_ticks,
                id,
            } = std::mem::replace(&mut self.stage, Stage::Over)
            {
                task::push_task(site, id, start_ticks, end_ticks);
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

    use crate::hot::callsite::CallSite;

    /// Nothing: the wrapper is a pass-through.
    #[derive(Debug)]
    pub(crate) struct Task;

    impl Task {
        #[inline]
        pub(crate) fn new(_: &'static CallSite) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn named(_: &str) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            poll()
        }
    }
}
