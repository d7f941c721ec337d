//! Flows: values that pass from scope to scope, usually across threads, such as a message through a
//! channel.
//!
//! A flow is a number that the program sends along with the value. The thread records each moment
//! at which the flow passes. Viewers draw arrows between the scopes that were innermost at these
//! moments.

use vor_capture::model::batch::FlowStage;

use crate::clock;
use crate::hot::ring::Special;
use crate::hot::{record_state, task, thread};

/// The id of a flow that has begun. Copy it, and send it along with the value.
///
/// ```
/// # mod vor { pub use vor_recorder::hot::flow::{FlowId, flow}; }
/// let (sender, receiver) = std::sync::mpsc::channel::<(String, vor::FlowId)>();
/// sender.send(("a request".to_owned(), vor::flow())).unwrap();
/// let (request, flow) = receiver.recv().unwrap();
/// flow.end(); // an arrow points from the sender's scope to the one that is open here
/// # drop(request);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId(
    /// 0 if recording was off when the flow began.
    u64,
);

/// Begins a flow in the innermost scope that is open on this thread.
///
/// # Examples
///
/// ```
/// # use vor_recorder::profile_scope;
/// # mod vor { pub use vor_recorder::{hot::flow::{FlowId, flow}, profile_scope}; }
/// let (sender, receiver) = std::sync::mpsc::channel::<(vor::FlowId, &str)>();
/// let worker = std::thread::spawn(move || {
///     for (flow, work) in receiver {
///         vor::profile_scope!("handle");
///         flow.end(); // an arrow from `send` to here
///         // … the work is done …
/// #       let _ = work;
///     }
/// });
/// {
///     vor::profile_scope!("send");
///     sender.send((vor::flow(), "work")).unwrap();
/// }
/// # drop(sender);
/// # worker.join().unwrap();
/// ```
#[inline]
pub fn flow() -> FlowId {
    if cfg!(feature = "off") || !record_state::is_on() {
        return FlowId(0);
    }
    let flow = FlowId(task::new_id());
    flow.pass(FlowStage::Begin);
    flow
}

impl FlowId {
    /// Records that the flow passes through the innermost scope that is open on this thread.
    #[inline]
    pub fn step(self) {
        self.pass(FlowStage::Step);
    }

    /// Ends the flow in the innermost scope that is open on this thread. Viewers show a flow that
    /// never ends up to its last step.
    ///
    /// A value that several scopes receive has a flow that ends in each of them. All these arrows
    /// begin at the last step, or at the begin without one.
    #[inline]
    pub fn end(self) {
        self.pass(FlowStage::End);
    }

    /// Returns the number to send along, 0 if recording was off when the flow began.
    #[cfg(all(feature = "locks", not(loom)))]
    pub(crate) fn number(self) -> u64 {
        self.0
    }

    /// Returns the flow with the number that [`number`](Self::number) returned.
    #[cfg(all(feature = "locks", not(loom)))]
    pub(crate) fn of_number(number: u64) -> Self {
        Self(number)
    }

    fn pass(self, stage: FlowStage) {
        if !cfg!(feature = "off") && self.0 != 0 && record_state::is_on() {
            thread::push_special(Special::Flow, clock::ticks(), stage as u32, [self.0, 0]);
        }
    }
}
