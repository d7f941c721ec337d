//! The live panel in a page: particles move above, and below stands what they cost. The same scopes stand in the Performance panel of the browser's developer tools.
//!
//! ```text
//! cargo build --profile web --target wasm32-unknown-unknown -p vor-examples --bin web --features web
//! wasm-bindgen --target web --no-typescript --out-name demo --out-dir demo target/wasm32-unknown-unknown/web/web.wasm
//! cp examples/web/index.html demo
//! ```
//!
//! Any server of static files shows the folder then. A page has one thread, and no worker of vor's: frames are finished inside their marks, and are in the panel at once.

#[cfg(target_arch = "wasm32")]
mod demo;

#[cfg(target_arch = "wasm32")]
fn main() {
    demo::start();
}

#[cfg(not(target_arch = "wasm32"))]
fn main() {
    eprintln!("web: this program is a page; build it for wasm32-unknown-unknown, as its first lines say");
}
