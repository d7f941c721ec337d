//! Scopes without a guard: they leave the same records as guards, and a scope that does not nest
//! becomes a task.
#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::{Arc, Mutex};

use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::hot::args::Arg;
use vor_recorder::hot::callsite::CallSite;
use vor_recorder::hot::scope::manual;
use vor_recorder::hot::thread;
use vor_recorder::setup::Config;
use vor_recorder::{clock, drain, setup};

/// A span's name and arguments; a task has none.
type Row = (String, Option<Vec<ArgValue>>);

struct Rows(Arc<Mutex<Vec<Row>>>);

impl FrameSink for Rows {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut rows = self.0.lock().unwrap();
        for thread in &batch.threads {
            assert_eq!(thread.dropped_spans, 0);
            for (i, site) in thread.sites.iter().enumerate() {
                let args = thread.args.iter().find(|args| args.span as usize == i);
                let values = args.map_or_else(Vec::new, |args| args.values.clone());
                rows.push((batch.catalog.site_name(*site).to_owned(), Some(values)));
            }
            for task in &thread.async_spans {
                rows.push((batch.catalog.site_name(task.site).to_owned(), None));
            }
        }
        Ok(())
    }
}

static OUTER: CallSite = CallSite::new("outer", "", "", 0);
static SHORT: CallSite = CallSite::new("short", "", "", 0);
static LONG: CallSite = CallSite::new("long", "", "", 0);
static TASK: CallSite = CallSite::new("task", "", "", 0);
static GONE: CallSite = CallSite::new("gone", "", "", 0);
static ARGS: CallSite =
    CallSite::new("args", "", "", 0).with_args(&["a", "b", "c", "d", "e", "f", "g", "h"]);

/// One test, because recording belongs to the process.
#[test]
fn manual_scopes_leave_the_records_of_guards() {
    own_process!();
    // Nothing is recorded, and no arguments are evaluated.
    manual::begin(&OUTER).end();
    let (scope, args) = manual::begin_with(&ARGS, |_| unreachable!("recording is off"));
    scope.end_with(&args);

    let rows = Arc::new(Mutex::new(Vec::new()));
    Config::new().sink("rows", Rows(Arc::clone(&rows))).enable();

    let outer = manual::begin(&OUTER);
    let task = manual::begin(&TASK);
    let gone = manual::begin(&GONE);
    gone.abandon();
    outer.end();
    assert!(
        thread::open_scopes().is_empty(),
        "the scope around the abandoned one is closed, and closes it"
    );
    task.end_as_task();

    let hour = clock::approximate_ticks(3_600_000_000_000);
    manual::begin(&SHORT).end_unless_shorter(hour);
    assert!(thread::open_scopes().is_empty());
    manual::begin(&LONG).end_unless_shorter(0);
    let long = manual::begin(&LONG);
    std::thread::sleep(std::time::Duration::from_millis(2));
    long.end_unless_shorter(clock::approximate_ticks(1_000_000));

    // Up to the maximum number of arguments, and one more that is left out. The kinds change
    // between scopes of one site.
    for count in 0..=9_i64 {
        let (scope, args) = manual::begin_with(&ARGS, |put| {
            for i in 0..count {
                put(if i == count - 1 {
                    "last".encode()
                } else {
                    i.encode()
                });
            }
        });
        scope.end_with(&args);
    }
    drain::flush();
    setup::disable();

    let mut expected: Vec<Row> = vec![
        ("outer".into(), Some(vec![])),
        ("task".into(), None),
        ("long".into(), Some(vec![])),
        ("long".into(), Some(vec![])),
    ];
    for count in 0..=9_i64 {
        let values = (0..count.min(8)).map(|i| match i == count - 1 {
            true => ArgValue::Str("last".into()),
            false => ArgValue::I64(i),
        });
        expected.push(("args".into(), Some(values.collect())));
    }
    let mut found = std::mem::take(&mut *rows.lock().unwrap());
    // Tasks come after the spans of their batch.
    found.sort_by_key(|(name, args)| (name.clone(), args.as_ref().map(Vec::len)));
    expected.sort_by_key(|(name, args)| (name.clone(), args.as_ref().map(Vec::len)));
    let shown = |rows: &[Row]| {
        rows.iter()
            .map(|row| format!("{row:?}"))
            .collect::<Vec<_>>()
    };
    assert_eq!(shown(&found), shown(&expected));
}
