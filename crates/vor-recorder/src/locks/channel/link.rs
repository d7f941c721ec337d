//! The parts of a channel beside the channel below: its name, its depth, the sites of its waits.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Weak};

use super::depth::{Alone, Depth, Received};
use crate::hot::named_site::{NamedSite, ValueName};
use crate::hot::scope::Scope;
use crate::locks::blocked::{TO_RECEIVE, TO_SEND, begin_wait};
use crate::metrics::{self, Gauge, GaugeRegistration, LastCount};
use crate::sync::Ordering;

/// How often a receiver looks for a message before it waits: some hundred nanoseconds.
const LOOKS: u32 = 4;

/// The parts that the ends of a channel share. `R` counts the messages that were received.
#[derive(Debug)]
pub(in crate::locks) struct ChannelInfo<R> {
    pub(in crate::locks) name: ValueName,
    depth: Depth<R>,
    /// Whether the channel has no room: a sender counts a message when it offers it.
    hands_over: bool,
    pub(in crate::locks) to_receive: NamedSite,
    pub(in crate::locks) to_send: NamedSite,
    /// Receivers that are there. The last one to go sees the others gone (acquire and release).
    live_receivers: AtomicUsize,
    /// Ends that wait, if the channel has no room. Relaxed: who misses one takes it for late.
    waiting_senders: AtomicUsize,
    waiting_receivers: AtomicUsize,
    /// Messages that were received.
    received: LastCount,
    _registration: Option<GaugeRegistration>,
}

/// A wait of an end for the other end. Its scope ends with it.
#[must_use = "a wait lasts as long as it is held"]
#[derive(Debug)]
pub(in crate::locks) struct Wait<'a> {
    _scope: Scope,
    _waiting: Option<Waiting<'a>>,
}

/// An end of a channel without room that waits, which the other ends see.
#[derive(Debug)]
struct Waiting<'a>(&'a AtomicUsize);

/// A sender's part of a channel.
#[derive(Debug)]
pub(in crate::locks) struct SenderLink<R: Received> {
    pub(in crate::locks) info: Arc<ChannelInfo<R>>,
}

/// A receiver's part of a channel.
#[derive(Debug)]
pub(in crate::locks) struct ReceiverLink<R: Received> {
    pub(in crate::locks) info: Arc<ChannelInfo<R>>,
}

/// Makes the parts of a channel with one sender and one receiver.
pub(in crate::locks) fn link<R: Received>(name: ValueName) -> (SenderLink<R>, ReceiverLink<R>) {
    linked(name, false)
}

/// The same for a channel that has no room.
pub(in crate::locks) fn link_without_room<R: Received>(
    name: ValueName,
) -> (SenderLink<R>, ReceiverLink<R>) {
    linked(name, true)
}

fn linked<R: Received>(name: ValueName, hands_over: bool) -> (SenderLink<R>, ReceiverLink<R>) {
    let info = Arc::new_cyclic(|info: &Weak<ChannelInfo<R>>| ChannelInfo {
        name,
        depth: Depth::new(),
        hands_over,
        to_receive: NamedSite::new(TO_RECEIVE),
        to_send: NamedSite::new(TO_SEND),
        live_receivers: AtomicUsize::new(1),
        waiting_senders: AtomicUsize::new(0),
        waiting_receivers: AtomicUsize::new(0),
        received: LastCount::default(),
        _registration: (!cfg!(feature = "off")).then(|| metrics::register(info.clone())),
    });
    (SenderLink::new(&info), ReceiverLink { info })
}

impl<R> ChannelInfo<R> {
    /// Shows the other ends that one waits, if the channel has no room.
    fn shown<'a>(&self, waiting: &'a AtomicUsize) -> Option<Waiting<'a>> {
        self.hands_over.then(|| {
            waiting.fetch_add(1, Ordering::Relaxed);
            Waiting(waiting)
        })
    }
}

impl<'a> Wait<'a> {
    fn begin(site: &NamedSite, name: ValueName, waiting: Option<Waiting<'a>>) -> Self {
        Self {
            _scope: begin_wait(site, name),
            _waiting: waiting,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl<R: Received> Gauge for ChannelInfo<R> {
    fn name(&self) -> String {
        format!("depth: {}", self.name)
    }

    fn unit(&self) -> &'static str {
        "messages"
    }

    fn read(&self) -> f64 {
        if self.hands_over {
            return 0.0;
        }
        self.depth.read() as f64
    }

    fn count_name(&self) -> Option<String> {
        Some(format!("received: {}", self.name))
    }

    fn take_count(&self) -> f64 {
        self.received.growth(self.depth.received())
    }
}

/// Returns a number that no other thread has as long as this one lives. It is not 0.
#[inline(always)]
pub(in crate::locks) fn this_thread() -> u64 {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here).addr() as u64)
}

impl<R: Received> SenderLink<R> {
    /// Makes the part of another sender of a channel.
    pub(in crate::locks) fn new(info: &Arc<ChannelInfo<R>>) -> Self {
        Self {
            info: Arc::clone(info),
        }
    }

