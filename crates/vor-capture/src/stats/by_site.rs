//! A value per call site, found by its id.

use rustc_hash::FxHashMap;

use crate::model::catalog::SiteId;

/// Ids below this index a table, the others a map: a wrong id in a damaged capture must not cost
/// gigabytes.
const DENSE_SITES: usize = 1 << 16;

/// Values of type `T`, the default one for each call site that was never written.
#[derive(Clone, Debug, Default)]
pub(super) struct BySite<T> {
    dense: Vec<T>,
    sparse: FxHashMap<u32, T>,
}

impl<T: Default> BySite<T> {
    /// Returns the value of a call site.
    #[inline]
    pub(super) fn of(&mut self, site: SiteId) -> &mut T {
        let index = site.0 as usize;
        if index < self.dense.len() {
            &mut self.dense[index]
        } else {
            self.of_slow(site)
        }
    }

    #[cold]
    fn of_slow(&mut self, site: SiteId) -> &mut T {
        let index = site.0 as usize;
        if index >= DENSE_SITES {
            return self.sparse.entry(site.0).or_default();
        }
        self.dense.resize_with(index + 1, T::default);
        &mut self.dense[index]
    }

    /// Returns all values, in no particular order, also default ones.
    pub(super) fn iter(&self) -> impl Iterator<Item = (SiteId, &T)> {
        let dense = (0_u32..).zip(&self.dense);
        let sparse = self.sparse.iter().map(|(&id, value)| (id, value));
        dense.chain(sparse).map(|(id, value)| (SiteId(id), value))
    }

    /// Returns all values to change, in no particular order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.dense.iter_mut().chain(self.sparse.values_mut())
    }

    /// Resets all values to the default.
    pub(super) fn clear(&mut self) {
        self.dense.clear();
        self.sparse.clear();
    }
}
