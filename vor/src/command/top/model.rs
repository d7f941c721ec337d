//! Sums of the records, by second of the program's time.
//!
//! Each scope and thread has the sums of the running second, those of the last whole one, which the
//! tables show, and its self time in each of the last minute's seconds.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::waits::Wait;
use vor_capture::reader::{Event, Recovered};
use vor_capture::stats::{ScopeStats, StatsBuilder};

/// Seconds of history.
pub(super) const SECONDS: usize = 60;
/// Frames of history.
const FRAMES: usize = 600;
const SECOND_NS: i64 = 1_000_000_000;
/// A running program whose clock says nothing for so long is idle.
const IDLE: Duration = Duration::from_millis(1500);
/// Damage that is reported at the end.
const MAX_LOSSES: usize = 10;

/// Sums of one second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) count: u64,
    pub(super) self_ns: u64,
    pub(super) total_ns: u64,
    pub(super) max_ns: u64,
}

/// Sums of a scope or a thread.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    running: Sums,
    pub(super) last: Sums,
    pub(super) all: Sums,
    /// Self time by second, the newest last.
    pub(super) history: VecDeque<u64>,
}

impl Track {
    fn add(&mut self, self_ns: u64, total_ns: u64) {
        for sums in [&mut self.running, &mut self.all] {
            sums.count += 1;
            sums.self_ns += self_ns;
            sums.total_ns += total_ns;
            sums.max_ns = sums.max_ns.max(total_ns);
        }
    }

    fn end_second(&mut self) {
        self.last = std::mem::take(&mut self.running);
        self.history.push_back(self.last.self_ns);
        if self.history.len() > SECONDS {
            self.history.pop_front();
        }
    }
}

/// A frame of the main set.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameRow {
    pub(super) end_ns: i64,
    pub(super) ns: u64,
}

/// Everything that the screen shows.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) source: String,
    pub(super) state: &'static str,
    pub(super) catalog: Arc<Catalog>,
    pub(super) scopes: HashMap<SiteId, Track>,
    pub(super) threads: HashMap<ThreadId, Track>,
    /// Self time of each scope on each thread.
    pub(super) pairs: HashMap<(SiteId, ThreadId), u64>,
    pub(super) frames: VecDeque<FrameRow>,
    /// The last value of each metric, by column.
    pub(super) metrics: HashMap<u32, (f64, VecDeque<f64>)>,
    pub(super) spans: u64,
    pub(super) spans_last: u64,
    spans_running: u64,
    pub(super) dropped: u64,
    pub(super) merged: u64,
    stats: StatsBuilder,
    /// The end of the running second, by the program's clock.
    second_ends_ns: Option<i64>,
    advanced: Instant,
    losses: Vec<String>,
}

impl Model {
    pub(super) fn new(source: &str) -> Self {
        Self {
            source: source.to_owned(),
            state: "",
            catalog: Arc::default(),
            scopes: HashMap::new(),
            threads: HashMap::new(),
            pairs: HashMap::new(),
            frames: VecDeque::new(),
            metrics: HashMap::new(),
            spans: 0,
            spans_last: 0,
            spans_running: 0,
            dropped: 0,
            merged: 0,
            stats: StatsBuilder::new(),
            second_ends_ns: None,
            advanced: Instant::now(),
            losses: Vec::new(),
        }
    }

    pub(super) fn set_catalog(&mut self, catalog: &Arc<Catalog>) {
        if !Arc::ptr_eq(&self.catalog, catalog) {
            self.catalog = Arc::clone(catalog);
        }
    }

    pub(super) fn set_state(&mut self, state: &'static str) {
        self.state = state;
    }

    /// Returns the first pieces that could not be read.
    pub(super) fn losses(&self) -> &[String] {
        &self.losses
    }

    pub(super) fn take(&mut self, event: Event) {
        match event {
            Event::Batch(batch) => self.take_batch(&batch),
            Event::Frame(recovered) => self.take_frame(&recovered),
            Event::Loss(loss) if self.losses.len() < MAX_LOSSES => self.losses.push(loss.reason),
            _ => {}
        }
    }

