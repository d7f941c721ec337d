//! How the scopes of each call site are recorded, where rules or a budget say so.
//!
//! The registry writes one word per id, which scopes off the fast path read. A site whose scopes
//! are recorded as ever has the word 0, and needs no memory for it. Rules for threads are looked up
//! once per thread and change; the rule with the higher rank decides between site and thread.

use std::cell::Cell;
use std::sync::Arc;

use vor_capture::model::catalog::SiteInfo;
use vor_capture::model::measures::Measures;
use vor_capture::model::scope_modes::ScopeMode;

use crate::clock;
use crate::hot::callsite;
use crate::hot::ring::{MAX_SITE, SITE_BITS};
use crate::hot::thread::{self, OnceBox};
use crate::sync::{self, AtomicBool, AtomicU32, AtomicU64, Ordering, statics};

/// How the scopes of a call site are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    pub(crate) way: Way,
    /// Measures in addition to those that the site and the program ask for.
    pub(crate) measures: Measures,
}

/// The way in which a scope is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Record,
    /// Added to sums when it ends, without a record.
    Count,
    /// Nothing.
    Off,
    /// Recorded if it lasts for `bound` at least, otherwise counted. The bound is in ticks, except
    /// in rules, where it is in nanoseconds.
    Min {
        bound: u64,
    },
    /// One in so many is recorded. The others are skipped, with `tree` including the scopes inside.
    Sample {
        one_in: u32,
        tree: bool,
    },
}

impl Mode {
    pub(crate) const RECORD: Self = Self {
        way: Way::Record,
        measures: Measures::NONE,
    };
}

/// The highest rank of a rule.
pub(crate) const MAX_RANK: u16 = (1 << RANK_BITS) - 1;

/// The longest bound, in ticks: minutes.
const MAX_BOUND: u64 = (1 << (u64::BITS - VALUE_SHIFT)) - 1;

const TREE: u64 = 1 << 3;
/// The site exceeds its budget: its scopes are counted instead of recorded.
const OVER_BUDGET: u64 = 1 << 4;
const MEASURES_SHIFT: u32 = 5;
const RANK_SHIFT: u32 = 13;
const RANK_BITS: u32 = 11;
const VALUE_SHIFT: u32 = RANK_SHIFT + RANK_BITS;

/// The mode of a site or a thread, and the rank of the rule that decided it.
///
/// ```text
/// bits 0-2 way | 3 tree | 4 over budget | 5-12 measures | 13-23 rank | 24-63 bound or number
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ModeWord(u64);

/// Returns a duration as the bound of a mode, in ticks: rounded up.
pub(crate) fn bound_ticks(ns: u64) -> u64 {
    clock::approximate_ticks(ns).saturating_add(1)
}

/// Returns a bound in nanoseconds: the roundest of those that are this bound, since a tick may be
/// longer than a nanosecond.
fn bound_ns(bound: u64) -> u64 {
    let ns = clock::approximate_ns(bound);
    let units = [1_000_000_000, 1_000_000, 1_000];
    let mut round = units.iter().map(|unit| ns / unit * unit);
    round
        .find(|&round| round > 0 && bound_ticks(round) == bound)
        .unwrap_or(ns)
}

impl ModeWord {
    /// Makes the word of a mode whose bound is in ticks; a bound beyond the range is cut.
    pub(crate) fn new(mode: Mode, rank: u16) -> Self {
        let (way, value) = match mode.way {
            Way::Record => (0, 0),
            Way::Count => (1, 0),
            Way::Off => (2, 0),
            Way::Min { bound } => (3, bound.min(MAX_BOUND)),
            Way::Sample {
                one_in,
                tree: false,
            } => (4, u64::from(one_in)),
            Way::Sample { one_in, tree: true } => (4 | TREE, u64::from(one_in)),
        };
        Self(
            way | u64::from(mode.measures.bits()) << MEASURES_SHIFT
                | u64::from(rank.min(MAX_RANK)) << RANK_SHIFT
                | value << VALUE_SHIFT,
        )
    }

    /// Returns the mode. A site over its budget is counted at most.
    #[inline]
    pub(crate) fn mode(self) -> Mode {
        let value = self.0 >> VALUE_SHIFT;
        let way = match self.0 & 7 {
            2 => Way::Off,
            _ if self.is_over_budget() => Way::Count,
            1 => Way::Count,
            3 => Way::Min { bound: value },
            4 => Way::Sample {
                one_in: value as u32,
                tree: self.0 & TREE != 0,
            },
            _ => Way::Record,
        };
        Mode {
            way,
            measures: Measures::from_bits((self.0 >> MEASURES_SHIFT) as u8),
        }
    }

