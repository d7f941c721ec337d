//! The number of messages in a channel, from counts of those that were sent and received.
//!
//! Any number of threads send. A channel has a few lanes, each with a count and perhaps an owner:
//!
//! ```text
//! send    this thread owns a lane, or takes one without an owner ── count + 1, a load and a store
//!         all lanes belong to other threads                      ── the count of all others + 1,
//!                                                                   an atomic addition
//! drop    of a sender by a thread ── its lanes have no owner
//! ```
//!
//! Where several threads receive, there are such lanes for them too. Where one thread at a time
//! receives, the count of received messages is a plain number.
//!
//! A message is counted after it was sent and after it was received. So a message that is counted
//! as sent is there, and the one thread that receives does not wait for it. Another reader may see
//! a message received that is not counted as sent yet, so it takes a negative depth for 0. It reads
//! again if a message was received meanwhile, for example because it lost its core. In a channel
//! that is never still, it misses the messages of the moment.

use crate::sync::{AtomicBool, AtomicU64, Ordering, array};

/// Lanes of a channel.
#[cfg(not(loom))]
const LANES: usize = 8;
#[cfg(loom)]
const LANES: usize = 1;

/// How often a reader reads while messages are received.
const TRIES: u32 = 8;

/// A value a cache line before the next one. Unlike an alignment, it does not slow the allocation
/// of a channel down, nor does it make the allocation larger than what glibc keeps per thread.
#[derive(Debug)]
#[repr(C)]
struct Apart<T, const SPACE: usize = 7> {
    value: T,
    _space: [u64; SPACE],
}

impl<T, const SPACE: usize> Apart<T, SPACE> {
    const fn new(value: T) -> Self {
        Self {
            value,
            _space: [0; SPACE],
        }
    }
}

/// Counts of messages to which any number of threads add.
#[derive(Debug)]
pub(in crate::locks) struct Lanes {
    /// The address of a thread-local of each lane's owner, 0 without one. A thread stores only its
    /// own, in place of 0 (acquire), and 0 in place of its own (release). So the next owner goes on
    /// from the count of the last. A thread that ends may leave its address behind. The next thread
    /// with this address is the owner then, and its start is ordered after that end.
    ///
    /// Apart from the counts: every thread reads them for each message, and few writes change them.
    owners: Apart<[AtomicU64; LANES]>,
    /// Written by the lane's owner, and the last by threads without a lane (release, so that who
    /// sees a message counted finds it in the channel). Read by anyone.
    counts: [Apart<AtomicU64>; LANES + 1],
}

/// A count of messages to which one thread at a time adds, and any thread reads; and what the
/// receiver knows of the messages that were sent.
#[derive(Debug)]
pub(in crate::locks) struct Alone(Apart<ReceivedAlone, 5>);

/// Written by the thread that receives, relaxed.
#[derive(Debug)]
struct ReceivedAlone {
    received: AtomicU64,
    /// The lane of the last sender, and the messages of all others when that was found.
    lane: AtomicU64,
    elsewhere: AtomicU64,
}

/// The count of received messages.
pub(in crate::locks) trait Received: Send + Sync + 'static {
    fn new() -> Self;

    /// Counts messages that thread `me` has received.
    fn add(&self, me: u64, messages: u64);

    /// Leaves the lanes of thread `me` to others.
    fn leave(&self, me: u64);

    // Acquire: the numbers are read in the order of the calls.
    fn sum(&self) -> u64;
}

/// The counts of a channel's messages.
#[derive(Debug)]
pub(in crate::locks) struct Depth<R> {
    sent: Lanes,
    received: R,
    /// Whether the receivers are gone, and all messages with them. Relaxed.
    is_closed: AtomicBool,
}

/// Returns the lane in which a thread begins to look for one of its own. Thread-locals of different
/// threads are pages apart on most systems.
#[inline(always)]
fn first_lane(me: u64) -> usize {
    (me >> 12) as usize % LANES
}

impl Lanes {
    /// Adds in a lane that the thread owns or may take, or to the count of the others.
    #[cold]
    #[inline(never)]
    fn add_elsewhere(&self, me: u64, messages: u64) {
        let first = first_lane(me);
        if self.owners.value[first].load(Ordering::Relaxed) == 0 {
            // A thread has one lane, here the one that it finds faster.
            self.leave(me);
        }
        let mut lanes = (first..first + LANES).map(|lane| lane % LANES);
        match lanes.find(|lane| self.is_owned(*lane, me)) {
            Some(lane) => add_alone(&self.counts[lane].value, messages),
            None => {
                _ = self.counts[LANES]
                    .value
                    .fetch_add(messages, Ordering::Release)
            }
        }
    }

    /// Returns whether thread `me` owns a lane, which it takes if it has no owner.
    fn is_owned(&self, lane: usize, me: u64) -> bool {
        let owner = &self.owners.value[lane];
        match owner.load(Ordering::Relaxed) {
            0 => {
                let (acquire, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
                owner.compare_exchange(0, me, acquire, relaxed).is_ok()
            }
            other => other == me,
        }
    }
}

impl Received for Lanes {
    fn new() -> Self {
        Self {
            owners: Apart::new(array![AtomicU64::new(0); LANES]),
            counts: array![Apart::new(AtomicU64::new(0)); LANES + 1],
        }
    }

    #[inline(always)]
    fn add(&self, me: u64, messages: u64) {
        let lane = first_lane(me);
        if self.owners.value[lane].load(Ordering::Relaxed) == me {
            add_alone(&self.counts[lane].value, messages);
        } else {
            self.add_elsewhere(me, messages);
        }
    }

