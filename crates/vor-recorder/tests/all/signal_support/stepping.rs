//! The processor's trap flag: a signal after each instruction.

/// Makes each trap run `handler`.
pub fn install(handler: extern "C" fn(libc::c_int)) {
    // SAFETY: all zeros are a valid action: the default one, without flags or a mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_RESTART;
    // SAFETY: the action is complete.
    let failed = unsafe { libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()) };
    assert_eq!(failed, 0);
}

/// Runs `work` with a trap after each of its instructions.
#[inline(never)]
pub fn run(work: impl FnOnce()) {
    // SAFETY: only the trap flag changes, and its signal has a handler.
    unsafe { std::arch::asm!("pushfq", "or dword ptr [rsp], 0x100", "popfq") };
    work();
    // SAFETY: as above.
    unsafe { std::arch::asm!("pushfq", "and dword ptr [rsp], 0xfffffeff", "popfq") };
}
