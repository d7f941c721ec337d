//! The panel inside the program that it shows.
//!
//! The program calls [`PanelState::tick`] once per displayed frame, and [`show`] where the panel is
//! drawn. Each tick adds an entry to the panel's ring, except for a first tick before the first
//! frame mark. The entry's duration is known at once. Its spans and metrics arrive some
//! milliseconds later, when the drain has finished the frame.

use std::collections::VecDeque;
use std::time::Duration;

use egui::Ui;
use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, Column};
use vor_capture::model::frame::MetricValue;
use vor_recorder::clock;
use vor_recorder::drain;
use vor_recorder::metrics::drain_io;
use vor_recorder::os::system::{ProcessSample, ProcessSampler, SystemSample, columns};
use vor_recorder::setup;
use web_time::Instant;

use crate::bars::Thresholds;
use crate::budget::FrameBudget;
use crate::feed::Feed;
use crate::metric::Metric;
use crate::panel::Panel;
use crate::plots::MetricRow;
use crate::store::{FrameEntry, FrameId, Series, Store};
use crate::view::View;

/// Default maximum number of spans in the panel; they take 80 MB.
const DEFAULT_MAX_SPANS: usize = 4 << 20;

/// Polling interval for the spans of a pinned frame: about the interval of the drain.
const LATE_POLL: Duration = Duration::from_millis(20);

/// The size of the history, and the thresholds for frames.
///
/// ```
/// # #[cfg(feature = "live")] {
/// # mod vor { pub mod viz { pub use vor_viz::{PanelConfig, PanelState}; } }
/// use vor::viz::{PanelConfig, PanelState};
///
/// // A tool that should draw ten times a second.
/// let config = PanelConfig {
///     bar_good_threshold: 100.0,
///     bar_warn_threshold: 200.0,
///     ..PanelConfig::FRAME_MS
/// };
/// let state = PanelState::new(config);
/// # drop(state);
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PanelConfig {
    /// Maximum number of frames in the history.
    pub history_capacity: usize,
    /// Longest duration of a good frame, in milliseconds.
    pub bar_good_threshold: f64,
    /// Longest duration of a frame that still causes no alarm, in milliseconds.
    pub bar_warn_threshold: f64,
}

impl PanelConfig {
    /// 256 frames. The thresholds are those of 60 and 30 frames per second until there are frames:
    /// then they are the period of the display that the frames follow, or else twice and four times
    /// their usual duration. Other thresholds stay as they are.
    pub const FRAME_MS: Self = Self {
        history_capacity: 256,
        bar_good_threshold: 16.667,
        bar_warn_threshold: 33.333,
    };
}

/// The panel's frames and its view.
///
/// ```
/// # #[cfg(feature = "live")] {
/// # mod vor { pub mod viz { pub use vor_viz::{PanelConfig, PanelState}; } }
/// # use vor::viz::{PanelConfig, PanelState};
/// let mut state = PanelState::new(PanelConfig::FRAME_MS);
/// // Once per displayed frame:
/// state.tick();
/// # }
/// ```
#[derive(Debug)]
pub struct PanelState {
    panel: Panel,
    began: Instant,
    /// Begin of the next entry, in nanoseconds since `began`.
    entry_begin_ns: i64,
    feed: Option<Feed>,
    /// Entries whose frames the drain has not delivered yet, each with the mark at its end, in
    /// ticks.
    pending: VecDeque<(FrameId, u64)>,
    /// The latest frame mark at the time of the last tick with recording on, in ticks. Before the
    /// first one, the latest frame mark when the feed started.
    marked_ticks: u64,
    /// Whether there was a tick with recording on.
    has_ticked: bool,
    sampler: ProcessSampler,
    sample: Option<ProcessSample>,
}

impl PanelState {
    /// Makes an empty panel.
    #[must_use]
    pub fn new(config: PanelConfig) -> Self {
        let (good, warn) = (config.bar_good_threshold, config.bar_warn_threshold);
        let usual = PanelConfig::FRAME_MS;
        let budget = match (good, warn) == (usual.bar_good_threshold, usual.bar_warn_threshold) {
            true => FrameBudget::Adaptive,
            false => FrameBudget::Fixed(Thresholds { good, warn }),
        };
        let mut state = Self {
            panel: Panel::new(
                Store::new(config.history_capacity, DEFAULT_MAX_SPANS),
                budget,
            ),
            began: Instant::now(),
            entry_begin_ns: 0,
            feed: None,
            pending: VecDeque::new(),
            marked_ticks: 0,
            has_ticked: false,
            sampler: ProcessSampler::new(),
            sample: None,
        };
        state.panel.view_mut().follow(true);
        if setup::is_enabled() {
            // The feed includes the spans of the first frame before its tick.
            state.start_feed();
        }
        state
    }

    /// Sets the maximum number of spans; each takes about 20 bytes.
    #[must_use]
    pub fn with_max_spans(mut self, max_spans: usize) -> Self {
        self.panel.store_mut().set_max_spans(max_spans);
        self
    }

