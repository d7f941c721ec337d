//! A capture of any length in the panel.
//!
//! A [`ReplayState`] shows a window of the capture in a [`Panel`]: some hundred frames with their
//! spans, in a [`Store`] as those of a running program are. Beside it stand the durations of all
//! frames. A loader reads, mostly on a thread of its own; [`ReplayState::poll`] takes what it has
//! read, once a pass.
//!
//! A jump shows the requested frame alone first, and the frames around it a moment later. Either
//! comes as a store that takes the place of the former one, so what is looked at never consists of
//! two windows. Frames are named by their place in the capture, from 0; the store's ids are others,
//! and a frame gets a new one when its window is read anew.

mod summary;
mod capture_file;
mod loader;
mod driver;
mod header;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::model::catalog::Catalog;
use vor_capture::reader::{Capture, Info};

use crate::bars::Thresholds;
use crate::overview::{self, OverviewAction, OverviewData};
use crate::panel::Panel;
use crate::store::{FrameEntry, FrameId, Store};
use crate::theme::Theme;
use capture_file::CaptureFile;
use driver::{Driver, GROWTH_POLL};
use loader::{Delivery, Loader, Request, Side};

pub use loader::WindowLimits;
pub use summary::Summary;

/// Spans that are taken into the store in one pass, so that the panel stays alive while a window
/// arrives.
const SPANS_PER_PASS: u64 = 400_000;

/// Height of the strip of all frames, in points.
const OVERVIEW_HEIGHT: f32 = 44.0;

/// A capture, and the window of it that is shown.
#[derive(Debug)]
pub struct ReplayState {
    name: String,
    path: Option<PathBuf>,
    driver: Driver,
    catalog: Arc<Catalog>,
    info: Info,
    limits: WindowLimits,
    /// Its store holds the window.
    panel: Panel,
    /// Frame of the capture behind the newest one of the store.
    end: u64,
    /// Whether the file is still passed over to find its frames.
    is_searching: bool,
    summary: Summary,
    following: bool,
    /// Number of the last request.
    job: u64,
    /// Whether all of the last request is there.
    is_done: bool,
    /// Whether the file could not be read since then.
    has_failed: bool,
    /// The frame that was requested last.
    requested: Option<u64>,
    arrived: Option<FrameId>,
    problem: Option<String>,
    notice: Option<String>,
    header: header::Header,
}

