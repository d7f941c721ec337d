//! A number that one thread adds to and any thread reads.
//!
//! A signal handler may interrupt the addition and add to the same number. So the addition is one
//! instruction, and the handler runs before or after it: between a load and a store, the addition
//! of the handler would be lost. No other thread adds, so on x86-64 the instruction needs no lock.

use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// A sum. Incremented by its thread alone and that thread's signal handlers, read by anyone
/// (relaxed).
#[derive(Debug, Default)]
pub(crate) struct Sum(AtomicU64);

impl Sum {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    #[inline(always)]
    pub(crate) fn read(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds, and wraps around. Called by the one thread that adds to this number.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
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

    /// Adds, and wraps around. Called by the one thread that adds to this number.
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    #[inline(always)]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }
}
