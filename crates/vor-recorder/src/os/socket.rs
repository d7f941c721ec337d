//! Facts about users and sockets that the standard library lacks.

use std::os::fd::RawFd;

/// Returns the number of the user whose rights this process has.
#[expect(unsafe_code, reason = "the standard library does not return it")]
pub(crate) fn user_id() -> u32 {
    // SAFETY: the call has no arguments, touches no memory and cannot fail.
    unsafe { libc::geteuid() }
}

/// Closes the copies that the child of a fork has of its parent's sockets. The connections stay the
/// parent's.
#[expect(
    unsafe_code,
    reason = "their owners are threads that the child does not have"
)]
pub(crate) fn close_in_child(sockets: impl Iterator<Item = RawFd>) {
    for socket in sockets {
        // SAFETY: the descriptor was open at the fork, and its owner, a thread of the parent, does
        // not exist here, so nothing uses or closes it afterwards.
        unsafe { libc::close(socket) };
    }
}

/// Has the system notice that the other machine is gone while nothing is sent.
#[expect(unsafe_code, reason = "the standard library does not set it")]
pub(crate) fn keep_alive(socket: RawFd) {
    let on: libc::c_int = 1;
    // SAFETY: `on` has the size that is passed and lives across the call, which only reads it. A
    // socket without this option refuses, which changes nothing.
    unsafe {
        libc::setsockopt(
            socket,
            libc::SOL_SOCKET,
            libc::SO_KEEPALIVE,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
}

/// Waits until a connection can be accepted, or a signal comes.
///
/// # Errors
///
/// The descriptor is closed.
#[expect(
    unsafe_code,
    reason = "the standard library waits only while it accepts"
)]
pub(crate) fn wait_until_readable(socket: RawFd) -> std::io::Result<()> {
    let mut polled = libc::pollfd {
        fd: socket,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: there is one entry, which lives across the call.
    match unsafe { libc::poll(&raw mut polled, 1, -1) } {
        -1 => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}
