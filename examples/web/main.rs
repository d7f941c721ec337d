//! The live panel in a web page: particles move above, and the panel below shows their cost. The
//! Performance panel of the browser's developer tools shows the same scopes.
//!
//! ```text
//! cargo build --profile web --target wasm32-unknown-unknown \
//!     -p vor-examples --bin web --features web
//! wasm-bindgen --target web --no-typescript --out-dir demo \
//!     target/wasm32-unknown-unknown/web/web.wasm
//! cp examples/web/index.html demo
//! ```
//!
//! Then any static file server can serve the folder. A page has one thread and no drain thread of
//! vor: `frame_mark` processes the frame itself, so it is in the panel immediately.
//!
//! A web worker has no page to draw into. There the program moves particles for a few frames and
//! ends, and its scopes are on the timeline of the worker.

#[cfg(target_arch = "wasm32")]
mod demo;
#[cfg(target_arch = "wasm32")]
mod worker;

/// The number of slices of the particles, each a scope.
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
        "web: this program is a web page: build it for wasm32-unknown-unknown, as its source says"
    );
}
