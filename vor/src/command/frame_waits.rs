//! How long the scopes of a frame waited for a processor, and how long they were blocked.
//!
//! A measured span has the waits of the spans inside it too. Each span counts without them, in the
//! frame in which it ended, so the frames together have each wait once.

use serde::Serialize;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::measures::Measures;
use vor_capture::stats::StatsBuilder;

/// The waits of all threads in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Waits {
    /// Runnable, and without a processor, in nanoseconds.
    pub(crate) queued_ns: u64,
    /// Waiting for something else, in nanoseconds.
    pub(crate) blocked_ns: u64,
}

/// Adds up the waits of the spans since the last frame.
#[derive(Debug, Default)]
pub(crate) struct FrameWaits(StatsBuilder);

/// Returns whether a capture has a call site whose waits are measured.
pub(crate) fn are_measured(catalog: &Catalog) -> bool {
    let sites = catalog.sites.iter().flatten();
    sites
        .into_iter()
        .any(|site| Measures::of(site).has(Measures::WAIT))
}

impl FrameWaits {
    pub(crate) fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        self.0.add_measures(catalog, thread);
    }

    /// Ends a frame, and returns its waits; `None` if none of its spans was measured.
    pub(crate) fn end_frame(&mut self, catalog: &Catalog) -> Option<Waits> {
        let has_waits = |site: SiteId| {
            let site = catalog.site(site);
            site.is_some_and(|site| Measures::of(site).has(Measures::WAIT))
        };
        let measured = self.0.self_measured(has_waits);
        self.0.restart();
        let measured = measured?;
        Some(Waits {
            queued_ns: measured.run_queue_ns,
            blocked_ns: measured.off_cpu_ns.saturating_sub(measured.run_queue_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::batch::{ArgValue, SpanArgs};
    use vor_capture::model::catalog::{SiteId, SiteInfo};

    use super::*;

    fn catalog() -> Catalog {
        let measured = filled!(SiteInfo {
            name: "measured".into(),
            arg_names: Measures::WAITS.arg_names().map(Into::into).collect()
        });
        let plain = filled!(SiteInfo {
            name: "plain".into()
        });
        filled!(Catalog {
            sites: Arc::new([measured, plain].map(|site| Some(Arc::new(site))).to_vec())
        })
    }

    /// Begin, duration, and the queued and blocked time if it is measured.
    type Span = (u64, u64, Option<(u64, u64)>);

    fn thread(spans: &[Span]) -> ThreadBatch {
        let mut thread = ThreadBatch::default();
        for (i, &(start, ticks, waits)) in (0..).zip(spans) {
            thread.start_ticks.push(start);
            thread.duration_ticks.push(ticks);
            thread
                .sites
                .push(SiteId(if waits.is_some() { 1 } else { 2 }));
            if let Some((queued_ns, blocked_ns)) = waits {
                let value = |name| match name {
                    "off_cpu_ns" => queued_ns + blocked_ns,
                    "run_queue_ns" => queued_ns,
                    _ => 0,
                };
                let values = Measures::WAITS
                    .arg_names()
                    .map(|name| ArgValue::U64(value(name)));
                thread.args.push(filled!(SpanArgs {
                    span: i,
                    values: values.collect(),
                }));
            }
        }
        thread
    }

    #[test]
    fn each_wait_is_in_one_frame() {
        let catalog = catalog();
        let mut waits = FrameWaits::default();
        let plain = filled!(Catalog {
            sites: Arc::new(catalog.sites[1..].to_vec())
        });
        assert!(are_measured(&catalog) && !are_measured(&plain));
        // Two measured spans within one without a measurement, in one that is still open.
        waits.add_thread(
            &catalog,
            &thread(&[(10, 5, Some((1, 2))), (20, 5, Some((3, 0))), (5, 30, None)]),
        );
        let first = waits.end_frame(&catalog).unwrap();
        assert_eq!((first.queued_ns, first.blocked_ns), (4, 2));
        // The outer one ends in the next frame, with the rest.
        waits.add_thread(&catalog, &thread(&[(0, 50, Some((10, 12)))]));
        let second = waits.end_frame(&catalog).unwrap();
        assert_eq!((second.queued_ns, second.blocked_ns), (6, 10));
        waits.add_thread(&catalog, &thread(&[(60, 5, None)]));
        assert_eq!(waits.end_frame(&catalog), None);
    }
}
