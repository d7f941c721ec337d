//! The panel beside others: puffin_egui, and that of vor 0.2.1, each with its own version of egui.
//!
//! All panels show the same frame of n scopes on eight threads, warm, at 1920 × 1080, without the
//! GPU. *Live*: a new frame comes before each pass. `intake` is the time to pass it to the panel,
//! in the form in which threads record scopes. `pass` is the time of the panel for its UI and the
//! tessellation. *Paused*: the newest frame stays. *Panned*: it also moves by some pixels from pass
//! to pass.
//!
//! `cargo bench -p vor-benches --features panel-peers --bench panel_peers --ignore-rust-version`
#![allow(clippy::unwrap_used, reason = "a bench fails by panicking")]

mod headless;
#[path = "../../../vor-viz/tests/all/synthetic.rs"]
mod synthetic;

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::{Duration, Instant};

use puffin::{GlobalProfiler, NanoSecond, ScopeDetails, ScopeId, Stream, StreamInfo, ThreadInfo};
use puffin_egui::GlobalProfilerUi;
use vor_benches::rounds::median;
use vor_viz::bars::Thresholds;
use vor_viz::panel::Panel;
use vor_viz::store::{FrameBlock, RowBlock, Store};

use crate::headless::Headless;

/// A name, and a number of scopes.
const SIZES: [(&str, usize); 3] = [("1 k", 1_000), ("100 k", 100_000), ("1 M", 1_000_000)];
const DEPTH: usize = 7;

/// Passes of a panel in one state: as many as fit into the time, within bounds.
const MAX_PASSES: usize = 60;
const MIN_PASSES: usize = 5;
const TIME: Duration = Duration::from_secs(2);

/// Milliseconds of a number of passes, and of the intakes before them.
#[derive(Default)]
struct Times {
    intake_ms: Vec<f64>,
    pass_ms: Vec<f64>,
    vertices: usize,
}

/// A panel in the contest.
trait Contestant {
    fn name(&self) -> &'static str;
    /// Makes the next frame, and returns the time to pass it to the panel.
    fn feed(&mut self) -> Duration;
    /// Keeps the newest frame.
    fn pause(&mut self);
    /// Moves the picture back and forth by some pixels, if a program can do that.
    fn pan(&mut self, step: u32) -> bool;
    /// Shows the panel; returns the number of vertices.
    fn pass(&mut self) -> usize;
}

fn main() {
    for (name, scopes) in SIZES {
        let frame = synthetic::blocks(1, scopes, DEPTH).pop().unwrap();
        println!("\n{name}: {} scopes\n", frame.frame.stored_spans);
        println!("| panel | live: intake | live: pass | paused: pass | panned: pass | vertices |");
        println!("|---|---|---|---|---|---|");
        // One after the other, because frames of puffin go to every panel that exists.
        contest(&mut Ours::new(&frame));
        contest(&mut PuffinEgui::new(&frame));
        contest(&mut Vor02::new(&frame));
    }
}

fn contest(panel: &mut dyn Contestant) {
    let live = run(panel, |panel, _| Some(panel.feed()));
    panel.pause();
    let paused = run(panel, |_, _| Some(Duration::ZERO));
    let panned = run(panel, |panel, step| {
        panel.pan(step).then_some(Duration::ZERO)
    });
    let ms = |times: Vec<f64>| match times.len() {
        0 => "–".to_owned(),
        _ => format!("{:.2} ms", median(times)),
    };
    println!(
        "| {} | {} | {} | {} | {} | {} |",
        panel.name(),
        ms(live.intake_ms),
        ms(live.pass_ms),
        ms(paused.pass_ms),
        ms(panned.pass_ms),
        live.vertices,
    );
}

/// Runs passes, each after `before`, which returns the time of an intake, or `None` if there is
/// nothing left to measure.
fn run(
    panel: &mut dyn Contestant,
    mut before: impl FnMut(&mut dyn Contestant, u32) -> Option<Duration>,
) -> Times {
    let mut times = Times::default();
    let began = Instant::now();
    for step in 0.. {
        let enough = match times.pass_ms.len() {
            ..MIN_PASSES => false,
            MIN_PASSES..MAX_PASSES => began.elapsed() > TIME,
            _ => true,
        };
        if enough {
            break;
        }
        let Some(intake) = before(panel, step) else {
            break;
        };
        let begin = Instant::now();
        times.vertices = black_box(panel.pass());
        let pass = begin.elapsed();
        // The first two passes make fonts and layouts.
        if step >= 2 {
            times.pass_ms.push(pass.as_secs_f64() * 1e3);
            times.intake_ms.push(intake.as_secs_f64() * 1e3);
        }
    }
    times
}

