//! Systems that do not report for how long a thread waited for a processor.

use super::Queued;

pub(super) fn is_reported() -> bool {
    false
}

#[inline(always)]
pub(super) fn known(_: u64) -> Option<Queued> {
    Some(Queued::default())
}

pub(super) fn queued(_: u64) -> Queued {
    Queued::default()
}

#[cfg(unix)]
pub(super) fn restart() {}
