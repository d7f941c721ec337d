//! Recorded waits: the spans and tasks `wait: NAME` of locks, channels and conditions, and the
//! tasks `hold: NAME` of locks.
//!
//! A wait of a thread for something that another holds has the holder in its first arguments. The
//! category tells waits from a scope of the program that has such a name.

use super::catalog::SiteInfo;

/// The text before a name in the name of its waits.
pub const PREFIX: &str = "wait: ";
/// The category of a wait for something that somebody holds.
pub const HELD: &str = "lock";
/// The category of any other wait.
pub const NO_HOLDER: &str = "wait";
/// The text before a name in the name of its holds.
pub const HOLD_PREFIX: &str = "hold: ";
/// The category of a task that lasts as long as a lock is held.
pub const HOLD: &str = "hold";
/// The first arguments of a wait that has a holder: the name of the lock, of the thread that held
/// it, and of that thread's innermost scope. Measures may follow.
pub const ARG_NAMES: [&str; 3] = ["lock", "holder", "holder_scope"];
/// The text before a holder that is no scope, in the name of a step of a task that waits. Tasks
/// have no arguments.
pub const HOLDER_STEP: &str = "holder: ";
/// The text before the scope in which the holder took the lock, in the name of such a step.
pub const HOLDER_SCOPE_STEP: &str = "holder_scope: ";

/// A call site of waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wait<'a> {
    /// The name of the lock, channel or condition that its spans wait for.
    pub name: &'a str,
    /// Whether somebody holds it.
    pub has_holder: bool,
}

impl<'a> Wait<'a> {
    /// Returns the wait that a call site records, or `None` for any other site.
    ///
    /// # Examples
    ///
    /// ```
    /// use vor_capture::filled;
    /// use vor_capture::model::catalog::SiteInfo;
    /// use vor_capture::model::waits::Wait;
    ///
    /// let site = filled!(SiteInfo {
    ///     name: "wait: jobs to receive".into(),
    ///     category: "wait".into(),
    /// });
    /// assert_eq!(Wait::of(&site).unwrap().name, "jobs to receive");
    /// assert!(!Wait::of(&site).unwrap().has_holder);
    /// let own = filled!(SiteInfo { name: "wait: a while".into() });
    /// assert_eq!(Wait::of(&own), None);
    /// ```
    #[must_use]
    pub fn of(site: &'a SiteInfo) -> Option<Self> {
        let name = site.name.strip_prefix(PREFIX)?;
        let has_names = || site.arg_names.iter().take(ARG_NAMES.len()).eq(ARG_NAMES);
        let has_holder = site.category == HELD || has_names();
        (has_holder || site.category == NO_HOLDER).then_some(Self { name, has_holder })
    }
}

/// Returns the name of the lock whose holds a call site records, or `None` for any other site.
///
/// # Examples
///
/// ```
/// use vor_capture::filled;
/// use vor_capture::model::catalog::SiteInfo;
/// use vor_capture::model::waits::held_lock;
///
/// let site = filled!(SiteInfo { name: "hold: cache".into(), category: "hold".into() });
/// assert_eq!(held_lock(&site), Some("cache"));
/// let own = filled!(SiteInfo { name: "hold: the line".into() });
/// assert_eq!(held_lock(&own), None);
/// ```
#[must_use]
pub fn held_lock(site: &SiteInfo) -> Option<&str> {
    let name = site.name.strip_prefix(HOLD_PREFIX)?;
    (site.category == HOLD).then_some(name)
}
