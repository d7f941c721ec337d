//! The stub for `rseq` on other systems: no thread has a word, and the mark is never set.

#[derive(Clone, Copy)]
pub(super) struct Word;

impl Word {
    pub(super) const NONE: Self = Self;

    pub(super) fn of_this_thread() -> Self {
        Self
    }

    pub(super) fn is_none(self) -> bool {
        true
    }

    #[inline(always)]
    pub(super) fn is_set(self) -> bool {
        false
    }

    pub(super) fn set(self) {}

    pub(super) fn clear(self) {}
}
