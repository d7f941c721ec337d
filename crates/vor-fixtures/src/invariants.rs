//! Rules that hold for everything that a reader returns from a file of any bytes.

use std::collections::BTreeSet;
use std::fmt::Debug;

use vor_capture::format::{Event, RECORD_HEAD_BYTES, Record, RecordHead};
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::frame::{FrameSnapshot, ThreadTree};
use vor_capture::model::heap::HeapSnapshot;
use vor_capture::reader::{Columns, DEFAULT_MAX_SPANS, Recovered};

use crate::decoded;
use crate::reference;

/// Most spans, values, messages or tasks of a record.
const MAX_RECORD_ITEMS: usize = 1 << 18;

/// Fails when two values differ. Floats that are not numbers are equal to themselves here.
pub fn assert_same<T: Debug + PartialEq>(found: &T, expected: &T, what: &str) {
    if found != expected {
        assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{what}");
    }
}

/// Checks every record of a file against the [second decoder](mod@reference): either both return
/// the same contents, or both refuse the payload.
pub fn records(file: &[u8]) {
    decoded::visit(file, |event, payloads| {
        let Event::Record(raw) = event else {
            return;
        };
        let begin = raw.offset as usize;
        let end = begin + raw.head.record_bytes();
        let stored = &file[begin + RECORD_HEAD_BYTES..end];
        let expected = if reference::KINDS.contains(&raw.head.kind) {
            reference::unpack(raw.head.codec, stored).and_then(|payload| {
                payload.map_or(Ok(None), |payload| {
                    reference::decode(raw.head.kind, raw.head.seq, &payload)
                })
            })
        } else {
            Ok(None)
        };
        let what = format!("kind {} at {begin}", raw.head.kind);
        match (raw.decode(payloads), expected) {
            (Ok(found), Ok(expected)) => {
                assert_same(&found, &expected, &what);
                if let Some(found) = found {
                    record(&found);
                }
            }
            (Err(error), Err(_)) => assert!(error.is_corrupt(), "{what}: {error}"),
            (Ok(_), Err(rule)) => panic!("{what}: a payload is decoded in spite of {rule}"),
            (Err(error), Ok(_)) => panic!("{what}: a right payload is refused: {error}"),
        }
    });
}

fn record(record: &Record) {
    match record {
        Record::Batch(threads) => batch(threads),
        Record::Heap(snapshot) => heap(snapshot),
        _ => {}
    }
}

/// Checks the contents of a batch.
pub fn batch(threads: &[ThreadBatch]) {
    let sum = |of: fn(&ThreadBatch) -> usize| threads.iter().map(of).sum::<usize>();
    let values = |thread: &ThreadBatch| thread.args.iter().map(|args| args.values.len()).sum();
    for items in [
        sum(ThreadBatch::len),
        sum(values),
        sum(|thread| thread.messages.len()),
        sum(|thread| thread.async_spans.len()),
        sum(|thread| thread.task_events.len() + thread.flows.len()),
    ] {
        assert!(items <= MAX_RECORD_ITEMS, "{items} items in a record");
    }
    for thread in threads {
        let spans = thread.len();
        assert_eq!(thread.duration_ticks.len(), spans, "durations");
        assert_eq!(thread.sites.len(), spans, "sites");
        let mut next = 0;
        for args in &thread.args {
            assert!(args.span >= next, "arguments ascend");
            assert!((args.span as usize) < spans, "arguments of no span");
            next = args.span + 1;
        }
    }
}

fn heap(snapshot: &HeapSnapshot) {
    let bytes = snapshot.stacks.iter().map(|stack| stack.inuse_bytes);
    assert!(bytes.is_sorted_by(|a, b| a >= b), "the most bytes first");
    assert!(
        snapshot
            .stacks
            .iter()
            .all(|stack| stack.scopes.len() <= 256)
    );
    let _ = snapshot.total();
    assert!(snapshot.difference(snapshot).is_empty());
}

