//! A capture of any length in the panel.
//!
//! A [`ReplayState`] shows a window of the capture in a [`Panel`]: some hundred frames with their
//! spans, in a [`Store`] like those of a running program. It also holds the durations of all
//! frames. A loader reads the file, usually on its own thread; [`ReplayState::poll`] takes its
//! results once per pass.
//!
//! A jump first shows the requested frame alone, and the frames around it a moment later. Each
//! result is a store that replaces the previous one, so the panel never shows a mix of two windows.
//! Frames are identified by their index in the capture, from 0. Ids of the store differ: a frame
//! gets a new id when its window is read again.
//!
//! The flame chart, tables and flame graphs are not limited to the window: they show all of a
//! capture (see `whole_state`). Only while a growing capture is followed do they show its newest
//! frames.

mod frame_numbers;
mod summary;
mod capture_file;
mod loader;
mod whole_work;
mod driver;
mod whole_state;
mod header;
mod place;

use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Capture, Info};

use crate::bookmarks::Bookmarks;
use crate::budget::FrameBudget;
use crate::overview::{self, OverviewAction, OverviewData};
use crate::panel::Panel;
use crate::store::{FrameEntry, FrameId, Store};
use crate::theme::Theme;
use capture_file::{CaptureFile, Origin};
use driver::Driver;
use loader::{Delivery, Loader, Request, Side};

pub use capture_file::{Arriving, Source};
pub use frame_numbers::FrameNumbers;
pub use loader::WindowLimits;
pub use place::Place;
#[cfg(test)]
pub(crate) use summary::FrameSummaryRow;
pub use summary::Summary;

/// Maximum number of spans that enter the store in one pass, so that the panel stays responsive
/// while a window arrives.
const SPANS_PER_PASS: u64 = 400_000;

/// Height of the strip of all frames, in points.
const OVERVIEW_HEIGHT: f32 = 44.0;

/// A capture, and its shown window.
///
/// ```no_run
/// # mod vor { pub mod viz { pub use vor_viz::ReplayState; } }
/// let mut replay = vor::viz::ReplayState::open("run.vor")?;
/// let show = |ui: &mut egui::Ui| {
///     replay.poll(ui.ctx()); // takes what was read meanwhile
///     replay.show(ui);
/// };
/// # let _ = show;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ReplayState {
    name: String,
    source: Source,
    /// Whether it may grow.
    may_grow: bool,
    driver: Driver,
    catalog: Arc<Catalog>,
    info: Info,
    limits: WindowLimits,
    /// Its store holds the window.
    panel: Panel,
    /// The capture's frame that follows the newest frame of the store.
    end: u64,
    /// Whether the file is still being scanned for its frames.
    is_searching: bool,
    summary: Summary,
    following: bool,
    /// Number of the last request.
    job: u64,
    /// Whether the last request is complete.
    is_done: bool,
    /// Whether reading the file failed since the last request.
    has_failed: bool,
    /// The frame of the last request.
    requested: Option<u64>,
    /// The number of the frame to show, until the frame is looked at that has it.
    awaited_number: Option<u64>,
    /// The time to show, until everything is known that its scale depends on.
    awaited_place: Option<Place>,
    arrived: Option<FrameId>,
    problem: Option<String>,
    notice: Option<String>,
    header: header::Header,
    whole: whole_state::WholeState,
    /// Whether the frame of the last request gets the pin whenever it arrives.
    pins_arrival: bool,
}

