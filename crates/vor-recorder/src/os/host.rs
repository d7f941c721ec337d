//! The name of the machine.

/// Returns the machine's network name, empty if it is not available.
pub fn name() -> String {
    if cfg!(windows) {
        return std::env::var("COMPUTERNAME").unwrap_or_default();
    }
    // Without `/proc`, the C library knows the name.
    match std::fs::read_to_string("/proc/sys/kernel/hostname") {
        Ok(name) if !name.trim().is_empty() => name.trim().to_owned(),
        _ => named_by_system(),
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

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_name_is_that_of_the_system() {
        assert_eq!(name(), named_by_system());
        assert!(!name().is_empty());
    }
}
