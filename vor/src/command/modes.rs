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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::scope_modes::{ScopeModeChange, ScopeModes};

    use super::*;

    /// Name, file and line. Without a name, the declaration is lost.
    type Site = (&'static str, &'static str, u32);

    /// Makes a catalog with changes of modes in the order of time, each with its site from 1 on.
    fn catalog(sites: &[Site], changes: &[(u32, ScopeMode)]) -> Catalog {
        let site = |&(name, file, line): &Site| {
            let (is_declared, name, file) = (!name.is_empty(), name.into(), file.into());
            is_declared.then(|| Arc::new(filled!(SiteInfo { name, file, line })))
        };
        let mut modes = ScopeModes::default();
        for (ticks, &(site, mode)) in (1..).zip(changes) {
            let site = SiteId(site);
            modes.insert(filled!(ScopeModeChange { ticks, site, mode }));
        }
        filled!(Catalog {
            sites: Arc::new(sites.iter().map(site).collect()),
            scope_modes: Arc::new(modes)
        })
    }

    const EVERY_THIRD: ScopeMode = ScopeMode::Sample {
        one_in: 3,
        tree: false,
    };

    #[test]
    fn the_mode_of_a_site_is_the_last_one_that_restricts_it() {
        let sites = [
            ("one", "a.rs", 1),
            ("two", "a.rs", 2),
            ("three", "a.rs", 3),
            ("four", "a.rs", 4),
        ];
        let changes = [
            (1, ScopeMode::Off),
            (2, ScopeMode::Record),
            (3, ScopeMode::Count),
            (1, EVERY_THIRD),
            (3, ScopeMode::Record),
        ];
        let catalog = catalog(&sites, &changes);
        let modes = Modes::of(&catalog);
        let texts = [1, 2, 3, 4].map(|site| modes.of_site(SiteId(site)));
        let expected = [Some("1/3"), None, Some("count, then record"), None];
        assert_eq!(texts, expected);
        assert!(!modes.is_empty());
        assert_eq!(modes.listed(), "one 1/3; three count, then record");

        let same = |name: &'static str, file: &'static str| {
            let (name, file) = (name.into(), file.into());
            modes
                .of_same(&filled!(SiteInfo { name, file }))
                .map(str::to_owned)
        };
        assert_eq!(same("three", "a.rs").as_deref(), expected[2]);
        assert_eq!(same("one", "a.rs").as_deref(), expected[0]);
        for (name, file) in [("two", "a.rs"), ("one", "b.rs"), ("five", "a.rs")] {
            assert_eq!(same(name, file), None);
        }

        let recorded = [(1, ScopeMode::Record)];
        let recorded = self::catalog(&sites, &recorded);
        let modes = Modes::of(&recorded);
        assert!(modes.is_empty());
        assert_eq!(modes.listed(), "");
    }

    #[test]
    fn five_scopes_are_listed_and_the_others_counted() {
        let sites: Vec<_> = ["g", "f", "e", "d", "c", "b\n", "a"]
            .into_iter()
            .map(|name| (name, "a.rs", 1))
            .collect();
        let listed = |count: u32| {
            let changes: Vec<_> = (1..=count).map(|site| (site, ScopeMode::Off)).collect();
            Modes::of(&catalog(&sites, &changes)).listed()
        };
        assert_eq!(listed(5), "c off; d off; e off; f off; g off");
        assert_eq!(
            listed(6),
            "b\\n off; c off; d off; e off; f off; and 1 more"
        );
        assert_eq!(
            listed(7),
            "a off; b\\n off; c off; d off; e off; and 2 more"
        );
    }

    #[test]
    fn a_place_without_a_row_has_one_row_without_numbers() {
        let sites = [
            ("seen", "a.rs", 1),
            ("seen", "a.rs", 1),
            ("gone", "a.rs", 2),
            ("gone", "a.rs", 2),
            ("gone", "a.rs", 3),
            ("", "", 0),
            ("recorded", "a.rs", 4),
        ];
        let off: Vec<_> = (2..=6).map(|site| (site, ScopeMode::Off)).collect();
        let catalog = catalog(&sites, &off);
        let mut seen = ScopeStats::default();
        (seen.site, seen.count) = (SiteId(1), 5);
        let rows = Modes::of(&catalog).missing(&[seen]);
        let rows: Vec<_> = rows
            .iter()
            .map(|row| (row.site.0, &*row.name, row.count))
            .collect();
        assert_eq!(rows, [(3, "gone", 0), (5, "gone", 0)]);
    }
}
