//! Head sampling: the root span decides for all its descendants.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use tracing::span::Attributes;

use crate::clock;
use crate::hot::task;

/// Decides, when a root span is made, whether it and all its descendants are recorded.
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
    /// Returns whether the root span with these attributes is recorded, with all spans and events
    /// in it.
    fn is_sampled(&self, root: &Attributes<'_>) -> bool;

    /// Returns whether every span is recorded, so that `is_sampled` need not be called.
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

/// Records a root span with this probability, 0 to 1. A lower value or NaN means never, a higher
/// value always.
///
/// ```
/// # mod vor { pub mod tracing {
/// #     pub use vor_recorder::bridges::{subscriber::TracingSubscriber, tracing_in::Probabilistic};
/// # } }
/// // One request in a hundred, with everything in it.
/// let subscriber =
///     vor::tracing::TracingSubscriber::new().with_sampler(vor::tracing::Probabilistic(0.01));
/// tracing::subscriber::set_global_default(subscriber).unwrap();
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Probabilistic(pub f64);

impl Sampler for Probabilistic {
    fn is_sampled(&self, _: &Attributes<'_>) -> bool {
        // The cast saturates, and converts NaN to 0. An `f64` has 53 significant bits.
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

/// Returns a pseudorandom number: SplitMix64 (Steele, Lea and Flood, 2014), with one sequence per
/// thread.
fn random() -> u64 {
    thread_local! {
        /// State of the thread's sequence; 0 before its begin.
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
