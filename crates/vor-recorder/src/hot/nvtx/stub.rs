//! Stub without a tool: for builds without the feature, and systems that have no NVTX.

use vor_capture::model::catalog::ThreadInfo;

use crate::hot::args::Number;

/// Whether there can be a tool at all.
pub(crate) const IS_POSSIBLE: bool = false;

pub(crate) fn attach() {}

#[inline(always)]
pub(crate) const fn is_attached() -> bool {
    false
}

pub(crate) fn name_thread(_: &ThreadInfo) {}

pub(crate) fn push(_: u32, _: Option<Number>) {}

pub(crate) fn pop(_: usize) {}
