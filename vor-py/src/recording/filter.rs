//! Selects the code that `python -m vor run` records, by its file.

use std::sync::{Mutex, PoisonError};

/// Files and folders, as in the file names of code objects.
#[derive(Debug, Default)]
pub(crate) struct Filter {
    /// If not empty, only code in these places is recorded.
    pub(crate) include: Vec<String>,
    pub(crate) exclude: Vec<String>,
}

static FILTER: Mutex<Filter> = Mutex::new(Filter {
    include: Vec::new(),
    exclude: Vec::new(),
});

/// Sets the filter for code that runs for the first time from now on.
pub(crate) fn set(filter: Filter) {
    *FILTER.lock().unwrap_or_else(PoisonError::into_inner) = filter;
}

/// Returns whether code of this file and name is recorded.
pub(crate) fn passes(file: &str, name: &str) -> bool {
    // These functions run before a thread has its name, and last as long as the thread.
    if file.ends_with("threading.py")
        && matches!(
            name,
            "Thread._bootstrap" | "Thread._bootstrap_inner" | "Thread._set_ident"
        )
    {
        return false;
    }
    let filter = FILTER.lock().unwrap_or_else(PoisonError::into_inner);
    let is_in = |places: &[String]| places.iter().any(|place| is_at(file, place));
    (filter.include.is_empty() || is_in(&filter.include)) && !is_in(&filter.exclude)
}

/// Returns whether `place` is the file or a folder that contains it.
fn is_at(file: &str, place: &str) -> bool {
    match file.strip_prefix(place) {
        Some(rest) => {
            rest.is_empty() || place.ends_with(['/', '\\']) || rest.starts_with(['/', '\\'])
        }
        None => false,
    }
}
