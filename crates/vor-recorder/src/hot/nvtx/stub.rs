//! No tool: without the feature, and on systems that have none.

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
