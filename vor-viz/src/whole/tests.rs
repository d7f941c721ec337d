//! Sums of any range, compared with sums made span by span, and with those of `vor stats`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::{ArgValue, SpanArgs, SpanBatch, TaskEvent, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::measures::Measures;
use vor_capture::reader::{Capture, Event, Reader};
use vor_fixtures::even::begin;
use vor_fixtures::programs::{BEGIN, Shape, run};

mod find;
mod holders;
mod kept;
mod measured;
mod messages;
mod partial;
mod polls;
mod tasks;
mod why;

use super::archive::Archive;
use super::gathering::{RangeScope, Spans};
use super::*;
use crate::icicle::{StackKey, StackOptions, Stacks};
use crate::scopes::{Gather, ScopeRows, ScopeSums};
use crate::store::{Extent, Layer};

/// Bytes of a part: a few batches.
const PART_BYTES: u64 = 200;

/// The viewer's limit.
const MAX_SPANS: usize = 3_000_000;

/// A span of a capture.
#[derive(Clone, Copy, Debug)]
struct Given {
    thread: ThreadId,
    begin_ns: i64,
    duration_ns: u64,
    site: SiteId,
    /// Its off-CPU time, the part of it in the run queue, and its context switches.
    measured: [u64; 3],
    parent: Option<usize>,
}

impl Given {
    fn end_ns(&self) -> i64 {
        self.begin_ns + self.duration_ns as i64
    }
}

/// A capture, its batches, and its spans.
struct Made {
    bytes: Vec<u8>,
    batches: Vec<SpanBatch>,
    spans: Vec<Given>,
    origin_ns: i64,
}

fn encoded(catalog: &Catalog, batches: &[SpanBatch]) -> Vec<u8> {
    let (mut encoder, mut bytes) = begin(catalog);
    for batch in batches {
        encoder.encode(RecordRef::Batch(batch), &mut bytes);
    }
    bytes
}

fn made(seed: u64, shape: Shape) -> Made {
    let mut batches = run(seed, shape).batches;
    let mut catalog = Catalog::clone(&batches[0].catalog);
    // Every second site measures its waits.
    let sites = catalog.sites.iter().enumerate().map(|(i, site)| {
        let info = SiteInfo::clone(site.as_ref().unwrap());
        let arg_names = match i % 2 {
            0 => std::iter::once("own")
                .chain(Measures::WAITS.arg_names())
                .map(Into::into)
                .collect(),
            _ => Vec::new(),
        };
        Some(Arc::new(filled!(SiteInfo { arg_names, ..info })))
    });
    catalog.sites = Arc::new(sites.collect());
    let catalog = Arc::new(catalog);
    let origin_ns = catalog.timeline.unix_ns(BEGIN);
    let mut spans = Vec::new();
    for batch in &mut batches {
        batch.catalog = Arc::clone(&catalog);
        for thread in &mut batch.threads {
            for i in 0..thread.len() {
                let begin_ns = catalog.timeline.unix_ns(thread.start_ticks[i]) - origin_ns;
                let end_ns = catalog.timeline.unix_ns(thread.end_ticks(i)) - origin_ns;
                let (site, duration_ns) = (thread.sites[i], (end_ns - begin_ns) as u64);
                let mut measured = [0; 3];
                if site.0 % 2 == 1 {
                    let off_cpu_ns = duration_ns * (i as u64 % 5) / 4;
                    let switches = duration_ns.min(i as u64 % 7);
                    measured = [off_cpu_ns, off_cpu_ns / 3, switches];
                    let own = std::iter::once(7);
                    let values = own.chain(measured).map(ArgValue::U64).collect();
                    thread.args.push(filled!(SpanArgs {
                        span: i as u32,
                        values
                    }));
                }
                spans.push(Given {
                    thread: thread.thread,
                    begin_ns,
                    duration_ns,
                    site,
                    measured,
                    parent: None,
                });
            }
        }
    }
    for i in 0..spans.len() {
        let span = spans[i];
        let is_around =
            |other: &Given| other.thread == span.thread && other.begin_ns <= span.begin_ns;
        let around = spans[i + 1..].iter().position(is_around);
        spans[i].parent = around.map(|at| i + 1 + at);
    }
    Made {
        bytes: encoded(&catalog, &batches),
        batches,
        spans,
        origin_ns,
    }
}

