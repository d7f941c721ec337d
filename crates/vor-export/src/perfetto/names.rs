//! Call sites as a trace names them: interned texts, and the part of a span's event that is the
//! same for all its spans.
//!
//! An iid is a number that stands for a text. Sites get theirs in the order of their first use, so
//! that those in use are small. A sequence of packets must be told of a text before it refers to
//! it; which sequence knows which site is noted there.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};

use super::schema::{event, interned, packet};
use crate::proto::{put_message, put_str, put_u64};

/// Longest body of a span's begin that is kept ready.
pub(super) const MAX_BODY_BYTES: usize = 32;

/// A call site as the trace knows it.
#[derive(Debug)]
pub(super) struct Name {
    /// Its iid, both of its name and of its place in the source.
    pub(super) iid: u64,
    category_iid: u64,
    /// Iid of its first argument's name; the others follow.
    pub(super) first_arg_iid: u64,
    /// Names of its arguments.
    pub(super) arg_names: usize,
    info: Option<Arc<SiteInfo>>,
    /// The `track_event` of a begin without arguments; as many bytes as `body_bytes` says.
    pub(super) body: [u8; MAX_BODY_BYTES],
    pub(super) body_bytes: usize,
}

/// The names of all call sites met so far.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Index of a site in `used`, plus 1, by `SiteId`.
    by_site: Vec<u32>,
    used: Vec<Name>,
    categories: FxHashMap<Box<str>, u64>,
    arg_names: u64,
}

impl Names {
    /// Returns where a site stands among those used, which it is from now on.
    #[inline]
    pub(super) fn index(&mut self, catalog: &Catalog, site: SiteId) -> usize {
        match self.by_site.get(site.0 as usize) {
            Some(&index) if index > 0 => index as usize - 1,
            _ => self.enter(catalog, site),
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize) -> &Name {
        &self.used[index]
    }

    #[cold]
    fn enter(&mut self, catalog: &Catalog, site: SiteId) -> usize {
        let place = site.0 as usize;
        let info = place
            .checked_sub(1)
            .and_then(|at| catalog.sites.get(at)?.clone());
        // Sites beyond the catalog are those of a damaged capture, and may have any number.
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
        // Only iids of many millions would not fit; spans of such a site are written the long way.
        if let Some(room) = name.body.get_mut(..body.len()) {
            room.copy_from_slice(&body);
            name.body_bytes = body.len();
        }
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
    /// Appends the fields of a begin's `track_event`, arguments left out.
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
