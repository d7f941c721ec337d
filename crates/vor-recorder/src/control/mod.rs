//! Rules that say which scopes are recorded, and how, while the program runs.
//!
//! [`rules`](ScopeRules) is the language. `apply` hands the rules to the registry of call sites,
//! which writes the words that scopes read.
//!
//! ```text
//! text ── ScopeRules ── Decider ── Registry::set_decider ── a mode per id ── the word of each site
//! ```

mod rules;
mod apply;

pub(crate) use apply::apply;
pub use apply::{scope_rules, set_scopes};
pub use rules::ScopeRules;