    pub(super) fn take_batch(&mut self, batch: &SpanBatch) {
        self.set_catalog(&batch.catalog);
        let timeline = &batch.catalog.timeline;
        let ends = batch.threads.iter().filter_map(|share| {
            let start = *share.start_ticks.last()?;
            Some(start.saturating_add(*share.duration_ticks.last()?))
        });
        if let Some(end) = ends.max() {
            self.advance_to(timeline.unix_ns(end));
        }
        for share in &batch.threads {
            self.dropped += share.dropped_spans;
            self.spans += share.len() as u64;
            self.spans_running += share.len() as u64;
            let (scopes, pairs) = (&mut self.scopes, &mut self.pairs);
            let thread = self.threads.entry(share.thread).or_default();
            let each = |site, total_ns, self_ns| {
                scopes.entry(site).or_default().add(self_ns, total_ns);
                *pairs.entry((site, share.thread)).or_default() += self_ns;
                thread.add(self_ns, self_ns);
            };
            self.stats.add_each(timeline, share, each);
        }
    }

    pub(super) fn take_frame(&mut self, recovered: &Recovered) {
        let frame = &recovered.frame;
        if frame.frame_set != 0 {
            return;
        }
        self.set_catalog(&frame.catalog);
        let end_ns = frame.catalog.unix_ns(frame.end_ticks);
        self.advance_to(end_ns);
        self.merged += frame.merged_marks;
        self.frames.push_back(FrameRow {
            end_ns,
            ns: u64::try_from(frame.duration_ns()).unwrap_or(0),
        });
        if self.frames.len() > FRAMES {
            self.frames.pop_front();
        }
        for value in &frame.metrics {
            let (last, history) = self.metrics.entry(value.column).or_default();
            *last = value.value;
            history.push_back(value.value);
            if history.len() > SECONDS {
                history.pop_front();
            }
        }
    }

    /// Ends the seconds before a moment of the program.
    fn advance_to(&mut self, now_ns: i64) {
        let ends_ns = *self
            .second_ends_ns
            .get_or_insert(now_ns.saturating_add(SECOND_NS));
        let over = now_ns.saturating_sub(ends_ns);
        if over < 0 {
            return;
        }
        // A pause longer than the history leaves nothing of it.
        let seconds = (over / SECOND_NS + 1).min(SECONDS as i64 + 1);
        for _ in 0..seconds {
            self.end_second();
        }
        self.second_ends_ns = Some(now_ns - over % SECOND_NS + SECOND_NS);
        self.advanced = Instant::now();
    }

    /// Ends seconds in which a running program sent nothing.
    pub(super) fn pass_time(&mut self, now: Instant) {
        if now.duration_since(self.advanced) >= IDLE
            && let Some(ends_ns) = self.second_ends_ns
        {
            self.advance_to(ends_ns);
        }
    }

    fn end_second(&mut self) {
        self.scopes.values_mut().for_each(Track::end_second);
        self.threads.values_mut().for_each(Track::end_second);
        self.spans_last = std::mem::take(&mut self.spans_running);
    }

    /// Returns the statistics of one scope since the beginning.
    pub(super) fn stats_of(&self, site: SiteId) -> Option<ScopeStats> {
        let all = self.stats.scope_stats(&self.catalog);
        all.into_iter().find(|stats| stats.site == site)
    }

