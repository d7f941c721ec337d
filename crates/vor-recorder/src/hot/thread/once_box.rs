//! A box that is filled once, without a lock.

use crate::sync::{AtomicPtr, Ordering, const_fn};

/// A value that is made when it is first needed, and never moves. Unlike the standard library's
/// cell, it is one word, which is null until then.
///
/// Written once, by the thread that first needs the value (release, after the value). Read by any
/// thread (acquire).
#[derive(Debug)]
pub(crate) struct OnceBox<T>(AtomicPtr<T>);

impl<T> OnceBox<T> {
    const_fn! {
        pub(crate) const fn new() -> Self {
            Self(AtomicPtr::new(std::ptr::null_mut()))
        }
    }

    /// Returns the value, once it has been made.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<&T> {
        #[expect(unsafe_code, reason = "there is no atomic box")]
        // SAFETY: The pointer is null or comes from a box in `get_or_make`, and never changes
        // again. Only `drop` frees the value, with exclusive access.
        unsafe {
            self.0.load(Ordering::Acquire).as_ref()
        }
    }

    /// Returns the value. If it is missing, calls `make` and stores the result.
    pub(crate) fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        let new = Box::into_raw(Box::new(make()));
        let order = (Ordering::AcqRel, Ordering::Acquire);
        let null = std::ptr::null_mut();
        let stored = match self.0.compare_exchange(null, new, order.0, order.1) {
            Ok(_) => new,
            Err(other) => {
                #[expect(unsafe_code, reason = "there is no atomic box")]
                // SAFETY: The pointer was made above, and no other code has it.
                unsafe {
                    drop(Box::from_raw(new));
                }
                other
            }
        };
        #[expect(unsafe_code, reason = "there is no atomic box")]
        // SAFETY: as in `get`; it is not null any more.
        unsafe {
            &*stored
        }
    }
}

impl<T> Drop for OnceBox<T> {
    fn drop(&mut self) {
        // The exclusive access orders everything. Loom has no other way to read it here.
        let value = self.0.load(Ordering::Relaxed);
        if !value.is_null() {
            #[expect(unsafe_code, reason = "there is no atomic box")]
            // SAFETY: The pointer comes from a box in `get_or_make`, and the exclusive access says
            // that no reference to the value is left.
            unsafe {
                drop(Box::from_raw(value));
            }
        }
    }
}
