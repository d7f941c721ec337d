//! Code that runs when a thread ends, later than the destructors of thread-locals.

#![expect(unsafe_code, reason = "keys of threads belong to the C library")]

use std::ffi::c_void;

/// Runs `work` when this thread has ended for the standard library. The C library calls destructors
/// of its own keys after those of thread-locals.
pub fn at_the_very_end(work: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: `key` is valid for writes; `work` is called with the value, because it is not null,
    // and does not use it.
    unsafe {
        assert_eq!(libc::pthread_key_create(&mut key, Some(work)), 0);
        assert_eq!(libc::pthread_setspecific(key, std::ptr::dangling()), 0);
    }
}
