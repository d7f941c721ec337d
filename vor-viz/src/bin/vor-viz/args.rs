//! The command line. A wrong argument or an unreadable file gives one line on stderr and exit code
//! 2, before any window opens.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use vor_capture::reader::Capture;
use vor_viz::replay::{Place, ReplayState};

use crate::chooser::Chooser;
use crate::recent::Recent;
use crate::screenshot::{self, Picture};
use crate::viewer::Viewer;
use crate::window;

/// Largest width and height of a picture, in pixels.
const MAX_SIZE: u32 = 16_384;

/// Shows the captures that vor records.
#[derive(Debug, Parser)]
#[command(name = "vor-viz", version)]
struct Args {
    /// A capture; one that is still being written is followed.
    capture: Option<PathBuf>,
    /// Another one, shown below it.
    other: Option<PathBuf>,
    /// Goes to the frame with this number, or the next one that was kept.
    #[arg(long, value_name = "N", requires = "capture")]
    frame: Option<u64>,
    /// Selects this time on the scale above the flame chart, such as 1.2s..1.3s.
    #[arg(long, value_name = "BEGIN..END", value_parser = time)]
    #[arg(
        requires = "capture",
        conflicts_with = "frame",
        allow_hyphen_values = true
    )]
    time: Option<Place>,
    /// Shows this time in the flame chart.
    #[arg(long, value_name = "BEGIN..END", value_parser = zoom)]
    #[arg(requires = "capture", conflicts_with_all = ["frame", "time"])]
    #[arg(allow_hyphen_values = true)]
    zoom: Option<Place>,
    /// A folder in which source files are looked for, besides the present one and those above the
    /// capture.
    #[arg(long, value_name = "DIR", requires = "capture")]
    source: Vec<PathBuf>,
    /// Writes a PNG picture and opens no window.
    #[arg(long, value_name = "OUT.png")]
    screenshot: Option<PathBuf>,
    /// Size of the picture, in pixels.
    #[arg(long, value_name = "WxH", default_value = "1920x1080", value_parser = size)]
    #[arg(requires = "screenshot")]
    size: (u32, u32),
    /// Colours; by default the system's for the window, and dark ones for a picture.
    #[arg(long, value_enum)]
    theme: Option<ThemeName>,
    /// The original of a capture that is a temporary copy, for links.
    #[arg(long, hide = true, value_name = "WHAT")]
    copy_of: Option<String>,
    /// Pixels of the picture for a point of the screen.
    #[arg(long, value_name = "F", default_value = "1", value_parser = scale)]
    #[arg(requires = "screenshot")]
    scale: f32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ThemeName {
    Dark,
    Light,
}

impl From<ThemeName> for egui::Theme {
    fn from(name: ThemeName) -> Self {
        match name {
            ThemeName::Dark => Self::Dark,
            ThemeName::Light => Self::Light,
        }
    }
}

fn size(text: &str) -> Result<(u32, u32), String> {
    let side = |text: &str| {
        text.parse()
            .ok()
            .filter(|side| (1..=MAX_SIZE).contains(side))
    };
    let sides = text
        .split_once('x')
        .and_then(|(width, height)| Some((side(width)?, side(height)?)));
    sides.ok_or_else(|| {
        format!("`{text}` is not a width and height of 1 to {MAX_SIZE} pixels, such as 1920x1080")
    })
}

fn time(text: &str) -> Result<Place, String> {
    format!("time={text}").parse()
}

fn zoom(text: &str) -> Result<Place, String> {
    format!("zoom={text}").parse()
}

fn scale(text: &str) -> Result<f32, String> {
    let scale = text
        .parse()
        .ok()
        .filter(|scale| (0.25..=8.0).contains(scale));
    scale.ok_or_else(|| format!("`{text}` is not a number from 0.25 to 8"))
}

pub(crate) fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return report_usage(&error),
    };
    match run(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => fail(message),
    }
}

fn run(args: Args) -> Result<(), String> {
    let mut shown = Vec::new();
    for path in args.capture.iter().chain(&args.other) {
        if path.is_dir() {
            let path = path.display();
            return Err(format!(
                "{path}: a folder; `vor view {path}` shows its captures as one"
            ));
        }
        let mut replay = ReplayState::open_keeping(path).map_err(|error| error.to_string())?;
        if let Some(frame) = args.frame {
            // A second capture that ends earlier shows its last frame instead. So does a file
            // without an index, whose frames are not known yet.
            let last = last_number(path, replay.frames_total());
            if last.is_some_and(|last| frame > last) && shown.is_empty() && !replay.is_searching() {
                let path = path.display();
                let last = last.unwrap_or_default();
                return Err(format!(
                    "{path}: there is no frame {frame}: the last one is {last}"
                ));
            }
            replay.go_to_number(frame);
        }
        if let Some(place) = args.time.or(args.zoom) {
            replay.go_to_place(place);
        }
        shown.push(replay);
    }
    let Some(path) = args.screenshot else {
        let viewer = Viewer::new(shown, Chooser::new(Recent::of_user()));
        let viewer = viewer.with_sources(args.source).copy_of(args.copy_of);
        let theme = args.theme.map(egui::Theme::from);
        return window::open(viewer, theme)
            .map_err(|error| format!("the window cannot be opened: {error}"));
    };
    let picture = Picture {
        path,
        size: args.size,
        theme: args.theme.unwrap_or(ThemeName::Dark).into(),
        scale: args.scale,
    };
    let viewer = Viewer::new(shown, Chooser::new(Recent::default()));
    let mut viewer = viewer.with_sources(args.source);
    screenshot::take(&mut viewer, &picture)
        .map_err(|error| format!("{}: {error}", picture.path.display()))
}

/// Returns the number of the last frame of a capture, if it can be read.
fn last_number(path: &Path, frames: u64) -> Option<u64> {
    let mut capture = Capture::open_lazily(path).ok()?;
    let last = capture.summaries(frames.checked_sub(1)?).next()?.ok()?;
    Some(last.index)
}

/// Reports an error in the arguments in one line, and prints requested help in full.
fn report_usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Printing can only fail on a closed pipe, which is not an error here.
        drop(error.print());
        return ExitCode::SUCCESS;
    }
    let message = error.render().to_string();
    let first = message.split("\n\n").next().unwrap_or_default();
    let words: Vec<&str> = first.split_whitespace().collect();
    let line = words.join(" ");
    fail(line.strip_prefix("error: ").unwrap_or(&line))
}

/// Writes a line to stderr, if possible.
fn fail(message: impl Display) -> ExitCode {
    let line: String = message
        .to_string()
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    drop(writeln!(io::stderr(), "vor-viz: {line}"));
    ExitCode::from(2)
}
