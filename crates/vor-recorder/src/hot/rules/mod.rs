//! Rules that say which scopes are recorded, and how, while the program runs.
//!
//! `language` reads and matches the rules. `apply` passes them to the registry of call sites, which
//! writes the words that scopes read:
//!
//! ```text
//! text ── ScopeRules ── Decider ── Registry::set_decider ── a mode per id ── the word of each site
//! ```

mod language;
mod apply;

pub(crate) use apply::apply;
pub use apply::{scope_rules, set_scopes};
pub use language::ScopeRules;
