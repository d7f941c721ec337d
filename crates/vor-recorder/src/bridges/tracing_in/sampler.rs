//! Head sampling: the span at the root decides for all in it.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use tracing::span::Attributes;

use crate::clock;
use crate::hot::task;

/// Decides, where a root span is made, whether it and everything in it is recorded.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::bridges::tracing_in as tracing; }
/// struct Requests;
///
/// impl vor::tracing::Sampler for Requests {
///     fn is_sampled(&self, root: &tracing::span::Attributes<'_>) -> bool {
///         root.metadata().name() == "request"
///     }
/// }
/// ```
pub trait Sampler: Send + Sync + 'static {
    /// Returns whether the root span with these attributes is recorded, and all spans and events in
    /// it.
    fn is_sampled(&self, root: &Attributes<'_>) -> bool;

    /// Returns whether everything is, so that nobody has to ask.
    fn is_always(&self) -> bool {
        false
    }
}

/// Records everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct AlwaysSample;

impl Sampler for AlwaysSample {
    fn is_sampled(&self, _: &Attributes<'_>) -> bool {
        true
    }

    fn is_always(&self) -> bool {
        true
    }
}

/// Records a root span with this probability, 0 to 1. Below is never, above is always, and what is
/// no number is never.
#[derive(Clone, Copy, Debug)]
pub struct Probabilistic(pub f64);

impl Sampler for Probabilistic {
    fn is_sampled(&self, _: &Attributes<'_>) -> bool {
        // The cast keeps to the range, and makes 0 of what is no number. The 53 bits are all that a
        // number has.
        let of_all = (self.0 * (1_u64 << 53) as f64) as u64;
        random() >> 11 < of_all
    }

    fn is_always(&self) -> bool {
        self.0 >= 1.0
    }
}

impl<T: Sampler + ?Sized> Sampler for Arc<T> {
    fn is_sampled(&self, root: &Attributes<'_>) -> bool {
        (**self).is_sampled(root)
    }

    fn is_always(&self) -> bool {
        (**self).is_always()
    }
}

impl fmt::Debug for dyn Sampler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sampler")
    }
}

/// Returns a number that is as good as random: SplitMix64 (Steele, Lea and Flood, 2014), a sequence
/// per thread.
fn random() -> u64 {
    thread_local! {
        /// Where the thread's sequence stands, 0 before its begin.
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    let mut state = STATE.get();
    if state == 0 {
        state = mixed(task::new_id() ^ clock::ticks());
    }
    state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    mixed(state)
}

fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}
