//! The operating system or the browser: lines on stderr, signals, files, and the resources of the
//! process.

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub(crate) mod js;
pub(crate) mod detach;
pub mod file;
pub(crate) mod host;
pub(crate) mod report;
cfg_select! {
    all(feature = "scheduler", target_os = "linux", target_arch = "x86_64", not(miri)) => {
        pub(crate) mod scheduler;
    }
    _ => {
        pub(crate) mod scheduler_stub;
        pub(crate) use scheduler_stub as scheduler;
    }
}
cfg_select! {
    feature = "shared-memory" => {
        pub(crate) mod shared_file;
    }
    _ => {
        pub(crate) mod shared_file_stub;
        pub(crate) use shared_file_stub as shared_file;
    }
}
pub(crate) mod signals;
#[cfg(all(feature = "live", unix))]
pub(crate) mod socket;
pub mod system;
