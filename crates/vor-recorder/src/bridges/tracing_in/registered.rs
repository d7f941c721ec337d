//! Slots of spans whose ids come from a registry.
//!
//! Such an id determines the place of its span in a home, and a region among the shared slots. A
//! registry reuses its most recently freed place for the next span, so slots are reused while they
//! are in the cache. A hint gives the home of another thread's span: the registry's ids contain a
//! number of the thread. If they no longer did, all homes would be searched.

use super::Instance;
use super::table::{
    HAS_SHARED, HOME, HOMES_ASSIGNED, Place, Slot, THREAD_BITS, THREAD_HOME, TRIES, ThreadHome,
    acquire_home, claim_shared, shared_places, slot, thread_bits,
};
use crate::sync::{self, AtomicU32, Ordering, statics};

statics! {
    /// The first places of the threads' homes, plus 1, by the thread bits of a registry's ids. A
    /// thread writes its own when it makes its first span under a registry; threads that look for a
    /// span read it. Relaxed: it is only the place where their search starts.
    static HINTS: [AtomicU32; 1 << THREAD_BITS] =
        sync::array![AtomicU32::new(0); 1 << THREAD_BITS];
}

/// Returns the possible places of a registry's span within a home.
fn home_places(key: u64) -> impl Iterator<Item = usize> {
    (0..TRIES).map(move |i| (key as usize).wrapping_add(i) % HOME)
}

/// Takes a slot for a span of a registry. `None` if the table is full, which is reported once.
#[inline(always)]
pub(super) fn claim(key: u64, instance: Instance) -> Option<(Place, &'static Slot)> {
    let (slots, first, hinted) =
        THREAD_HOME.with(|home| (home.slots.get(), home.first.get(), home.hinted.get()));
    let at = key as usize % HOME;
    if let Some(slot) = slots.get(at)
        && hinted == thread_bits(key) + 1
        && slot.claim_own(key, instance)
    {
        return Some((first + at as Place, slot));
    }
    claim_near_slow(key, instance)
}

#[cold]
#[inline(never)]
fn claim_near_slow(key: u64, instance: Instance) -> Option<(Place, &'static Slot)> {
    THREAD_HOME.with(|home| claim_near_at(home, key, instance))
}

fn claim_near_at(
    home: &ThreadHome,
    key: u64,
    instance: Instance,
) -> Option<(Place, &'static Slot)> {
    if home.slots.get().is_empty() {
        acquire_home(home);
    }
    let slots = home.slots.get();
    if !slots.is_empty() {
        let bits = thread_bits(key);
        HINTS[bits as usize].store(home.first.get() + 1, Ordering::Relaxed);
        home.hinted.set(bits + 1);
        for at in home_places(key) {
            let slot: &'static Slot = &slots[at];
            if slot.claim_own(key, instance) {
                return Some((home.first.get() + at as Place, slot));
            }
        }
    }
    claim_shared(key, |_| key, instance)
}

/// Finds a span of a registry by its id.
#[inline(always)]
pub(crate) fn find_registered(key: u64, instance: Instance) -> Option<(Place, &'static Slot)> {
    let (slots, first) = THREAD_HOME.with(|home| (home.slots.get(), home.first.get()));
    let at = key as usize % HOME;
    match slots.get(at) {
        Some(slot) if slot.is_of(key, instance) => Some((first + at as Place, slot)),
        _ => find_far(key, instance),
    }
}

#[inline(never)]
fn find_far(key: u64, instance: Instance) -> Option<(Place, &'static Slot)> {
    let is_it = |place: Place| {
        let slot = slot(place)?;
        slot.is_of(key, instance).then_some((place, slot))
    };
    let in_home = |first: Place| home_places(key).find_map(|at| is_it(first + at as Place));
    let hinted = HINTS[thread_bits(key) as usize].load(Ordering::Relaxed);
    let found = hinted.checked_sub(1).and_then(in_home).or_else(|| {
        let shared = HAS_SHARED.load(Ordering::Relaxed);
        shared.then(|| shared_places(key).find_map(is_it)).flatten()
    });
    // The thread that made the span has ended, and another one has its number.
    found.or_else(|| {
        let mut all = (0..HOMES_ASSIGNED.load(Ordering::Relaxed)).map(|home| home * HOME as Place);
        all.find_map(in_home)
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::table::THREAD_SHIFT;
    use super::*;

    #[test]
    fn many_spans_are_found_by_their_own_ids_only() {
        let instance = super::super::new_instance();
        // The ids are as a registry counts: places of its pages, many of them, threads, and
        // generations.
        let places: u64 = if cfg!(miri) { 100 } else { 20_000 };
        let keys: Vec<u64> = (0..2 * places)
            .map(|i| (1 + i % places) | (i / places) << 38 | (i % 7) << 51)
            .collect();
        let places: Vec<Place> = keys
            .iter()
            .map(|key| claim(*key, instance).unwrap().0)
            .collect();
        let mut distinct = places.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), keys.len());
        for (key, place) in keys.iter().zip(&places) {
            assert_eq!(find_registered(*key, instance).unwrap().0, *place);
            assert!(find_registered(*key, instance + 1).is_none());
        }
        for (key, place) in keys.iter().zip(&places) {
            slot(*place).unwrap().free();
            assert!(find_registered(*key, instance).is_none());
        }
    }

    #[test]
    fn spans_of_ended_threads_are_found_and_their_homes_are_reused() {
        let instance = super::super::new_instance();
        let make = |key: u64| {
            let made = std::thread::spawn(move || claim(key, instance).unwrap().0);
            made.join().unwrap()
        };
        // Threads one after the other, with the same number in the registry: they share one home,
        // and the hint is that of the last.
        let keys: Vec<u64> = (0..if cfg!(miri) { 10 } else { 200 })
            .map(|i| 0x77 << THREAD_SHIFT | (i + 1))
            .collect();
        let places: Vec<Place> = keys.iter().map(|key| make(*key)).collect();
        HINTS[0x77].store(1, Ordering::Relaxed);
        for (key, place) in keys.iter().zip(&places) {
            assert_eq!(find_registered(*key, instance).unwrap().0, *place);
        }
        places.iter().for_each(|place| slot(*place).unwrap().free());
        assert!(
            keys.iter()
                .all(|key| find_registered(*key, instance).is_none())
        );
    }
}
