//! The word that a thread shares with the kernel: `rseq_cs` of its restartable sequences.
//!
//! A thread that has registered (the GNU C library does so since 2.35) may put the address of a
//! descriptor there, which names a range of code. When the kernel takes the thread off its
//! processor, moves it or hands it a signal, it looks at the descriptor before the thread runs on.
//! Where the thread is within the range, it is sent to an abort handler; where not, the kernel sets
//! the word to null. The descriptor here names an empty range, in which no thread ever is, so all
//! that ever happens is the latter.
//!
//! The kernel trusts the descriptor only when the four bytes before the abort handler are those
//! that were agreed at the registration, and kills the process otherwise. It does not ask whether
//! code stands there.
//!
//! From 6.19 on the kernel does this only where an interrupt took it from the program, and leaves
//! the word alone where the thread waited in a system call. The test at the start finds out.

#![expect(
    unsafe_code,
    reason = "an interface of the kernel and of the C library"
)]

use std::ffi::{CStr, c_int, c_uint};
use std::sync::OnceLock;

/// What the C library agreed with the kernel: the same as in its header, which is part of its
/// interface.
#[cfg(target_arch = "x86_64")]
const SIGNATURE: u32 = 0x5305_3053;
#[cfg(target_arch = "aarch64")]
const SIGNATURE: u32 = 0xd428_bc00;

/// Where in a thread's `struct rseq` the processor's number stands, which is negative where the
/// thread is not registered.
const CPU_ID: usize = 4;
/// Where the word stands.
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

// SAFETY: nothing writes it, and the pointer is only an address to the kernel.
unsafe impl Sync for Descriptor {}

/// The signature, and the place of the abort handler that there is not.
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

/// A thread's word, or none. A `Word` of a thread never leaves that thread: the pointer keeps it
/// from being sent.
#[derive(Clone, Copy)]
pub(super) struct Word(*mut u64);

/// The word of threads that have none: nobody writes it, so no mark ever stands there.
static NONE: u64 = 0;

impl Word {
    pub(super) const NONE: Self = Self((&raw const NONE).cast_mut());

    /// Returns the calling thread's word, or none where the thread is not registered.
    pub(super) fn of_this_thread() -> Self {
        let Some(offset) = offset() else {
            return Self::NONE;
        };
        let area = thread_pointer().wrapping_offset(offset);
        // SAFETY: the C library keeps a `struct rseq` at this distance from each thread's pointer,
        // whether or not it could register it, for as long as the thread lives. The kernel changes
        // the number only while the thread does not run in the program, so a volatile read sees a
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

    /// Returns whether the mark stands.
    #[inline(always)]
    pub(super) fn stands(self) -> bool {
        // SAFETY: the word is a static, or this thread's and as long-lived as it; the child of a
        // fork has it at the same address. The kernel changes it only while the thread does not run
        // in the program, as a signal's handler would; so a volatile read is what it takes, and it
        // keeps its place among the readings of clocks.
        let word = unsafe { self.0.read_volatile() };
        word == (&raw const MARK).addr() as u64
    }

    /// Sets the mark.
    pub(super) fn set(self) {
        if !self.is_none() {
            let mark = (&raw const MARK).expose_provenance() as u64;
            // SAFETY: as for reading. Another user of the word in this thread, such as an
            // allocator, is not within its own range of code now, since this code is running: in a
            // handler of a signal the kernel has ended that first. So overwriting what it left
            // takes nothing from it.
            unsafe { self.0.write_volatile(mark) };
        }
    }

    /// Takes the mark away, and leaves what others put there.
    pub(super) fn clear(self) {
        if self.stands() {
            // SAFETY: as for `set`; where the mark stands, the word is a thread's.
            unsafe { self.0.write_volatile(0) };
        }
    }
}

/// Returns how far from a thread's pointer its `struct rseq` is, where the C library registers its
/// threads.
fn offset() -> Option<isize> {
    static OFFSET: OnceLock<Option<isize>> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let size = symbol::<c_uint>(c"__rseq_size")?;
        let offset = symbol::<isize>(c"__rseq_offset")?;
        (size > 0).then_some(offset)
    })
}

/// Reads a variable of the C library, `None` where it has none of that name. The library wrote it
/// before the program began.
fn symbol<T: Copy>(name: &CStr) -> Option<T> {
    // SAFETY: the name ends with a zero and lives across the call.
    let place = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    // SAFETY: a place that is not null is that of a variable of the type that the C library's
    // header declares: `const unsigned int` and `const ptrdiff_t`.
    (!place.is_null()).then(|| unsafe { place.cast::<T>().read() })
}

fn thread_pointer() -> *mut u8 {
    let pointer: *mut u8;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the system's convention for threads has the pointer itself at its target, so this
    // reads a word that is there.
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) pointer, options(nostack, preserves_flags, readonly))
    };
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the register is readable in user mode, and reading it has no effect.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nomem, nostack, preserves_flags))
    };
    pointer
}
