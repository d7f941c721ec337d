//! The scopes that threads had open at a moment.

use super::catalog::{SiteId, ThreadId};

/// The scopes that were open at a moment, outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenScopes {
    /// The moment, in ticks.
    pub ticks: u64,
    /// Per thread, the call site and the start tick of each open scope.
    pub threads: Vec<(ThreadId, Vec<(SiteId, u64)>)>,
}

/// When the scopes began that threads had open at a moment.
///
/// A span is in a batch only when it has ended, so batches do not say which of their spans are
/// inside one that is still open. This does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OpenStarts {
    /// The moment, in ticks. All that had ended by then was in the batches before.
    pub as_of_ticks: u64,
    /// The threads whose open scopes are known, with the starts of their open scopes in ticks,
    /// ascending.
    pub threads: Vec<(ThreadId, Vec<u64>)>,
}
