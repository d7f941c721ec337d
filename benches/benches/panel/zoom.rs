//! A capture of 100 M spans in the viewer: the first picture, zooms anywhere in it, the statistics
//! of all of it, and the memory for that.
//!
//! A pass of the GUI runs every few milliseconds, as on a screen, while the loader reads on its
//! thread.

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use criterion::Criterion;
use egui::CentralPanel;
use tempfile::tempdir;
use vor_benches::captures;
use vor_benches::process::{peak_resident_kib, resident_kib};
use vor_benches::spans::Shape;
use vor_benches::work::Sequence;
use vor_viz::panel::Tab;
use vor_viz::replay::ReplayState;

use crate::headless::Headless;

/// Spans of a frame.
const SPANS: usize = 1 << 14;
const FRAMES: u64 = 100_000_000 / SPANS as u64 + 1;
const ZOOMS: usize = 41;
const TIMEOUT: Duration = Duration::from_secs(60);
/// Where a zoom begins while the capture is read, in shares of it.
const WHILE_READ: [f64; 5] = [0.99, 0.95, 0.75, 0.5, 0.1];
const LENGTH_NS: f64 = 1e7;
/// Time between two passes.
const PAUSE: Duration = Duration::from_millis(4);

pub fn benches(criterion: &mut Criterion) {
    // Criterion filters by name, so the capture is only written if the bench runs.
    criterion.bench_function("zoom", |bencher| {
        bencher.iter_custom(|passes| {
            let folder = tempdir().unwrap();
            let path = folder.path().join("hundred.vor");
            let batch = Shape::Trees.batch(SPANS, 1_000_000);
            captures::write(&path, batch, |frames| Ok(frames == FRAMES)).unwrap();
            run(&path).unwrap() * u32::try_from(passes).unwrap_or(u32::MAX)
        });
    });
}

/// The viewer with a capture.
struct Screen {
    headless: Headless,
    replay: ReplayState,
    passes: Vec<Duration>,
}

impl Screen {
    fn open(path: &Path) -> Result<Self, Box<dyn Error>> {
        Ok(Self::of(ReplayState::open_keeping(path)?))
    }

    fn of(replay: ReplayState) -> Self {
        let mut screen = Self {
            headless: Headless::new(),
            replay,
            passes: Vec::new(),
        };
        screen.replay.panel_mut().set_tab(Tab::Metrics);
        screen
    }

    fn pass(&mut self) {
        let (headless, replay) = (&mut self.headless, &mut self.replay);
        let begin = Instant::now();
        headless.pass(|ui| {
            CentralPanel::default().show(ui, |ui| replay.show(ui));
        });
        self.passes.push(begin.elapsed());
    }

