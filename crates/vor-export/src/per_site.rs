//! Values that an exporter derives from call sites, once for each.

use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

/// A value per call site, made when the site is first in a catalog.
#[derive(Debug)]
pub(crate) struct PerSite<T> {
    /// By `SiteId - 1`, as in [`Catalog::sites`].
    values: Vec<Option<T>>,
    /// The sites that `values` was last updated from.
    sites: Arc<Vec<Option<Arc<SiteInfo>>>>,
}

impl<T> Default for PerSite<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            sites: Arc::default(),
        }
    }
}

impl<T> PerSite<T> {
    /// Makes the values of the sites that are new in the catalog.
    pub(crate) fn update(&mut self, catalog: &Catalog, mut make: impl FnMut(&Arc<SiteInfo>) -> T) {
        if Arc::ptr_eq(&self.sites, &catalog.sites) {
            return;
        }
        self.sites = Arc::clone(&catalog.sites);
        let sites = self.values.len().max(catalog.sites.len());
        self.values.resize_with(sites, || None);
        // A lost declaration may arrive later, so gaps are checked again; there are few or none.
        for (value, site) in self.values.iter_mut().zip(catalog.sites.iter()) {
            if let (None, Some(site)) = (&value, site) {
                *value = Some(make(site));
            }
        }
    }

    /// Returns the number of sites in the last catalog, undeclared ones included.
    #[cfg(feature = "pprof")]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    /// Returns the value of a site, if the site was declared.
    #[inline]
    pub(crate) fn get(&self, site: SiteId) -> Option<&T> {
        self.values.get((site.0 as usize).checked_sub(1)?)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;

    use super::*;

    fn catalog(names: &[Option<&'static str>]) -> Catalog {
        let site = |name: &Option<&'static str>| {
            name.map(|name| Arc::new(filled!(SiteInfo { name: name.into() })))
        };
        filled!(Catalog {
            sites: Arc::new(names.iter().map(site).collect())
        })
    }

    #[test]
    fn a_value_is_made_once_and_a_late_declaration_fills_its_gap() {
        let mut values = PerSite::default();
        let mut made = Vec::new();
        let first = catalog(&[Some("a"), None]);
        let second = catalog(&[Some("a"), Some("b"), Some("c")]);
        for catalog in [&first, &first, &second] {
            values.update(catalog, |site| {
                made.push(site.name.to_string());
                site.name.len()
            });
        }
        assert_eq!(made, ["a", "b", "c"]);
        assert_eq!(values.get(SiteId(2)), Some(&1));
        for unknown in [0, 4, u32::MAX] {
            assert_eq!(values.get(SiteId(unknown)), None);
        }
    }
}
