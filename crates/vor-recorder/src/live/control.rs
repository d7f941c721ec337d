//! The requests that are not streams: what is on, and a dump. Rules of scopes belong here as well.
//!
//! Each returns the lines after `ok`.

use std::fmt::Write;

use vor_capture::Error;

use super::server;
use crate::drain;
use crate::hot::record_state;

/// Returns what is on, as `name: value` lines.
pub(super) fn status() -> Result<String, Error> {
    let Some(status) = drain::status() else {
        return Err(Error::config("recording is not on yet; try again later"));
    };
    let catalog = &status.catalog;
    let mut lines = String::new();
    let mut line = |name: &str, value: &dyn std::fmt::Display| {
        let value = crate::os::report::escaped(&value.to_string());
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
#[cfg(feature = "reader")]
pub(super) fn dump() -> Result<String, Error> {
    let path = crate::sinks::last::dump_now("`vor ctl dump`")?;
    // The client may be in another folder.
    let path = std::path::absolute(&path).unwrap_or(path);
    Ok(format!("{}\n", path.display()))
}

#[cfg(not(feature = "reader"))]
pub(super) fn dump() -> Result<String, Error> {
    Err(Error::config(
        "the program was built without vor's feature `reader`, which keeps records in memory",
    ))
}
