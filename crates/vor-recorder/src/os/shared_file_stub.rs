//! Stands in for `shared_file` in a build without the feature `shared-memory`.

/// Never made.
#[derive(Debug)]
pub(crate) struct Reserve(());

impl Reserve {
    pub(crate) fn after(self, _: u64) -> Self {
        self
    }

    pub(crate) fn is_short(&self) -> bool {
        false
    }

    pub(crate) fn reserve(&self, _: u64, _: u64) -> bool {
        true
    }
}
