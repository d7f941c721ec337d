//! Sums of the records per call site, with the feature `stats`.

#[cfg(feature = "stats")]
pub(super) use vor_capture::stats::StatsBuilder;

#[cfg(not(feature = "stats"))]
pub(super) use stub::StatsBuilder;

/// Creates the sums, if the feature is on.
pub(super) fn start() -> Option<StatsBuilder> {
    #[cfg(feature = "stats")]
    return Some(StatsBuilder::new());
    #[cfg(not(feature = "stats"))]
    None
}

#[cfg(not(feature = "stats"))]
mod stub {
    use vor_capture::model::batch::SpanBatch;
    use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
    use vor_capture::stats::ScopeStats;

    /// The sums of a build without the feature. It has no values, so no code remains.
    #[derive(Debug)]
    pub(in crate::drain) enum StatsBuilder {}

    impl StatsBuilder {
        pub(in crate::drain) fn add_batch(&mut self, _: &SpanBatch) {
            match *self {}
        }

        pub(in crate::drain) fn settle(&mut self, _: ThreadId, _: u64, _: &[(SiteId, u64)]) {
            match *self {}
        }

        pub(in crate::drain) fn end_thread(&mut self, _: ThreadId) {
            match *self {}
        }

        pub(in crate::drain) fn scope_stats(&self, _: &Catalog) -> Vec<ScopeStats> {
            match *self {}
        }
    }
}
