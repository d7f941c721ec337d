//! Cards that are polled.
//!
//! | rows | polled | how long a value counts |
//! |---|---|---|
//! | utilisation, power, memory, clock, energy | 10 times a second | 1 s |
//! | temperature, limits, throttling, this process's memory, encoder, decoder, GPM counters, PCIe of cards that have those | once a second | 3 s |
//! | PCIe of other cards, of which the driver watches one for 20 ms each time | one direction of one card between two of the first | 3 s |
//!
//! A poll that takes more than its share of CPU time comes more seldom, and its values count for
//! longer ([`rate_limiter`], [`latest`]).
//!
//! A value that a card does not have is an absent row, never a zero ([`rows`]). A system has one
//! file with the same `Cards`: NVIDIA's are polled through the driver's library ([`nvml`]), which
//! is loaded when they are first wanted. `CUDA_VISIBLE_DEVICES` says which of them have rows, and
//! under which numbers ([`visible`]).

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

/// Reports why there are no rows, to those who look for the reason.
fn report_no_rows(reason: &str) {
    crate::os::report::detail(&format!("there are no GPU rows: {reason}"));
}
