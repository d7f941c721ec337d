//! Lines on stderr: reports of errors that do not stop the program.
//!
//! A line goes directly to the file descriptor, in one write, and bypasses the standard library's
//! lock. In the child of a fork a thread that no longer exists may hold that lock. Also, a closed
//! stderr must not become a panic in the program. A browser has a console instead. Reasons that few
//! users need are [`detail`]s.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::io::Write;

/// Writes `vor: ` and the line. Control characters are escaped, so that it stays one line. Does
/// nothing without a stderr.
pub fn line(text: &str) {
    write(format!("vor: {}\n", escaped(text)).as_bytes());
}

/// Reports a detailed reason as an event of `tracing` at the level `DEBUG`, which needs that
/// feature and a subscriber. In a browser without a subscriber it is a console line at the level
/// that is hidden by default.
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

/// Writes lines without a prefix.
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
        // An error cannot be reported anywhere.
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
    // An error cannot be reported anywhere.
    let _ = if crate::os::detach::is_last_thread() {
        // A thread that no longer exists may hold the standard library's lock.
        let stderr = std::io::stderr().as_handle().try_clone_to_owned();
        stderr.and_then(|stderr| std::fs::File::from(stderr).write_all(line))
    } else {
        // The standard library converts text for a console.
        std::io::stderr().write_all(line)
    };
}

#[cfg(not(any(unix, windows, all(target_arch = "wasm32", target_os = "unknown"))))]
fn write(line: &[u8]) {
    // An error cannot be reported anywhere.
    let _ = std::io::stderr().write_all(line);
}