impl ReplayState {
    /// Opens a capture: at its newest frames while it is still being written, else at its first
    /// ones. One without an index is passed over by the loader; until then it [has no
    /// frames](Self::is_searching).
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is no capture; the text is one line and names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        // What is noted before the file is opened cannot be of a later one.
        let place = CaptureFile::new(path).ok();
        let capture = Capture::open_lazily(path)?;
        let name = path.file_name().unwrap_or(path.as_os_str());
        let mut replay = Self::of(capture, place, name.to_string_lossy().into_owned());
        replay.path = Some(path.to_owned());
        replay.set_follow(!replay.info.closed);
        if !replay.following {
            replay.ask(0, Side::After, true);
        }
        Ok(replay)
    }

    /// Opens a capture that is in memory.
    ///
    /// # Errors
    ///
    /// The bytes are no capture; the text is one line and begins with `name`.
    pub fn from_bytes(bytes: Vec<u8>, name: impl Into<String>) -> io::Result<Self> {
        let name = name.into();
        let capture = Capture::new(io::Cursor::new(bytes)).map_err(|error| {
            let error = io::Error::from(error);
            io::Error::new(error.kind(), format!("{name}: {error}"))
        })?;
        let mut replay = Self::of(capture, None, name);
        replay.ask(0, Side::After, true);
        Ok(replay)
    }

    fn of(capture: Capture, place: Option<CaptureFile>, name: String) -> Self {
        let limits = WindowLimits::default();
        let info = capture.info();
        Self {
            is_searching: place.is_some() && !info.indexed,
            name,
            path: None,
            catalog: Arc::clone(capture.catalog()),
            info,
            driver: Driver::new(Loader::new(capture, place)),
            limits,
            panel: Panel::new(loader::store(limits), Thresholds::default()),
            end: 0,
            summary: Summary::default(),
            following: false,
            job: 0,
            is_done: true,
            has_failed: false,
            requested: None,
            arrived: None,
            problem: None,
            notice: None,
            header: header::Header::default(),
        }
    }

    /// Returns what the capture is called: its file's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns where the capture is, if it is a file.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns the totals of the capture.
    #[must_use]
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the frames of the window with their spans.
    #[must_use]
    pub fn store(&self) -> &Store {
        self.panel.store()
    }

    /// Returns the panel that shows the window.
    #[must_use]
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// Returns the panel that shows the window, for settings that it alone has.
    pub fn panel_mut(&mut self) -> &mut Panel {
        &mut self.panel
    }

    /// Returns which frames of the capture the store holds.
    #[must_use]
    pub fn window(&self) -> Range<u64> {
        self.end - self.store().frames().len() as u64..self.end
    }

    /// Returns the store's id of a frame of the capture, if the window has it.
    #[must_use]
    pub fn id_of(&self, frame: u64) -> Option<FrameId> {
        let window = self.window();
        let index = window.contains(&frame).then(|| frame - window.start)?;
        Some(self.store().id_at(usize::try_from(index).ok()?))
    }

    /// Returns which frame of the capture the store has under an id.
    #[must_use]
    pub fn frame_of(&self, id: FrameId) -> Option<u64> {
        Some(self.window().start + self.store().index_of(id)? as u64)
    }

    /// Returns how long all frames took that were looked at so far, and what was lost.
    #[must_use]
    pub fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Returns how many frames were looked at, from the first one on.
    #[must_use]
    pub fn frames_known(&self) -> u64 {
        self.summary.frames()
    }

    /// Returns how many frames the capture has.
    #[must_use]
    pub fn frames_total(&self) -> u64 {
        self.info.frames
    }

    /// Returns whether something that was requested is still on its way.
    #[must_use]
    pub fn is_loading(&self) -> bool {
        !self.is_done
    }

    /// Returns whether all is there: the window, and how long each frame took. More may come of a
    /// capture that grows.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.is_done && (self.has_failed || self.frames_known() >= self.frames_total())
    }

    /// Returns what went wrong last, as one line to show.
    #[must_use]
    pub fn problem(&self) -> Option<&str> {
        self.problem.as_deref()
    }

    /// Returns what happened to the file last beside its growth, as one line to show.
    #[must_use]
    pub fn notice(&self) -> Option<&str> {
        self.notice.as_deref()
    }

    /// Returns whether the file is still passed over to find its frames, as one that was not closed
    /// must be: then it is not known how many there are.
    #[must_use]
    pub fn is_searching(&self) -> bool {
        self.is_searching
    }

    /// Sets the limits of the window, and reads it anew.
    pub fn set_limits(&mut self, limits: WindowLimits) {
        self.limits = limits;
        let frame = self.requested.unwrap_or_else(|| self.window().start);
        self.put(Box::new(loader::store(limits)), 0);
        let side = if self.following {
            Side::Before
        } else {
            Side::Both
        };
        self.ask(frame, side, true);
    }

    /// Shows a frame, counted from 0 in the order of the file, and the frames around it; the last
    /// one, if there are fewer. Follows no more.
    pub fn go_to(&mut self, frame: u64) {
        self.set_follow(false);
        if self.is_searching {
            self.ask(frame, Side::Both, true);
            return;
        }
        let Some(last) = self.frames_total().checked_sub(1) else {
            return;
        };
        let frame = frame.min(last);
        let window = self.window();
        // At the edge of a window others are soon wanted, unless it is the edge of the capture too.
        let margin = (window.end - window.start) / 8;
        let is_inside = (window.start == 0 || frame >= window.start + margin)
            && (window.end > last || frame + margin < window.end);
        if window.contains(&frame) && is_inside && self.is_done {
            self.requested = Some(frame);
            self.arrived = self.id_of(frame);
        } else {
            self.ask(frame, Side::Both, !window.contains(&frame));
        }
    }

    /// Shows the frames from `first` on. Follows no more.
    pub fn move_window(&mut self, first: u64) {
        self.set_follow(false);
        let first = first.min(self.last_frame());
        let is_urgent = !self.window().contains(&first);
        self.ask(first, Side::After, is_urgent);
    }

    /// Returns whether the newest frames are shown as they come.
    #[must_use]
    pub fn follows(&self) -> bool {
        self.following
    }

    /// Returns whether more frames may come.
    #[must_use]
    pub fn can_follow(&self) -> bool {
        self.path.is_some() && !self.info.closed
    }

    /// Shows the newest frames, and others as they come, or stops doing so.
    pub fn set_follow(&mut self, follow: bool) {
        let follow = follow && self.path.is_some();
        if follow == self.following {
            return;
        }
        self.following = follow;
        self.driver.set_following(follow);
        if follow {
            self.request_newest();
        }
    }

    fn request_newest(&mut self) {
        let last = self.last_frame();
        self.ask(last, Side::Before, !self.window().contains(&last));
        // No particular frame was requested.
        self.requested = None;
    }

    /// Returns the last frame; one that no capture has while it is not known.
    fn last_frame(&self) -> u64 {
        match self.is_searching {
            true => u64::MAX,
            false => self.frames_total().saturating_sub(1),
        }
    }

    /// Returns the frame that was requested last, by a jump or in the header.
    #[must_use]
    pub fn requested(&self) -> Option<u64> {
        self.requested
    }

    /// Returns the id of the frame that was requested, once each time it gets one: then it is to be
    /// pinned. It gets one when it is there, and another one when the frames around it are.
    pub fn take_arrived(&mut self) -> Option<FrameId> {
        self.arrived.take()
    }

    /// Takes what was read since the last pass; to be called once in each. Repaints are requested
    /// for while something is on its way.
    pub fn poll(&mut self, ctx: &egui::Context) {
        self.driver.begin_pass(ctx);
        let mut spans = 0;
        while let Some(delivery) = self.driver.next() {
            spans += self.take(delivery);
            if spans > SPANS_PER_PASS {
                ctx.request_repaint();
                break;
            }
        }
        if self.following && self.can_follow() {
            ctx.request_repaint_after(GROWTH_POLL);
        }
    }

    /// Shows the capture: a header, a strip of all its frames, and the panel with the window. Takes
    /// what was read since the last pass first.
    pub fn show(&mut self, ui: &mut egui::Ui) {
        self.poll(ui.ctx());
        if let Some(id) = self.take_arrived() {
            self.panel.view_mut().pin(id);
        }
        ui.push_id(self.panel.id_salt(), |ui| {
            let mut header = std::mem::take(&mut self.header);
            header.show(self, ui);
            self.header = header;
            self.show_overview(ui);
        });
        let was_paused = self.panel.view().pinned().is_some();
        self.panel.show(ui, &[]);
        let is_paused = self.panel.view().pinned().is_some();
        if is_paused && !was_paused {
            self.set_follow(false);
        } else if was_paused && !is_paused && self.can_follow() {
            self.set_follow(true);
        }
    }

    fn show_overview(&mut self, ui: &mut egui::Ui) {
        let data = OverviewData {
            durations_ms: self.summary.durations_ms(),
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

    fn ask(&mut self, frame: u64, side: Side, is_urgent: bool) {
        self.job += 1;
        self.is_done = false;
        self.has_failed = false;
        self.requested = Some(frame);
        self.arrived = None;
        if !is_urgent {
            self.arrived = self.id_of(frame);
        }
        self.driver.ask(Request {
            job: self.job,
            frame,
            side,
            is_urgent,
            limits: self.limits,
        });
    }

    /// Takes a delivery; returns how many spans came with it.
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
            Delivery::Glances(glances) => {
                glances.iter().for_each(|glance| self.summary.push(glance));
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
                self.problem = None;
                self.notice = Some(notice.to_owned());
                self.put(Box::new(loader::store(self.limits)), 0);
                self.request_newest();
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
            // Of a request that another one has taken the place of.
            Delivery::Window { .. } | Delivery::Block { .. } => 0,
        }
    }

    /// Shows a window, whose last frame stands before the frame `end`, in the place of the former
    /// one.
    fn put(&mut self, mut store: Box<Store>, end: u64) {
        store.replace(self.store());
        std::mem::swap(self.panel.store_mut(), &mut store);
        self.driver.drop_window(store);
        self.end = end;
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
            self.problem = Some(format!("damaged: {of}frame {frame} cannot be read"));
        }
    }
}
