//! The end of a process on Windows that does not go by the C library, as by `std::process::exit`.
//!
//! The system ends all other threads first, wherever they are. Then it tells the thread that asked
//! for the end twice: where the thread has a value in a slot for fibers, which every thread gets
//! that records, the slot's callback is called, as at the end of any thread; and with all libraries
//! gone, what the program's image lists for the begins and ends of threads. The second comes on
//! threads too that have recorded nothing; wine has the first alone.
//!
//! There is nobody to wait for: a lock that is held stays held for ever, and what it guards is half
//! changed. Where all locks of the crate are open the engine is whole, and the rings hold what
//! ended since the last pass. Where one is not, nothing is written any more, and the captures are
//! those of a program that was killed.

#[cfg(any(unix, windows))]
pub(super) use ends::{end_without_a_word, is_possible};
#[cfg(unix)]
pub(super) use locks::{was_open, were_open};
#[cfg(windows)]
pub(super) use windows::watch;
#[cfg(windows)]
pub(crate) use windows::watch_thread;

/// Returns whether the process ends and this is its last thread.
#[cfg(not(windows))]
pub(super) const fn is_last_thread() -> bool {
    false
}

#[cfg(windows)]
pub(super) use windows::is_last_thread;

/// Returns whether a lock is open. A panic that poisoned it has let it go.
#[cfg(any(unix, windows))]
pub(crate) fn is_open<T>(mutex: &std::sync::Mutex<T>) -> bool {
    !matches!(mutex.try_lock(), Err(std::sync::TryLockError::WouldBlock))
}

/// The locks that the end takes beside those of the settings and the engine.
#[cfg(any(unix, windows))]
mod locks {
    use super::super::{FRAME_SETS, MARKS, worker};
    use super::is_open;
    use crate::{alloc, callsite, gpu, metrics, thread};

    /// Say whether nobody holds them. The allocator's first: the others may allocate.
    pub(super) const ARE_OPEN: [fn() -> bool; 8] = [
        alloc::is_open,
        || is_open(&MARKS),
        || is_open(&FRAME_SETS),
        worker::is_open,
        gpu::is_open,
        metrics::is_open,
        thread::is_open,
        callsite::is_open,
    ];

    /// Returns whether each of these locks was open at some moment. Then a thread that has been
    /// stopped all the while holds none of them.
    #[cfg(unix)]
    pub(in super::super) fn were_open() -> bool {
        ARE_OPEN.into_iter().all(was_open)
    }

    /// Returns whether a lock was open at some moment since the call began.
    #[cfg(unix)]
    pub(in super::super) fn was_open(is_open: fn() -> bool) -> bool {
        const TRIES: u32 = 100;
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(1);
        (0..TRIES).any(|_| {
            is_open() || {
                std::thread::sleep(PAUSE);
                false
            }
        })
    }
}

#[cfg(unix)]
mod ends {
    /// There are other threads, which will open what they have locked.
    pub(in super::super) const fn is_possible() -> bool {
        true
    }

    pub(in super::super) const fn end_without_a_word() {}
}

#[cfg(windows)]
mod ends {
    use super::super::{ENGINE, SETTINGS};
    use super::is_open;
    use crate::{alloc, thread};

    /// Returns whether all locks that the end takes are open. To be asked by the last thread: they
    /// stay so.
    pub(in super::super) fn is_possible() -> bool {
        let are_open = |locks: &[fn() -> bool]| locks.iter().all(|is_open| is_open());
        are_open(&super::locks::ARE_OPEN) && is_open(&SETTINGS) && is_open(&ENGINE)
    }

    /// Sees to it that nothing of vor waits for a lock on this thread any more, when destructors of
    /// its thread-locals run.
    pub(in super::super) fn end_without_a_word() {
        alloc::stay_inside();
        thread::stay_behind();
    }
}

#[cfg(windows)]
#[expect(unsafe_code, reason = "only the system says when a process ends")]
mod windows {
    use std::ffi::c_void;
    use std::ptr;
    use std::sync::Once;

    use windows_sys::Win32::System::Threading::{FLS_OUT_OF_INDEXES, FlsAlloc, FlsFree, FlsSetValue};

    use super::super::exit;
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

    /// Asks to be called at the end of the process.
    pub(in super::super) fn watch() {
        static ONCE: Once = Once::new();
        // Named here, both stay in the program.
        std::hint::black_box((&raw const AT_DETACH, &raw const _tls_used));
        ONCE.call_once(|| {
            // SAFETY: the function has the signature, does not unwind, and is there until
            // `at_detach` gives the slot back.
            SLOT.store(unsafe { FlsAlloc(Some(at_thread_end)) }, Ordering::Relaxed);
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
    pub(in super::super) fn is_last_thread() -> bool {
        // SAFETY: the function only reads a flag, and every version of Windows has it.
        unsafe { RtlDllShutdownInProgress() != 0 }
    }

    unsafe extern "system" fn at_thread_end(_: *const c_void) {
        if is_last_thread() {
            exit::finish_quietly();
        }
    }

    unsafe extern "system" fn at_detach(_: *mut c_void, reason: u32, _: *mut c_void) {
        if reason != PROCESS_DETACH {
            return;
        }
        if is_last_thread() {
            exit::finish_quietly();
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
