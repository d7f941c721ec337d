//! The number of messages in a channel, from counts of those that were sent and received.
//!
//! One thread at a time receives, so the count of received messages is a plain number. Any number
//! of threads send, also through one sender. Each sender adds to one of a few lanes:
//!
//! ```text
//! send    lane's owner is this thread, or none and now this one ── count + 1, a load and a store
//!         lane of another thread                                ── the count of all others + 1,
//!                                                                  an atomic addition
//! drop    lane's owner is this thread ── no owner
//! ```
//!
//! A message is counted after it was sent and after it was received. A reader may see a message
//! received that is not counted as sent yet, so it takes a negative depth for 0. It reads again if
//! a message was received meanwhile, for example because it lost its core. In a channel that is
//! never still, it misses the messages of the moment.

use crate::sync::{AtomicBool, AtomicU64, Ordering, array, const_fn};

/// Lanes of a channel. Senders beyond them share some.
#[cfg(not(loom))]
const LANES: usize = 4;
#[cfg(loom)]
const LANES: usize = 1;

/// How often a reader reads while messages are received.
const TRIES: u32 = 8;

/// A count to which its owner alone adds.
#[derive(Debug)]
struct Lane {
    /// The address of a thread-local of the owner, 0 without one. A thread stores only its own, in
    /// place of 0 (acquire), and 0 in place of its own (release). So the next owner goes on from
    /// the count of the last. A thread that ends may leave its address behind. The next thread with
    /// this address is the owner then, and its start is ordered after that end.
    owner: AtomicU64,
    /// Written by the owner, read by anyone, relaxed.
    count: AtomicU64,
}

/// A value at least 112 bytes before the next one, so that they do not share a cache line, or two
/// that the processor loads together. Unlike an alignment, it does not slow the allocation of a
/// channel down.
#[derive(Debug)]
#[repr(C)]
struct Apart<T> {
    value: T,
    _space: [u64; 14],
}

impl<T> Apart<T> {
    const fn new(value: T) -> Self {
        Self {
            value,
            _space: [0; 14],
        }
    }
}

/// The counts of a channel's messages.
#[derive(Debug)]
pub(super) struct Depth {
    lanes: [Apart<Lane>; LANES],
    /// Messages of threads that do not own the lane of their sender. Relaxed.
    others: Apart<AtomicU64>,
    /// Written by the receiver, read by anyone, relaxed.
    received: Apart<AtomicU64>,
    /// Whether the receiver is gone, and all messages with it. Relaxed.
    is_closed: AtomicBool,
}

impl Lane {
    const_fn! {
        const fn new() -> Self {
            Self { owner: AtomicU64::new(0), count: AtomicU64::new(0) }
        }
    }

    /// Adds a message, if the calling thread is the owner or there is none.
    #[inline(always)]
    fn add(&self, me: u64) -> bool {
        if self.owner.load(Ordering::Relaxed) != me && !self.claim(me) {
            return false;
        }
        add_alone(&self.count, 1);
        true
    }

    #[cold]
    #[inline(never)]
    fn claim(&self, me: u64) -> bool {
        let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
        let claimed = self.owner.compare_exchange(0, me, acquire, relaxed);
        claimed.is_ok()
    }
}

impl Depth {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self {
                lanes: array![Apart::new(Lane::new()); LANES],
                others: Apart::new(AtomicU64::new(0)),
                received: Apart::new(AtomicU64::new(0)),
                is_closed: AtomicBool::new(false),
            }
        }
    }

    /// Counts a message that thread `me` has sent by the sender with this number.
    #[inline(always)]
    pub(super) fn add_sent(&self, sender: usize, me: u64) {
        if !self.lanes[sender % LANES].value.add(me) {
            self.others.value.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Leaves the lane of a sender to other threads.
    pub(super) fn leave(&self, sender: usize, me: u64) {
        let owner = &self.lanes[sender % LANES].value.owner;
        if owner.load(Ordering::Relaxed) == me {
            owner.store(0, Ordering::Release);
        }
    }

    /// Counts messages that were received. One thread at a time calls this.
    #[inline(always)]
    pub(super) fn add_received(&self, messages: u64) {
        add_alone(&self.received.value, messages);
    }

    /// The receiver is gone, and the messages that it has not received.
    pub(super) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns the number of messages that were sent and not received.
    pub(super) fn read(&self) -> u64 {
        if self.is_closed.load(Ordering::Relaxed) {
            return 0;
        }
        let mut received = self.received();
        let mut sent = 0;
        for _ in 0..TRIES {
            let before = received;
            sent = self.sent();
            received = self.received();
            // Nothing was received meanwhile, so this was the depth at some moment.
            if received == before {
                break;
            }
        }
        let depth = sent.wrapping_sub(received).cast_signed();
        u64::try_from(depth).unwrap_or(0)
    }

    // Acquire: the numbers are read in the order of the calls.
    fn received(&self) -> u64 {
        self.received.value.load(Ordering::Acquire)
    }

    fn sent(&self) -> u64 {
        let in_lanes = self
            .lanes
            .iter()
            .map(|lane| lane.value.count.load(Ordering::Acquire));
        let others = self.others.value.load(Ordering::Acquire);
        in_lanes.fold(others, u64::wrapping_add)
    }
}

/// Adds to a number that no other thread writes at the same time.
#[inline(always)]
fn add_alone(count: &AtomicU64, messages: u64) {
    let next = count.load(Ordering::Relaxed).wrapping_add(messages);
    count.store(next, Ordering::Relaxed);
}
