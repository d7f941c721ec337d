//! Measures what an empty scope costs on this machine, without recording one.

/// Returns the picoseconds that an empty scope takes on this thread, in less than a millisecond;
/// 0 if scopes do not read the hardware's clock.
///
/// The scopes are those of the fast path, in a state that no thread owns and no drain reads. The
/// result is the median of many rounds, so it excludes interruptions.
pub(crate) fn measured_ps() -> u64 {
    // Under loom a state belongs to a model.
    #[cfg(not(any(loom, feature = "off", target_family = "wasm")))]
    if crate::clock::is_hardware() {
        return rounds::median_ps();
    }
    0
}

#[cfg(not(any(loom, feature = "off", target_family = "wasm")))]
mod rounds {
    use std::hint::black_box;
    use std::mem::ManuallyDrop;

    use vor_capture::sort::sort_by;

    use crate::clock;
    use crate::hot::ring::{Ring, word1};
    use crate::hot::scope::Scope;
    use crate::hot::thread::ThreadState;

    /// Scopes per round, fewer than a chunk of the ring has records.
    const SCOPES: u32 = 32;
    /// Rounds at most. A few are left out: those that came to the end of a chunk.
    const ROUNDS: usize = 128;
    /// Slots of the ring. Rounds touch a few pages of it, again and again.
    const SLOTS: usize = 1 << 16;
    /// Any registered site.
    const SITE: u32 = 1;

    pub(super) fn median_ps() -> u64 {
        let state = ThreadState::new(Ring::new(SLOTS));
        let mut rounds: Vec<u64> = (0..ROUNDS).filter_map(|_| round(&state)).collect();
        sort_by(&mut rounds, Ord::cmp);
        let ticks = rounds.get(rounds.len() / 2).copied().unwrap_or(0);
        clock::approximate_ns(ticks.saturating_mul(1000)) / u64::from(SCOPES)
    }

    /// Returns the ticks of one round, or `None` if its scopes did not all take the fast path.
    fn round(state: &ThreadState) -> Option<u64> {
        let begin = clock::ticks();
        let fast = (0..SCOPES).all(|_| record(black_box(state)));
        let ticks = clock::ticks().saturating_sub(begin);
        if !fast {
            make_room(state);
        }
        #[expect(unsafe_code, reason = "the ring trusts its one consumer")]
        // SAFETY: the state is that of the caller, which is alone with it.
        unsafe {
            state.ring.consume(|part| part.len());
        }
        fast.then_some(ticks)
    }

    /// Records one empty scope. Returns whether it took the fast path.
    #[inline(always)]
    fn record(state: &ThreadState) -> bool {
        let Some(scope) = Scope::<0>::begin_in(state, SITE, []) else {
            return false;
        };
        // Its drop would end it on this thread's own state.
        let scope = ManuallyDrop::new(scope);
        let is_recorded = scope.end_in(state).is_some();
        if !is_recorded {
            state.release(scope.place);
        }
        is_recorded
    }

    /// Moves the limit of the ring, which is at the end of a chunk or at the first use of a page.
    fn make_room(state: &ThreadState) {
        #[expect(unsafe_code, reason = "the ring trusts its one producer")]
        // SAFETY: the state is that of the caller, which is alone with it.
        unsafe {
            state.ring.push_slow(&[[0, word1(0, SITE)]]);
        }
    }
}
