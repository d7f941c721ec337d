//! The latest values of the cards: the poller publishes them, frames take them.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::energy::{EnergyCursor, EnergyLine};
use super::poller;
use super::rows::{ALL, COUNT, Pace, Row};
use crate::sync::lock;
use crate::{clock, metrics};

/// The values of a card.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// The columns of each row, once it has had a value: two if the row has two names.
    columns: [[Option<u32>; 2]; COUNT],
    /// The values; `None` if the card has none.
    values: [Option<f64>; COUNT],
    /// Tick of the last poll of each pace.
    polled_ticks: [u64; 3],
    energy: Option<EnergyLine>,
}

/// The values of all cards.
#[derive(Debug)]
pub(super) struct Latest {
    /// The visible cards, in their order.
    cards: Vec<Card>,
    /// How long values are fresh, by pace.
    fresh_ns: [u64; 3],
}

/// The poller writes, frames read; neither does other work under the lock.
static LATEST: Mutex<Latest> = Mutex::new(Latest {
    cards: Vec::new(),
    fresh_ns: FRESH_NS,
});

/// How long values are fresh at least, by pace.
const FRESH_NS: [u64; 3] = [1_000_000_000, 3_000_000_000, 3_000_000_000];
/// How long they are fresh at most: an older value does not describe a frame.
const MAX_AGE_NS: u64 = 10_000_000_000;

impl Card {
    const fn new() -> Self {
        Self {
            columns: [[None; 2]; COUNT],
            values: [None; COUNT],
            polled_ticks: [0; 3],
            energy: None,
        }
    }

    fn is_fresh(&self, pace: Pace, now_ticks: u64, fresh_ns: &[u64; 3]) -> bool {
        let age_ticks = now_ticks.saturating_sub(self.polled_ticks[pace as usize]);
        clock::approximate_ns(age_ticks) < fresh_ns[pace as usize]
    }
}

pub(super) fn latest() -> MutexGuard<'static, Latest> {
    lock(&LATEST)
}

/// Locks the values during a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    latest()
}

/// Returns whether no thread holds the lock; used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(LATEST.try_lock())
}

/// Starts again with `cards` cards.
pub(super) fn reset(cards: usize) {
    latest().cards = vec![Card::new(); cards];
}

/// Sets the intervals of polls, by pace. A value stays fresh if two polls are late.
pub(super) fn set_intervals(intervals: [Duration; 3]) {
    let mut latest = latest();
    for (number, interval) in intervals.into_iter().enumerate() {
        let three_ns = u64::try_from(interval.as_nanos() * 3).unwrap_or(u64::MAX);
        latest.fresh_ns[number] = three_ns.clamp(FRESH_NS[number], MAX_AGE_NS);
    }
}

/// Stores the values of one pace of a card. A row is declared when it has its first value.
pub(super) fn publish(number: usize, pace: Pace, values: &[Option<f64>; COUNT], ticks: u64) {
    let mut known = latest();
    let count = known.cards.len();
    let Some(card) = known.cards.get_mut(number) else {
        return;
    };
    let mut new = Vec::new();
    for row in ALL.into_iter().filter(|row| row.pace() == pace) {
        let value = values[row as usize];
        card.values[row as usize] = value;
        if value.is_some() && card.columns[row as usize][0].is_none() {
            new.push(row);
        }
    }
    card.polled_ticks[pace as usize] = ticks;
    drop(known);
    // The metrics have their own lock.
    for row in new {
        let mut columns = [None; 2];
        for (column, name) in columns.iter_mut().zip(row.names(number, count)) {
            *column = metrics::declare_system(&name, row.unit());
        }
        if let Some(card) = latest().cards.get_mut(number) {
            card.columns[row as usize] = columns;
        }
    }
}

/// Stores a reading of a card's energy counter in millijoules; `None` if there is none.
#[cfg(not(target_os = "macos"))]
pub(super) fn count_energy(number: usize, counter_mj: Option<u64>, ticks: u64) {
    if let Some(card) = latest().cards.get_mut(number) {
        card.energy = counter_mj.map(|counter_mj| EnergyLine::with(card.energy, ticks, counter_mj));
    }
}

/// Estimates from the power of each card how its energy counter has grown.
pub(super) fn estimate_energy() {
    for card in &mut latest().cards {
        if let (Some(line), Some(watts)) = (card.energy, card.values[Row::Power as usize]) {
            let ticks = card.polled_ticks[Pace::Fast as usize];
            let passed_ns = clock::approximate_ns(ticks.saturating_sub(line.ticks()));
            let grown_mj = watts * passed_ns as f64 / 1e6;
            card.energy = Some(line.with_estimate(ticks, grown_mj));
        }
    }
}

/// Removes the values of a lost card.
#[cfg(not(target_os = "macos"))]
pub(super) fn clear_values(number: usize) {
    if let Some(card) = latest().cards.get_mut(number) {
        card.values = [None; COUNT];
        card.energy = None;
    }
}

/// The rows of frames. Owned by the worker.
#[derive(Debug, Default)]
pub(crate) struct GpuRows {
    cursors: Vec<EnergyCursor>,
}

impl GpuRows {
    /// Returns the values of a frame that ended at `end_ticks`, unordered, by their index among the
    /// columns that [`metrics`] declares.
    pub(crate) fn take(&mut self, end_ticks: u64) -> Vec<(u32, f64)> {
        poller::check_hang(end_ticks);
        let known = latest();
        let mut taken = Vec::new();
        self.cursors
            .resize_with(known.cards.len(), EnergyCursor::default);
        for (card, cursor) in known.cards.iter().zip(&mut self.cursors) {
            for row in ALL {
                let is_fresh = card.is_fresh(row.pace(), end_ticks, &known.fresh_ns);
                let value = match (row, &card.energy) {
                    (Row::Energy, Some(line)) if is_fresh => cursor.take(line, end_ticks),
                    (Row::Energy, _) => {
                        cursor.forget();
                        None
                    }
                    _ => card.values[row as usize].filter(|_| is_fresh),
                };
                let columns = card.columns[row as usize].into_iter().flatten();
                taken.extend(columns.filter_map(|column| Some((column, value?))));
            }
        }
        taken
    }
}
