//! Lines on stderr: how vor tells what went wrong without stopping the program.
//!
//! A line goes straight to the file descriptor, in one write. The standard library's lock would be of no use here: in the child of a fork a thread that is
//! gone may hold it, and a closed stderr must not become a panic in the program being measured.
//! A browser has a console instead.

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
use std::io::Write;

/// Writes `vor: ` and the line. Control characters are escaped, so that it stays one line; where there is no stderr, nothing happens.
pub fn line(text: &str) {
    let mut line = String::with_capacity(text.len() + 6);
    line.push_str("vor: ");
    for character in text.chars() {
        if character.is_control() {
            line.extend(character.escape_default())
        } else {
            line.push(character)
        }
    }
    line.push('\n');
    write(line.as_bytes());
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
    crate::js::warn(String::from_utf8_lossy(line).trim_end());
}

#[cfg(not(any(unix, all(target_arch = "wasm32", target_os = "unknown"))))]
fn write(line: &[u8]) {
    // There is nobody left to tell.
    let _ = std::io::stderr().write_all(line);
}
