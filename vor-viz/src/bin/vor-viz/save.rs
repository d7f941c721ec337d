//! The menu that exports what is selected to formats of other programs or to a picture.
//!
//! Selected frames are in memory and written at once. A selected time may be most of a capture: it
//! is read from the file again, on a thread of its own.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver};

use egui::{Context, Ui};
use vor_viz::export::{ExportFormat, export, export_time};
use vor_viz::replay::ReplayState;

use crate::chart_picture;
use crate::export_menu::{self, Part, Saved, lost_note};
use crate::output::{encode, write_whole};

/// A chosen export.
#[derive(Debug)]
pub(crate) enum Export {
    Done(Saved),
    /// The result comes when the thread has written the file.
    Running(Receiver<Saved>),
}

/// Shows the menu; returns the chosen export.
pub(crate) fn menu(ui: &mut Ui, replay: &ReplayState) -> Option<Export> {
    let part = Part::selected(replay)?;
    let hint = "Writes the selected time, or the selected or pinned frames, beside the capture";
    let mut picture = None;
    let format = export_menu::menu(ui, replay, part, hint, |ui| {
        if ui.button(chart_picture::NAME).clicked() {
            let path = free_path(replay, part, "png");
            let (size, canvas) = chart_picture::draw(replay, ui.visuals().dark_mode);
            let written = write_whole(&path, |file| encode(file, size, canvas.pixels()));
            picture = Some(Export::Done(note(&path, written)));
        }
    });
    let traced = format.map(|format| {
        let path = free_path(replay, part, format.extension());
        match part {
            Part::Frames(first, last) => {
                Export::Done(save_frames(replay, (first, last), format, &path))
            }
            Part::Time(begin_ns, end_ns) => Export::Running(save_time(
                ui.ctx(),
                replay,
                (begin_ns, end_ns),
                format,
                path,
            )),
        }
    });
    traced.or(picture)
}

/// Writes frames in memory.
fn save_frames(
    replay: &ReplayState,
    frames: (usize, usize),
    format: ExportFormat,
    path: &Path,
) -> Saved {
    let written = write_whole(path, |file| {
        let mut out = BufWriter::new(file);
        export(replay.store(), frames, format, &mut out).map_err(io::Error::from)?;
        out.flush()
    });
    note(path, written)
}

/// Begins to write a range of time.
fn save_time(
    ctx: &Context,
    replay: &ReplayState,
    time: (i64, i64),
    format: ExportFormat,
    path: PathBuf,
) -> Receiver<Saved> {
    let (sender, receiver) = mpsc::channel();
    let (ctx, source) = (ctx.clone(), replay.source().clone());
    std::thread::spawn(move || {
        let mut lost = 0;
        let written = write_whole(&path, |file| {
            let mut out = BufWriter::new(file);
            let mut capture = source.open().map_err(io::Error::from)?;
            lost = export_time(&mut capture, time, format, &mut out).map_err(io::Error::from)?;
            out.flush()
        });
        let saved = note(&path, written).map(|note| note + &lost_note(lost));
        // The window may be gone.
        drop(sender.send(saved));
        ctx.request_repaint();
    });
    receiver
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

/// Returns the path of a file beside the capture that does not exist yet:
/// `run.frames-800-850.pftrace`, then `run.frames-800-850.2.pftrace`, and so on.
fn free_path(replay: &ReplayState, part: Part, extension: &str) -> PathBuf {
    let stem = part.stem(replay);
    let folder = replay
        .path()
        .and_then(Path::parent)
        .unwrap_or(Path::new(""));
    let mut names = std::iter::once(format!("{stem}.{extension}"))
        .chain((2_u32..).map(|i| format!("{stem}.{i}.{extension}")))
        .map(|name| folder.join(name));
    // The sequence of numbers has no end.
    names.find(|path| !path.exists()).unwrap_or_default()
}
