//! Stands in for `shared` in a build without the feature `shared-memory`: there is no file.

use std::path::Path;
use std::sync::Arc;

use vor_capture::model::catalog::{SiteInfo, ThreadInfo};
use vor_capture::model::timeline::ClockSync;

use crate::hot::callsite::Words;
use crate::hot::thread::{StateBox, ThreadState};

pub(crate) fn is_on() -> bool {
    false
}

pub(crate) fn has_capture() -> bool {
    false
}

pub(crate) fn new_state(_: usize) -> Option<StateBox> {
    None
}

pub(crate) fn declare_site(_: u32, _: &Arc<SiteInfo>, _: Words) {}

pub(crate) fn declare_thread(_: u32, _: &Arc<ThreadInfo>) {}

pub(crate) fn declare_owner(_: &ThreadState, _: u32) {}

pub(crate) fn declare_capture(_: u64, _: &Path, _: u64) {}

pub(crate) fn capture_has(_: u64, _: u64) {}

pub(crate) fn capture_ended(_: u64) {}

pub(crate) fn put_sync(_: &ClockSync) {}

pub(crate) fn settle(_: impl FnOnce(u64) -> bool, _: impl FnOnce()) {}

pub(crate) fn take_problem() -> Option<String> {
    None
}

#[cfg(any(unix, windows))]
pub(crate) fn end() {}

#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    true
}

#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {}

#[cfg(unix)]
pub(crate) fn forget() {}