    /// Returns the mode as captures and lists show it.
    pub(crate) fn shown(self) -> ScopeMode {
        match self.mode().way {
            Way::Record => ScopeMode::Record,
            Way::Count => ScopeMode::Count,
            Way::Off => ScopeMode::Off,
            Way::Min { bound } => ScopeMode::Min {
                ns: bound_ns(bound),
            },
            Way::Sample { one_in, tree } => ScopeMode::Sample {
                one_in: u64::from(one_in),
                tree,
            },
        }
    }

    fn rank(self) -> u16 {
        (self.0 >> RANK_SHIFT) as u16 & MAX_RANK
    }

    pub(crate) fn is_over_budget(self) -> bool {
        self.0 & OVER_BUDGET != 0
    }

    pub(crate) fn with_budget(self, over: bool) -> Self {
        Self(self.0 & !OVER_BUDGET | if over { OVER_BUDGET } else { 0 })
    }

    /// Returns whether a rule for a thread may decide instead.
    fn may_yield(self, last_thread_rank: u16) -> bool {
        self.rank() < last_thread_rank
    }

    /// Returns whether scopes of every thread are recorded without further measures.
    pub(crate) fn is_plain(self, last_thread_rank: u16) -> bool {
        !self.may_yield(last_thread_rank) && self.mode() == Mode::RECORD
    }

    /// Returns whether scopes of every thread are off.
    pub(crate) fn is_off(self, last_thread_rank: u16) -> bool {
        !self.may_yield(last_thread_rank) && self.mode().way == Way::Off
    }
}

/// Decides the modes of sites and threads. Set by the room that knows the rules.
pub(crate) trait Decide: Send + Sync {
    /// Returns the mode of the scopes of a call site.
    fn of_site(&self, site: &SiteInfo) -> ModeWord;
    /// Returns the mode of the scopes of a thread with this name.
    fn of_thread(&self, name: &str) -> ModeWord;
    /// Returns the rank of the last rule for threads, or 0 if there is none.
    fn last_thread_rank(&self) -> u16;
}

impl std::fmt::Debug for dyn Decide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decide")
    }
}

pub(crate) type Decider = Arc<dyn Decide>;

/// Log2 of the entries at each of the two levels of the table. A model has few.
const WIDTH_BITS: u32 = if cfg!(loom) { 1 } else { SITE_BITS / 2 };
const WIDTH: usize = 1 << WIDTH_BITS;

type Leaf = [AtomicU64; WIDTH];

statics! {
    /// The [`ModeWord`] of each id, in two levels. Written under the registry's lock, read relaxed
    /// by scopes off the fast path: a word is whole, and orders nothing.
    static TABLE: [OnceBox<Leaf>; WIDTH] = sync::array![OnceBox::new(); WIDTH];

    /// Whether there are rules, or sites over their budget. Written under the registry's lock, read
    /// relaxed by scopes off the fast path.
    static ARE_ACTIVE: AtomicBool = AtomicBool::new(false);

    /// Whether there ever were any. Read by the drain.
    static WERE_ACTIVE: AtomicBool = AtomicBool::new(false);

    /// The rank of the last rule for threads. Written and read as `ARE_ACTIVE`.
    static LAST_THREAD_RANK: AtomicU32 = AtomicU32::new(0);

    /// Number of the rules, by which a thread finds its own mode outdated. Written under the
    /// registry's lock after the rules, read relaxed: an outdated number is read once more later.
    static GENERATION: AtomicU32 = AtomicU32::new(1);
}

thread_local! {
    /// The generation for which the thread's mode was decided, and that mode.
    static OWN: Cell<(u32, ModeWord)> = const { Cell::new((0, ModeWord(0))) };
}

/// Returns whether there are rules, or sites over their budget.
#[inline(always)]
pub(crate) fn are_active() -> bool {
    ARE_ACTIVE.load(Ordering::Relaxed)
}

pub(super) fn set_active(active: bool) {
    ARE_ACTIVE.store(active, Ordering::SeqCst);
    if active {
        WERE_ACTIVE.store(true, Ordering::SeqCst);
    }
}

/// Returns whether there were ever rules or a budget, so that spans are counted by site.
pub(crate) fn were_active() -> bool {
    WERE_ACTIVE.load(Ordering::Relaxed)
}