impl ReplayState {
    /// Opens a capture: at its newest frames while it is being written, otherwise at its first
    /// frames. The loader scans a file without an index; until then it [has no
    /// frames](Self::is_searching).
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no capture; the text is one line and names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_file(path.as_ref(), false)
    }

    /// Opens a capture as [`open`](Self::open) does, and keeps the levels of detail of a large one
    /// in a file beside it, such as `run.vor.survey`. The next opening reads this file and not the
    /// whole capture. Nothing happens if the file cannot be written.
    ///
    /// # Errors
    ///
    /// As for `open`.
    pub fn open_keeping(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::open_file(path.as_ref(), true)
    }

    fn open_file(path: &Path, keeps_survey: bool) -> io::Result<Self> {
        // The identity is taken before the file is opened, so that it cannot belong to a later
        // file.
        let file = CaptureFile::new(path).ok();
        let capture = Capture::open_lazily(path)?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let origin = file.map(Origin::File);
        let source = Source::File(path.to_owned());
        let mut replay = Self::of(capture, source, origin, name.to_string_lossy().into_owned());
        replay.may_grow = true;
        replay.whole.keep_survey(keeps_survey);
        replay.set_follow(!replay.info.closed);
        if !replay.following {
            replay.request(0, Side::After, true);
            replay.show_whole();
        }
        Ok(replay)
    }

    /// Opens a capture in memory.
    ///
    /// # Errors
    ///
    /// The bytes are no capture; the text is one line and begins with `name`.
    pub fn from_bytes(bytes: Vec<u8>, name: impl Into<String>) -> io::Result<Self> {
        let name = name.into();
        let bytes = Arriving::from(bytes);
        let mut replay = Self::of(in_memory(&bytes, &name)?, Source::Memory(bytes), None, name);
        replay.request(0, Side::After, true);
        replay.show_whole();
        Ok(replay)
    }

    /// Begins to read and show the whole capture.
    fn show_whole(&mut self) {
        let length_ns = self.info.duration_ns;
        let max_spans = self.limits.spans;
        self.whole
            .begin(&mut self.panel, &mut self.driver, length_ns, max_spans);
    }

    /// Opens a capture of which more bytes may arrive, at its newest frames. Its header must be
    /// there.
    ///
    /// # Errors
    ///
    /// The bytes are no capture; the text is one line and begins with `name`.
    pub fn arriving(bytes: &Arriving, name: impl Into<String>) -> io::Result<Self> {
        let name = name.into();
        let capture = in_memory(bytes, &name)?;
        let origin = Origin::Arriving(bytes.clone());
        let source = Source::Memory(bytes.clone());
        let mut replay = Self::of(capture, source, Some(origin), name);
        replay.may_grow = true;
        replay.set_follow(!replay.info.closed);
        if !replay.following {
            replay.request(0, Side::After, true);
            replay.show_whole();
        }
        Ok(replay)
    }

    fn of(capture: Capture, source: Source, origin: Option<Origin>, name: String) -> Self {
        let limits = WindowLimits::default();
        let info = capture.info();
        Self {
            is_searching: origin.as_ref().is_some_and(Origin::is_lazy) && !info.indexed,
            name,
            source,
            may_grow: false,
            catalog: Arc::clone(capture.catalog()),
            info,
            driver: Driver::new(Loader::new(capture, origin)),
            limits,
            panel: Panel::new(loader::store(limits), FrameBudget::Adaptive),
            end: 0,
            summary: Summary::default(),
            following: false,
            job: 0,
            is_done: true,
            has_failed: false,
            requested: None,
            awaited_number: None,
            awaited_place: None,
            arrived: None,
            problem: None,
            notice: None,
            header: header::Header::default(),
            whole: whole_state::WholeState::default(),
            pins_arrival: false,
        }
    }

    /// Returns the name of the capture: that of its file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the capture, if it is a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Memory(_) => None,
        }
    }

    /// Returns where its bytes are.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Returns the totals of the capture.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the frames of the window, with their spans.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.panel.store()
    }

    /// Returns the panel that shows the window.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// Returns the panel of the window, for its own settings.
    pub fn panel_mut(&mut self) -> &mut Panel {
        &mut self.panel
    }

    /// Returns the frames of the capture that the store holds.
    #[must_use]
    pub fn window(&self) -> Range<u64> {
        self.end - self.store().frames().len() as u64..self.end
    }

    /// Returns the store's id of a frame of the capture, if it is in the window.
    #[must_use]
    pub fn id_of(&self, frame: u64) -> Option<FrameId> {
        let window = self.window();
        let index = window.contains(&frame).then(|| frame - window.start)?;
        Some(self.store().id_at(usize::try_from(index).ok()?))
    }

    /// Returns the capture's frame for an id of the store.
    #[must_use]
    pub fn frame_of(&self, id: FrameId) -> Option<u64> {
        Some(self.window().start + self.store().index_of(id)? as u64)
    }

    /// Returns the durations and losses of all frames summarised so far.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns the number of summarised frames, from the first one on.
    #[must_use]
    pub fn frames_known(&self) -> u64 {
        self.summary.frames()
    }

    /// Returns the number of frames in the capture.
    #[must_use]
    pub fn frames_total(&self) -> u64 {
        self.info.frames
    }

    /// Returns whether a request is incomplete.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        !self.is_done
    }

    /// Returns whether everything is loaded: the window, and the durations of all frames. A growing
    /// capture may still bring more.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_done
            && self.awaited_place.is_none()
            && (self.has_failed
                || (self.frames_known() >= self.frames_total()
                    && (self.whole.is_settled() || self.frames_total() == 0)))
    }

    /// Returns the latest problem, as one line to show.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns the latest event of the file beside its growth, as one line to show.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns whether the file is still being scanned for its frames, which a file without an
    /// index needs. The number of frames is unknown until then.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.is_searching
    }

    /// Returns the part of the capture that was surveyed so far, from 0 to 1, while the picture of
    /// the whole capture is being made; `None` before and after that.
    #[must_use]
    pub fn survey_progress(&self) -> Option<f32> {
        self.whole.progress()
    }

    /// Sets the limits of the window, and reads it again.
    pub fn set_limits(&mut self, limits: WindowLimits) {
        self.limits = limits;
        let frame = self.requested.unwrap_or_else(|| self.window().start);
        self.put(Box::new(loader::store(limits)), 0);
        let side = if self.following {
            Side::Before
        } else {
            Side::Both
        };
        self.request(frame, side, true);
        if self.whole.is_on() {
            self.show_whole();
        }
    }

    /// Shows a frame, counted from 0 in the order of the file, and the frames around it. A number
    /// beyond the end shows the last frame. Stops following.
    pub fn go_to(&mut self, frame: u64) {
        self.awaited_number = None;
        self.set_follow(false);
        self.pins_arrival = true;
        if self.is_searching {
            self.request(frame, Side::Both, true);
            return;
        }
        let Some(last) = self.frames_total().checked_sub(1) else {
            return;
        };
        let frame = frame.min(last);
        let window = self.window();
        // The edge of a window soon needs further frames, unless it is also the edge of the
        // capture.
        let margin = (window.end - window.start) / 8;
        let is_inside = (window.start == 0 || frame >= window.start + margin)
            && (window.end > last || frame + margin < window.end);
        if window.contains(&frame) && is_inside && self.is_done {
            self.requested = Some(frame);
            self.arrived = self.id_of(frame);
        } else {
            self.request(frame, Side::Both, !window.contains(&frame));
        }
    }

    /// Shows the frame to which the program gave a number, or the next one that was kept. A number
    /// beyond the end shows the last frame. Until the frames before it are looked at, numbers are
    /// expected to go on as they do so far, and the frame may change. Stops following.
    pub fn go_to_number(&mut self, number: u64) {
        self.go_to(self.summary.numbers().place(number));
        if !self.knows(number) {
            self.awaited_number = Some(number);
        }
    }

    /// Returns the bookmarks.
    #[must_use]
    pub fn bookmarks(&self) -> &Bookmarks {
        &self.panel.view().bookmarks
    }

    /// Replaces the bookmarks.
    pub fn set_bookmarks(&mut self, bookmarks: Bookmarks) {
        self.panel.view_mut().bookmarks = bookmarks;
    }

    /// Returns the bookmarks if they changed since the last call, to be kept.
    pub fn take_changed_bookmarks(&mut self) -> Option<&Bookmarks> {
        let bookmarks = &mut self.panel.view_mut().bookmarks;
        bookmarks.take_change().then_some(bookmarks)
    }

    /// Shows a place. A time waits until the whole capture was looked at, since the scale begins
    /// with its first span. Stops following.
    pub fn go_to_place(&mut self, place: Place) {
        match place {
            Place::Frame(number) => self.go_to_number(number),
            Place::Time(..) | Place::Zoom(..) => {
                self.set_follow(false);
                self.awaited_place = Some(place);
            }
        }
    }

    /// Returns the place that is looked at: a selected time, else the pinned frame, else the time
    /// that the flame chart shows; `None` where that is everything.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        let (view, store) = (self.panel.view(), self.store());
        let zero_ns = view.zero_ns(store) as i64;
        let on_scale = |ns: i64| ns.saturating_sub(zero_ns);
        if let Some((begin_ns, end_ns)) = view.time_selection() {
            return Some(Place::Time(on_scale(begin_ns), on_scale(end_ns)));
        }
        if let Some(frame) = view.pinned().and_then(|id| store.frame(id)) {
            return Some(Place::Frame(frame.number));
        }
        let shown = view.is_zoomed().then(|| view.flame_axis(store))?;
        let (begin_ns, end_ns) = (shown.begin_ns as i64, shown.end_ns as i64);
        (begin_ns < end_ns).then(|| Place::Zoom(on_scale(begin_ns), on_scale(end_ns)))
    }

    /// Shows the time that waits to be shown, if its scale is known by now.
    fn show_awaited_place(&mut self) {
        let is_empty = self.is_done && !self.is_searching && self.frames_total() == 0;
        let is_known = self.whole.is_on() && self.whole.progress().is_none();
        let may_show = is_known || is_empty || self.has_failed;
        let Some(place) = self.awaited_place.filter(|_| may_show) else {
            return;
        };
        self.awaited_place = None;
        let (store, view) = self.panel.parts();
        let zero_ns = view.zero_ns(store) as i64;
        let in_store = |ns: i64| ns.saturating_add(zero_ns);
        match place {
            Place::Time(begin_ns, end_ns) => {
                view.go_to_time(store, in_store(begin_ns), in_store(end_ns));
            }
            Place::Zoom(begin_ns, end_ns) => {
                view.zoom_to(in_store(begin_ns) as f64, in_store(end_ns) as f64);
            }
            Place::Frame(_) => {}
        }
    }

    /// Returns whether the frame with a number, or the next one, is looked at.
    fn knows(&self, number: u64) -> bool {
        let known = self.frames_known();
        let are_all_known = known >= self.frames_total() && !self.is_searching;
        let numbers = self.summary.numbers();
        are_all_known || (known > 0 && numbers.number(known - 1) >= number)
    }

    /// Corrects a request for a number, if the frame that has it is looked at by now.
    fn correct_awaited(&mut self) {
        let Some(number) = self.awaited_number.filter(|number| self.knows(*number)) else {
            return;
        };
        let place = self.summary.numbers().place(number);
        self.awaited_number = None;
        if self.requested != Some(place.min(self.last_frame())) {
            self.go_to(place);
        }
    }

    /// Shows the frames from `first` on. Stops following.
    pub fn move_window(&mut self, first: u64) {
        self.awaited_number = None;
        self.set_follow(false);
        self.pins_arrival = true;
        let first = first.min(self.last_frame());
        let is_urgent = !self.window().contains(&first);
        self.request(first, Side::After, is_urgent);
    }

    /// Returns whether the newest frames are shown as they arrive.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.following
    }

    /// Returns whether more frames may arrive.
    #[must_use]
    pub fn can_follow(&self) -> bool {
        self.may_grow && !self.info.closed
    }

    /// Starts or stops showing the newest frames as they arrive.
    pub fn set_follow(&mut self, follow: bool) {
        let follow = follow && self.may_grow;
        if follow == self.following {
            return;
        }
        self.following = follow;
        self.driver.set_following(follow);
        if follow {
            self.whole.end(&mut self.panel, &mut self.driver);
            self.request_newest();
        } else {
            self.show_whole();
        }
    }

    fn request_newest(&mut self) {
        self.awaited_number = None;
        let last = self.last_frame();
        self.request(last, Side::Before, !self.window().contains(&last));
        // This request has no particular frame.
        self.requested = None;
    }

    /// Returns the last frame; a number beyond any capture while it is unknown.
    fn last_frame(&self) -> u64 {
        match self.is_searching {
            true => u64::MAX,
            false => self.frames_total().saturating_sub(1),
        }
    }

    /// Returns the last requested frame, from a jump or from the header.
    #[must_use]
    pub fn requested(&self) -> Option<u64> {
        self.requested
    }

    /// Returns the id of the requested frame, once for each new id: then the frame should be
    /// pinned. It gets an id on arrival, and another one when the frames around it arrive.
    pub fn take_arrived(&mut self) -> Option<FrameId> {
        self.arrived.take()
    }

    /// Takes the results of the loader; call it once per pass. Requests repaints while results are
    /// pending.
    pub fn poll(&mut self, ctx: &egui::Context) {
        self.whole.pass_on(&mut self.driver);
        self.driver.begin_pass(ctx);
        let mut spans = 0;
        while let Some(delivery) = self.driver.next() {
            spans += self.take(delivery);
            if spans > SPANS_PER_PASS {
                ctx.request_repaint();
                break;
            }
        }
        self.show_awaited_place();
        if self.following && self.can_follow() {
            self.driver.wait_for_growth(ctx);
        }
    }

    /// Shows the capture: a header, an overview of all frames, and the panel with the window. Takes
    /// the loader's results first.
    pub fn show(&mut self, ui: &mut egui::Ui) {
        self.poll(ui.ctx());
        if let Some(id) = self.take_arrived()
            && self.pins_arrival
        {
            self.panel.view_mut().pin(id);
        }
        ui.push_id(self.panel.id_salt(), |ui| {
            let mut header = std::mem::take(&mut self.header);
            header.show(self, ui);
            self.header = header;
            self.show_overview(ui);
        });
        let was_paused = self.panel.view().pinned().is_some();
        self.whole.choose(&mut self.panel, &mut self.driver);
        self.follow_view();
        let (window, total) = (self.window(), self.frames_total());
        let chosen = self.panel.show_capture(ui, &self.summary, window, total);
        if let Some(frame) = chosen {
            self.go_to(frame);
        }
        let is_paused = self.panel.view().pinned().is_some();
        if is_paused && !was_paused {
            self.set_follow(false);
        } else if was_paused && !is_paused && self.can_follow() {
            self.set_follow(true);
        }
    }

    /// Moves the window to the middle of what the flame chart shows, unless frames are pinned or
    /// selected in it: bars and metrics are of the frames that one looks at.
    fn follow_view(&mut self) {
        let view = self.panel.view();
        let is_free = view.pinned().is_none() && view.selection().is_none();
        if !(self.whole.is_on() && is_free && view.is_zoomed() && self.is_done) {
            return;
        }
        let shown = view.flame_axis(self.store());
        let frames = self.store().frames();
        let Some(window) = self.store().time_of(0..frames.len()) else {
            return;
        };
        let middle_ns = f64::midpoint(shown.begin_ns, shown.end_ns) as i64;
        let frame = self.summary.frame_at(middle_ns).unwrap_or(0);
        if !window.contains(&middle_ns)
            && !self.window().contains(&frame)
            && self.requested != Some(frame)
        {
            self.pins_arrival = false;
            self.request(frame, Side::Both, false);
        }
    }

    fn show_overview(&mut self, ui: &mut egui::Ui) {
        let data = OverviewData {
            durations_ms: self.summary.durations_ms(),
            numbers: self.summary.numbers(),
            marks: self.summary.troubled(),
            loaded: self.frames_known(),
            total: self.frames_total(),
        };
        let pinned = self.panel.view().pinned().and_then(|id| self.frame_of(id));
        let theme = Theme::of(ui.visuals());
        let thresholds = self.panel.thresholds();
        match overview::show(
            ui,
            OVERVIEW_HEIGHT,
            data,
            self.window(),
            pinned,
            &theme,
            thresholds,
        ) {
            Some(OverviewAction::MoveWindow(first)) => self.move_window(first),
            Some(OverviewAction::GoTo(frame)) => self.go_to(frame),
            None => {}
        }
    }

    fn request(&mut self, frame: u64, side: Side, is_urgent: bool) {
        self.job += 1;
        self.is_done = false;
        self.has_failed = false;
        self.requested = Some(frame);
        self.arrived = None;
        if !is_urgent {
            self.arrived = self.id_of(frame);
        }
        self.driver.request(Request {
            job: self.job,
            frame,
            side,
            is_urgent,
            limits: self.limits,
        });
    }

    /// Processes a delivery; returns the number of its spans.
    fn take(&mut self, delivery: Delivery) -> u64 {
        match delivery {
            Delivery::Window {
                job,
                end,
                store,
                is_whole,
            } if job == self.job => {
                self.put(store, end);
                self.is_done = is_whole;
                self.note_lost_frames();
                if let Some(requested) = self.requested {
                    self.arrived = self.id_of(requested);
                }
                0
            }
            Delivery::Block { job, block } if job == self.job => {
                let spans = block.frame.stored_spans;
                let lost = (block.frame.lost_records > 0).then(|| block.frame.clone());
                self.panel.store_mut().push_block(*block);
                self.end += 1;
                if let Some(entry) = lost {
                    self.note_lost(self.end - 1, &entry);
                }
                spans
            }
            Delivery::Surveyed(surveyed) => {
                self.whole
                    .take_survey(surveyed, &mut self.panel, &mut self.driver);
                self.note_losses();
                0
            }
            Delivery::Picture { request, layer } => {
                self.whole
                    .take_picture(request, layer, &mut self.panel, &mut self.driver);
                0
            }
            Delivery::Summaries(summaries) => {
                summaries.iter().for_each(|row| self.summary.push(row));
                self.correct_awaited();
                0
            }
            Delivery::Grown { info, catalog } => {
                self.info = *info;
                self.catalog = catalog;
                if std::mem::take(&mut self.is_searching) {
                    let last = self.last_frame();
                    self.requested = self.requested.map(|requested| requested.min(last));
                }
                0
            }
            Delivery::Replaced {
                info,
                catalog,
                notice,
            } => {
                self.is_searching = !info.indexed;
                self.info = *info;
                self.catalog = catalog;
                self.summary = Summary::default();
                self.panel.find_mut().forget();
                self.problem = None;
                self.notice = Some(notice.to_owned());
                self.put(Box::new(loader::store(self.limits)), 0);
                self.request_newest();
                if self.whole.is_on() {
                    self.show_whole();
                }
                0
            }
            Delivery::Problem(problem) => {
                self.problem = Some(problem);
                0
            }
            Delivery::Failed(problem) => {
                self.problem = Some(problem);
                self.is_done = true;
                self.has_failed = true;
                0
            }
            // A delivery for a replaced request.
            Delivery::Window { .. } | Delivery::Block { .. } => 0,
        }
    }

    /// Replaces the window; the last frame of the new one precedes the frame `end`.
    fn put(&mut self, mut store: Box<Store>, end: u64) {
        store.replace(self.store());
        let layer = self.panel.store_mut().set_layer(None);
        store.set_layer(layer);
        std::mem::swap(self.panel.store_mut(), &mut store);
        self.driver.drop_window(store);
        self.end = end;
    }

    fn note_losses(&mut self) {
        let losses = self.whole.losses();
        if losses > 0 && self.problem.is_none() {
            let places = vor_capture::units::counted(losses, "place");
            self.problem = Some(format!("damaged: {places} cannot be read"));
        }
    }

    fn note_lost_frames(&mut self) {
        let frames = (self.window().start..).zip(self.store().frames());
        let lost = frames.into_iter().find(|(_, entry)| entry.lost_records > 0);
        if let Some((frame, entry)) = lost.map(|(frame, entry)| (frame, entry.clone())) {
            self.note_lost(frame, &entry);
        }
    }

    fn note_lost(&mut self, frame: u64, entry: &FrameEntry) {
        if entry.lost_records > 0 && self.problem.is_none() {
            let of = if entry.stored_spans == 0 {
                ""
            } else {
                "a part of "
            };
            let number = self.summary.numbers().number(frame);
            self.problem = Some(format!("damaged: {of}frame {number} cannot be read"));
        }
    }
}

/// Opens a capture in memory. The text of an error begins with `name`.
fn in_memory(bytes: &Arriving, name: &str) -> io::Result<Capture> {
    Capture::new(bytes.reader()).map_err(|error| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("{name}: {error}"))
    })
}
