//! Cards that are asked.
//!
//! | rows | asked | how long a value counts |
//! |---|---|---|
//! | utilisation, power, memory, clock, energy | 10 times a second | 1 s |
//! | temperature, limits, throttling, this process's memory, encoder, decoder, GPM counters, PCIe of cards that have those | once a second | 3 s |
//! | PCIe of other cards, of which the driver watches one for 20 ms each time | one direction of one card between two of the first | 3 s |
//!
//! What takes more of a processor's time than its share is asked more seldom, and counts for longer
//! ([`due`], [`latest`]).
//!
//! What a card does not have is an absent row, never a zero ([`rows`]). A system has one file with
//! the same `Cards`: NVIDIA's are asked through the driver's library ([`nvml`]), which is loaded
//! when they are first wanted, and which of them are told of, and under which numbers, is up to
//! `CUDA_VISIBLE_DEVICES` ([`visible`]).

mod due;
mod energy;
mod latest;
mod poller;
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

/// Public for the bench of a poll.
pub use cards::Cards;
pub(crate) use latest::GpuRows;
#[cfg(any(unix, windows))]
pub(crate) use latest::is_open;
#[cfg(unix)]
pub(crate) use latest::lock_for_fork;
#[cfg(unix)]
pub(crate) use poller::forget;
pub(crate) use poller::{stop, want};

/// Says why there are no rows, to those who look for the reason.
fn tell_why_none(reason: &str) {
    crate::os::report::detail(&format!("there are no GPU rows: {reason}"));
}