/// Checks a frame and its trees.
pub fn frame(recovered: &Recovered) {
    let frame: &FrameSnapshot = &recovered.frame;
    let threads = frame.threads.iter().map(|tree| tree.thread);
    assert!(threads.is_sorted_by(|a, b| a < b), "a tree for each thread");
    frame.threads.iter().for_each(tree);
    if recovered.lost_records == 0 && frame.span_count <= DEFAULT_MAX_SPANS as u64 {
        assert!(
            recovered.has_all_spans(),
            "a whole frame holds {} of its {} spans",
            recovered.held_spans(),
            frame.span_count
        );
    }
}

/// Checks that the spans of a tree nest: each is inside its parent, one step deeper.
fn tree(tree: &ThreadTree) {
    // Around a span: the position behind the subtree, and the first and last tick.
    let mut around: Vec<(usize, u64, u64)> = Vec::new();
    let mut args_end = 0;
    for (i, span) in tree.spans.iter().enumerate() {
        while around.pop_if(|(behind, _, _)| *behind <= i).is_some() {}
        let behind = i + span.subtree_len as usize;
        assert!(span.subtree_len >= 1, "an empty subtree");
        assert_eq!(span.depth as usize, around.len(), "depth of span {i}");
        let (start, end) = (span.start_ticks, span.end_ticks());
        let within = around.last();
        let &(last, first_tick, last_tick) = within.unwrap_or(&(tree.spans.len(), 0, u64::MAX));
        assert!(
            behind <= last,
            "the subtree of span {i} ends after its parent's"
        );
        assert!(
            first_tick <= start && end <= last_tick,
            "span {i} is not inside its parent"
        );
        around.push((behind, start, end));
        let (begin, end) = span.args;
        assert!(begin <= end && end as usize <= tree.arg_values.len());
        args_end = args_end.max(end);
    }
    assert!(
        args_end as usize <= tree.arg_values.len(),
        "values of no span"
    );
}

/// Checks that columns agree with one another, and with the batches that made them.
pub fn columns(columns: &Columns, batches: &[Vec<ThreadBatch>]) {
    let threads = || batches.iter().flatten();
    let sites: Vec<u32> = threads()
        .flat_map(|thread| thread.sites.iter().map(|site| site.0))
        .collect();
    assert_eq!(columns.sites, sites, "sites of the rows");
    let rows = sites.len();
    for len in [
        columns.depths.len(),
        columns.start_ns.len(),
        columns.dur_ns.len(),
        columns.self_ns.len(),
        columns.runs.iter().map(|run| run.rows).sum(),
    ] {
        assert_eq!(len, rows, "number of rows");
    }
    let mut row = 0;
    for run in &columns.runs {
        let depths = &columns.depths[row..row + run.rows];
        // The last span of a run may be inside later ones, and of two neighbours backwards the
        // second is at most one step deeper.
        let backwards = depths.windows(2).all(|pair| pair[0] <= pair[1] + 1);
        assert!(backwards, "depths of the rows from {row} on jump");
        row += run.rows;
    }
    let expected: Vec<(usize, usize)> = {
        let mut first = 0;
        let mut found = Vec::new();
        for thread in threads() {
            for args in &thread.args {
                found.push((first + args.span as usize, args.values.len()));
            }
            first += thread.len();
        }
        found
    };
    let args = columns
        .args
        .iter()
        .map(|args| (args.row, args.values.len()));
    assert_eq!(args.collect::<Vec<_>>(), expected, "arguments of the rows");
    let count = |of: fn(&ThreadBatch) -> usize| threads().map(of).sum::<usize>();
    assert_eq!(
        columns.tasks.len(),
        count(|thread| thread.async_spans.len())
    );
    assert_eq!(
        columns.messages.len(),
        count(|thread| thread.messages.len())
    );
}

/// Returns whether bytes within a record or within damage look like the head of a record. A reader
/// of a growing file treats them in a way that depends on the bytes that it has.
pub fn is_ambiguous(file: &[u8]) -> bool {
    let mut starts = BTreeSet::new();
    let header = decoded::visit(file, |event, _| {
        if let Event::Record(raw) = event {
            starts.insert(raw.offset as usize);
        }
    });
    let Some((header, len)) = header else {
        return true;
    };
    (len..file.len())
        .filter(|at| !starts.contains(at))
        .any(|at| RecordHead::parse(&header, &file[at..]).is_some())
}
