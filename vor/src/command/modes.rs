//! Scopes of a capture that were not recorded as ever: counted, off, only if long, or a sample.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::scope_modes::ScopeMode;
use vor_capture::stats::ScopeStats;

use crate::command::table::printable;

/// The text in place of numbers that nobody measured.
pub(crate) const NOT_RECORDED: &str = "not recorded";

/// The sites that were not recorded as ever at some time of a capture.
#[derive(Debug)]
pub(crate) struct Modes<'a> {
    catalog: &'a Catalog,
    texts: BTreeMap<SiteId, String>,
}

impl<'a> Modes<'a> {
    pub(crate) fn of(catalog: &'a Catalog) -> Self {
        let mut texts = BTreeMap::new();
        for change in catalog.scope_modes.after(None) {
            match change.mode {
                ScopeMode::Record => {
                    let text: Option<&mut String> = texts.get_mut(&change.site);
                    if let Some(text) = text {
                        text.push_str(", then record");
                    }
                }
                mode => _ = texts.insert(change.site, mode.to_string()),
            }
        }
        Self { catalog, texts }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Returns how the scopes of a site were recorded: as the last rule says that restricted them.
    /// `None` if each was recorded.
    pub(crate) fn of_site(&self, site: SiteId) -> Option<&str> {
        self.texts.get(&site).map(String::as_str)
    }

    /// Returns the same for the site that another capture describes.
    pub(crate) fn of_same(&self, other: &SiteInfo) -> Option<&str> {
        let mut texts = self.texts.iter();
        texts.find_map(|(site, text)| {
            let info = self.catalog.site(*site)?;
            let is_same = (&info.name, &info.file) == (&other.name, &other.file);
            is_same.then_some(text.as_str())
        })
    }

    /// Returns a list of the scopes and how each was recorded, of the first few by name.
    pub(crate) fn listed(&self) -> String {
        const SHOWN: usize = 5;
        let text = |(site, mode): (&SiteId, &String)| {
            format!("{} {mode}", printable(self.catalog.site_name(*site)))
        };
        let all: BTreeSet<String> = self.texts.iter().map(text).collect();
        let mut shown: Vec<&str> = all.iter().take(SHOWN).map(String::as_str).collect();
        let more = format!("and {} more", all.len().saturating_sub(SHOWN));
        if all.len() > SHOWN {
            shown.push(&more);
        }
        shown.join("; ")
    }

    /// Returns rows without numbers for the sites that have none in `rows`, once for each place.
    pub(crate) fn missing(&self, rows: &[ScopeStats]) -> Vec<ScopeStats> {
        let place = |site: SiteId| {
            let info = self.catalog.site(site)?;
            Some((&info.name, &info.module_path, &info.file, info.line))
        };
        let mut known: HashSet<_> = rows.iter().filter_map(|row| place(row.site)).collect();
        let missing = self
            .texts
            .keys()
            .filter(|site| place(**site).is_some_and(|place| known.insert(place)));
        missing
            .map(|site| {
                let mut row = ScopeStats::default();
                row.site = *site;
                row.name = self.catalog.site_name(*site).to_owned();
                row
            })
            .collect()
    }
}