/// The panel of this repository, whose frames the drain's thread makes.
struct Ours {
    frame: FrameBlock,
    panel: Panel,
    headless: Headless,
}

impl Ours {
    fn new(frame: &FrameBlock) -> Self {
        let mut panel = Panel::new(Store::new(1, usize::MAX), Thresholds::default());
        // All 56 rows are in view.
        panel.chart_mut().set_row_height(9.0);
        Self {
            frame: frame.clone(),
            panel,
            headless: Headless::new(),
        }
    }
}

impl Contestant for Ours {
    fn name(&self) -> &'static str {
        "vor"
    }

    fn feed(&mut self) -> Duration {
        let entry = &mut self.frame.frame;
        let length_ns = entry.end_ns - entry.begin_ns;
        entry.number += 1;
        synthetic::shift(&mut self.frame, length_ns);
        let block = self.frame.clone();
        let begin = Instant::now();
        self.panel.store_mut().push_block(block);
        begin.elapsed()
    }

    fn pause(&mut self) {
        let (store, view) = self.panel.parts();
        view.pin_latest(store);
    }

    fn pan(&mut self, step: u32) -> bool {
        let view = self.panel.view_mut();
        let all = view.axis();
        view.zoom_to(
            all.begin_ns,
            all.end_ns - all.len_ns() * f64::from(step % 8) / 2000.0,
        );
        true
    }

    fn pass(&mut self) -> usize {
        self.headless.pass(|ui| self.panel.show(ui, &[]))
    }
}

/// The frame in puffin's form.
struct PuffinFrame {
    frame: FrameBlock,
    ids: Vec<ScopeId>,
}

impl PuffinFrame {
    fn new(frame: &FrameBlock) -> Self {
        // Scopes of the panels themselves would be shown too, and their time would extend the
        // frame.
        puffin::set_scopes_on(false);
        let details = synthetic::SITES.map(|name| {
            ScopeDetails::from_scope_name(name)
                .with_function_name(name)
                .with_file("src/engine.rs")
        });
        Self {
            frame: frame.clone(),
            ids: GlobalProfiler::lock().register_user_scopes(&details),
        }
    }

    /// Reports the scopes as if they had just ended.
    fn report(&self) {
        let length_ns = self.frame.frame.end_ns - self.frame.frame.begin_ns;
        let origin_ns = puffin::now_ns() - length_ns - self.frame.frame.begin_ns;
        for (thread, name) in self.frame.threads.iter().zip(synthetic::THREADS) {
            let mut stream = Stream::default();
            let mut next = vec![0; thread.rows.len()];
            self.write(&mut stream, &thread.rows, &mut next, i64::MAX, origin_ns);
            let outer = &thread.rows[0];
            let last = outer.len() - 1;
            let info = StreamInfo {
                stream,
                num_scopes: thread.rows.iter().map(RowBlock::len).sum(),
                depth: thread.rows.len(),
                range_ns: (
                    origin_ns + outer.begin_ns[0],
                    origin_ns + outer.begin_ns[last] + i64::from(outer.duration_ns[last]),
                ),
            };
            let thread = ThreadInfo {
                start_time_ns: Some(i64::from(thread.thread.0)),
                name: name.to_owned(),
            };
            GlobalProfiler::lock().report_user_scopes(thread, &info.as_stream_into_ref());
        }
    }

    /// Writes the spans of the first row that begin before `until_ns`, with their children.
    fn write(
        &self,
        stream: &mut Stream,
        rows: &[RowBlock],
        next: &mut [usize],
        until_ns: i64,
        origin_ns: NanoSecond,
    ) {
        let (Some((row, below)), Some((at, next))) = (rows.split_first(), next.split_first_mut())
        else {
            return;
        };
        while *at < row.len() && row.begin_ns[*at] < until_ns {
            let begin_ns = row.begin_ns[*at];
            let end_ns = begin_ns + i64::from(row.duration_ns[*at]);
            let site = self.ids[row.sites[*at].0 as usize - 1];
            *at += 1;
            let (offset, _) = stream.begin_scope(|| origin_ns + begin_ns, site, "");
            self.write(stream, below, next, end_ns, origin_ns);
            stream.end_scope(offset, origin_ns + end_ns);
        }
    }
}