    /// Ends a displayed frame: stores its duration, and takes the frames that the drain has
    /// finished. Call it once per frame, but not while the panel [is paused](Self::is_paused).
    ///
    /// With recording on, it marks the frame like [`frame_mark`](vor_recorder::drain::frame_mark),
    /// unless the program has done so since the last tick. The first tick marks nothing: only the
    /// second tick can know whether the program marks its frames itself. If the program has marked
    /// no frame yet, the first tick stores nothing either: its frame ends at the next mark.
    pub fn tick(&mut self) {
        let enabled = setup::is_enabled();
        if !enabled || self.mark_frame() {
            self.push_entry(enabled);
        }
        self.take_frames(u64::MAX);
    }

    /// Marks the frame, unless the program has done so or this is the first tick. Returns whether a
    /// frame has ended since the last tick.
    fn mark_frame(&mut self) -> bool {
        self.start_feed();
        let is_first = !std::mem::replace(&mut self.has_ticked, true);
        let is_marked = self.marked_ticks != drain::last_mark_ticks();
        if !is_marked && !is_first {
            drain::frame_mark();
        }
        self.marked_ticks = drain::last_mark_ticks();
        is_marked || !is_first
    }

    /// Adds the entry that ends now.
    fn push_entry(&mut self, enabled: bool) {
        let now_ns = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let entry = FrameEntry {
            number: self.panel.store().next_number(),
            begin_ns: self.entry_begin_ns,
            end_ns: now_ns,
            metrics: if enabled {
                Vec::new()
            } else {
                self.sample_system(now_ns)
            },
            ..FrameEntry::default()
        };
        self.entry_begin_ns = now_ns;
        let id = self.panel.store_mut().push_frame(entry);
        if enabled {
            self.pending.push_back((id, self.marked_ticks));
        }
    }

    /// Takes late data for existing frames: after a pin of the newest frame, its spans are still to
    /// arrive.
    fn take_late_frames(&mut self, ctx: &egui::Context) {
        if self.is_paused() && !self.pending.is_empty() && setup::is_enabled() {
            self.take_frames(self.marked_ticks);
            if !self.pending.is_empty() {
                ctx.request_repaint_after(LATE_POLL);
            }
        }
    }

    /// Adds a sink to the drain, once.
    fn start_feed(&mut self) {
        if self.feed.is_some() {
            return;
        }
        let elapsed_ns = i64::try_from(self.began.elapsed().as_nanos()).unwrap_or(i64::MAX);
        let now_ns = drain::catalog().map_or(0, |catalog| catalog.unix_ns(clock::ticks()));
        self.feed = Some(Feed::new(
            now_ns.saturating_sub(elapsed_ns),
            DEFAULT_MAX_SPANS as u64,
        ));
        // The feed has only frames that end from now on.
        self.marked_ticks = drain::last_mark_ticks();
    }

    /// Merges each finished frame into the entry in whose time it ended.
    fn take_frames(&mut self, until_ticks: u64) {
        let feed = self.feed.as_ref();
        let delivered = feed.map(|feed| feed.take(until_ticks)).unwrap_or_default();
        let last = delivered
            .back()
            .map(|last| (last.end_ticks, last.block.frame.number));
        for frame in delivered {
            while self
                .pending
                .front()
                .is_some_and(|(_, ticks)| *ticks < frame.end_ticks)
            {
                self.pending.pop_front();
            }
            let store = self.panel.store_mut();
            store.add_spans(&frame.block);
            let Some(&(id, ticks)) = self.pending.front() else {
                continue;
            };
            let came = frame.block.frame;
            store.update_frame(id, |entry| {
                // Several marks may lie between two ticks; the last one ends the entry.
                if entry.span_count == 0 && entry.metrics.is_empty() {
                    entry.begin_ns = came.begin_ns;
                }
                if ticks == frame.end_ticks {
                    entry.number = came.number;
                    entry.end_ns = came.end_ns;
                }
                for (sum, came) in [
                    (&mut entry.span_count, came.span_count),
                    (&mut entry.stored_spans, came.stored_spans),
                    (&mut entry.dropped_spans, came.dropped_spans),
                    (&mut entry.merged_marks, came.merged_marks),
                ] {
                    *sum = sum.saturating_add(came);
                }
                entry.metrics = came.metrics;
            });
            if ticks == frame.end_ticks {
                self.pending.pop_front();
            }
        }
        if let Some((ticks, number)) = last {
            self.number_pending(ticks, number);
        }
    }

    /// Numbers the entries whose frames have not arrived: they follow the last arrived frame.
    fn number_pending(&mut self, last_ticks: u64, last_number: u64) {
        let waiting = self.pending.iter().filter(|(_, ticks)| *ticks > last_ticks);
        for ((id, _), ahead) in waiting.zip(1..) {
            let number = last_number.saturating_add(ahead);
            self.panel
                .store_mut()
                .update_frame(*id, |entry| entry.number = number);
        }
    }

