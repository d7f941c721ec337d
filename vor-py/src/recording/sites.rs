//! Call sites of Python. They are made at run time, one for each name and place, and never freed,
//! because records refer to them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use vor_recorder::hot::callsite::{CallSite, MAX_ARGS};

/// The identity of a call site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) module: String,
    pub(crate) file: String,
    /// 1-based; 0 if unknown.
    pub(crate) line: u32,
    pub(crate) args: Vec<String>,
    pub(crate) category: &'static str,
}

static SITES: LazyLock<Mutex<HashMap<Place, &'static CallSite>>> = LazyLock::new(Mutex::default);

/// The strings of sites, each stored once, because many sites share their file and module.
static TEXTS: LazyLock<Mutex<HashMap<String, &'static str>>> = LazyLock::new(Mutex::default);

/// Returns the call site of a place. It is the same one for each call.
pub(crate) fn intern(place: Place) -> &'static CallSite {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = sites.get(&place) {
        return site;
    }
    let site = CallSite::new(
        intern_text(&place.name),
        intern_text(&place.module),
        intern_text(&place.file),
        place.line,
    )
    .with_category(place.category);
    let names: Vec<&'static str> = place
        .args
        .iter()
        .take(MAX_ARGS)
        .map(|name| intern_text(name))
        .collect();
    let site: &'static CallSite = Box::leak(Box::new(site.with_args(names.leak())));
    sites.insert(place, site);
    site
}

/// Returns the one copy of a text, which is never freed.
pub(crate) fn intern_text(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = texts.get(text) {
        return known;
    }
    let leaked: &'static str = Box::leak(Box::from(text));
    texts.insert(text.to_owned(), leaked);
    leaked
}
