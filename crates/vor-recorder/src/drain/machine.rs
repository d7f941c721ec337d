//! Describes the machine on which the program runs.

use vor_capture::filled;
use vor_capture::model::catalog::MachineInfo;

use crate::clock;

/// Returns the machine's identity and the current values of its clocks.
pub(crate) fn describe() -> MachineInfo {
    filled!(MachineInfo {
        host: host(),
        boot_id: text_of("/proc/sys/kernel/random/boot_id"),
        hardware_ticks: clock::is_hardware(),
        clocks: clock::snapshot(),
    })
}

/// Returns the machine's network name, empty if it is not available.
fn host() -> String {
    if cfg!(windows) {
        return std::env::var("COMPUTERNAME").unwrap_or_default();
    }
    match text_of("/proc/sys/kernel/hostname") {
        name if name.is_empty() => named_by_system(),
        name => name,
    }
}

#[cfg(unix)]
#[expect(
    unsafe_code,
    reason = "the standard library does not know the name of the machine"
)]
fn named_by_system() -> String {
    let mut name = [0_u8; 256];
    // SAFETY: the call writes at most as many bytes as its length argument, which leaves the
    // buffer's last byte 0.
    let result = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len() - 1) };
    let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
    if result == 0 {
        String::from_utf8_lossy(&name[..end]).into_owned()
    } else {
        String::new()
    }
}

#[cfg(not(unix))]
fn named_by_system() -> String {
    String::new()
}

/// Returns the trimmed text of a small file, empty if there is none.
fn text_of(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}
