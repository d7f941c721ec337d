//! Call sites in a trace: interned texts, and the part of an event that is equal for all spans of a
//! site.
//!
//! An iid is a number that represents a text. Sites get theirs in order of first use, so that used
//! iids are small. A sequence of packets must define a text before it refers to it; each sequence
//! has the set of its defined names.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

use super::schema::{event, interned, packet};
use crate::proto::{put_message, put_str, put_u64};

/// Most bytes of a span's begin that are encoded in advance.
pub(super) const MAX_BODY_BYTES: usize = 32;

/// A call site in the trace.
#[derive(Debug)]
pub(super) struct Name {
    /// The iid of both its name and its source location.
    pub(super) iid: u64,
    category_iid: u64,
    /// The iid of its first argument's name; the others follow.
    pub(super) first_arg_iid: u64,
    /// Number of its arguments.
    pub(super) arg_names: usize,
    info: Option<Arc<SiteInfo>>,
    /// The `track_event` of a begin without arguments, in the first `body_bytes` bytes. It always
    /// fits: the iids are at most the number of call sites, so they have 32 bits.
    pub(super) body: [u8; MAX_BODY_BYTES],
    pub(super) body_bytes: usize,
}

/// The names of all used call sites.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Index of a site in `used`, plus 1, by `SiteId`; 0 for an unused site.
    by_site: Vec<u32>,
    used: Vec<Name>,
    categories: FxHashMap<Box<str>, u64>,
    arg_names: u64,
}

