//! The menu that exports what is selected to formats of other programs or to a picture.
//!
//! Selected frames are in memory and written at once. A selected time may be most of a capture: it
//! is read from the file again, on a thread of its own.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use egui::{Color32, Context, RawInput, Rect, Ui, Vec2};
use vor_capture::reader::Capture;
use vor_viz::export::{ExportFormat, export, export_time};
use vor_viz::flame::FlameChart;
use vor_viz::raster::Canvas;
use vor_viz::replay::ReplayState;
use vor_viz::theme::Theme;
use vor_viz::view::Scope;

use crate::output::{encode, write_whole};

/// Width and maximum height of a picture of the flame chart, in pixels.
const PICTURE_WIDTH: u32 = 1920;
const MAX_PICTURE_HEIGHT: f32 = 8000.0;

/// The result of an export, as a line to show.
pub(crate) type Saved = Result<String, String>;

/// A chosen export.
#[derive(Debug)]
pub(crate) enum Export {
    Done(Saved),
    /// The result comes when the thread has written the file.
    Running(Receiver<Saved>),
}

/// Shows the menu; returns the chosen export.
pub(crate) fn menu(ui: &mut Ui, replay: &ReplayState) -> Option<Export> {
    let view = replay.panel().view();
    let frames = view.table_frames(replay.store())?;
    let time = view.time_selection().filter(|_| replay.path().is_some());
    let (mut done, mut running) = (None, None);
    let button = ui.menu_button("Export", |ui| {
        ui.weak(match time {
            Some((begin_ns, end_ns)) => {
                let scope = Scope::Time { begin_ns, end_ns };
                vor_viz::scopes::scope_caption(replay.store(), Some(scope))
            }
            None => vor_viz::scopes::frames_caption(replay.store(), Some(frames)),
        });
        for format in ExportFormat::ALL {
            if ui.button(format.name()).clicked() {
                if let (Some(time), Some(capture)) = (time, replay.path()) {
                    let path = free_path(replay, &time_name(time), format.extension());
                    running = Some(save_time(ui.ctx(), capture, time, format, path));
                    continue;
                }
                done = Some(save(replay, frames, format.extension(), |path| {
                    write_whole(path, |file| {
                        let mut out = BufWriter::new(file);
                        export(replay.store(), frames, format, &mut out)
                            .map_err(io::Error::from)?;
                        out.flush()
                    })
                }));
            }
        }
        if ui.button("Picture of the flame chart (PNG)").clicked() {
            let dark = ui.visuals().dark_mode;
            done = Some(save(replay, frames, "png", |path| {
                picture(replay, dark, path)
            }));
        }
    });
    button.response.on_hover_text(
        "Writes the selected time, or the selected or pinned frames, beside the capture",
    );
    running.map(Export::Running).or(done.map(Export::Done))
}

/// Begins to write a range of time.
fn save_time(
    ctx: &Context,
    capture: &Path,
    time: (i64, i64),
    format: ExportFormat,
    path: PathBuf,
) -> Receiver<Saved> {
    let (sender, receiver) = mpsc::channel();
    let (ctx, capture) = (ctx.clone(), capture.to_owned());
    std::thread::spawn(move || {
        let mut lost = 0;
        let written = write_whole(&path, |file| {
            let mut out = BufWriter::new(file);
            let mut capture = Capture::open(&capture).map_err(io::Error::from)?;
            lost = export_time(&mut capture, time, format, &mut out).map_err(io::Error::from)?;
            out.flush()
        });
        let saved = note(&path, written).map(|mut note| {
            if lost > 0 {
                let frames = vor_capture::units::counted(lost, "frame");
                note.push_str(&format!("; {frames} cannot be read and are missing"));
            }
            note
        });
        // The window may be gone.
        drop(sender.send(saved));
        ctx.request_repaint();
    });
    receiver
}

