//! The requests that are not streams: what is on, a dump, and rules of scopes.
//!
//! Each returns the lines after `ok`.

use std::fmt::Write;

use vor_capture::Error;
use vor_capture::model::measures::Measures;

use super::server;
use crate::hot::record_state;
use crate::hot::rules::scope_rules;
use crate::os::report::escaped;
use crate::{drain, hot};

/// Returns what is on, as `name: value` lines.
pub(super) fn status() -> Result<String, Error> {
    let Some(status) = drain::status() else {
        return Err(Error::config("recording is not on yet; try again later"));
    };
    let catalog = &status.catalog;
    let mut lines = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let value = escaped(&value.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(lines, "{name}: {value}");
    };
    line("vor", &env!("CARGO_PKG_VERSION"));
    line("program", &catalog.process.name);
    line("pid", &std::process::id());
    let mode = match (record_state::is_on(), record_state::counts_scopes()) {
        (false, _) => "off",
        (true, true) => "scopes are counted",
        (true, false) => "on",
    };
    line("recording", &mode);
    match status.capture {
        Some(path) => line("capture", &path.display()),
        None => line("capture", &"none"),
    }
    line("scopes", &catalog.sites.len());
    line("threads", &catalog.threads.len());
    line("metrics", &catalog.columns.len());
    for name in &status.sinks {
        line("sink", name);
    }
    if status.failed_sinks > 0 {
        line("failed sinks", &status.failed_sinks);
    }
    for (choice, bytes, missed) in server::clients() {
        line(
            "client",
            &format!("spans={choice}, {bytes} bytes wait, {missed} missed"),
        );
    }
    Ok(lines)
}

/// Writes the records in memory, and returns the path.
#[cfg(feature = "segments")]
pub(super) fn dump() -> Result<String, Error> {
    let path = crate::sinks::last::dump_now("`vor ctl dump`")?;
    // The client may be in another folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(format!("{}\n", path.display()))
}

#[cfg(not(feature = "segments"))]
pub(super) fn dump() -> Result<String, Error> {
    Err(Error::config(
        "the program was built without vor's feature `segments`, which keeps records in memory",
    ))
}

/// Returns the rules that are on, and a line for each call site: its mode, how many of its scopes
/// were recorded, counted and skipped, and its name.
pub(super) fn scopes() -> String {
    let mut lines = format!("rules: {}\n", escaped(&scope_rules()));
    for state in drain::scopes_for_client() {
        let mut mode = state.mode.to_string();
        for (measure, name) in [
            (Measures::CPU, "cpu"),
            (Measures::ALLOC, "allocations"),
            (Measures::WAIT, "waits"),
        ] {
            if state.measures.has(measure) {
                mode += &format!("+{name}");
            }
        }
        let over_budget = if state.over_budget {
            ", over its budget"
        } else {
            ""
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "{mode}{over_budget}: {} recorded, {} counted, {} skipped: {}",
            state.recorded,
            state.counted,
            state.skipped,
            escaped(&state.name)
        );
    }
    lines
}

/// Replaces the rules, and returns what [`scopes`] does.
pub(super) fn set_scopes(rules: &str) -> Result<String, Error> {
    hot::rules::apply(rules.parse()?);
    Ok(scopes())
}