impl Names {
    /// Returns the index of a site among the used ones, and adds a site that is new.
    #[inline]
    pub(super) fn index(&mut self, catalog: &Catalog, site: SiteId) -> usize {
        match self.by_site.get(site.0 as usize) {
            Some(&index) if index > 0 => index as usize - 1,
            _ => self.add(catalog, site),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Name {
        &self.used[index]
    }

    #[cold]
    fn add(&mut self, catalog: &Catalog, site: SiteId) -> usize {
        let place = site.0 as usize;
        let info = place
            .checked_sub(1)
            .and_then(|at| catalog.sites.get(at)?.clone());
        // A site beyond the catalog comes from a damaged capture, and may have any number.
        let is_dense = place <= catalog.sites.len();
        if !is_dense && let Some(&index) = self.by_site.first().filter(|index| **index > 0) {
            return index as usize - 1;
        }
        let iid = self.used.len() as u64 + 1;
        let category = info.as_deref().map_or("", |info| &info.category);
        let category_iid = match category {
            "" => 0,
            category => match self.categories.get(category) {
                Some(iid) => *iid,
                None => {
                    let iid = self.categories.len() as u64 + 1;
                    self.categories.insert(category.into(), iid);
                    iid
                }
            },
        };
        let arg_names = info.as_deref().map_or(0, |info| info.arg_names.len());
        let first_arg_iid = self.arg_names + 1;
        self.arg_names += arg_names as u64;
        let mut name = Name {
            iid,
            category_iid,
            first_arg_iid,
            arg_names,
            info,
            body: [0; MAX_BODY_BYTES],
            body_bytes: 0,
        };
        let mut body = Vec::new();
        put_message(&mut body, packet::TRACK_EVENT, |out| name.put_begin(out));
        name.body[..body.len()].copy_from_slice(&body);
        name.body_bytes = body.len();
        self.used.push(name);
        let slot = if is_dense { place } else { 0 };
        if self.by_site.len() <= slot {
            self.by_site.resize(slot + 1, 0);
        }
        self.by_site[slot] = iid as u32;
        self.used.len() - 1
    }
}

impl Name {
    /// Appends the fields of a begin's `track_event` without arguments.
    pub(super) fn put_begin(&self, out: &mut Vec<u8>) {
        put_u64(out, event::TYPE, event::BEGIN);
        put_u64(out, event::NAME_IID, self.iid);
        if self.category_iid > 0 {
            put_u64(out, event::CATEGORY_IIDS, self.category_iid);
        }
        if self.has_location() {
            put_u64(out, event::SOURCE_LOCATION_IID, self.iid);
        }
    }

    /// Appends the texts that spans of this site refer to.
    pub(super) fn put_interned(&self, out: &mut Vec<u8>) {
        let info = self.info.as_deref();
        put_message(out, interned::EVENT_NAMES, |out| {
            put_u64(out, interned::IID, self.iid);
            put_str(out, interned::TEXT, info.map_or("?", |info| &info.name));
        });
        let Some(info) = info else {
            return;
        };
        if self.category_iid > 0 {
            put_message(out, interned::CATEGORIES, |out| {
                put_u64(out, interned::IID, self.category_iid);
                put_str(out, interned::TEXT, &info.category);
            });
        }
        if self.has_location() {
            put_message(out, interned::SOURCE_LOCATIONS, |out| {
                put_u64(out, interned::IID, self.iid);
                put_str(out, interned::TEXT, &info.file);
                put_u64(out, interned::LINE, u64::from(info.line));
            });
        }
        for (iid, name) in (self.first_arg_iid..).zip(&info.arg_names) {
            put_message(out, interned::ANNOTATION_NAMES, |out| {
                put_u64(out, interned::IID, iid);
                put_str(out, interned::TEXT, name);
            });
        }
    }

    fn has_location(&self) -> bool {
        self.info
            .as_deref()
            .is_some_and(|info| !info.file.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::filled;
    use vor_fixtures::wire::{bytes, fields, messages, one, text};

    use super::*;

    fn catalog(sites: &[(&'static str, &'static str, &'static str)]) -> Catalog {
        let site = |&(name, category, file): &(&'static str, &'static str, &'static str)| {
            Some(Arc::new(filled!(SiteInfo {
                name: name.into(),
                category: category.into(),
                file: file.into(),
                line: 7
            })))
        };
        filled!(Catalog {
            sites: Arc::new(sites.iter().map(site).collect())
        })
    }

    #[test]
    fn call_sites_beyond_the_catalog_share_a_name() {
        let catalog = catalog(&[("a", "", ""), ("b", "", "")]);
        let mut names = Names::default();
        // Each is asked for twice, a declared one before and one after the others.
        let sites = [1, 3, u32::MAX, 0, 2];
        for _ in 0..2 {
            let indices = sites.map(|site| names.index(&catalog, SiteId(site)));
            assert_eq!(indices, [0, 1, 1, 1, 2]);
        }
        let shown = [0, 1, 2].map(|index| {
            let mut out = Vec::new();
            names.get(index).put_interned(&mut out);
            let name = &messages(&fields(&out), interned::EVENT_NAMES.into())[0];
            (
                one(name, interned::IID.into()),
                text(name, interned::TEXT.into()),
            )
        });
        assert_eq!(
            shown,
            [(1, "a"), (2, "?"), (3, "b")].map(|(iid, name)| (iid, name.into()))
        );
    }

    #[test]
    fn a_begin_refers_to_the_category_and_the_place_that_its_site_has() {
        let catalog = catalog(&[
            ("a", "io", "a.rs"),
            ("b", "", ""),
            ("c", "math", ""),
            ("d", "io", "d.rs"),
        ]);
        let mut names = Names::default();
        let mut found = Vec::new();
        for site in 1..=4 {
            let index = names.index(&catalog, SiteId(site));
            let name = names.get(index);
            let mut begin = Vec::new();
            name.put_begin(&mut begin);
            let begin = fields(&begin);
            let category = one(&begin, event::CATEGORY_IIDS.into());
            let place = one(&begin, event::SOURCE_LOCATION_IID.into());
            let mut texts = Vec::new();
            name.put_interned(&mut texts);
            let texts = fields(&texts);
            let of_field = |field: u32| {
                let messages = messages(&texts, field.into());
                messages.first().map_or_else(Default::default, |entry| {
                    (
                        one(entry, interned::IID.into()),
                        text(entry, interned::TEXT.into()),
                    )
                })
            };
            let defined = (
                of_field(interned::CATEGORIES),
                of_field(interned::SOURCE_LOCATIONS),
            );
            assert_eq!((category, place), (defined.0.0, defined.1.0));
            assert_eq!(
                category == 0,
                bytes(&texts, interned::CATEGORIES.into()).is_empty()
            );
            found.push((category, defined.0.1, place, defined.1.1));
        }
        let expected = [
            (1, "io", 1, "a.rs"),
            (0, "", 0, ""),
            (2, "math", 0, ""),
            (1, "io", 4, "d.rs"),
        ];
        let expected = expected.map(|(category, name, place, file)| {
            (category, name.to_owned(), place, file.to_owned())
        });
        assert_eq!(found, expected);
    }

    #[test]
    fn the_longest_begin_without_arguments_fits() {
        let name = Name {
            iid: u32::MAX.into(),
            category_iid: u32::MAX.into(),
            first_arg_iid: 1,
            arg_names: 0,
            info: catalog(&[("a", "io", "a.rs")]).sites[0].clone(),
            body: [0; MAX_BODY_BYTES],
            body_bytes: 0,
        };
        let mut body = Vec::new();
        put_message(&mut body, packet::TRACK_EVENT, |out| name.put_begin(out));
        assert!(body.len() <= MAX_BODY_BYTES);
    }
}
