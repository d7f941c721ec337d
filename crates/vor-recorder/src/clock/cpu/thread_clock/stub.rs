//! The stub for systems that do not report the CPU time of a thread.

pub(super) fn read() -> Option<u64> {
    None
}

pub(super) fn read_of(_: u64) -> Option<u64> {
    None
}

pub(super) fn counts_ticks() -> bool {
    false
}

pub(super) fn user_sys_ns() -> Option<(u64, u64)> {
    None
}