/// Returns the latest end of a span in each batch, in ticks.
fn latest_ends(batches: &[SpanBatch]) -> Vec<u64> {
    let latest = batches.iter().map(|batch| {
        let threads = batch.threads.iter();
        let ends = threads.flat_map(|thread| (0..thread.len()).map(|i| thread.end_ticks(i)));
        ends.max().unwrap_or(0)
    });
    latest.collect()
}

/// Adds an event of a task to a batch, on the `nth` thread of the capture.
fn add_event(batch: &mut SpanBatch, nth: u64, event: TaskEvent) {
    let thread = ThreadId((nth % batch.catalog.threads.len() as u64) as u32);
    let at = batch.threads.partition_point(|share| share.thread < thread);
    if batch
        .threads
        .get(at)
        .is_none_or(|share| share.thread != thread)
    {
        batch.threads.insert(at, filled!(ThreadBatch { thread }));
    }
    batch.threads[at].task_events.push(event);
}

/// A capture with its survey.
struct Opened {
    capture: Capture,
    archive: Archive,
    origin_ns: i64,
    layer: Layer,
}

/// Surveys a capture.
fn surveyed(
    bytes: Vec<u8>,
    origin_ns: i64,
    part_bytes: Option<u64>,
    max_spans: usize,
) -> (Capture, Archive, Survey) {
    let mut capture = Capture::new(Cursor::new(bytes)).unwrap();
    let mut archive = part_bytes.map_or_else(Archive::default, Archive::with_part_bytes);
    archive.find(&mut capture).unwrap();
    let mut survey = archive.survey(capture.info().duration_ns, max_spans);
    while archive
        .survey_part(&mut survey, &mut capture, origin_ns)
        .unwrap()
    {}
    archive.take(&mut survey);
    assert_eq!(archive.losses(), 0);
    (capture, archive, survey)
}

fn opened(bytes: Vec<u8>, origin_ns: i64, part_bytes: Option<u64>) -> Opened {
    let (capture, archive, survey) = surveyed(bytes, origin_ns, part_bytes, MAX_SPANS);
    let layer = survey.layer(capture.catalog());
    Opened {
        capture,
        archive,
        origin_ns,
        layer,
    }
}

impl Opened {
    fn answer<G: Gather>(&mut self, scope: RangeScope, options: &G::Options) -> G::Output {
        let spans = Spans::default();
        let ticket = spans.ask::<G>(scope, options, self.capture.catalog());
        let mut question = spans.next().unwrap();
        let mut range = self.archive.read(None, scope.begin_ns, scope.end_ns);
        while self
            .archive
            .read_part(
                &mut range,
                &mut self.capture,
                self.origin_ns,
                question.work.as_reader(),
            )
            .unwrap()
        {}
        question.answer(
            self.capture.catalog(),
            self.archive.bounds_ns().unwrap_or((0, 0)),
        );
        assert!(!spans.is_busy());
        ticket.take().unwrap()
    }

    fn rows(&mut self, scope: RangeScope) -> ScopeRows {
        self.answer::<ScopeSums>(scope, &scope.extent)
    }

    fn picture(&mut self, begin_ns: i64, end_ns: i64) -> Layer {
        let mut range = self.archive.read(None, begin_ns, end_ns);
        let mut reader = PictureReader::new(begin_ns, end_ns, 1, MAX_SPANS);
        while self
            .archive
            .read_part(&mut range, &mut self.capture, self.origin_ns, &mut reader)
            .unwrap()
        {}
        self.archive.layer(&reader, None, self.capture.catalog())
    }
}

/// A drawn span: its thread, row, begin, duration and site.
type Drawn = (u32, usize, i64, u64, u32);

/// Returns the spans of a picture.
fn drawn_spans(layer: &Layer) -> Vec<Drawn> {
    let tracks = layer.tracks().iter();
    let of_threads = tracks.filter_map(|track| Some((track.id.thread()?, &track.rows)));
    let mut drawn: Vec<Drawn> = of_threads
        .flat_map(|(thread, rows)| {
            rows.iter().enumerate().flat_map(move |(depth, row)| {
                row.spans(i64::MIN, i64::MAX).map(move |span| {
                    (
                        thread.0,
                        depth,
                        span.begin_ns,
                        span.duration_ns,
                        span.site.0,
                    )
                })
            })
        })
        .collect();
    drawn.sort_unstable();
    drawn
}

