//! The word in which the holder of a lock stores its token.
//!
//! Only a thread that holds the lock writes the word: its token after it has locked, none before it
//! unlocks. A waiter that reads the same token before and after it reads the holder's open scopes
//! has read scopes of a holder, as `ThreadState::innermost_while` describes.

use crate::hot::thread::ThreadToken;
use crate::sync::{AtomicU64, Ordering, const_fn};

/// The token of the thread that holds a lock. Readers of a lock share one word, in which the last
/// one that came is stored.
#[derive(Debug)]
pub(super) struct HolderWord(AtomicU64);

impl HolderWord {
    const_fn! {
        pub(super) const fn new() -> Self {
            Self(AtomicU64::new(0))
        }
    }

    /// Stores the token of the calling thread, which holds the lock.
    #[inline(always)]
    pub(super) fn set(&self, token: ThreadToken) {
        if !cfg!(feature = "off") {
            // Release: a waiter that reads the token also reads the scopes that are open by now.
            self.0.store(token.word(), Ordering::Release);
        }
    }

    /// Removes the token of the calling thread, which still holds the lock.
    #[inline(always)]
    pub(super) fn clear(&self) {
        if !cfg!(feature = "off") {
            // Relaxed: stores with release follow before the thread's open scopes change.
            self.0.store(ThreadToken::NONE.word(), Ordering::Relaxed);
        }
    }

    /// Removes the token of the calling thread, which is one of several readers, unless another
    /// reader has stored its own. A token that is stored in the meantime may be lost.
    #[inline(always)]
    pub(super) fn clear_own(&self, token: ThreadToken) {
        if !cfg!(feature = "off") && self.0.load(Ordering::Relaxed) == token.word() {
            self.clear();
        }
    }

    /// Returns the token of the holder, or [`ThreadToken::NONE`].
    #[inline]
    pub(super) fn get(&self) -> ThreadToken {
        ThreadToken::from_word(self.0.load(Ordering::Acquire))
    }
}
