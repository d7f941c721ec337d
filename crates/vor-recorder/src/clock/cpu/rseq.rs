//! The word that a thread shares with the kernel: `rseq_cs` of restartable sequences.
//!
//! A registered thread (the GNU C library registers threads since 2.35) may store the address of a
//! descriptor there, which names a range of code. When the kernel takes the thread off its
//! processor, moves it or delivers a signal, it reads the descriptor before the thread continues.
//! If the thread is within the range, the kernel sends it to an abort handler; otherwise it sets
//! the word to null. The descriptor here names an empty range, so no thread is ever within it, and
//! the kernel only ever clears the word.
//!
//! The kernel accepts the descriptor only if the four bytes before the abort handler are the
//! signature of the registration, and kills the process otherwise. It does not check whether there
//! is code.
//!
//! Since 6.19 the kernel does this only if an interrupt stopped the program. It does not change the
//! word if the thread waited in a system call. The test at the start detects this.

#![expect(
    unsafe_code,
    reason = "an interface of the kernel and of the C library"
)]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;

/// The signature of the C library's registration, from its header, which is part of its interface.
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;

/// Offset in a thread's `struct rseq` of the processor's number, which is negative if the thread is
/// not registered.
const CPU_ID: usize = 4;
/// Offset of the word.
const RSEQ_CS: usize = 8;

/// `struct rseq_cs` of the kernel's interface.
#[repr(C, align(32))]
struct Descriptor {
    version: u32,
    flags: u32,
    start_ip: u64,
    post_commit_offset: u64,
    abort_ip: *const u32,
}

// SAFETY: No code writes it, and for the kernel the pointer is only an address.
unsafe impl Sync for Descriptor {}

/// The signature, and the address of an abort handler that does not exist.
#[repr(C)]
struct Abort {
    signature: u32,
    handler: u32,
}

static ABORT: Abort = Abort {
    signature: SIGNATURE,
    handler: 0,
};

static MARK: Descriptor = Descriptor {
    version: 0,
    flags: 0,
    start_ip: 0,
    post_commit_offset: 0,
    abort_ip: &raw const ABORT.handler,
};

/// A thread's word, or none. A `Word` never leaves its thread: the pointer makes it neither `Send`
/// nor `Sync`.
#[derive(Clone, Copy)]
pub(super) struct Word(*mut u64);

/// The word of threads that have none. It is never written, so the mark is never set there.
static NONE: u64 = 0;

impl Word {
    pub(super) const NONE: Self = Self((&raw const NONE).cast_mut());

    /// Returns the calling thread's word, or none if the thread is not registered.
    pub(super) fn of_this_thread() -> Self {
        let Some(offset) = offset() else {
            return Self::NONE;
        };
        let area = thread_pointer().wrapping_offset(offset);
        // SAFETY: The C library keeps a `struct rseq` at this offset from each thread's pointer as
        // long as the thread lives, whether or not it could register it. The kernel changes the
        // number only while the thread does not run in the program, so a volatile read returns a
        // whole one.
        let cpu_id = unsafe { area.wrapping_add(CPU_ID).cast::<c_int>().read_volatile() };
        if cpu_id < 0 {
            return Self::NONE;
        }
        Self(area.wrapping_add(RSEQ_CS).cast())
    }

    pub(super) fn is_none(self) -> bool {
        std::ptr::eq(self.0, Self::NONE.0)
    }

    /// Returns whether the mark is set.
    #[inline(always)]
    pub(super) fn is_set(self) -> bool {
        // SAFETY: The word is a static, or belongs to this thread and is valid as long as it. The
        // child of a fork has it at the same address. The kernel changes it only while the thread
        // does not run in the program, like a signal handler. So a volatile read suffices, which
        // also keeps its order with the readings of clocks.
        let word = unsafe { self.0.read_volatile() };
        word == (&raw const MARK).addr() as u64
    }

    /// Sets the mark.
    pub(super) fn set(self) {
        if !self.is_none() {
            let mark = (&raw const MARK).expose_provenance() as u64;
            // SAFETY: As for reading. Another user of the word in this thread, such as an
            // allocator, is not within its own range of code now, since this code is running.
            // Before a signal handler runs, the kernel aborts that range. So the user loses nothing
            // when its word is overwritten.
            unsafe { self.0.write_volatile(mark) };
        }
    }

    /// Clears the mark, but nothing that other code stored.
    pub(super) fn clear(self) {
        if self.is_set() {
            // SAFETY: As for `set`. If the mark is set, the word belongs to a thread.
            unsafe { self.0.write_volatile(0) };
        }
    }
}

/// Returns the offset of `struct rseq` from a thread's pointer, if the C library registers its
/// threads.
fn offset() -> Option<isize> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let size = symbol::<c_uint>(c"__rseq_size")?;
        let offset = symbol::<isize>(c"__rseq_offset")?;
        (size > 0).then_some(offset)
    })
}

/// Reads a variable of the C library, `None` if it has none with that name. The library wrote it
/// before the program began.
fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: The name ends with a zero and lives across the call.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: An address that is not null is that of a variable of the type in the C library's
    // header: `const unsigned int` or `const ptrdiff_t`.
    (!place.is_null()).then(|| unsafe { place.cast::<T>().read() })
}

fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: By the system's convention for threads, the pointer points to itself, so this reads a
    // valid word.
    unsafe {
        core::arch::asm!(
            "mov {}, qword ptr fs:[0]",
            out(reg) pointer,
            options(nostack, preserves_flags, readonly),
        )
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: The register is readable in user mode, and reading it has no effect.
    unsafe {
        core::arch::asm!(
            "mrs {}, tpidr_el0",
            out(reg) pointer,
            options(nomem, nostack, preserves_flags),
        )
    };
    pointer
}
