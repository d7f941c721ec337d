//! The page: how it is drawn, and how it finds captures.

mod socket;
pub(crate) mod chooser;
mod fills;
mod page;
pub(crate) mod save;

pub(crate) use page::start;
