//! `vor-viz` shows captures in a window, or takes screenshots of them without one. In a browser it
//! is a page.
#![forbid(unsafe_code)]

#[cfg(not(target_arch = "wasm32"))]
mod args;
#[cfg(not(target_arch = "wasm32"))]
mod recent;
#[cfg(not(target_arch = "wasm32"))]
mod output;
#[cfg(not(target_arch = "wasm32"))]
mod save;
#[cfg(not(target_arch = "wasm32"))]
mod chooser;
#[cfg(target_arch = "wasm32")]
mod web;
#[cfg(target_arch = "wasm32")]
use web::{chooser, save};
#[cfg(not(target_arch = "wasm32"))]
mod bookmark_file;
#[cfg(not(target_arch = "wasm32"))]
mod glyphs;
mod chart_picture;
mod export_menu;
mod link;
mod pair;
mod viewer;
#[cfg(all(feature = "viewer", not(target_arch = "wasm32")))]
mod dialog;
#[cfg(all(feature = "viewer", not(target_arch = "wasm32")))]
mod window;
#[cfg(all(not(feature = "viewer"), not(target_arch = "wasm32")))]
mod window_stub;
#[cfg(all(not(feature = "viewer"), not(target_arch = "wasm32")))]
use window_stub as window;
#[cfg(not(target_arch = "wasm32"))]
mod screenshot;
#[cfg(test)]
#[path = "../../../tests/all/pictures.rs"]
mod pictures;
#[cfg(test)]
mod tests;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    args::main()
}

#[cfg(target_arch = "wasm32")]
fn main() {
    web::start();
}
