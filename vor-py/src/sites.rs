//! Call sites of Python: made at run time, one for each name and place, and never freed, since
//! records refer to them.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};

use vor_recorder::hot::callsite::{CallSite, MAX_ARGS};

/// What tells call sites apart.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) module: String,
    pub(crate) file: String,
    /// 1-based; 0 where it is not known.
    pub(crate) line: u32,
    pub(crate) args: Vec<String>,
}

static SITES: LazyLock<Mutex<HashMap<Place, &'static CallSite>>> = LazyLock::new(Mutex::default);

/// Texts that sites refer to, each kept once: many sites share their file and module.
static TEXTS: LazyLock<Mutex<HashMap<String, &'static str>>> = LazyLock::new(Mutex::default);

/// Returns the call site of a place, the same one each time.
pub(crate) fn intern(place: Place) -> &'static CallSite {
    let mut sites = SITES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(site) = sites.get(&place) {
        return site;
    }
    let site = CallSite::new(
        kept(&place.name),
        kept(&place.module),
        kept(&place.file),
        place.line,
    );
    let names: Vec<&'static str> = place
        .args
        .iter()
        .take(MAX_ARGS)
        .map(|name| kept(name))
        .collect();
    let site: &'static CallSite = Box::leak(Box::new(site.with_args(names.leak())));
    sites.insert(place, site);
    site
}

fn kept(text: &str) -> &'static str {
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = texts.get(text) {
        return kept;
    }
    let leaked: &'static str = Box::leak(Box::from(text));
    texts.insert(text.to_owned(), leaked);
    leaked
}
