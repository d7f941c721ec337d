//! Places in a file at which to start reading, in constant memory.

/// Most places in memory; beyond, every second one is dropped.
const MAX_PLACES: usize = 8192;

/// A place for every `stride`-th item of a sequence.
#[derive(Clone, Debug)]
pub(super) struct Sparse<T> {
    stride: u64,
    count: u64,
    places: Vec<T>,
}

impl<T> Default for Sparse<T> {
    fn default() -> Self {
        Self {
            stride: 1,
            count: 0,
            places: Vec::new(),
        }
    }
}

impl<T> Sparse<T> {
    /// Returns how many items there are.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Adds an item; `place` is called only if the place is stored.
    pub(super) fn push(&mut self, place: impl FnOnce() -> T) {
        if self.count.is_multiple_of(self.stride) {
            self.places.push(place());
        }
        self.count += 1;
        if self.places.len() > MAX_PLACES {
            self.stride *= 2;
            let mut index = 0;
            self.places.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    /// Returns the last place at or before item `i`, and the item there.
    pub(super) fn before(&self, i: u64) -> Option<(u64, &T)> {
        let slot = i.min(self.count.checked_sub(1)?) / self.stride;
        let place = self.places.get(usize::try_from(slot).ok()?)?;
        Some((slot * self.stride, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_before_an_item_is_close_and_memory_is_bounded() {
        let mut sparse = Sparse::default();
        for i in 0..100_000_u64 {
            sparse.push(|| i * 3);
        }
        assert!(sparse.places.len() <= MAX_PLACES);
        assert_eq!(sparse.count(), 100_000);
        for i in [0, 1, 15, 16, 17, 50_001, 99_999] {
            let (item, &place) = sparse.before(i).unwrap();
            assert_eq!(place, item * 3);
            assert!(item <= i && i - item < 16, "{item} for {i}");
        }
        assert!(Sparse::<u64>::default().before(0).is_none());
    }
}
