//! Tests of the panel and the viewer. Each test that records does so in a process of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod block;
mod chart_screen;
mod clipped;
mod compare;
mod cost;
mod copied;
mod export;
mod export_random;
mod export_traces;
mod find;
mod flame;
mod following;
mod headless;
mod icicle;
mod judge;
mod live;
mod live_marks;
mod looks;
mod marks;
mod numbers;
mod numbers_pyramid;
mod opened;
mod panel;
mod panning;
mod pictures;
mod pointer;
mod polls;
mod program;
mod ranges;
mod replay;
mod scopes;
mod scopes_data;
mod selections;
mod steps;
mod store;
mod synthetic;
mod task_waits;
mod truth;
mod viewer;
mod waits;
mod whole;
