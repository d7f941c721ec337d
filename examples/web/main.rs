//! The live panel in a page: particles move above, and below stands what they cost. The same scopes
//! stand in the Performance panel of the browser's developer tools.
//!
//! ```text
//! cargo build --profile web --target wasm32-unknown-unknown -p vor-examples --bin web --features web
//! wasm-bindgen --target web --no-typescript --out-dir demo target/wasm32-unknown-unknown/web/web.wasm
//! cp examples/web/index.html demo
//! ```
//!
//! Any server of static files shows the folder then. A page has one thread, and no worker of vor's:
//! frames are finished inside their marks, and are in the panel at once.
//!
//! Loaded by a worker, which has no page to draw into, the program moves particles for a few
//! frames, and ends: its scopes stand on the worker's own timeline.

#[cfg(target_arch = "wasm32")]
mod demo;
#[cfg(target_arch = "wasm32")]
mod worker;

/// Slices in which the particles are moved: each is a scope.
#[cfg(target_arch = "wasm32")]
const SLICES: usize = 8;

#[cfg(target_arch = "wasm32")]
fn main() {
    if eframe::web_sys::window().is_some() {
        demo::start();
    } else {
        worker::run();
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn main() {
    eprintln!(
        "web: this program is a page; build it for wasm32-unknown-unknown, as its first lines say"
    );
}
