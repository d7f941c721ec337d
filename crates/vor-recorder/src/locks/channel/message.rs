//! A message on its way: the value, and the flow that began where it was sent, if the channel has
//! flows.

use std::fmt;

use crate::hot::flow::{FlowId, flow};

/// A message in a channel, which an end of the channel makes and opens.
///
/// A message without a flow is as large as its value.
pub struct Message<T, F = Untracked> {
    value: T,
    flow: F,
}

/// Whether the messages of a channel have flows: [`Untracked`] or [`Tracked`].
pub trait Track: private::Track {}

/// The messages of a channel have no flows.
#[derive(Clone, Copy, Debug)]
pub struct Untracked;

/// Each message of a channel has a flow: an arrow from the scope that sends it to the one that
/// receives it.
#[derive(Clone, Copy, Debug)]
pub struct Tracked(FlowId);

mod private {
    pub trait Track: Copy {
        /// Begins a flow in the scope that is open on this thread.
        fn begin() -> Self;
        /// The flow passes through the scope that is open on this thread.
        fn step(self);
        /// Ends the flow in the scope that is open on this thread.
        fn end(self);
    }
}

impl Track for Untracked {}
impl Track for Tracked {}

impl private::Track for Untracked {
    #[inline(always)]
    fn begin() -> Self {
        Self
    }

    #[inline(always)]
    fn step(self) {}

    #[inline(always)]
    fn end(self) {}
}

impl private::Track for Tracked {
    #[inline]
    fn begin() -> Self {
        Self(flow())
    }

    #[inline]
    fn step(self) {
        self.0.step();
    }

    #[inline]
    fn end(self) {
        self.0.end();
    }
}

impl<T, F: Track> Message<T, F> {
    /// Makes a message that this thread is about to send.
    #[inline(always)]
    pub(in crate::locks) fn new(value: T) -> Self {
        let flow = F::begin();
        Self { value, flow }
    }

    /// The message ends the wait whose scope is open on this thread.
    pub(in crate::locks) fn end_wait(&self) {
        self.flow.step();
    }

    /// The message ends the wait whose scope or task is polled on this thread, and goes to other
    /// receivers too. So the arrow ends here, and theirs do not begin here.
    #[cfg(feature = "tokio")]
    pub(in crate::locks) fn end_one_wait(&self) {
        self.flow.end();
    }

    /// Returns the value of a message that this thread has received.
    #[inline(always)]
    pub(in crate::locks) fn receive(self) -> T {
        self.flow.end();
        self.value
    }
}

impl<T, F> Message<T, F> {
    /// Returns the value, without a trace of it in the channel. For a message that was not sent.
    #[inline(always)]
    pub fn into_inner(self) -> T {
        self.value
    }
}

/// For channels whose receivers all get each message.
impl<T: Clone, F: Copy> Clone for Message<T, F> {
    fn clone(&self) -> Self {
        Self {
            value: self.value.clone(),
            flow: self.flow,
        }
    }
}

impl<T, F> fmt::Debug for Message<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").finish_non_exhaustive()
    }
}
