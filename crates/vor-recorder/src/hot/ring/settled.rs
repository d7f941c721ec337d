//! The positions of a ring up to which the outputs have its records, for a reader of its file.
//!
//! A position belongs to an epoch, which is published for all rings at once. There are two entries:
//! the next position overwrites the older one, and counts when its epoch is published. So a process
//! that is killed between any two instructions leaves the position of the published epoch.
//!
//! A process that runs may go on while its file is read. If the epoch is the same before and after,
//! the entry that [`newest`] returns was not written in between.

use crate::sync::{AtomicU64, Ordering, array, const_fn};

/// The last two settled positions of a ring. Written by the consumer alone, read by other
/// processes.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct SettledPositions([Settled; 2]);

/// The words of an entry, as they are in the file.
pub(crate) const ENTRY_WORDS: usize = 3;

#[derive(Debug)]
#[repr(C)]
struct Settled {
    epoch: AtomicU64,
    /// The sequence number of the chunk times the slots of a chunk, plus the offset in it.
    position: AtomicU64,
    /// Records that were dropped by then.
    dropped: AtomicU64,
}

const _: () = assert!(cfg!(loom) || size_of::<Settled>() == 8 * ENTRY_WORDS);

impl Settled {
    const_fn! {
        const fn new() -> Self {
            Self {
                epoch: AtomicU64::new(0),
                position: AtomicU64::new(0),
                dropped: AtomicU64::new(0),
            }
        }
    }
}

impl SettledPositions {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(array!(Settled::new(); 2))
        }
    }

    /// Adds the position of the next `epoch`, unless it is that of the last one, or before it.
    /// Returns whether it was added.
    pub(super) fn add(&self, epoch: u64, position: u64, dropped: u64) -> bool {
        let [first, second] = &self.0;
        let epoch_of = |settled: &Settled| settled.epoch.load(Ordering::Relaxed);
        let (last, next) = match epoch_of(first) < epoch_of(second) {
            true => (second, first),
            false => (first, second),
        };
        let settled = last.position.load(Ordering::Relaxed);
        let position = position.max(settled);
        if position == settled && dropped == last.dropped.load(Ordering::Relaxed) {
            return false;
        }
        // Release: a reader that finds one of these also finds the epoch that was published before.
        next.position.store(position, Ordering::Release);
        next.dropped.store(dropped, Ordering::Release);
        // The epoch last: until it is stored, this entry is older than the other.
        next.epoch.store(epoch, Ordering::Release);
        true
    }

    /// Returns the last position, published or not. Called by the consumer.
    pub(super) fn last(&self) -> u64 {
        let positions = self.0.iter().map(|settled| &settled.position);
        let positions = positions.map(|position| position.load(Ordering::Relaxed));
        positions.max().unwrap_or_default()
    }

    /// Returns the entries as a reader of the file finds them.
    #[cfg(all(test, loom))]
    fn entries(&self) -> [[u64; ENTRY_WORDS]; 2] {
        let words = |settled: &Settled| {
            [&settled.epoch, &settled.position, &settled.dropped]
                .map(|word| word.load(Ordering::Acquire))
        };
        let [first, second] = &self.0;
        [words(first), words(second)]
    }
}

/// Returns the entry of the newest epoch up to the published one. If the process has gone on by
/// more than one epoch, the oldest entry is the nearest.
#[cfg(any(feature = "recovery", all(test, loom)))]
pub(crate) fn newest(
    entries: impl Iterator<Item = [u64; ENTRY_WORDS]> + Clone,
    epoch: u64,
) -> Option<[u64; ENTRY_WORDS]> {
    let published = entries.clone().filter(|entry| entry[0] <= epoch);
    let newest = published.max_by_key(|entry| entry[0]);
    newest.or_else(|| entries.min_by_key(|entry| entry[0]))
}

/// Returns whether what [`newest`] returned for the epoch `before` was whole, if the published
/// epoch was `now` afterwards. After the next one is published, the entry may be overwritten.
#[cfg(any(feature = "recovery", all(test, loom)))]
pub(crate) fn is_whole(before: u64, now: u64) -> bool {
    now == before
}

/// A reader of the file beside a process that settles.
#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    struct Process {
        ring: SettledPositions,
        published: AtomicU64,
    }

    /// The position of an epoch, and its number of dropped records.
    fn of_epoch(epoch: u64) -> [u64; 2] {
        [10 * epoch, 100 * epoch]
    }

    impl Process {
        fn settle(&self, epoch: u64) {
            let [position, dropped] = of_epoch(epoch);
            assert!(self.ring.add(epoch, position, dropped));
            self.published.store(epoch, Ordering::Release);
        }

        /// Returns the epoch of what was read, if it is whole.
        fn read(&self) -> Option<u64> {
            let epoch = self.published.load(Ordering::Acquire);
            let entry = newest(self.ring.entries().into_iter(), epoch).unwrap();
            let now = self.published.load(Ordering::Acquire);
            is_whole(epoch, now).then(|| {
                let [position, dropped] = of_epoch(epoch);
                assert_eq!(entry, [epoch, position, dropped]);
                epoch
            })
        }
    }

    #[test]
    fn a_reader_finds_the_position_of_the_published_epoch_or_reads_again() {
        loom::model(|| {
            let process = Arc::new(Process {
                ring: SettledPositions::new(),
                published: AtomicU64::new(0),
            });
            process.settle(1);
            let reader = thread::spawn({
                let process = Arc::clone(&process);
                move || process.read()
            });
            for epoch in 2..=3 {
                process.settle(epoch);
            }
            let found = reader.join().unwrap();
            assert!(matches!(found, None | Some(1..=3)));
            assert_eq!(process.read(), Some(3));
        });
    }
}
