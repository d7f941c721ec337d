//! Tests of `vor` as programs use it, and of the command. Each test that records does so in a
//! process of its own. The tests of the command share one recording, which this process makes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(all(any(feature = "tokio", feature = "tower"), not(feature = "off")))]
mod adapter_capture;
mod arguments;
mod async_tasks;
mod attributes;
mod capture_close;
mod capture_path;
#[cfg(feature = "cli")]
mod command;
mod command_view;
mod compiled_out;
mod counted_process;
mod counted_tracing;
mod criterion_profiler;
mod dumps;
#[cfg(not(feature = "off"))]
mod futures;
mod live;
mod macros_behaviour;
mod puffin_forbidden;
mod puffin_scopes;
mod puffin_viewer;
mod robust_crash;
mod robust_end;
mod robust_exit;
mod robust_fork;
mod robust_kill;
mod robust_pipe;
mod robust_process;
mod robust_stall;
mod robust_support;
mod segments;
mod segments_tail;
mod ship;
mod smoke;
mod soak;
mod tokio_tasks;
mod tower_requests;
mod tracing_attributes;
mod tracing_layer;
mod tracing_spans;
#[cfg(all(feature = "tracing-layer", not(feature = "off")))]
mod tracing_support;
mod tracing_tap;
mod v02_api;

vor_fixtures::tests_wait!();
