//! The panel of vor: what a program does, live inside it or replayed from a capture.
//!
//! The modules follow the data flow. Frames enter the `store`, the `view` holds what the user looks
//! at, and each part of the panel draws its share of the view.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod store;
mod whole;
pub mod view;
pub mod palette;
pub mod theme;
mod time_text;
pub mod pyramid;
pub mod frame_axis;
mod sketch;
mod sheet;
mod groups;
mod holder;
pub mod bars;
pub mod bookmarks;
pub mod budget;
mod capture_bars;
pub mod flame;
pub mod plots;
pub mod overview;
pub mod scopes;
pub mod icicle;
pub mod find;
pub mod compare;
pub mod why;
pub mod export;
mod export_time;
pub mod keys;
pub mod panel;
pub mod metric;
pub mod raster;
#[cfg(feature = "live")]
mod feed;
#[cfg(feature = "live")]
pub mod live;
pub mod replay;

pub use holder::Holder;
#[cfg(feature = "live")]
pub use live::{PanelConfig, PanelState, show};
pub use metric::Metric;
pub use replay::ReplayState;
