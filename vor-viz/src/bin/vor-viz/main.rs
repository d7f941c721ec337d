//! `vor-viz`: looks at captures in a window, or makes pictures of them without one.
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
mod pair;
#[cfg(not(target_arch = "wasm32"))]
mod viewer;
#[cfg(not(target_arch = "wasm32"))]
mod window;
#[cfg(not(target_arch = "wasm32"))]
mod raster;
#[cfg(not(target_arch = "wasm32"))]
mod screenshot;

#[cfg(not(target_arch = "wasm32"))]
fn main() -> std::process::ExitCode {
    args::main()
}

/// In a browser a page shows the panel; there is no program to start.
#[cfg(target_arch = "wasm32")]
fn main() {}
