//! What the poller learned last, and what a frame takes of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::energy::{EnergyLine, Told};
use super::poller;
use super::rows::{ALL, COUNT, Pace, Row};
use crate::{clock, metrics};

/// What is known of a card.
#[derive(Clone, Debug)]
pub(super) struct Card {
    /// The columns of each row, once it has had a value: up to two, for a row with two names.
    columns: [[Option<u32>; 2]; COUNT],
    /// The values, `None` where the card does not tell.
    values: [Option<f64>; COUNT],
    /// When the rows of each pace were asked last, in ticks.
    asked_ticks: [u64; 3],
    energy: Option<EnergyLine>,
}

/// The visible cards, in their order. The poller writes, frames read; neither does anything else under the lock.
static LATEST: Mutex<Vec<Card>> = Mutex::new(Vec::new());

/// How long values count, by pace.
const FRESH_NS: [u64; 3] = [1_000_000_000, 3_000_000_000, 3_000_000_000];
/// How much longer those count that are asked for in turns, per card.
const TURN_NS: u64 = 200_000_000;

impl Card {
    const fn new() -> Self {
        Self {
            columns: [[None; 2]; COUNT],
            values: [None; COUNT],
            asked_ticks: [0; 3],
            energy: None,
        }
    }

    fn is_fresh(&self, pace: Pace, now_ticks: u64, cards: usize) -> bool {
        let of_turns = if pace == Pace::Turns {
            TURN_NS * cards as u64
        } else {
            0
        };
        let age_ns = clock::approximate_ns(now_ticks.saturating_sub(self.asked_ticks[pace as usize]));
        age_ns < FRESH_NS[pace as usize] + of_turns
    }
}

pub(super) fn latest() -> MutexGuard<'static, Vec<Card>> {
    LATEST.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks what was learned for the time of a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    latest()
}

/// Returns whether nobody holds the lock: for the last thread of a process.
#[cfg(windows)]
pub(crate) fn is_open() -> bool {
    crate::drain::alone::is_open(&LATEST)
}

/// Begins anew with so many cards.
pub(super) fn begin(cards: usize) {
    *latest() = vec![Card::new(); cards];
}

/// Leaves the values of one pace of a card, and the reading of its energy counter in millijoules. A row that has its first value is declared first.
pub(super) fn publish(
    number: usize,
    pace: Pace,
    values: &[Option<f64>; COUNT],
    energy_mj: Option<u64>,
    ticks: u64,
) {
    let mut cards = latest();
    let count = cards.len();
    let Some(card) = cards.get_mut(number) else { return };
    let mut new = Vec::new();
    for row in ALL.into_iter().filter(|row| row.pace() == pace) {
        let value = values[row as usize];
        card.values[row as usize] = value;
        if value.is_some() && card.columns[row as usize][0].is_none() {
            new.push(row);
        }
    }
    if pace == Pace::Fast {
        card.energy = energy_mj.map(|counter_mj| EnergyLine::with(card.energy, ticks, counter_mj));
    }
    card.asked_ticks[pace as usize] = ticks;
    drop(cards);
    // The metrics have a lock of their own.
    for row in new {
        let mut columns = [None; 2];
        for (column, name) in columns.iter_mut().zip(row.names(number, count)) {
            *column = metrics::declare_system(&name, row.unit());
        }
        if let Some(card) = latest().get_mut(number) {
            card.columns[row as usize] = columns;
        }
    }
}

/// Says that a card tells nothing now.
#[cfg(not(target_os = "macos"))]
pub(super) fn silence(number: usize) {
    if let Some(card) = latest().get_mut(number) {
        card.values = [None; COUNT];
        card.energy = None;
    }
}

/// The rows of frames. Owned by the worker.
#[derive(Debug, Default)]
pub(crate) struct GpuRows {
    told: Vec<Told>,
}

impl GpuRows {
    /// Returns the values of a frame that ended at `end_ticks`, by the column among those that [`metrics`] declares, in no order.
    pub(crate) fn take(&mut self, end_ticks: u64) -> Vec<(u32, f64)> {
        poller::look(end_ticks);
        let cards = latest();
        let mut taken = Vec::new();
        self.told.resize_with(cards.len(), Told::default);
        for (card, told) in cards.iter().zip(&mut self.told) {
            for row in ALL {
                let is_fresh = card.is_fresh(row.pace(), end_ticks, cards.len());
                let value = match (row, &card.energy) {
                    (Row::Energy, Some(line)) if is_fresh => told.take(line, end_ticks),
                    (Row::Energy, _) => {
                        told.forget();
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