/// A headless egui of another version. Its passes take `events`.
macro_rules! headless {
    ($name:ident, $egui:ident, $run:expr) => {
        struct $name {
            ctx: $egui::Context,
            time: f64,
            events: Vec<$egui::Event>,
        }

        impl $name {
            fn new() -> Self {
                let ctx = $egui::Context::default();
                ctx.set_theme($egui::Theme::Dark);
                Self {
                    ctx,
                    time: 0.0,
                    events: Vec::new(),
                }
            }

            fn pass(&mut self, show: impl FnMut(&mut $egui::Ui)) -> usize {
                self.time += 1.0 / 60.0;
                let size = $egui::vec2(1920.0, 1080.0);
                let input = $egui::RawInput {
                    screen_rect: Some($egui::Rect::from_min_size($egui::Pos2::ZERO, size)),
                    time: Some(self.time),
                    max_texture_side: Some(8192),
                    events: std::mem::take(&mut self.events),
                    ..$egui::RawInput::default()
                };
                let output: $egui::FullOutput = $run(&self.ctx, input, show);
                let primitives = self.ctx.tessellate(output.shapes, output.pixels_per_point);
                let vertices = primitives
                    .iter()
                    .map(|primitive| match &primitive.primitive {
                        $egui::epaint::Primitive::Mesh(mesh) => mesh.vertices.len(),
                        $egui::epaint::Primitive::Callback(_) => 0,
                    });
                vertices.sum()
            }
        }
    };
}

headless!(Headless033, egui_0_33, run_0_33);
headless!(Headless034, egui_0_34, egui_0_34::Context::run_ui);

fn run_0_33(
    ctx: &egui_0_33::Context,
    input: egui_0_33::RawInput,
    mut show: impl FnMut(&mut egui_0_33::Ui),
) -> egui_0_33::FullOutput {
    ctx.run(input, |ctx| {
        let panel = egui_0_33::CentralPanel::default().frame(egui_0_33::Frame::NONE);
        panel.show(ctx, &mut show);
    })
}

struct PuffinEgui {
    frame: PuffinFrame,
    ui: GlobalProfilerUi,
    headless: Headless033,
}

impl PuffinEgui {
    fn new(frame: &FrameBlock) -> Self {
        let mut ui = GlobalProfilerUi::default();
        // All rows are in view, as in ours.
        ui.profiler_ui.flamegraph_options.rect_height = 9.0;
        ui.profiler_ui.flamegraph_options.spacing = 1.0;
        Self {
            frame: PuffinFrame::new(frame),
            ui,
            headless: Headless033::new(),
        }
    }
}

impl Contestant for PuffinEgui {
    fn name(&self) -> &'static str {
        "puffin_egui 0.30"
    }

    fn feed(&mut self) -> Duration {
        self.frame.report();
        let begin = Instant::now();
        GlobalProfiler::lock().new_frame();
        begin.elapsed()
    }

    fn pause(&mut self) {
        // The key of puffin_egui for this.
        self.headless.events.push(egui_0_33::Event::Key {
            key: egui_0_33::Key::Space,
            physical_key: None,
            pressed: true,
            repeat: false,
            modifiers: egui_0_33::Modifiers::NONE,
        });
        self.pass();
    }

    fn pan(&mut self, step: u32) -> bool {
        self.ui
            .profiler_ui
            .flamegraph_options
            .sideways_pan_in_points = -((step % 8) as f32);
        true
    }

    fn pass(&mut self) -> usize {
        self.headless.pass(|ui| self.ui.ui(ui))
    }
}

/// The predecessor's panel, which gets its frames from puffin.
struct Vor02 {
    frame: PuffinFrame,
    state: vor_0_2::viz::PanelState,
    headless: Headless034,
}

impl Vor02 {
    fn new(frame: &FrameBlock) -> Self {
        Self {
            frame: PuffinFrame::new(frame),
            state: vor_0_2::viz::PanelState::new(vor_0_2::viz::PanelConfig::FRAME_MS),
            headless: Headless034::new(),
        }
    }
}

impl Contestant for Vor02 {
    fn name(&self) -> &'static str {
        "vor 0.2.1"
    }

    fn feed(&mut self) -> Duration {
        self.frame.report();
        let begin = Instant::now();
        self.state.tick();
        begin.elapsed()
    }

    fn pause(&mut self) {
        self.state.pin_latest();
    }

    fn pan(&mut self, _: u32) -> bool {
        false
    }

    fn pass(&mut self) -> usize {
        let history: VecDeque<()> = VecDeque::new();
        self.headless
            .pass(|ui| vor_0_2::viz::show(ui, &mut self.state, &history, &[]))
    }
}
