//! Judges tables by totals that were made span by span, and by the histogram of `vor stats`.

use std::collections::BTreeSet;

use vor_capture::stats::Histogram;
use vor_fixtures::recorded::{Measured, Recorded, RecordedSpan, Totals, TotalsBySite};
use vor_fixtures::recorded::{scope_totals, task_totals};
use vor_viz::scopes::{ScopeRow, ScopeRows};
use vor_viz::store::TrackKind;

/// Listed calls of a row.
const SLOWEST: usize = 10;

/// Returns the percentile that `vor stats` prints.
pub fn stats_percentile_ns(durations_ns: &[u64], quantile: f64) -> u64 {
    let mut histogram = Histogram::default();
    durations_ns.iter().for_each(|ns| histogram.add(*ns));
    let (Some(min), Some(max)) = (durations_ns.iter().min(), durations_ns.iter().max()) else {
        return 0;
    };
    histogram.value_at(quantile).clamp(*min, *max)
}

/// Asserts that a table has the scopes and the tasks of a capture in a range.
pub fn judge(rows: &ScopeRows, recorded: &Recorded, measured: &Measured, case: &str) {
    let scopes = scope_totals(&recorded.spans, measured);
    let tasks = task_totals(&recorded.tasks, measured);
    judge_kind(rows, TrackKind::Scopes, &scopes, case);
    judge_kind(rows, TrackKind::Tasks, &tasks, case);
    let all = scopes.values().chain(tasks.values());
    assert_eq!(rows.spans, all.map(Totals::count).sum::<u64>(), "{case}");
    for row in &rows.rows {
        let spans = match row.kind {
            TrackKind::Scopes => &recorded.spans,
            TrackKind::Tasks => &recorded.tasks,
        };
        judge_slowest(row, spans, measured, case);
    }
}

/// Asserts that a table has these totals of scopes or of tasks, and no other rows of that kind.
pub fn judge_kind(rows: &ScopeRows, kind: TrackKind, expected: &TotalsBySite, case: &str) {
    let rows = || rows.rows.iter().filter(|row| row.kind == kind);
    let sites: BTreeSet<u32> = rows().map(|row| row.site.0).collect();
    assert_eq!(sites.len(), rows().count(), "{case}: a row is there twice");
    assert!(sites.iter().eq(expected.keys()), "{case}: {sites:?}");
    for row in rows() {
        judge_row(row, &expected[&row.site.0], &format!("{case}, {kind:?}"));
    }
}

fn judge_row(row: &ScopeRow, expected: &Totals, case: &str) {
    let case = format!("{case} of site {}", row.site.0);
    let durations_ns = &expected.durations_ns;
    assert_eq!(
        (row.count, row.ended_count, row.total_ns, row.self_ns),
        (
            expected.count(),
            expected.ended_count,
            expected.total_ns,
            expected.self_ns
        ),
        "{case}: count, ended, total, self"
    );
    assert_eq!(
        (row.durations_ns, row.min_ns, row.max_ns),
        (
            expected.durations_sum_ns(),
            durations_ns[0],
            durations_ns[durations_ns.len() - 1]
        ),
        "{case}: sum, min, max"
    );
    let mean_ns = expected.durations_sum_ns() as f64 / expected.count() as f64;
    assert_eq!(row.mean_ns(), mean_ns, "{case}: mean");
    for (found, quantile) in [(row.p50_ns, 0.5), (row.p95_ns, 0.95), (row.p99_ns, 0.99)] {
        let of_stats = stats_percentile_ns(durations_ns, quantile);
        assert_eq!(found, of_stats, "{case}: percentile {quantile}");
        let exact = expected.percentile_ns(quantile);
        assert!(
            found.abs_diff(exact) <= exact / 64 + u64::from(exact >= 64),
            "{case}: percentile {quantile} is {found} and not {exact}"
        );
    }
}

/// Asserts that the listed calls are the slowest ones, each with its own thread and begin.
fn judge_slowest(row: &ScopeRow, spans: &[RecordedSpan], measured: &Measured, case: &str) {
    let own = spans.iter().filter(|span| span.site == row.site.0);
    let mut own: Vec<&RecordedSpan> = own.filter(|span| measured.has(span)).collect();
    own.sort_by_key(|span| std::cmp::Reverse(span.duration_ns()));
    let listed = row.slowest.iter().map(|call| call.span.duration_ns);
    let expected = own.iter().map(|span| span.duration_ns()).take(SLOWEST);
    assert!(listed.eq(expected), "{case}: slowest calls of {row:?}");
    for call in &row.slowest {
        let is_call = |span: &&&RecordedSpan| {
            (span.thread, span.begin_ns, span.duration_ns())
                == (call.thread.0, call.span.begin_ns, call.span.duration_ns)
        };
        assert!(own.iter().any(|span| is_call(&span)), "{case}: {call:?}");
    }
}