/// Returns how spans are drawn.
fn drawn_of(spans: &[Given]) -> Vec<Drawn> {
    let drawn = spans.iter().map(|span| {
        let around = std::iter::successors(span.parent, |&at| spans[at].parent);
        let depth = around.count();
        (
            span.thread.0,
            depth,
            span.begin_ns,
            span.duration_ns,
            span.site.0,
        )
    });
    drawn.collect()
}

/// Count, total, self, sum and extremes of the durations, and context switches.
type Sums = (u64, u64, u64, u64, u64, u64, u64);

fn sums_of(rows: &ScopeRows) -> BTreeMap<u32, Sums> {
    let of = rows.rows.iter().map(|row| {
        let sums = (
            row.count,
            row.total_ns,
            row.self_ns,
            row.durations_ns,
            row.min_ns,
            row.max_ns,
            row.measured.context_switches,
        );
        (row.site.0, sums)
    });
    of.collect()
}

/// Sums up a range span by span.
fn expected(spans: &[Given], scope: RangeScope) -> BTreeMap<u32, Sums> {
    let (from, to) = (scope.begin_ns, scope.end_ns);
    let is_whole = scope.extent == Extent::Whole;
    let visited = |span: &Given| {
        let ends = span.end_ns() > from;
        ends && match is_whole {
            true => span.end_ns() <= to,
            false => span.begin_ns < to || span.end_ns() == to,
        }
    };
    let part = |span: &Given| match is_whole {
        true => span.duration_ns,
        false => (span.end_ns().min(to) - span.begin_ns.max(from)).max(0) as u64,
    };
    let mut inside = vec![0; spans.len()];
    for span in spans {
        if let Some(parent) = span.parent {
            inside[parent] += part(span);
        }
    }
    let mut sums: BTreeMap<u32, Sums> = BTreeMap::new();
    for (i, span) in spans.iter().enumerate().filter(|(_, span)| visited(span)) {
        let mut around = std::iter::successors(span.parent, |&at| spans[at].parent);
        let is_inner = around.any(|at| spans[at].site == span.site && visited(&spans[at]));
        let sum = sums
            .entry(span.site.0)
            .or_insert((0, 0, 0, 0, u64::MAX, 0, 0));
        sum.0 += 1;
        if !is_inner {
            sum.1 += part(span);
        }
        sum.2 += part(span) - inside[i];
        sum.3 += span.duration_ns;
        sum.4 = sum.4.min(span.duration_ns);
        sum.5 = sum.5.max(span.duration_ns);
        if span.end_ns() <= to && !is_inner {
            sum.6 += span.measured[2];
        }
    }
    sums
}

fn shape() -> impl Strategy<Value = Shape> {
    (
        1..4_usize,
        1..260_usize,
        1..6_usize,
        1..8_usize,
        10..50_usize,
        1..40_usize,
        0..200_usize,
        prop_oneof![Just(0), 1..90_usize],
    )
        .prop_map(
            |(threads, spans, sites, max_depth, opens, max_batch, max_ticks, drops)| Shape {
                threads,
                spans,
                sites,
                max_depth,
                opens,
                ends: 30,
                max_batch,
                drops,
                max_ticks,
                tick_ps: 1_300,
            },
        )
}

/// Reads all batches of a capture: calls `each` with every thread of a batch, its catalog, and a
/// function that returns the time of a tick.
fn each_thread(
    bytes: &[u8],
    origin_ns: i64,
    mut each: impl FnMut(&ThreadBatch, &Catalog, &dyn Fn(u64) -> i64),
) {
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            let ns = |ticks| batch.catalog.unix_ns(ticks) - origin_ns;
            let threads = batch.threads.iter();
            threads.for_each(|thread| each(thread, &batch.catalog, &ns));
        }
    }
}

/// Returns the time between two shares of that of a capture.
fn part_of(archive: &Archive, from: f64, to: f64) -> (i64, i64) {
    // All spans may have been dropped.
    let (begin_ns, end_ns) = archive.bounds_ns().unwrap_or_default();
    let at = |share: f64| begin_ns + (share * (end_ns - begin_ns) as f64) as i64;
    (at(from.min(to)), at(from.max(to)))
}

