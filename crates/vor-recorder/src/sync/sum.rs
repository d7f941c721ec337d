//! A number that one thread adds to and any thread reads.
//!
//! A signal handler may interrupt the addition and add to the same number. An addition of the
//! handler between a load and a store would be lost. So the addition is one instruction, and the
//! handler runs before or after it. No other thread adds, so the instruction needs no lock prefix
//! on x86-64.

use crate::sync::{AtomicU64, Ordering, const_fn};

/// A sum. Only its thread and that thread's signal handlers add to it; anyone may read it
/// (relaxed).
#[derive(Debug, Default)]
pub(crate) struct Sum(AtomicU64);

impl Sum {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds, and wraps on overflow. Called only by the thread that owns this number.
    #[cfg(all(target_arch = "x86_64", not(any(loom, miri))))]
    #[inline(always)]
    #[expect(
        unsafe_code,
        reason = "an addition that a signal cannot split is one instruction"
    )]
    pub(crate) fn add(&self, amount: u64) {
        // SAFETY: The reference is valid and aligned for 8 bytes, which only this thread writes.
        // Other threads read all 8 bytes at once, since an aligned access of 8 bytes is atomic.
        unsafe {
            std::arch::asm!(
                "add qword ptr [{place}], {amount}",
                place = in(reg) self.0.as_ptr(),
                amount = in(reg) amount,
                options(nostack),
            );
        }
    }

    /// Adds, and wraps on overflow. Called only by the thread that owns this number.
    #[cfg(not(all(target_arch = "x86_64", not(any(loom, miri)))))]
    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }
}