    fn leave(&self, me: u64) {
        for owner in &self.owners.value {
            if owner.load(Ordering::Relaxed) == me {
                owner.store(0, Ordering::Release);
            }
        }
    }

    fn sum(&self) -> u64 {
        let counts = self.counts.iter();
        let counts = counts.map(|count| count.value.load(Ordering::Acquire));
        counts.fold(0, u64::wrapping_add)
    }
}

impl Received for Alone {
    fn new() -> Self {
        Self(Apart::new(ReceivedAlone {
            received: AtomicU64::new(0),
            lane: AtomicU64::new(0),
            elsewhere: AtomicU64::new(0),
        }))
    }

    #[inline(always)]
    fn add(&self, _me: u64, messages: u64) {
        add_alone(&self.0.value.received, messages);
    }

    fn leave(&self, _me: u64) {}

    fn sum(&self) -> u64 {
        self.0.value.received.load(Ordering::Acquire)
    }
}

impl Depth<Alone> {
    /// Returns whether the channel has a message. Called by the thread that receives. A message
    /// that is not counted yet may be there nonetheless.
    #[inline(always)]
    pub(in crate::locks) fn has_message(&self) -> bool {
        let known = &self.received.0.value;
        let lane = known.lane.load(Ordering::Relaxed) as usize;
        let elsewhere = known.elsewhere.load(Ordering::Relaxed);
        let received = known.received.load(Ordering::Relaxed);
        self.sent.counts.get(lane).is_some_and(|count| {
            elsewhere.wrapping_add(count.value.load(Ordering::Acquire)) > received
        }) || self.finds_message(received)
    }

    /// Reads all lanes, and returns whether the channel has a message.
    #[cold]
    #[inline(never)]
    fn finds_message(&self, received: u64) -> bool {
        let known = &self.received.0.value;
        let (mut sum, mut most, mut busiest) = (0_u64, 0, 0);
        for (lane, count) in self.sent.counts.iter().enumerate() {
            let count = count.value.load(Ordering::Acquire);
            sum = sum.wrapping_add(count);
            if count >= most {
                (most, busiest) = (count, lane);
            }
        }
        known.lane.store(busiest as u64, Ordering::Relaxed);
        known.elsewhere.store(sum - most, Ordering::Relaxed);
        sum > received
    }
}

impl<R: Received> Depth<R> {
    pub(in crate::locks) fn new() -> Self {
        Self {
            sent: Lanes::new(),
            received: R::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Counts a message that thread `me` has sent.
    #[inline(always)]
    pub(in crate::locks) fn add_sent(&self, me: u64) {
        self.sent.add(me, 1);
    }

    /// Leaves the lanes in which thread `me` counts sent messages to others.
    pub(in crate::locks) fn leave_sending(&self, me: u64) {
        self.sent.leave(me);
    }

    /// Counts messages that thread `me` has received.
    #[inline(always)]
    pub(in crate::locks) fn add_received(&self, me: u64, messages: u64) {
        self.received.add(me, messages);
    }

    /// Leaves the lanes in which thread `me` counts received messages to others.
    pub(in crate::locks) fn leave_receiving(&self, me: u64) {
        self.received.leave(me);
    }

    /// The receivers are gone, and the messages that they have not received.
    pub(in crate::locks) fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
    }

    /// Returns the number of messages that were received.
    #[cfg_attr(loom, expect(dead_code, reason = "only marks read it"))]
    pub(in crate::locks) fn received(&self) -> u64 {
        self.received.sum()
    }

    /// Returns the number of messages that were sent and not received.
    pub(in crate::locks) fn read(&self) -> u64 {
        if self.is_closed.load(Ordering::Relaxed) {
            return 0;
        }
        let mut received = self.received.sum();
        let mut sent = 0;
        for _ in 0..TRIES {
            let before = received;
            sent = self.sent.sum();
            received = self.received.sum();
            // Nothing was received meanwhile, so this was the depth at some moment.
            if received == before {
                break;
            }
        }
        let depth = sent.wrapping_sub(received).cast_signed();
        u64::try_from(depth).unwrap_or(0)
    }
}

/// Adds to a number that no other thread writes at the same time.
#[inline(always)]
fn add_alone(count: &AtomicU64, messages: u64) {
    let next = count.load(Ordering::Relaxed).wrapping_add(messages);
    count.store(next, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// More threads than lanes, of which some begin to look for a lane at the same one.
    #[test]
    fn messages_of_all_threads_count_whether_they_have_a_lane_or_not() {
        let threads = [1, 2, 3, 4, 5, 6, 9, 10, 17, 18].map(|page: u64| page << 12);
        let depth = Depth::<Lanes>::new();
        let send = |threads: &[u64]| {
            for me in threads {
                depth.add_sent(*me);
                depth.add_sent(*me);
                depth.add_received(*me, 1);
            }
        };
        send(&threads);
        assert_eq!(depth.read(), 10);
        // The last two had no lane. The first two leave, and the last two take their lanes.
        let (first, others) = threads.split_at(2);
        first.iter().for_each(|me| depth.leave_sending(*me));
        send(others);
        assert_eq!(depth.read(), 18);
        let owners = &depth.sent.owners.value;
        let owned = |me: &u64| {
            owners
                .iter()
                .any(|owner| owner.load(Ordering::Relaxed) == *me)
        };
        assert_eq!(first.iter().filter(|me| owned(me)).count(), 0);
        assert!(others.iter().all(owned));
    }
}
