//! Calls found in any range, page by page, compared with a filter over all spans.

use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::model::catalog::{SiteId, ThreadId};

use super::{Given, PART_BYTES, RangeScope, made, opened, part_of, shape};
use crate::find::{FindOptions, Instance, Instances, Order};
use crate::store::Extent;

/// The compared values of a call: duration, begin and thread.
type Call = (u64, i64, ThreadId);

/// Sorts as the order wants it; ties are by begin and thread.
fn sort(calls: &mut [Call], order: Order) {
    calls.sort_by_key(|&(duration_ns, begin_ns, thread)| {
        let main = match order {
            // Calls without holders are in the order of their durations.
            Order::Longest | Order::Holder | Order::HolderReversed => -i128::from(duration_ns),
            Order::Shortest => i128::from(duration_ns),
            Order::Earliest => i128::from(begin_ns),
            Order::Latest => -i128::from(begin_ns),
        };
        (main, begin_ns, thread, std::cmp::Reverse(duration_ns))
    });
}

fn visits(span: &Given, scope: RangeScope) -> bool {
    let (begin_ns, end_ns) = (span.begin_ns, span.end_ns());
    end_ns > scope.begin_ns
        && match scope.extent {
            Extent::Whole => end_ns <= scope.end_ns,
            Extent::Clipped => begin_ns < scope.end_ns || end_ns == scope.end_ns,
        }
}

proptest! {
    /// The pages together hold each call that passes the filters once, in order; and the counts are
    /// exact on each page.
    #[test]
    fn pages_hold_every_call_that_passes(
        seed in any::<u64>(),
        shape in shape(),
        (from, to) in (-0.1..1.1_f64, -0.1..1.1_f64),
        is_whole in any::<bool>(),
        order in prop_oneof![
            Just(Order::Longest), Just(Order::Shortest), Just(Order::Earliest), Just(Order::Latest),
            Just(Order::HolderReversed),
        ],
        (least, most) in (0..300_u64, 0..3000_u64),
        digit in prop::option::of(0..12_u64),
        thread in prop::option::of(0..3_u32),
        page in 1..30_usize,
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let extent = if is_whole { Extent::Whole } else { Extent::Clipped };
        let scope = RangeScope { begin_ns, end_ns, extent };
        // The first site has arguments.
        for site in [1, 2].map(SiteId) {
            let text = match digit {
                None => String::new(),
                Some(digit @ 0..10) => format!("OFF_cpu_ns = {digit}"),
                Some(_) => "OFF_cpu_ns = ".to_owned(),
            };
            let mut options = FindOptions {
                extent: scope.extent,
                durations_ns: (least, least + most),
                threads: thread.map(|thread| Arc::from([ThreadId(thread)])),
                args: text.to_lowercase().into(),
                order,
                most: page,
                ..FindOptions::all_of(site, opened.capture.catalog())
            };
            let of_site = made.spans.iter().filter(|span| span.site == site);
            let of_site = of_site.filter(|span| visits(span, scope));
            let all = of_site.clone().count() as u64;
            let has_text = |span: &Given| {
                let args = format!("off_cpu_ns = {}", span.measured[0]);
                text.is_empty() || (site.0 % 2 == 1 && args.starts_with(&*options.args))
            };
            let passing = of_site.filter(|span| {
                (least..=least + most).contains(&span.duration_ns)
                    && thread.is_none_or(|thread| span.thread.0 == thread)
                    && has_text(span)
            });
            let passing = passing.map(|span| (span.duration_ns, span.begin_ns, span.thread));
            let mut expected: Vec<Call> = passing.collect();
            sort(&mut expected, order);
            let mut calls: Vec<Call> = Vec::new();
            loop {
                let found = opened.answer::<Instances>(scope, &options);
                prop_assert_eq!((found.all, found.count), (all, expected.len() as u64));
                prop_assert_eq!(found.before, calls.len() as u64);
                prop_assert_eq!(found.histogram.count(), found.count);
                prop_assert!(found.listed.len() <= page);
                if let Some(max_ns) = expected.iter().map(|call| call.0).max() {
                    let min_ns = expected.iter().map(|call| call.0).min();
                    prop_assert_eq!((Some(found.min_ns), found.max_ns), (min_ns, max_ns));
                }
                // Also of spans that end after the range.
                let has_args = |call: &Instance| !call.args.is_empty();
                prop_assert!(found.listed.iter().all(|call| has_args(call) == (site.0 == 1)));
                calls.extend(found.listed.iter().map(|call| {
                    (call.span.duration_ns, call.span.begin_ns, call.thread)
                }));
                if !found.has_more() {
                    break;
                }
                options.after = found.listed.last().map(|call| call.rank);
            }
            prop_assert_eq!(calls, expected);
        }
    }
}
