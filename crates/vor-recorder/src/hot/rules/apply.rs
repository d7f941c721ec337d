//! Passes the rules that are on to the registry, in the terms of this machine.

use std::sync::{Arc, Mutex};

use vor_capture::Error;
use vor_capture::model::catalog::SiteInfo;
use vor_capture::model::measures::Measures;

use super::language::ScopeRules;
use crate::clock::cpu;
use crate::hot::modes::{Decide, Mode, ModeWord, Way, bound_ticks};
use crate::hot::{record_state, thread};
use crate::{allocations, sync};

/// The rules that are on. Locked while they are applied, so that calls take turns.
static RULES: Mutex<Option<ScopeRules>> = Mutex::new(None);

/// Replaces the rules that say which scopes are recorded, and how. They hold for every scope that
/// opens from now on; a scope that is open ends as it began. Empty rules record every scope.
///
/// The page "Rules per scope" of the book describes the rules. Does nothing inside a sink, and if
/// vor is compiled out.
///
/// # Errors
///
/// Fails if the rules cannot be read, with one line that shows the rule and what is allowed. The
/// rules that were on stay on.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::hot::rules::{scope_rules, set_scopes}; }
/// vor::set_scopes("db::*=count, lock=min:50us")?;
/// assert!(vor::set_scopes("db::*=cuont").is_err());
/// assert_eq!(vor::scope_rules(), "db::*=count,lock=min:50us");
/// vor::set_scopes("")?;
/// # Ok::<(), vor_capture::Error>(())
/// ```
pub fn set_scopes(rules: &str) -> Result<(), Error> {
    let rules = rules.parse()?;
    if !thread::is_busy() {
        apply(rules);
    }
    Ok(())
}

/// Returns the rules that are on, as [`set_scopes`] reads them.
#[must_use]
pub fn scope_rules() -> String {
    let rules = sync::lock(&RULES);
    rules.as_ref().map(ToString::to_string).unwrap_or_default()
}

/// Replaces the rules.
pub(crate) fn apply(rules: ScopeRules) {
    if cfg!(feature = "off") {
        return;
    }
    thread::while_busy(|| {
        let mut on = sync::lock(&RULES);
        let decider = (!rules.is_empty()).then(|| {
            let rules = rules.clone().with_modes(in_machine_terms);
            Arc::new(Decider(rules)) as _
        });
        record_state::set_rules(decider);
        *on = Some(rules);
    });
}

/// The rules with modes as scopes read them, for the registry.
struct Decider(ScopeRules);

impl Decide for Decider {
    fn of_site(&self, site: &SiteInfo) -> ModeWord {
        let (mode, rank) = self.0.of_site(site);
        ModeWord::new(mode, rank)
    }

    fn of_thread(&self, name: &str) -> ModeWord {
        let (mode, rank) = self.0.of_thread(name);
        ModeWord::new(mode, rank)
    }

    fn last_thread_rank(&self) -> u16 {
        self.0.last_thread_rank()
    }
}

/// Returns a mode as scopes read it: with its bound in ticks, and without the measures that nothing
/// here reports.
fn in_machine_terms(mode: Mode) -> Mode {
    let way = match mode.way {
        Way::Min { bound } => Way::Min {
            bound: bound_ticks(bound),
        },
        way => way,
    };
    let measures = available(mode.measures);
    Mode { way, measures }
}

/// Returns the measures among these that something here reports.
fn available(measures: Measures) -> Measures {
    let mut available = measures;
    // The source of CPU time is found at the first question, here and not in a scope.
    if measures.has(Measures::CPU) && cpu::source() == cpu::Source::None {
        available = available.without(Measures::WAITS);
    }
    if measures.has(Measures::WAIT) && !cpu::has_run_queue() {
        available = cpu::without_run_queue(available);
    }
    if measures.has(Measures::ALLOC) && !allocations::is_installed() {
        available = available.without(Measures::ALLOC);
    }
    available
}
