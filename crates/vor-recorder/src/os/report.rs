//! Lines on stderr: how vor tells what went wrong without stopping the program.
//!
//! A line goes straight to the file descriptor, in one write. The standard library's lock would be
//! of no use here: in the child of a fork a thread that is gone may hold it, and a closed stderr
//! must not become a panic in the program being measured. A browser has a console instead. Reasons
//! that only those want who look for them are [`detail`]s.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::io::Write;

/// Writes `vor: ` and the line. Control characters are escaped, so that it stays one line; where
/// there is no stderr, nothing happens.
pub fn line(text: &str) {
    write(format!("vor: {}\n", escaped(text)).as_bytes());
}

/// Tells a reason to those who look for it: an event of `tracing` at the level `DEBUG`, which needs
/// that feature and a subscriber. In browsers, where nobody takes the event, it is a line of the
/// console at the level that is hidden unless asked for.
pub(crate) fn detail(text: &str) {
    #[cfg(feature = "tracing")]
    if tracing::enabled!(target: "vor", tracing::Level::DEBUG) {
        tracing::debug!(target: "vor", "{text}");
        return;
    }
    #[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
    crate::os::js::debug(&format!("vor: {}", escaped(text)));
    #[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
    let _ = text;
}

/// Writes some lines as they stand.
pub(crate) fn text(lines: &str) {
    write(lines.as_bytes());
}

/// Returns the text with its control characters escaped, so that it stays on one line.
pub(crate) fn escaped(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default())
        } else {
            line.push(character)
        }
    }
    line
}

#[cfg(unix)]
fn write(line: &[u8]) {
    use std::os::fd::AsFd;
    if let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned() {
        // There is nobody left to tell.
        let _ = super::signals::without_signals(|| std::fs::File::from(stderr).write_all(line));
    }
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn write(line: &[u8]) {
    crate::os::js::warn(String::from_utf8_lossy(line).trim_end());
}

#[cfg(windows)]
fn write(line: &[u8]) {
    use std::os::windows::io::AsHandle;
    // There is nobody left to tell.
    let _ = if crate::os::detach::is_last_thread() {
        // Who held the standard library's lock is gone.
        let stderr = std::io::stderr().as_handle().try_clone_to_owned();
        stderr.and_then(|stderr| std::fs::File::from(stderr).write_all(line))
    } else {
        // It turns text into what a console shows.
        std::io::stderr().write_all(line)
    };
}

#[cfg(not(any(unix, windows, all(target_arch = "wasm32", target_os = "unknown"))))]
fn write(line: &[u8]) {
    // There is nobody left to tell.
    let _ = std::io::stderr().write_all(line);
}
