//! `vor top`: a dashboard in the terminal, of a running program, a growing capture or a folder of
//! segments.
//!
//! - `input`: where the records come from.
//! - `model`: what they add up to, second by second.
//! - `rows`: the tables, sorted and filtered.
//! - `screen`: the state of looking, keys, and the drawing.

mod input;
mod model;
mod rows;
mod screen;

use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::{DefaultTerminal, Terminal};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::live;
use input::Input;
use model::Model;
use screen::Screen;

/// How long records are read before keys are looked at.
const READ_BOUND: Duration = Duration::from_millis(50);
/// How often the screen is drawn.
const DRAW_EVERY: Duration = Duration::from_millis(250);
/// How long `--once` watches a running program.
const ONCE: Duration = Duration::from_millis(2500);
/// Size of the screen that `--once` prints.
const ONCE_SIZE: (u16, u16) = (80, 24);

/// Shows a running program in the terminal: frames, the slowest scopes, threads, metrics, waits.
///
/// It also shows a growing capture, or the newest segment of a folder. Keys: 1 to 4 or Tab choose a
/// table, arrows a row, Enter opens a scope, s sorts, / filters, f freezes, q ends.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program: its process number, `unix:PATH` or `tcp://HOST:PORT`; or a capture.
    #[arg(value_name = "ADDRESS|FILE")]
    source: OsString,
    /// Prints one screen of 80 by 24 characters, and ends.
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    spans: live::Spans,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    if !args.once && !io::stdout().is_terminal() {
        return Err(Failure::Message(
            "top: stdout is no terminal; `--once` prints one screen".to_owned(),
        ));
    }
    let mut input = Input::open(&args.source, args.spans.spans)?;
    let mut model = Model::new(input.name());
    let mut screen = Screen::new();
    if args.once {
        return print_once(&mut input, &mut model, &mut screen, out);
    }
    let mut terminal = ratatui::try_init()
        .map_err(|error| Failure::Message(format!("top: the terminal cannot be used: {error}")))?;
    let shown = show(&mut terminal, &mut input, &mut model, &mut screen);
    ratatui::restore();
    shown?;
    for loss in model.losses() {
        warn(&format!("{}: damaged: {loss}", input.name()));
    }
    Ok(Outcome::Success)
}

fn show(
    terminal: &mut DefaultTerminal,
    input: &mut Input,
    model: &mut Model,
    screen: &mut Screen,
) -> Result<(), Failure> {
    let failed = |error: io::Error| Failure::Message(format!("top: {error}"));
    let mut drawn: Option<Instant> = None;
    loop {
        input.read_into(model, READ_BOUND)?;
        if is_draw_due(drawn.map(|drawn| drawn.elapsed())) {
            drawn = Some(Instant::now());
            terminal
                .draw(|frame| screen.draw(model, frame))
                .map_err(failed)?;
        }
        // A running program waits inside `read_into`, a file does not.
        let mut wait = input.pause();
        while event::poll(wait).map_err(failed)? {
            (wait, drawn) = (Duration::ZERO, None);
            if let Event::Key(key) = event::read().map_err(failed)?
                && key.kind != KeyEventKind::Release
                && screen.key(key, model)
            {
                return Ok(());
            }
        }
    }
}

/// Returns whether the screen is drawn that was drawn so long ago, or has changed.
fn is_draw_due(drawn: Option<Duration>) -> bool {
    drawn.is_none_or(|drawn| drawn >= DRAW_EVERY)
}

fn print_once(
    input: &mut Input,
    model: &mut Model,
    screen: &mut Screen,
    out: &mut impl Write,
) -> Result<Outcome, Failure> {
    let begun = Instant::now();
    loop {
        input.read_into(model, READ_BOUND)?;
        // A program that records without a pause never has nothing more.
        let is_over = match input.is_live() {
            true => input.has_ended() && input.has_all() || begun.elapsed() >= ONCE,
            false => input.has_all(),
        };
        if is_over {
            break;
        }
    }
    let (width, height) = ONCE_SIZE;
    let text = draw_as_text(model, screen, width, height);
    out.write_all(text.as_bytes()).map_err(Failure::output)?;
    Ok(Outcome::Success)
}

/// Draws a screen into lines of text.
fn draw_as_text(model: &Model, screen: &mut Screen, width: u16, height: u16) -> String {
    let Ok(mut terminal) = Terminal::new(TestBackend::new(width, height));
    let Ok(_) = terminal.draw(|frame| screen.draw(model, frame));
    let buffer = terminal.backend().buffer();
    let mut text = String::new();
    for y in 0..height {
        let line: String = (0..width).map(|x| buffer[(x, y)].symbol()).collect();
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_is_drawn_now_and_then_and_when_it_has_changed() {
        let almost = DRAW_EVERY - Duration::from_nanos(1);
        assert!(is_draw_due(None) && is_draw_due(Some(DRAW_EVERY)));
        assert!(!is_draw_due(Some(almost)));
    }
}
