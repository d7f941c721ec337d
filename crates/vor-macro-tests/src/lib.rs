//! Runs the examples in the documentation of the attributes.

#[cfg(doctest)]
#[doc = include_str!("../../../vor-macros/docs/profile.md")]
mod profile {}

#[cfg(doctest)]
#[doc = include_str!("../../../vor-macros/docs/all_functions.md")]
mod all_functions {}

#[cfg(doctest)]
#[doc = include_str!("../../../vor-macros/docs/skip.md")]
mod skip {}