    /// Runs passes until `is_enough`; returns the time until then.
    fn until(
        &mut self,
        what: &str,
        is_enough: impl Fn(&ReplayState) -> bool,
    ) -> Result<Duration, String> {
        let begin = Instant::now();
        loop {
            self.pass();
            if is_enough(&self.replay) {
                return Ok(begin.elapsed());
            }
            if begin.elapsed() > TIMEOUT {
                return Err(format!("not within {TIMEOUT:?}: {what}"));
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn longest_pass(&mut self) -> Duration {
        let passes = std::mem::take(&mut self.passes);
        passes.into_iter().max().unwrap_or_default()
    }
}

fn has_picture(replay: &ReplayState) -> bool {
    let layer = replay.panel().store().layer();
    let mut tracks = layer.into_iter().flat_map(|layer| layer.tracks());
    tracks.any(|track| track.span_count() > 0)
}

/// Looks at a capture, and prints the times. Returns the median time until a zoom was complete.
fn run(path: &Path) -> Result<Duration, Box<dyn Error>> {
    let before_kib = resident_kib().unwrap_or(0);
    let begin = Instant::now();
    let mut screen = Screen::open(path)?;
    screen.until("a picture", has_picture)?;
    let first = begin.elapsed();
    screen.until("the picture of all", |replay| replay.is_settled())?;
    let surveyed = begin.elapsed();
    let surveying_pass = screen.longest_pass();
    screen.replay.panel_mut().set_tab(Tab::Scopes);
    let statistics = screen.until("statistics", |replay| {
        let scopes = replay.panel().scopes();
        scopes.rows().is_some() && replay.is_settled()
    })?;
    let statistics_pass = screen.longest_pass();
    screen.replay.panel_mut().set_tab(Tab::Metrics);
    let whole = {
        let panel = screen.replay.panel();
        panel.view().flame_axis(panel.store())
    };
    let mut random = Sequence::new(7);
    let mut times = Vec::new();
    for _ in 0..ZOOMS {
        // From a thousandth of a second to all of it, each magnitude as often.
        let share = random.below(1_000_000) as f64 / 1e6;
        let len_ns = 1e6 * (whole.len_ns() / 1e6).powf(share);
        let at = random.below(1_000_000) as f64 / 1e6;
        let from_ns = whole.begin_ns + at * (whole.len_ns() - len_ns);
        let view = screen.replay.panel_mut().view_mut();
        view.zoom_to(from_ns, from_ns + len_ns);
        let begin = Instant::now();
        // The first pass requests what is missing.
        screen.pass();
        screen.until("the detail of a zoom", ReplayState::is_settled)?;
        times.push(begin.elapsed());
    }
    times.sort_unstable();
    let (median, slowest) = (times[ZOOMS / 2], times[ZOOMS - 1]);
    let memory_mb = |kib: u64| kib.saturating_sub(before_kib) as f64 / 1e3;
    eprintln!(
        "zoom: {} M spans, {:.0} MB; first picture after {first:.1?}, all of it after \
        {surveyed:.1?} (longest pass {surveying_pass:.1?}); statistics of all of it after \
        {statistics:.1?} (longest pass {statistics_pass:.1?}); the detail of a zoom after \
        {median:.1?} ({slowest:.1?} at most), longest pass {:.1?}; memory {:.0} MB, {:.0} MB at \
        most",
        FRAMES * SPANS as u64 / 1_000_000,
        std::fs::metadata(path)?.len() as f64 / 1e6,
        screen.longest_pass(),
        memory_mb(resident_kib().unwrap_or(0)),
        memory_mb(peak_resident_kib().unwrap_or(0)),
    );
    drop(screen);
    open_again(path)?;
    zoom_while_read(path)?;
    Ok(median)
}

/// Opens the capture without a survey beside it, zooms as soon as there is a picture, and prints
/// the times until the detail is there.
fn zoom_while_read(path: &Path) -> Result<(), Box<dyn Error>> {
    for from in WHILE_READ {
        let mut screen = Screen::of(ReplayState::open(path)?);
        let opened = Instant::now();
        screen.until("a picture", has_picture)?;
        let first = opened.elapsed();
        let whole = {
            let panel = screen.replay.panel();
            panel.view().flame_axis(panel.store())
        };
        let from_ns = whole.begin_ns + from * whole.len_ns();
        let to_ns = from_ns + LENGTH_NS;
        screen.replay.panel_mut().view_mut().zoom_to(from_ns, to_ns);
        let zoomed = Instant::now();
        screen.until("the detail of a zoom while all is read", |replay| {
            let layer = replay.panel().store().layer();
            layer.is_some_and(|layer| {
                layer.time_ns().start > i64::MIN && layer.shows(from_ns, to_ns, LENGTH_NS / 1e3)
            })
        })?;
        let detail = zoomed.elapsed();
        screen.until("the picture of all", ReplayState::is_settled)?;
        eprintln!(
            "zoom: at {from} of the capture, {first:.1?} after it was opened: the detail after \
            {detail:.1?}; all of it {:.1?} after it was opened, longest pass {:.1?}",
            opened.elapsed(),
            screen.longest_pass(),
        );
    }
    Ok(())
}

/// Opens the capture again, with the survey that was kept beside it, and prints the times.
fn open_again(path: &Path) -> Result<(), Box<dyn Error>> {
    let survey = path.with_extension("vor.survey");
    let begin = Instant::now();
    while !survey.exists() && begin.elapsed() < TIMEOUT {
        std::thread::sleep(PAUSE);
    }
    let bytes = std::fs::metadata(survey)?.len();
    let begin = Instant::now();
    let mut screen = Screen::open(path)?;
    screen.until("the picture of all, kept", |replay| replay.is_settled())?;
    eprintln!(
        "zoom: opened again, all of it after {:.1?}; the survey beside it has {:.0} MB",
        begin.elapsed(),
        bytes as f64 / 1e6
    );
    Ok(())
}
