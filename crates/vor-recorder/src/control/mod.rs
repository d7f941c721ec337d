//! Rules that say which scopes are recorded, and how, while the program runs.
//!
//! [`rules`](ScopeRules) is the language. `apply` hands the rules to the registry of call sites,
//! which writes the words that scopes read. `budget` judges which sites cost too much: the drain asks it,
//! and the registry counts their scopes instead.
//!
//! ```text
//! text ── ScopeRules ── Decider ── Registry::set_decider ── a mode per id ── the word of each site
//! drain ── scopes per site and second ── Account ── Registry::set_over_budget ──┘
//! ```

mod rules;
mod apply;
pub(crate) mod budget;

pub(crate) use apply::apply;
pub use apply::{scope_rules, set_scopes};
pub use rules::ScopeRules;