proptest! {
    /// Table and flame graph of any range equal the sums made span by span.
    #[test]
    fn sums_of_any_range_are_exact(
        seed in any::<u64>(),
        shape in shape(),
        from in -0.1..1.1_f64,
        to in -0.1..1.1_f64,
        is_whole in any::<bool>(),
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes, made.origin_ns, Some(PART_BYTES));
        let first_ns = made.spans.iter().map(|span| span.begin_ns).min();
        let last_ns = made.spans.iter().map(|span| span.end_ns()).max();
        prop_assert_eq!(opened.archive.bounds_ns(), first_ns.zip(last_ns));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let extent = if is_whole { Extent::Whole } else { Extent::Clipped };
        let scope = RangeScope { begin_ns, end_ns, extent };
        let expected = expected(&made.spans, scope);
        let rows = opened.rows(scope);
        prop_assert_eq!(sums_of(&rows), expected.clone());
        // The flame graph has the same self times and counts.
        let stacks = opened.answer::<Stacks>(scope, &StackOptions {
            by_thread: true,
            extent: scope.extent,
        });
        let mut by_site: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
        for node in stacks.tree.nodes() {
            if let StackKey::Scope(SiteId(site @ 1..)) = node.key {
                let sum = by_site.entry(site).or_default();
                *sum = (sum.0 + node.sums.count, sum.1 + node.sums.self_ns);
            }
        }
        let of_table = expected.iter().map(|(site, sums)| (*site, (sums.0, sums.2)));
        prop_assert_eq!(by_site, of_table.collect::<BTreeMap<_, _>>());
    }

    /// The sums of the whole capture are those of `vor stats`, with percentiles.
    #[test]
    fn sums_of_the_whole_are_those_of_vor_stats(seed in any::<u64>(), shape in shape()) {
        let made = made(seed, shape);
        let mut builder = vor_capture::stats::StatsBuilder::new();
        for batch in &made.batches {
            let threads = batch.threads.iter();
            threads.for_each(|thread| builder.add_thread(&batch.catalog, thread));
        }
        let stats = builder.scope_stats(&made.batches[0].catalog);
        let mut opened = opened(made.bytes, made.origin_ns, Some(PART_BYTES));
        let scope = RangeScope {
            begin_ns: i64::MIN,
            end_ns: i64::MAX,
            extent: Extent::Clipped,
        };
        let mut rows = opened.rows(scope).rows;
        rows.sort_by_key(|row| row.site);
        prop_assert_eq!(rows.len(), stats.len());
        for (row, stats) in rows.iter().zip(&stats) {
            let of_row = (
                row.site, row.count, row.total_ns, row.self_ns, row.min_ns, row.p50_ns,
                row.p95_ns, row.p99_ns, row.max_ns, row.measured,
            );
            let of_stats = (
                stats.site, stats.count, stats.total_ns, stats.self_ns, stats.min_ns,
                stats.p50_ns, stats.p95_ns, stats.p99_ns, stats.max_ns, stats.measured,
            );
            prop_assert_eq!(of_row, of_stats);
            prop_assert!((row.mean_ns() - stats.mean_ns).abs() < 1e-6);
        }
    }

    /// The picture of any range has all of its spans, in the rows of the whole.
    #[test]
    fn pictures_of_any_range_have_its_spans(
        seed in any::<u64>(),
        shape in shape(),
        from in 0.0..1.0_f64,
        to in 0.0..1.0_f64,
    ) {
        let made = made(seed, shape);
        let mut opened = opened(made.bytes, made.origin_ns, Some(PART_BYTES));
        let (begin_ns, end_ns) = part_of(&opened.archive, from, to);
        let mut expected = drawn_of(&made.spans);
        expected.sort_unstable();
        prop_assert_eq!(opened.layer.bin_ns(), 0);
        prop_assert_eq!(drawn_spans(&opened.layer), expected.clone());
        let picture = opened.picture(begin_ns, end_ns);
        expected.retain(|&(_, _, begin, duration, _)| {
            begin <= end_ns && begin + duration as i64 >= begin_ns
        });
        prop_assert_eq!(drawn_spans(&picture), expected);
        let rows = |layer: &Layer| {
            layer.tracks().iter().map(|track| track.rows.len()).collect::<Vec<_>>()
        };
        prop_assert_eq!(rows(&picture), rows(&opened.layer));
    }
}
