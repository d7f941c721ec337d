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
    /// The `track_event` of a begin without arguments, in the first `body_bytes` bytes.
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
        // Only iids of many millions do not fit. Spans of such a site are encoded one by one.
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
