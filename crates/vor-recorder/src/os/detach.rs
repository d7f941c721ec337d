//! The end of a process on Windows that bypasses the C library, like that of `std::process::exit`.
//!
//! The system first ends all other threads, wherever they are. Then it notifies the thread that
//! ended the process in two ways. If the thread has a value in a slot for fibers, as every
//! recording thread has, the system calls the slot's callback, as at the end of any thread. After
//! all libraries are detached, it calls the functions that the program's image lists for the
//! beginnings and ends of threads. The second way also reaches threads that have recorded nothing;
//! wine has only the first.

#[cfg(windows)]
pub(crate) use windows::{is_last_thread, watch, watch_thread};

/// Returns whether the process is ending and this is its last thread.
#[cfg(unix)]
pub(crate) const fn is_last_thread() -> bool {
    false
}

/// Returns whether a lock is free, by the attempt to take it. A poisoned lock is free, because the
/// panic has released it.
#[cfg(any(unix, windows))]
pub(crate) fn is_open<G>(attempt: std::sync::TryLockResult<G>) -> bool {
    !matches!(attempt, Err(std::sync::TryLockError::WouldBlock))
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "only the system reports when a process ends")]
mod windows {
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::OnceLock;

    use windows_sys::Win32::System::Threading::{
        FLS_OUT_OF_INDEXES, FlsAlloc, FlsFree, FlsSetValue,
    };

    use crate::sync::Ordering;
    use crate::sync::global::AtomicU32;

    /// A function that the system calls when the image is loaded, when threads begin and end, and
    /// at the end of the process.
    type ImageCallback = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

    /// The reason of a call: the image is unloaded, or the process ends.
    const PROCESS_DETACH: u32 = 0;

    /// The slot whose callback is called at the ends of threads. Written once by [`watch`], read by
    /// threads as they begin to record, both relaxed: a thread without a value ends without a call.
    static SLOT: AtomicU32 = AtomicU32::new(FLS_OUT_OF_INDEXES);

    /// The linker makes one list of all sections of this kind, in the order of their names. The
    /// standard library's section, which runs the destructors of thread-locals, is `.CRT$XLB`: this
    /// one comes before it, when the thread's state is still valid.
    // SAFETY: The section holds pointers to functions of this type and nothing else.
    #[used]
    #[unsafe(link_section = ".CRT$XLAV")]
    static AT_DETACH: ImageCallback = at_detach;

    unsafe extern "C" {
        /// The entry through which the system finds the list. The C library defines it, and it is
        /// linked if the program refers to it.
        static _tls_used: u8;
    }

    // Not all compilers' import libraries have it.
    #[cfg_attr(
        target_arch = "x86",
        link(name = "ntdll", kind = "raw-dylib", import_name_type = "undecorated")
    )]
    #[cfg_attr(not(target_arch = "x86"), link(name = "ntdll", kind = "raw-dylib"))]
    unsafe extern "system" {
        fn RtlDllShutdownInProgress() -> u8;
    }

    /// The function of the first call of [`watch`].
    static FINISH: OnceLock<fn()> = OnceLock::new();

    /// Registers `finish` to be called at the end of the process, on its last thread. Only the
    /// first call has an effect.
    pub(crate) fn watch(finish: fn()) {
        // This reference keeps both in the program.
        std::hint::black_box((&raw const AT_DETACH, &raw const _tls_used));
        FINISH.get_or_init(|| {
            // SAFETY: The function has the signature, does not unwind, and is valid until
            // `at_detach` frees the slot.
            SLOT.store(unsafe { FlsAlloc(Some(at_thread_end)) }, Ordering::Relaxed);
            finish
        });
        watch_thread();
    }

    /// Registers this thread for the notification, in case it ends the process.
    pub(crate) fn watch_thread() {
        let slot = SLOT.load(Ordering::Relaxed);
        if slot != FLS_OUT_OF_INDEXES {
            // SAFETY: The slot is this module's. The value is not null, since null causes no call,
            // and it is never dereferenced.
            unsafe { FlsSetValue(slot, ptr::without_provenance(1)) };
        }
    }

    /// Returns whether the process is ending and this is its last thread, which is so once the
    /// system has ended the others.
    pub(crate) fn is_last_thread() -> bool {
        // SAFETY: The function only reads a flag, and every version of Windows has it.
        unsafe { RtlDllShutdownInProgress() != 0 }
    }

    fn finish() {
        if let Some(finish) = FINISH.get() {
            finish();
        }
    }

    unsafe extern "system" fn at_thread_end(_: *const c_void) {
        if is_last_thread() {
            finish();
        }
    }

    unsafe extern "system" fn at_detach(_: *mut c_void, reason: u32, _: *mut c_void) {
        if reason != PROCESS_DETACH {
            return;
        }
        if is_last_thread() {
            finish();
            return;
        }
        // The image is an unloaded library: no thread may call into it any more.
        let slot = SLOT.swap(FLS_OUT_OF_INDEXES, Ordering::Relaxed);
        if slot != FLS_OUT_OF_INDEXES {
            // SAFETY: The slot is this module's, and freed once.
            unsafe { FlsFree(slot) };
        }
    }
}
