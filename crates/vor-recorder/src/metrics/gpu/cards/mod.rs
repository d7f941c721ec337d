//! The polled cards.
//!
//! | rows | polled | how long a value is fresh |
//! |---|---|---|
//! | utilisation, power, memory, clock, energy ([`energy`]) | 10 times a second | 1 s |
//! | temperature, limits, throttling, this process's memory, encoder, decoder, GPM counters, PCIe of cards that have those | once a second | 3 s |
//! | PCIe of other cards; the driver watches one of them for 20 ms each time | one direction of one card between two polls of the first row | 3 s |
//!
//! A poll that takes more than its share of CPU time is repeated less often, and its values stay
//! fresh longer ([`rate_limiter`], [`latest`]).
//!
//! A value that a card lacks is an absent row, never a zero ([`rows`]). Each system has one file
//! that defines `Cards`. NVIDIA's cards are polled through the driver's library ([`nvml`]), which
//! is loaded when they are first wanted. `CUDA_VISIBLE_DEVICES` selects the cards that have rows,
//! and their numbers ([`visible`]).

mod energy;
mod latest;
mod poller;
mod rate_limiter;
mod rows;

#[cfg(not(target_os = "macos"))]
mod nvidia;
#[cfg(not(target_os = "macos"))]
use nvidia as cards;
#[cfg(not(target_os = "macos"))]
mod nvml;
#[cfg(not(target_os = "macos"))]
mod visible;
#[cfg(target_os = "macos")]
mod apple_cards;
#[cfg(target_os = "macos")]
use apple_cards as cards;

/// Public for the benchmark of a poll.
pub use cards::Cards;
pub(crate) use latest::GpuRows;
#[cfg(any(unix, windows))]
pub(crate) use latest::is_open;
#[cfg(unix)]
pub(crate) use latest::lock_for_fork;
#[cfg(unix)]
pub(crate) use poller::forget;
pub(crate) use poller::{set_wanted, stop};

/// Reports in detailed messages why there are no rows.
fn report_no_rows(reason: &str) {
    crate::os::report::detail(&format!("there are no GPU rows: {reason}"));
}
