//! What does a scope cost in a browser, and what do frames hold there?
//!
//! The program is loaded by a page or a worker, measures for some seconds, and leaves its answer as
//! the global `vorBench`; `.ci/web` opens it in Chromium and prints what it says.

#[cfg(target_arch = "wasm32")]
mod page;

fn main() {
    #[cfg(target_arch = "wasm32")]
    page::run();
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("web: this program is a page; `.ci/web` builds and opens it");
}
