//! The call sites that match a search.

use vor_capture::model::catalog::{Catalog, SiteId};

use crate::store::SiteSet;

/// The result of a search, updated when the text or the number of call sites changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Search {
    text: String,
    sites: usize,
    matching: Option<SiteSet>,
    match_count: usize,
}

impl Search {
    /// Searches the names of all call sites for a text, case-insensitively; an empty text is no
    /// search.
    pub(super) fn update(&mut self, text: &str, catalog: &Catalog) {
        if self.text == text && self.sites == catalog.sites.len() {
            return;
        }
        text.clone_into(&mut self.text);
        self.sites = catalog.sites.len();
        let text = text.trim().to_lowercase();
        if text.is_empty() {
            self.matching = None;
            return;
        }
        let sites = (1..).zip(catalog.sites.iter());
        let matching = sites.filter_map(|(id, site)| {
            let site = site.as_deref()?;
            site.name
                .to_lowercase()
                .contains(&text)
                .then_some(SiteId(id))
        });
        let matching: Vec<SiteId> = matching.collect();
        self.match_count = matching.len();
        self.matching = Some(SiteSet::new(matching));
    }

    /// Returns the matching call sites; `None` without a search.
    pub(super) fn matching(&self) -> Option<&SiteSet> {
        self.matching.as_ref()
    }

    /// Returns the number of call sites that match.
    pub(super) fn match_count(&self) -> usize {
        self.match_count
    }
}