    /// Returns the system's metrics, for use without a recorder.
    fn sample_system(&mut self, now_ns: i64) -> Vec<MetricValue> {
        if self.panel.store().catalog().columns.is_empty() {
            let system = |metric| {
                filled!(Column {
                    metric,
                    system: true,
                })
            };
            let columns = columns().into_iter().map(system).collect::<Vec<_>>();
            self.panel
                .store_mut()
                .set_catalog(std::sync::Arc::new(filled!(Catalog {
                    columns: columns.into()
                })));
        }
        let sample = self.sampler.sample();
        let wall_ns = u64::try_from(now_ns.saturating_sub(self.entry_begin_ns)).unwrap_or(0);
        let before = self.sample.replace(sample).unwrap_or(sample);
        let io = drain_io();
        let mut system = SystemSample::between(&before, &sample, wall_ns);
        system.io_ns = io.elapsed_ns;
        system.io_bytes = io.bytes;
        let values = (0..).zip(system.values());
        values
            .filter_map(|(column, value)| value.map(|value| filled!(MetricValue { column, value })))
            .collect()
    }

    /// Shows or hides vor's own cost per frame.
    pub fn toggle_profiler_load(&mut self) {
        self.panel.toggle_profiler_load();
    }

    /// Returns the index of the pinned frame in the ring; the oldest frame has index 0.
    #[must_use]
    pub fn pinned(&self) -> Option<usize> {
        let store = self.panel.store();
        self.panel.view().pinned().and_then(|id| store.index_of(id))
    }

    /// Returns whether a frame is pinned, which pauses the panel.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.panel.view().pinned().is_some()
    }

    /// Pins the newest frame, if there is one.
    pub fn pin_latest(&mut self) {
        let (store, view) = self.panel.parts();
        view.pin_latest(store);
    }

    /// Removes the pin and the selection.
    pub fn unpin(&mut self) {
        self.panel.view_mut().unpin();
    }

    /// Returns the indices of the first and the last selected frame in the ring.
    #[must_use]
    pub fn selection(&self) -> Option<(usize, usize)> {
        self.panel.view().selection_indices(self.panel.store())
    }

    /// Pauses on the newest frame, or resumes.
    pub fn toggle_pause(&mut self) {
        let (store, view) = self.panel.parts();
        view.toggle_pause(store);
    }

    /// Resets the flame chart to the pinned frame, or to all frames without a pin.
    pub fn reset_flame_zoom(&mut self) {
        self.panel.view_mut().reset_zoom();
    }

    /// Returns the frames and spans that the panel shows.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.panel.store()
    }

    /// Returns the user's view.
    #[must_use]
    pub fn view(&self) -> &View {
        self.panel.view()
    }

    /// Returns the panel, for its own settings.
    pub fn panel_mut(&mut self) -> &mut Panel {
        &mut self.panel
    }
}

/// Draws the panel over the remaining space of `ui`.
///
/// `history` holds the program's own record of each frame, the newest last; `metrics` lists the
/// values to plot from them. Push one record per [`PanelState::tick`].
///
/// # Examples
///
/// ```
/// # use std::collections::VecDeque;
/// # mod vor { pub mod viz { pub use vor_viz::{Metric, PanelConfig, PanelState, show}; } }
/// use vor::viz::{Metric, PanelConfig, PanelState};
///
/// struct Workload {
///     particles: usize,
/// }
///
/// const METRICS: &[Metric<Workload>] =
///     &[Metric::new("particles", |w: &Workload| w.particles as f64, "")
///         .as_integer()
///         .describe("alive at the end of the frame")];
///
/// let mut state = PanelState::new(PanelConfig::FRAME_MS);
/// let mut history = VecDeque::with_capacity(PanelConfig::FRAME_MS.history_capacity);
///
/// // Once per displayed frame, inside the egui pass:
/// let mut frame = |ui: &mut egui::Ui| {
///     if !state.is_paused() {
///         state.tick();
///         if history.len() == PanelConfig::FRAME_MS.history_capacity {
///             history.pop_front();
///         }
///         history.push_back(Workload { particles: 1000 });
///     }
///     vor::viz::show(ui, &mut state, &history, METRICS);
/// };
/// # let ctx = egui::Context::default();
/// # ctx.run_ui(Default::default(), |ui| frame(ui)).textures_delta.clear();
/// ```
pub fn show<R>(ui: &mut Ui, state: &mut PanelState, history: &VecDeque<R>, metrics: &[Metric<R>]) {
    state.take_late_frames(ui.ctx());
    let frames = state.panel.store().frames().len();
    let value = |get: fn(&R) -> f64| {
        move |i: usize| {
            // The newest records belong to the newest frames.
            let at = (i + history.len()).checked_sub(frames);
            at.and_then(|at| history.get(at)).map_or(f64::NAN, get)
        }
    };
    let values: Vec<_> = metrics.iter().map(|metric| value(metric.get)).collect();
    let rows = metrics
        .iter()
        .zip(&values)
        .map(|(metric, values)| MetricRow {
            name: metric.name,
            unit: metric.unit,
            integer: metric.integer,
            description: metric.description,
            values,
            series: Series::Unknown,
        });
    let rows: Vec<MetricRow<'_>> = rows.collect();
    state.panel.show(ui, &rows);
}
