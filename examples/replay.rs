//! A capture in a window, while a program writes it or afterwards.
//!
//! ```text
//! VOR_RECORD=run.vor VOR_RECORD_SPANS=1 cargo run --release --example headless
//! cargo run --release --example replay --features viz -- run.vor
//! ```
//!
//! A program needs no more than this to show captures; the viewer `vor-viz` does more.

use std::process::ExitCode;

use eframe::egui;
use vor::viz::ReplayState;

struct App {
    replay: ReplayState,
}

impl eframe::App for App {
    fn ui(&mut self, ui: &mut egui::Ui, _: &mut eframe::Frame) {
        egui::CentralPanel::default().show(ui, |ui| self.replay.show(ui));
    }
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1) else {
        eprintln!("usage: replay CAPTURE");
        return ExitCode::from(2);
    };
    let replay = match ReplayState::open(&path) {
        Ok(replay) => replay,
        Err(error) => {
            eprintln!("replay: {error}");
            return ExitCode::from(2);
        }
    };
    let options = eframe::NativeOptions {
        viewport: egui::ViewportBuilder::default().with_inner_size([1280.0, 860.0]),
        ..Default::default()
    };
    match eframe::run_native(
        "vor replay",
        options,
        Box::new(|_| Ok(Box::new(App { replay }))),
    ) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("replay: cannot open a window: {error}");
            ExitCode::FAILURE
        }
    }
}
