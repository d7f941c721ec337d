//! Futures: one scope per poll, and one asynchronous span for the task's whole life. The scope is
//! closed across `.await`.
//!
//! Each poll is a span on the polling thread, and an event of the task. The time from the first
//! poll to the end, waiting included, is an [`AsyncSpan`](vor_capture::model::batch::AsyncSpan). It
//! begins and ends at the ticks of the first and the last poll, so it needs no clock reading of its
//! own. A future that is dropped before it completes ends when its values have been dropped.
//!
//! A task whose first poll found recording off has no start, and so no such span, even if later
//! polls are recorded. A task that started is recorded when it ends, even if recording is off by
//! then. Open scopes behave the same.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::hot::callsite::CallSite;

/// Profiles a future where it is used.
///
/// ```
/// # mod vor { pub use vor_recorder::hot::future::ProfileFuture; }
/// use vor::ProfileFuture as _;
///
/// let answer = async { 42 }.profiled("answer"); // a task, once it is polled
/// # drop(answer);
/// ```
pub trait ProfileFuture: Future + Sized {
    /// Records each poll of the future as a scope, and its whole life as an asynchronous span.
    /// `#[profile]` does the same for an `async fn`.
    ///
    /// A name that this thread has used before costs one look-up in the thread's cache per future.
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
    /// A future whose polls are scopes. It is `Send` if the inner future is.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ProfiledFuture<F> {
        #[pin]
        inner: F,
        // Declared after the inner future, so it is dropped after it: dropping the values is part
        // of the task's time.
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

    /// The state of a task between two polls.
    #[derive(Debug)]
    pub(crate) struct Task {
        place: Place,
        stage: Stage,
    }

    /// The name of the future's scopes.
    #[derive(Clone, Copy, Debug)]
    enum Place {
        Site(&'static CallSite),
        /// A name made at run time, by its id.
        Name(u32),
    }

    #[derive(Clone, Copy, Debug)]
    enum Stage {
        Unpolled,
        /// Polled at least once: the site's id, the start of the first poll, and the task's id.
        Running {
            site: u32,
            start_ticks: u64,
            id: u64,
        },
        /// Recorded, or first polled while recording was off.
        Done,
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
            Self::of_name_id(scope::name_id(name))
        }

        /// Makes the task of a name, by the id that [`scope::name_id`] returned.
        pub(crate) fn of_name_id(id: u32) -> Self {
            Self {
                place: Place::Name(id),
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
            self.poll_in(scope, |_| poll(), |scope, _| scope.close())
        }

        /// Polls within a scope that the caller opened. `poll` receives the task's id, unless
        /// nothing is being recorded. `close` closes the scope and returns its end in ticks.
        #[inline]
        pub(crate) fn poll_in<const ARGS: usize, T>(
            &mut self,
            scope: Scope<ARGS>,
            poll: impl FnOnce(Option<u64>) -> Poll<T>,
            close: impl FnOnce(Scope<ARGS>, &Poll<T>) -> Option<u64>,
        ) -> Poll<T> {
            let start = scope.start();
            if matches!(self.stage, Stage::Unpolled) {
                self.stage = match start {
                    Some((site, start_ticks)) => Stage::Running {
                        site,
                        start_ticks,
                        id: task::new_id(),
                    },
                    None => Stage::Done,
                };
            }
            let polled = poll(self.id());
            let end_ticks = close(scope, &polled);
            if let (Some((_, start_ticks)), Some(end_ticks)) = (start, end_ticks) {
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

        /// Returns the task's id between its first poll and its end.
        #[inline]
        pub(crate) fn id(&self) -> Option<u64> {
            match self.stage {
                Stage::Running { id, .. } => Some(id),
                Stage::Unpolled | Stage::Done => None,
            }
        }

        fn push_poll(&self, start_ticks: u64, end_ticks: u64) {
            if let Stage::Running { site, id, .. } = self.stage {
                let duration_ticks = scope::elapsed_ticks(start_ticks, end_ticks);
                thread::push_special(Special::Poll, start_ticks, site, [id, duration_ticks]);
            }
        }

        #[inline]
        fn end(&mut self) {
            if matches!(self.stage, Stage::Running { .. }) {
                self.end_at(clock::ticks());
            }
        }

        fn end_at(&mut self, end_ticks: u64) {
            if let Stage::Running {
                site,
                start_ticks,
                id,
            } = std::mem::replace(&mut self.stage, Stage::Done)
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
    use crate::hot::scope::Scope;

    /// Without state: the wrapper is a pass-through.
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

        pub(crate) fn of_name_id(_: u32) -> Self {
            Self
        }

        #[inline]
        pub(crate) fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<T>) -> Poll<T> {
            poll()
        }

        #[inline]
        pub(crate) fn poll_in<const ARGS: usize, T>(
            &mut self,
            _: Scope<ARGS>,
            poll: impl FnOnce(Option<u64>) -> Poll<T>,
            _: impl FnOnce(Scope<ARGS>, &Poll<T>) -> Option<u64>,
        ) -> Poll<T> {
            poll(None)
        }

        #[inline]
        pub(crate) fn id(&self) -> Option<u64> {
            None
        }
    }
}