/// Has spans counted by site from now on.
pub(crate) fn count_spans() {
    WERE_ACTIVE.store(true, Ordering::SeqCst);
}

pub(super) fn last_thread_rank() -> u16 {
    LAST_THREAD_RANK.load(Ordering::Relaxed) as u16
}

/// Makes every thread look up its mode again.
pub(super) fn begin_generation(last_thread_rank: u16) {
    LAST_THREAD_RANK.store(u32::from(last_thread_rank), Ordering::SeqCst);
    GENERATION.fetch_add(1, Ordering::SeqCst);
}

/// Sets the word of an id. Called under the registry's lock, inside vor, because it may allocate.
pub(super) fn set(id: u32, word: ModeWord) {
    let (high, low) = place(id);
    if let Some(entry) = TABLE[high].get() {
        entry[low].store(word.0, Ordering::Release);
    } else if word != ModeWord::default() {
        let leaf = TABLE[high].get_or_make(|| sync::array![AtomicU64::new(0); WIDTH]);
        leaf[low].store(word.0, Ordering::Release);
    }
}

/// Returns the word of an id.
#[inline]
pub(crate) fn of_id(id: u32) -> ModeWord {
    let (high, low) = place(id);
    ModeWord(
        TABLE[high]
            .get()
            .map_or(0, |leaf| leaf[low].load(Ordering::Relaxed)),
    )
}

#[inline(always)]
fn place(id: u32) -> (usize, usize) {
    let id = (id & MAX_SITE) as usize;
    (id >> WIDTH_BITS & (WIDTH - 1), id & (WIDTH - 1))
}

/// Returns how a scope that opens on this thread is recorded, by the id of its site.
#[inline]
pub(crate) fn of_scope(id: u32) -> Mode {
    let word = of_id(id);
    let last = last_thread_rank();
    if word.may_yield(last) {
        of_thread(word)
    } else {
        word.mode()
    }
}

/// Returns the mode of the site or of this thread, whichever has the higher rank.
#[cold]
fn of_thread(site: ModeWord) -> Mode {
    // Read first: a change after it makes the thread look again.
    let generation = GENERATION.load(Ordering::SeqCst);
    let (known, mut own) = OWN.try_with(Cell::get).unwrap_or_default();
    if known != generation {
        // Inside vor the scope is dropped in any case.
        let Some(name) = thread::own_name() else {
            return site.mode();
        };
        own = thread::while_busy(|| callsite::lock().thread_mode(&name));
        let _ = OWN.try_with(|cell| cell.set((generation, own)));
    }
    match own.rank() > site.rank() {
        true => own.with_budget(site.is_over_budget()).mode(),
        false => site.mode(),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_word_holds_its_mode() {
        let alloc = Measures::CPU.union(Measures::ALLOC);
        let ways = [
            Way::Record,
            Way::Count,
            Way::Off,
            Way::Min { bound: MAX_BOUND },
            Way::Sample {
                one_in: u32::MAX,
                tree: true,
            },
            Way::Sample {
                one_in: 1,
                tree: false,
            },
        ];
        for way in ways {
            for measures in [Measures::NONE, alloc] {
                let mode = Mode { way, measures };
                let word = ModeWord::new(mode, MAX_RANK);
                assert_eq!((word.mode(), word.rank()), (mode, MAX_RANK));
                let over = word.with_budget(true);
                let counted = if way == Way::Off {
                    Way::Off
                } else {
                    Way::Count
                };
                assert_eq!((over.mode().way, over.rank()), (counted, MAX_RANK));
                assert_eq!(over.with_budget(false), word);
            }
        }
        let long = Mode {
            way: Way::Min { bound: u64::MAX },
            ..Mode::RECORD
        };
        assert_eq!(
            ModeWord::new(long, 0).mode().way,
            Way::Min { bound: MAX_BOUND }
        );
        assert_eq!(ModeWord::new(Mode::RECORD, 0), ModeWord::default());
    }

    #[test]
    fn a_later_rule_for_threads_keeps_a_site_off_the_fast_path() {
        let off = Mode {
            way: Way::Off,
            ..Mode::RECORD
        };
        assert!(ModeWord::default().is_plain(0) && !ModeWord::default().is_plain(1));
        assert!(ModeWord::new(Mode::RECORD, 2).is_plain(1));
        assert!(ModeWord::new(off, 2).is_off(1) && !ModeWord::new(off, 2).is_off(3));
        assert!(!ModeWord::default().with_budget(true).is_plain(0));
    }
}
