//! The scopes that are open after each batch of a recording that is read twice.

use rustc_hash::FxHashMap;

use crate::model::batch::{OpenStarts, SpanBatch, ThreadBatch};
use crate::model::catalog::ThreadId;

/// Finds the spans that end in a later batch than the one in which they began.
///
/// A batch does not say which of its spans are inside one that is still open. A program that reads
/// a recording twice can find out for a sink: all batches are [added](Self::add) first, and then
/// delivered in the same order, each followed by the scopes that are [open after it](Self::after).
/// Memory follows the number of spans that cross batches, which is small beside that of all.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::batch::{SpanBatch, ThreadBatch};
/// use vor_capture::model::catalog::SiteId;
/// use vor_capture::reader::Lookahead;
///
/// let batch = |start_ticks, duration_ticks| {
///     let thread = filled!(ThreadBatch {
///         start_ticks: vec![start_ticks],
///         duration_ticks: vec![duration_ticks],
///         sites: vec![SiteId(1)],
///     });
///     filled!(SpanBatch { threads: vec![thread] })
/// };
/// // The span of the second batch is around that of the first.
/// let batches = [batch(20, 5), batch(10, 40)];
/// let mut ahead = Lookahead::default();
/// batches.iter().for_each(|batch| ahead.add(batch));
/// assert_eq!(ahead.after(&batches[0]).threads[0].1, [10]);
/// assert!(ahead.after(&batches[1]).threads[0].1.is_empty());
/// ```
#[derive(Debug, Default)]
pub struct Lookahead {
    threads: FxHashMap<ThreadId, Lane>,
    is_reading: bool,
}

#[derive(Debug, Default)]
struct Lane {
    /// When the last span ended, of those added or read so far.
    last_end_ticks: u64,
    /// Starts of the spans that cross batches, in the order in which they end.
    across: Vec<u64>,
    /// The same by their starts, each with its place in `across`.
    by_start: Vec<(u64, usize)>,
    /// How many of `across` were read, and how many of `by_start` began.
    ended: usize,
    began: usize,
    /// The open scopes: a part of `by_start`.
    open: Vec<(u64, usize)>,
    is_returned: bool,
}

impl Lookahead {
    /// Adds a batch, in the first pass.
    pub fn add(&mut self, batch: &SpanBatch) {
        for thread in batch
            .threads
            .iter()
            .filter(|thread| !thread.sites.is_empty())
        {
            self.threads.entry(thread.thread).or_default().add(thread);
        }
    }

    /// Returns the scopes that are open after a batch, in the second pass, of the threads that
    /// ended spans in it.
    pub fn after(&mut self, batch: &SpanBatch) -> OpenStarts {
        if !std::mem::replace(&mut self.is_reading, true) {
            self.threads.values_mut().for_each(Lane::rewind);
        }
        // A thread may have several shares; the last of them decides.
        for thread in batch
            .threads
            .iter()
            .filter(|thread| !thread.sites.is_empty())
        {
            if let Some(lane) = self.threads.get_mut(&thread.thread) {
                lane.read(thread);
                lane.is_returned = false;
            }
        }
        let mut open = OpenStarts::default();
        for thread in &batch.threads {
            if let Some(lane) = self.threads.get_mut(&thread.thread)
                && !std::mem::replace(&mut lane.is_returned, true)
            {
                let starts = lane.open.iter().map(|&(start, _)| start).collect();
                // All scopes that began up to then are known, those of that very tick included.
                open.as_of_ticks = open.as_of_ticks.max(lane.last_end_ticks.saturating_add(1));
                open.threads.push((thread.thread, starts));
            }
        }
        open
    }
}

impl Lane {
    /// Returns the starts of a batch's spans that began by the end of the batch before.
    fn across<'a>(&mut self, batch: &'a ThreadBatch) -> impl Iterator<Item = u64> + use<'a> {
        let until = self.last_end_ticks;
        let last = (0..batch.len()).map(|i| batch.end_ticks(i)).max();
        self.last_end_ticks = until.max(last.unwrap_or(0));
        let starts = batch.start_ticks.iter().copied();
        starts.filter(move |&start| start <= until)
    }

    fn add(&mut self, batch: &ThreadBatch) {
        let across = self.across(batch);
        self.across.extend(across);
    }

    fn rewind(&mut self) {
        (self.last_end_ticks, self.is_returned) = (0, true);
        let places = self.across.iter().enumerate();
        self.by_start = places.map(|(place, &start)| (start, place)).collect();
        self.by_start.sort_unstable();
    }

    fn read(&mut self, batch: &ThreadBatch) {
        self.ended += self.across(batch).count();
        let later = self.by_start[self.began..].iter();
        let began = later
            .take_while(|(start, _)| *start <= self.last_end_ticks)
            .count();
        self.open
            .extend_from_slice(&self.by_start[self.began..self.began + began]);
        self.began += began;
        self.open.retain(|&(_, place)| place >= self.ended);
    }
}
