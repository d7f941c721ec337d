//! The end of a process on Windows that does not go by the C library, as by `std::process::exit`.
//!
//! The system ends all other threads first, wherever they are. Then it tells the thread that asked
//! for the end twice: where the thread has a value in a slot for fibers, which every thread gets
//! that records, the slot's callback is called, as at the end of any thread; and with all libraries
//! gone, what the program's image lists for the begins and ends of threads. The second comes on
//! threads too that have recorded nothing; wine has the first alone.

#[cfg(windows)]
pub(crate) use windows::{is_last_thread, watch, watch_thread};

/// Returns whether the process ends and this is its last thread.
#[cfg(unix)]
pub(crate) const fn is_last_thread() -> bool {
    false
}

/// Returns whether a lock is open. A panic that poisoned it has let it go.
#[cfg(any(unix, windows))]
pub(crate) fn is_open<T>(mutex: &std::sync::Mutex<T>) -> bool {
    !matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock))
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "only the system says when a process ends")]
mod windows {
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::OnceLock;

    use windows_sys::Win32::System::Threading::{
        FLS_OUT_OF_INDEXES, FlsAlloc, FlsFree, FlsSetValue,
    };

    use crate::sync::Ordering;
    use crate::sync::global::AtomicU32;

    /// What the system calls when the image is loaded, when threads begin and end, and at the
    /// process's end.
    type OfImage = unsafe extern "system" fn(*mut c_void, u32, *mut c_void);

    /// The reason that says that the image is unloaded, or that the process ends.
    const PROCESS_DETACH: u32 = 0;

    /// The slot whose callback is called at the ends of threads. Written once by [`watch`], read by
    /// threads as they begin to record, relaxed: a thread without a value ends without a call.
    static SLOT: AtomicU32 = AtomicU32::new(FLS_OUT_OF_INDEXES);

    /// The linker makes one list of all sections of this kind, in the order of their names. The
    /// standard library's runs the destructors of thread-locals and is called `.CRT$XLB`: this
    /// comes before it, when the thread's state is still there.
    // SAFETY: the section holds pointers to functions of this type and nothing else.
    #[used]
    #[unsafe(link_section = ".CRT$XLAV")]
    static AT_DETACH: OfImage = at_detach;

    unsafe extern "C" {
        /// What tells the system that the image has such a list; the C library has it, and it is
        /// linked where something names it.
        static _tls_used: u8;
    }

    // The libraries of imports that come with compilers do not all have it.
    #[cfg_attr(
        target_arch = "x86",
        link(name = "ntdll", kind = "raw-dylib", import_name_type = "undecorated")
    )]
    #[cfg_attr(not(target_arch = "x86"), link(name = "ntdll", kind = "raw-dylib"))]
    unsafe extern "system" {
        fn RtlDllShutdownInProgress() -> u8;
    }

    /// What [`watch`] was given first.
    static FINISH: OnceLock<fn()> = OnceLock::new();

    /// Has `finish` called at the end of the process, on its last thread; only the first call has an
    /// effect.
    pub(crate) fn watch(finish: fn()) {
        // Named here, both stay in the program.
        std::hint::black_box((&raw const AT_DETACH, &raw const _tls_used));
        FINISH.get_or_init(|| {
            // SAFETY: the function has the signature, does not unwind, and is there until
            // `at_detach` gives the slot back.
            SLOT.store(unsafe { FlsAlloc(Some(at_thread_end)) }, Ordering::Relaxed);
            finish
        });
        watch_thread();
    }

    /// Has the end of the process told to this thread, if it is the one that asks for it.
    pub(crate) fn watch_thread() {
        let slot = SLOT.load(Ordering::Relaxed);
        if slot != FLS_OUT_OF_INDEXES {
            // SAFETY: the slot is this module's. The value is not null, as without one nothing is
            // called, and nobody follows it.
            unsafe { FlsSetValue(slot, ptr::without_provenance(1)) };
        }
    }

    /// Returns whether the process ends and this is its last thread: from when the system has ended
    /// the others.
    pub(crate) fn is_last_thread() -> bool {
        // SAFETY: the function only reads a flag, and every version of Windows has it.
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
        // A library is unloaded: no thread may call into it any more.
        let slot = SLOT.swap(FLS_OUT_OF_INDEXES, Ordering::Relaxed);
        if slot != FLS_OUT_OF_INDEXES {
            // SAFETY: the slot is this module's, and given back once.
            unsafe { FlsFree(slot) };
        }
    }
}
