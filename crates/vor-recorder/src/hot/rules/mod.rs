//! Rules that say which scopes are recorded, and how, while the program runs.
//!
//! `language` reads and matches the rules. `apply` passes them to the registry of call sites, which
//! writes the words that scopes read. `budget` finds the sites that cost too much, for the drain;
//! the registry then counts their scopes instead.
//!
//! ```text
//! text ── ScopeRules ── Decider ── Registry::set_decider ── a mode per id ── the word of each site
//! drain ── scopes per site and second ── Account ── Registry::set_over_budget ──┘
//! ```

#[cfg(feature = "rules")]
mod language;
#[cfg(feature = "rules")]
mod apply;
pub(crate) mod budget;

#[cfg(feature = "rules")]
pub(crate) use apply::apply;
#[cfg(feature = "rules")]
pub use apply::{scope_rules, set_scopes};
#[cfg(feature = "rules")]
pub use language::ScopeRules;
