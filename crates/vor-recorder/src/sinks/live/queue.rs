//! Bytes on their way from the drain to the thread of one client.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use crate::sync::lock;

/// Small pieces are joined up to this size, so that a slow client has few of them.
const CHUNK_BYTES: usize = 64 << 10;

/// The drain pushes, one thread pops. Neither waits for the other longer than for the lock, which
/// nobody holds during a write.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    chunks: VecDeque<Vec<u8>>,
    /// Bytes in `chunks`, and of the chunk that is being written.
    bytes: usize,
    /// Bytes of the chunk that is being written.
    taken: usize,
    end: End,
    /// Spans, frames and snapshots that the client did not get.
    missed: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    #[default]
    Open,
    /// Nothing follows what is in the queue.
    Finished,
    /// Nobody reads any more.
    Closed,
}

/// The result of a [`Queue::pop`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Popped {
    Chunk(Vec<u8>),
    /// Nothing came in time.
    Nothing,
    /// Nothing will come.
    End,
}

impl Queue {
    /// Appends bytes, and empties the buffer.
    pub(super) fn push(&self, buffer: &mut Vec<u8>) {
        let mut state = lock(&self.state);
        if state.end == End::Open {
            state.bytes += buffer.len();
            match state.chunks.back_mut() {
                Some(last) if last.len() + buffer.len() <= CHUNK_BYTES => {
                    last.extend_from_slice(buffer);
                }
                _ => state.chunks.push_back(std::mem::take(buffer)),
            }
            self.changed.notify_all();
        }
        buffer.clear();
    }

    /// Returns how many bytes wait or are being written.
    pub(super) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }

    /// Counts what was given up before it came here.
    pub(super) fn miss(&self, count: u64) {
        lock(&self.state).missed += count;
    }

    pub(super) fn missed(&self) -> u64 {
        lock(&self.state).missed
    }

    pub(super) fn is_closed(&self) -> bool {
        lock(&self.state).end == End::Closed
    }

    /// Takes the next bytes. The bytes of the last call count as written.
    pub(super) fn pop(&self, most: Duration) -> Popped {
        let mut state = lock(&self.state);
        state.bytes -= std::mem::take(&mut state.taken);
        if state.bytes == 0 {
            self.changed.notify_all();
        }
        let until = Instant::now() + most;
        loop {
            if state.end == End::Closed {
                return Popped::End;
            }
            if let Some(chunk) = state.chunks.pop_front() {
                state.taken = chunk.len();
                return Popped::Chunk(chunk);
            }
            let rest = until.saturating_duration_since(Instant::now());
            match (state.end, rest) {
                (End::Finished, _) => return Popped::End,
                (_, Duration::ZERO) => return Popped::Nothing,
                _ => {}
            }
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }

    /// Lets the client have the rest, and nothing after it.
    pub(super) fn finish(&self) {
        let mut state = lock(&self.state);
        if state.end == End::Open {
            state.end = End::Finished;
        }
        self.changed.notify_all();
    }

    /// Gives up the rest: the client has gone.
    pub(super) fn close(&self) {
        let mut state = lock(&self.state);
        state.end = End::Closed;
        state.chunks = VecDeque::new();
        state.bytes = state.taken;
        self.changed.notify_all();
    }

    /// Waits until everything is written or the client has gone. Returns whether it is.
    pub(super) fn wait_until_written(&self, until: Instant) -> bool {
        let mut state = lock(&self.state);
        loop {
            if state.bytes == 0 || state.end == End::Closed {
                return true;
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, rest);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    const SOON: Duration = Duration::from_millis(1);
    const LATE: Duration = Duration::from_secs(30);

    #[test]
    fn bytes_come_in_order_and_count_until_they_are_written() {
        let queue = Queue::default();
        for byte in 0..3 {
            queue.push(&mut vec![byte; CHUNK_BYTES / 2]);
        }
        assert_eq!(queue.bytes(), CHUNK_BYTES / 2 * 3);
        let Popped::Chunk(first) = queue.pop(SOON) else {
            panic!("there are chunks");
        };
        assert_eq!(
            (first.len(), first[0], first[CHUNK_BYTES - 1]),
            (CHUNK_BYTES, 0, 1)
        );
        assert_eq!(queue.bytes(), CHUNK_BYTES / 2 * 3);
        assert_eq!(queue.pop(SOON), Popped::Chunk(vec![2; CHUNK_BYTES / 2]));
        assert_eq!(queue.pop(SOON), Popped::Nothing);
        assert_eq!(queue.bytes(), 0);
    }

    #[test]
    fn what_was_finished_is_still_written() {
        let queue = Arc::new(Queue::default());
        queue.push(&mut vec![1]);
        queue.finish();
        queue.push(&mut vec![2]);
        let writer = Arc::clone(&queue);
        let writer = std::thread::spawn(move || {
            let first = writer.pop(LATE);
            (first, writer.pop(LATE))
        });
        assert!(queue.wait_until_written(Instant::now() + LATE));
        assert_eq!(
            writer.join().unwrap(),
            (Popped::Chunk(vec![1]), Popped::End)
        );
    }

    #[test]
    fn a_client_that_has_gone_frees_its_bytes() {
        let queue = Queue::default();
        queue.push(&mut vec![1; 10]);
        assert!(!queue.wait_until_written(Instant::now() + SOON));
        queue.close();
        queue.push(&mut vec![2; 10]);
        assert_eq!((queue.bytes(), queue.is_closed()), (0, true));
        assert_eq!(queue.pop(LATE), Popped::End);
        assert!(queue.wait_until_written(Instant::now() + LATE));
    }
}
