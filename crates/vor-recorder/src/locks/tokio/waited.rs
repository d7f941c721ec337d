//! A future whose wait is a task.
//!
//! The first poll that is pending begins the task, unless the task of the runtime has only used up
//! its budget: then it waits for nothing. The last poll, or the drop of the future, ends it.
//!
//! A future of tokio takes longer to make, to wrap and to drop than to poll. So what need not wait
//! is taken without one. It spends of the budget what the future would ([`spend_budget`]).

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

use ::tokio::task::coop;
pub(super) use ::tokio::task::coop::{consume_budget as spend_budget, has_budget_remaining};
use pin_project_lite::pin_project;
use vor_capture::model::catalog::SiteId;

use crate::hot::named_site::{NamedSite, ValueName};
use crate::hot::task::AsyncScope;
use crate::hot::{record_state, thread};

/// Returns the result of one poll, also if that is pending.
#[inline(always)]
pub(super) async fn poll_once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll_fn(|context| Poll::Ready(poll(context))).await
}

/// Polls until there is a result. `poll` is told whether the wait has begun, which then ends after
/// it.
#[inline(always)]
pub(super) fn poll_waiting<T>(
    awaited: impl Awaited,
    mut poll: impl FnMut(&mut Context<'_>, bool) -> Poll<T>,
) -> impl Future<Output = T> {
    let mut wait = Wait::new(awaited);
    poll_fn(move |context| {
        let polled = poll(context, wait.has_begun());
        wait.polled(polled.is_ready());
        polled
    })
}

/// The last step of a wait whose future was dropped.
const CANCELLED: &str = "cancelled";

/// Something that futures wait for.
pub(super) trait Awaited {
    /// Returns the site of the waits.
    fn site(&self) -> SiteId;

    /// A wait has begun.
    fn begun(&self, _wait: &AsyncScope) {}

    /// A wait is over, because what it waited for has come.
    fn done(&self) {}

    /// A wait is over, because its future was dropped.
    fn cancelled(&self) {}
}

/// Something without a holder.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unheld<'a> {
    pub(super) site: &'a NamedSite,
    pub(super) name: ValueName,
}

impl Awaited for Unheld<'_> {
    fn site(&self) -> SiteId {
        self.site.id(self.name)
    }
}

/// The wait of a future, which may not have begun.
#[derive(Debug)]
pub(super) struct Wait<A: Awaited> {
    awaited: A,
    task: Option<AsyncScope>,
}

impl<A: Awaited> Wait<A> {
    pub(super) const fn new(awaited: A) -> Self {
        Self {
            awaited,
            task: None,
        }
    }

    pub(super) fn awaited(&self) -> &A {
        &self.awaited
    }

    /// Returns whether a poll was pending.
    pub(super) fn has_begun(&self) -> bool {
        self.task.is_some()
    }

    /// Begins or ends the wait after a poll.
    #[inline(always)]
    pub(super) fn polled(&mut self, is_ready: bool) {
        if cfg!(feature = "off") {
            return;
        }
        match (is_ready, &self.task) {
            (false, None) => self.begin(),
            (true, Some(_)) => self.end(),
            (false, Some(_)) | (true, None) => {}
        }
    }

    #[cold]
    #[inline(never)]
    fn begin(&mut self) {
        if !record_state::is_on() || !coop::has_budget_remaining() || thread::drop_if_busy() {
            return;
        }
        let task = AsyncScope::begin(self.awaited.site().0, 0);
        self.awaited.begun(&task);
        self.task = Some(task);
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        self.awaited.done();
        self.task = None;
    }
}

impl<A: Awaited> Drop for Wait<A> {
    fn drop(&mut self) {
        if let Some(task) = self.task.take() {
            self.awaited.cancelled();
            task.step(CANCELLED);
        }
    }
}

pin_project! {
    /// A future of tokio and its wait. Callers pin the future first, because moving it costs as
    /// much as polling it.
    #[derive(Debug)]
    pub(super) struct Waited<F, A: Awaited> {
        #[pin]
        inner: F,
        wait: Wait<A>,
    }
}

impl<F, A: Awaited> Waited<F, A> {
    pub(super) const fn new(inner: F, awaited: A) -> Self {
        Self {
            inner,
            wait: Wait::new(awaited),
        }
    }

    pub(super) fn inner_mut(self: Pin<&mut Self>) -> Pin<&mut F> {
        self.project().inner
    }
}

impl<F: Future, A: Awaited> Future for Waited<F, A> {
    type Output = F::Output;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let polled = this.inner.poll(context);
        this.wait.polled(polled.is_ready());
        polled
    }
}