    /// Returns what a scope waited for, if it is a wait.
    pub(super) fn wait_of(&self, site: SiteId) -> Option<Wait<'_>> {
        Wait::of(self.catalog.site(site)?)
    }

    /// Returns the last value of a metric.
    pub(super) fn metric(&self, name: &str) -> Option<f64> {
        let is_it = |column: &vor_capture::model::catalog::Column| column.metric.name == name;
        let at = self.catalog.columns.iter().position(is_it)?;
        let (value, _) = self.metrics.get(&u32::try_from(at).ok()?)?;
        Some(*value)
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::ThreadBatch;
    use vor_capture::model::catalog::{Column, MetricColumn};
    use vor_capture::model::frame::{FrameSnapshot, MetricValue};
    use vor_capture::model::timeline::{ClockSync, RATE_BITS};
    use vor_capture::reader::Reader;
    use vor_fixtures::captures::record_offsets;
    use vor_fixtures::even;
    use vor_fixtures::sealed::kind;

    use super::*;

    /// A catalog whose ticks are nanoseconds.
    fn catalog() -> Arc<Catalog> {
        let mut catalog = Catalog::default();
        let sync = filled!(ClockSync {
            // A nanosecond each.
            rate: 1 << RATE_BITS,
        });
        Arc::make_mut(&mut catalog.timeline).push(sync);
        Arc::new(catalog)
    }

    fn batch(end_ns: u64, spans: u64) -> SpanBatch {
        filled!(SpanBatch {
            catalog: catalog(),
            threads: vec![filled!(ThreadBatch {
                start_ticks: (0..spans).map(|at| end_ns - (spans - at) * 100).collect(),
                duration_ticks: vec![100; spans as usize],
                sites: vec![SiteId(1); spans as usize],
            })],
        })
    }

    #[test]
    fn sums_are_by_second_of_the_program() {
        let mut model = Model::new("test");
        let second = 1_000_000_000;
        model.take_batch(&batch(second, 5));
        model.take_batch(&batch(second * 3 / 2, 5));
        assert_eq!(model.scopes[&SiteId(1)].last.count, 0);
        model.take_batch(&batch(second * 2, 7));
        let track = &model.scopes[&SiteId(1)];
        assert_eq!((track.last.count, track.last.self_ns), (10, 1000));
        assert_eq!((track.all.count, track.all.max_ns), (17, 100));
        // Four seconds pass, of which the first had the seven spans.
        model.take_batch(&batch(second * 6, 1));
        let track = &model.scopes[&SiteId(1)];
        assert_eq!(track.history, [1000, 700, 0, 0, 0]);
        assert_eq!((model.spans, model.spans_last), (18, 0));
        // A jump of a year does not take a year, and leaves nothing of the history.
        model.take_batch(&batch(second * 31_000_000, 1));
        assert_eq!(model.scopes[&SiteId(1)].history, [0; SECONDS]);
        assert_eq!(model.threads[&ThreadId(0)].history, [0; SECONDS]);
    }

    #[test]
    fn seconds_begin_with_the_first_batch_whenever_the_others_come() {
        let mut model = Model::new("test");
        let ms = |ms: u64| ms * 1_000_000;
        // Seconds end at 1.3 s, 2.3 s and so on.
        model.take_batch(&batch(ms(300), 1));
        model.take_batch(&batch(ms(4_700), 2));
        let history = |model: &Model| model.scopes[&SiteId(1)].history.clone();
        assert_eq!(history(&model), [100, 0, 0, 0]);
        model.take_batch(&batch(ms(5_299), 3));
        assert_eq!(history(&model), [100, 0, 0, 0]);
        model.take_batch(&batch(ms(5_300), 4));
        assert_eq!(history(&model), [100, 0, 0, 0, 500]);
        assert_eq!((model.spans, model.spans_last), (10, 5));
        // The seconds of an idle program end one by one.
        model.pass_time(model.advanced + IDLE - Duration::from_nanos(1));
        assert_eq!(history(&model), [100, 0, 0, 0, 500]);
        model.pass_time(model.advanced + IDLE);
        assert_eq!(history(&model), [100, 0, 0, 0, 500, 400]);
        assert_eq!((model.spans, model.spans_last), (10, 4));
    }

    #[test]
    fn sums_are_of_scopes_threads_and_both() {
        let mut model = Model::new("test");
        // Around 20 ns of another scope, on two threads.
        let share = |thread, ns| {
            filled!(ThreadBatch {
                thread: ThreadId(thread),
                start_ticks: vec![1_010, 1_000],
                duration_ticks: vec![20, ns],
                sites: vec![SiteId(2), SiteId(1)],
                dropped_spans: ns / 10,
            })
        };
        model.take_batch(&filled!(SpanBatch {
            catalog: catalog(),
            threads: vec![share(0, 100), share(3, 50)],
        }));
        let sums = |track: &Track| {
            let all = track.all;
            (all.count, all.self_ns, all.total_ns, all.max_ns)
        };
        assert_eq!(sums(&model.scopes[&SiteId(1)]), (2, 110, 150, 100));
        assert_eq!(sums(&model.scopes[&SiteId(2)]), (2, 40, 40, 20));
        assert_eq!(sums(&model.threads[&ThreadId(0)]), (2, 100, 100, 80));
        assert_eq!(sums(&model.threads[&ThreadId(3)]), (2, 50, 50, 30));
        let pair = |site, thread| model.pairs[&(SiteId(site), ThreadId(thread))];
        assert_eq!(
            (pair(1, 0), pair(1, 3), pair(2, 0), pair(2, 3)),
            (80, 30, 20, 20)
        );
        assert_eq!((model.spans, model.dropped), (4, 15));
        let stats = model.stats_of(SiteId(2)).unwrap();
        assert_eq!(
            (stats.site, stats.count, stats.total_ns),
            (SiteId(2), 2, 40)
        );
        assert!(model.stats_of(SiteId(3)).is_none());
    }

    #[test]
    fn the_newest_frames_and_values_stay() {
        let mut model = Model::new("test");
        let frame = |index: u64, frame_set| {
            let value = filled!(MetricValue {
                column: 4,
                value: index as f64,
            });
            Recovered::whole(Arc::new(filled!(FrameSnapshot {
                catalog: catalog(),
                frame_set,
                start_ticks: 1_000 * index,
                end_ticks: 1_000 * index + index,
                merged_marks: 2,
                metrics: vec![value],
            })))
        };
        for index in 0..605 {
            model.take_frame(&frame(index, 0));
            model.take_frame(&frame(9_999, 1));
        }
        let frames: Vec<_> = model
            .frames
            .iter()
            .map(|frame| (frame.end_ns, frame.ns))
            .collect();
        assert_eq!(frames.len(), 600);
        assert_eq!((frames[0], frames[599]), ((5_005, 5), (604_604, 604)));
        let (last, history) = &model.metrics[&4];
        assert_eq!((*last, history.len(), history[0]), (604.0, 60, 545.0));
        assert_eq!(model.merged, 1_210);
    }

    #[test]
    fn events_of_a_reader_are_taken_and_the_first_losses_are_kept() {
        let made = even::make(25, 3, true);
        let mut bytes = made.bytes;
        let ends = record_offsets(&bytes);
        let is_batch = |begin: &&usize| bytes.get(**begin + 12) == Some(&kind::BATCH);
        let batches: Vec<usize> = ends.iter().filter(is_batch).copied().collect();
        batches[..12]
            .iter()
            .for_each(|begin| bytes[begin + 16] ^= 1);
        let mut reader = Reader::new(&bytes[..]).unwrap();
        let mut model = Model::new("test");
        let mut reasons = Vec::new();
        while let Some(event) = reader.next_event().unwrap() {
            if let Event::Loss(loss) = &event {
                reasons.push(loss.reason.clone());
            }
            model.take(event);
        }
        assert_eq!((model.spans, model.frames.len()), (13 * 3, 25));
        // Two for each batch: the bytes that no record has, and the missing record.
        assert_eq!(reasons.len(), 24);
        assert_eq!(model.losses(), &reasons[..10]);
    }

    #[test]
    fn a_metric_is_found_by_its_name() {
        let column = |name: &str| {
            filled!(Column {
                metric: MetricColumn {
                    name: name.into(),
                    unit: String::new(),
                },
            })
        };
        let mut model = Model::new("test");
        model.set_catalog(&Arc::new(filled!(Catalog {
            columns: Arc::new(["a", "b", "c"].map(column).to_vec()),
        })));
        model.metrics.insert(0, (1.5, VecDeque::new()));
        model.metrics.insert(1, (2.5, VecDeque::new()));
        let values = ["a", "b", "c", "d"].map(|name| model.metric(name));
        assert_eq!(values, [Some(1.5), Some(2.5), None, None]);
    }
}