    /// Counts a message that this thread has sent.
    #[inline(always)]
    pub(in crate::locks) fn count(&self) {
        if !cfg!(feature = "off") {
            self.info.depth.add_sent(this_thread());
        }
    }

    /// Counts a message that this thread will offer to a receiver, if the channel has no room.
    /// Returns whether it did.
    pub(in crate::locks) fn count_offer(&self) -> bool {
        let hands_over = self.info.hands_over;
        if hands_over {
            self.count();
        }
        hands_over
    }

    /// Begins a wait for room.
    pub(in crate::locks) fn wait(&self) -> Wait<'_> {
        let waiting = self.info.shown(&self.info.waiting_senders);
        Wait::begin(&self.info.to_send, self.info.name, waiting)
    }

    /// Returns whether a receiver waits or all are gone.
    #[cfg(feature = "crossbeam")]
    pub(in crate::locks) fn is_expected(&self) -> bool {
        self.info.waiting_receivers.load(Ordering::Relaxed) != 0
            || self.info.live_receivers.load(Ordering::Relaxed) == 0
    }
}

impl<R: Received> ReceiverLink<R> {
    /// Counts a message that this thread has received.
    #[inline(always)]
    pub(in crate::locks) fn count(&self) {
        self.count_some(1);
    }

    /// Counts messages that this thread has received.
    #[inline(always)]
    pub(in crate::locks) fn count_some(&self, messages: usize) {
        if !cfg!(feature = "off") && messages != 0 {
            let depth = &self.info.depth;
            depth.add_received(this_thread(), messages as u64);
        }
    }

    /// Begins a wait for a message.
    pub(in crate::locks) fn wait(&self) -> Wait<'_> {
        let waiting = self.info.shown(&self.info.waiting_receivers);
        Wait::begin(&self.info.to_receive, self.info.name, waiting)
    }

    /// Returns whether a sender waits or all are gone.
    #[cfg(feature = "crossbeam")]
    pub(in crate::locks) fn is_expected(&self) -> bool {
        // The drain has a link of its own for a moment.
        (0..LOOKS).any(|_| {
            let receivers = self.info.live_receivers.load(Ordering::Relaxed);
            self.info.waiting_senders.load(Ordering::Relaxed) != 0
                || Arc::strong_count(&self.info) <= receivers
        })
    }
}

impl ReceiverLink<Alone> {
    /// Opens the scope of a wait for a message, unless there is a message or there are no senders.
    #[inline(always)]
    pub(in crate::locks) fn wait_for_message(&self) -> Option<Wait<'_>> {
        if cfg!(feature = "off") || self.info.depth.has_message() {
            return None;
        }
        self.wait_unless_ready()
    }

    /// The same for a channel in which no message is counted.
    #[cold]
    #[inline(never)]
    fn wait_unless_ready(&self) -> Option<Wait<'_>> {
        // A sender counts a message some instructions after it put it into the channel, and the
        // drain has a link of its own for a moment.
        for _ in 0..LOOKS {
            // A sender loses its link before it leaves the channel.
            if Arc::strong_count(&self.info) == 1 || self.info.depth.has_message() {
                return None;
            }
            std::hint::spin_loop();
        }
        Some(self.wait())
    }
}

impl<R: Received> Clone for SenderLink<R> {
    fn clone(&self) -> Self {
        Self::new(&self.info)
    }
}

impl<R: Received> Clone for ReceiverLink<R> {
    fn clone(&self) -> Self {
        self.info.live_receivers.fetch_add(1, Ordering::Relaxed);
        Self {
            info: Arc::clone(&self.info),
        }
    }
}

impl<R: Received> Drop for SenderLink<R> {
    fn drop(&mut self) {
        self.info.depth.leave_sending(this_thread());
    }
}

impl<R: Received> Drop for ReceiverLink<R> {
    fn drop(&mut self) {
        self.info.depth.leave_receiving(this_thread());
        if self.info.live_receivers.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.info.depth.close();
        }
    }
}

#[cfg(all(test, feature = "crossbeam", not(feature = "off")))]
mod tests {
    use super::*;
    use crate::locks::channel::depth::Lanes;

    #[test]
    fn ends_are_expected_while_the_others_wait_or_are_gone() {
        let (sender, receiver) = link_without_room::<Lanes>(ValueName::Named("jobs"));
        let expected = || (sender.is_expected(), receiver.is_expected());
        assert_eq!(expected(), (false, false));
        let wait = sender.wait();
        assert_eq!(expected(), (false, true));
        drop(wait);
        let wait = receiver.wait();
        assert_eq!(expected(), (true, false));
        drop(wait);
        assert_eq!(expected(), (false, false));
        let others = (sender.clone(), receiver.clone());
        drop(sender);
        assert!(!receiver.is_expected());
        drop(others);
        assert!(receiver.is_expected());
    }

    #[test]
    fn no_wait_for_room_is_seen() {
        let (sender, receiver) = link::<Lanes>(ValueName::Named("jobs"));
        let _wait = sender.wait();
        assert!(!receiver.is_expected());
        drop(receiver);
        assert!(sender.is_expected());
    }
}
