//! The cost of a scope in a browser, and the content of frames there.
//!
//! A page or a worker loads the program. It measures for some seconds, and stores its answer in the
//! global `vorBench`; `.ci/web` opens it in Chromium and prints the answer.

#[cfg(target_arch = "wasm32")]
mod page;

fn main() {
    #[cfg(target_arch = "wasm32")]
    page::run();
    #[cfg(not(target_arch = "wasm32"))]
    eprintln!("web: this program is a page; `.ci/web` builds and opens it");
}
