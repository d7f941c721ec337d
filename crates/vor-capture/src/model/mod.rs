//! The plain data that a capture holds: ids and ticks, what they refer to, and the frames made of
//! them.

pub mod catalog;
pub mod timeline;
pub mod scope_modes;
pub mod open_scopes;
pub mod batch;
pub mod frame;
pub mod measures;
pub mod waits;
pub mod heap;
pub mod scheduler;
