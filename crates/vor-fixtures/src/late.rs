//! Code that runs when a thread ends, later than the destructors of thread-locals.

#![expect(unsafe_code, reason = "keys of threads are the C library's")]

use std::ffi::c_void;

/// Has `work` run when this thread is gone for the standard library. The C library calls
/// destructors of its own keys after those of thread-locals.
pub fn at_the_very_end(work: unsafe extern "C" fn(*mut c_void)) {
    let mut key = 0;
    // SAFETY: `key` is a valid place for the result; `work` takes the value, which is not null so
    // that it is called, and does not look at it.
    unsafe {
        assert_eq!(libc::pthread_key_create(&mut key, Some(work)), 0);
        assert_eq!(libc::pthread_setspecific(key, std::ptr::dangling()), 0);
    }
}