/// Returns the name of a range of time in file names, in nanoseconds.
fn time_name((begin_ns, end_ns): (i64, i64)) -> String {
    format!("time-{begin_ns}-{end_ns}")
}

/// Writes a file beside the capture, under an unused name.
fn save(
    replay: &ReplayState,
    frames: (usize, usize),
    extension: &str,
    write: impl FnOnce(&Path) -> io::Result<()>,
) -> Saved {
    let path = free_path(replay, &frames_name(replay, frames), extension);
    let written = write(&path);
    note(&path, written)
}

/// Returns the result of writing a file.
fn note(path: &Path, written: io::Result<()>) -> Saved {
    match written {
        Ok(()) => {
            let bytes = std::fs::metadata(path).map_or(0, |metadata| metadata.len());
            Ok(format!(
                "{} is written: {}",
                path.display(),
                vor_capture::units::scaled(bytes as f64, "B")
            ))
        }
        Err(error) => Err(format!("{} cannot be written: {error}", path.display())),
    }
}

/// Returns the path of a file that does not exist yet: `run.frames-800-850.pftrace`, then
/// `run.frames-800-850.2.pftrace`, and so on.
fn free_path(replay: &ReplayState, what: &str, extension: &str) -> PathBuf {
    let stem = replay
        .path()
        .and_then(Path::file_stem)
        .map(|stem| stem.to_string_lossy().into_owned());
    let stem = stem.unwrap_or_else(|| "capture".to_owned());
    let folder = replay
        .path()
        .and_then(Path::parent)
        .unwrap_or(Path::new(""));
    let mut names = std::iter::once(format!("{stem}.{what}.{extension}"))
        .chain((2_u32..).map(|i| format!("{stem}.{what}.{i}.{extension}")))
        .map(|name| folder.join(name));
    // The sequence of numbers has no end.
    names.find(|path| !path.exists()).unwrap_or_default()
}

/// Returns the name of frames in file names.
fn frames_name(replay: &ReplayState, (first, last): (usize, usize)) -> String {
    let frames = replay.store().frames();
    let number = |index: usize| frames.get(index).map_or(0, |frame| frame.number);
    match last - first {
        0 => format!("frame-{}", number(first)),
        _ => format!("frames-{}-{}", number(first), number(last)),
    }
}

/// Draws the flame chart with all of its rows.
fn picture(replay: &ReplayState, dark: bool, path: &Path) -> io::Result<()> {
    let store = replay.store();
    let mut view = replay.panel().view().clone();
    let mut chart = FlameChart::default();
    let tracks = store.shown_tracks();
    let rows: usize = tracks.iter().map(|track| track.rows.len().max(1)).sum();
    let height = rows as f32 * chart.row_height() + 6.0 * tracks.len() as f32 + 48.0;
    let height = height.clamp(120.0, MAX_PICTURE_HEIGHT).ceil();
    let size = (PICTURE_WIDTH, height as u32);
    let ctx = Context::default();
    ctx.set_theme(if dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    });
    let mut canvas = Canvas::new(size.0 as usize, size.1 as usize, Color32::BLACK);
    let mut primitives = Vec::new();
    // Fonts are loaded from the second pass on.
    for _ in 0..2 {
        let input = RawInput {
            screen_rect: Some(Rect::from_min_size(
                egui::Pos2::ZERO,
                Vec2::new(size.0 as f32, height),
            )),
            ..RawInput::default()
        };
        let mut output = ctx.run_ui(input, |ui| {
            egui::CentralPanel::default().show(ui, |ui| {
                view.begin_pass(store);
                let theme = Theme::of(ui.visuals());
                let height = ui.available_height();
                chart.show(ui, height, store, &mut view, &theme, &|_, _| None);
            });
        });
        canvas.take_textures(&mut output.textures_delta);
        primitives = ctx.tessellate(output.shapes, output.pixels_per_point);
    }
    canvas.paint(&primitives, 1.0);
    write_whole(path, |file| encode(file, size, canvas.pixels()))
}
