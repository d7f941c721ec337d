//! Open scopes read back unchanged.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{OpenScopes, Record, RecordRef};
use vor_capture::model::catalog::{SiteId, ThreadId};

use crate::round_trip::{through, ticks};

proptest! {
    #[test]
    fn open_scopes(
        at in ticks(),
        threads in vec((any::<u32>(), vec((any::<u32>(), ticks()), 0..5)), 0..4),
    ) {
        let threads = threads.into_iter().map(|(thread, scopes)| {
            (
                ThreadId(thread),
                scopes
                    .into_iter()
                    .map(|(site, start)| (SiteId(site), start))
                    .collect(),
            )
        });
        let open = filled!(OpenScopes {
            ticks: at,
            threads: threads.collect()
        });
        prop_assert_eq!(
            through(RecordRef::OpenScopes(&open), 99),
            [Record::OpenScopes(open)]
        );
    }
}
