//! Tests of `vor-recorder` through its public interface, without an allocator of their own. Each
//! test that records does so in a process of its own.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test fails by panicking"
)]

mod alloc_exact_model;
#[cfg(not(feature = "off"))]
mod alloc_model;
mod alloc_recorded_none;
mod alloc_sampled;
mod capture_sink;
mod counted_scopes;
mod cpu_time;
mod cpu_waits;
#[cfg(all(feature = "tracing", not(feature = "off")))]
mod debug_events;
mod gpu_poller;
mod gpu_rows;
#[cfg(all(feature = "cuda", target_os = "linux", not(feature = "off")))]
mod gpu_support;
#[cfg(feature = "locks")]
mod like_std;
#[cfg(feature = "locks")]
mod locks_blocked;
#[cfg(feature = "locks")]
mod locks_channel;
#[cfg(feature = "locks")]
mod locks_channel_like_std;
#[cfg(all(feature = "crossbeam", feature = "flume"))]
mod locks_channel_many;
#[cfg(all(feature = "crossbeam", feature = "flume"))]
mod locks_channel_many_like;
#[cfg(feature = "locks")]
mod locks_condvar;
#[cfg(feature = "locks")]
mod locks_foreign;
#[cfg(feature = "locks")]
mod locks_holds;
#[cfg(all(
    feature = "crossbeam",
    feature = "flume",
    feature = "parking_lot",
    feature = "tokio"
))]
mod locks_interfaces;
#[cfg(feature = "locks")]
mod locks_like_std;
#[cfg(feature = "parking_lot")]
mod locks_parking_lot;
#[cfg(feature = "parking_lot")]
mod locks_parking_lot_like;
#[cfg(feature = "locks")]
mod locks_std;
#[cfg(all(feature = "locks", not(feature = "off")))]
mod locks_support;
#[cfg(all(feature = "locks", feature = "tokio"))]
mod locks_tokio;
#[cfg(all(feature = "locks", feature = "tokio"))]
mod locks_tokio_flows;
#[cfg(all(feature = "locks", feature = "tokio"))]
mod locks_tokio_like;
#[cfg(all(feature = "locks", feature = "tokio"))]
mod locks_tokio_model;
#[cfg(all(feature = "locks", feature = "tokio"))]
mod locks_tokio_once;
#[cfg(feature = "locks")]
mod locks_waits;
#[cfg(not(feature = "off"))]
#[path = "../tracking/measured.rs"]
mod measured;
mod measured_scopes;
mod metrics_timed;
#[cfg(feature = "tokio")]
mod metrics_timed_polled;
mod nested_work;
mod nvtx_ranges;
mod otlp_send;
mod pprof_files;
mod puffin_frames;
mod pyroscope_push;
mod reader_flames;
mod recorder_calibration;
mod recorder_capture_file;
mod recorder_choice;
mod recorder_chrome;
mod recorder_clock;
mod recorder_drops;
mod recorder_flows;
mod recorder_frames;
mod recorder_interval;
mod recorder_manual;
mod recorder_marks;
mod recorder_perfetto;
mod recorder_scopes;
mod recorder_sinks;
mod recorder_stress;
mod recorder_truth;
mod recorder_unseen;
mod recorder_variables;
mod recorder_views;
mod recorder_watchdog;
mod scheduler_events;
#[cfg(all(feature = "rules", not(feature = "off")))]
mod scope_modes;
mod signal_steps;
#[cfg(all(target_os = "linux", not(feature = "off")))]
mod signal_support;
mod signal_timer;
mod sinks_early;
mod system_absent;
mod system_process;

vor_fixtures::tests_wait!();
