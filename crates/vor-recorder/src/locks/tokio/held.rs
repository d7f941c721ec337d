//! The parts of a lock beside the lock of tokio: its name, its holder, its waiters.
//!
//! Only a holder writes its scope, after it has locked and until it unlocks, where it removes it.
//! So a waiter that finds a scope, after it has found the lock held, has found that of a holder.

use std::borrow::Cow;

use vor_capture::model::catalog::SiteId;
use vor_capture::model::waits::{ARG_NAMES, HELD, HOLDER_SCOPE_STEP, HOLDER_STEP, PREFIX};

use super::reads::Place;
use super::waited::Awaited;
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::scope::{Scope, open_registered};
use crate::hot::task::AsyncScope;
use crate::hot::{callsite, record_state, thread};
use crate::locks::holds::Holds;
use crate::locks::info::SHAPE as BLOCKED;
use crate::locks::waiters::Waiters;
use crate::sync::Ordering;
use crate::sync::global::AtomicU32;

/// The task of a wait. Tasks have no arguments, so the holder is a step.
const TASK: &Shape = &Shape {
    prefix: PREFIX,
    suffix: "",
    category: HELD,
    arg_names: &[],
    kinds: 0,
};

const RELEASED: &str = "released meanwhile";
const UNKNOWN: &str = "unknown";

/// The site of a lock that nobody holds.
const FREE: u32 = 0;
/// The site of a lock that was taken outside of all scopes. Ids of sites are smaller.
const OUTSIDE: u32 = u32::MAX;

/// The meaning of a lock without a stored holder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Absent {
    /// The holder has unlocked.
    Released,
    /// The holder has unlocked, or is one of several readers.
    Unknown,
}

#[derive(Debug)]
pub(super) struct HeldInfo {
    name: ValueName,
    task: NamedSite,
    /// The scopes of threads that wait.
    blocked: NamedSite,
    /// The site of the scope in which the lock was taken, [`FREE`] or [`OUTSIDE`]. Readers share
    /// it, and the last one that came is stored. Relaxed: a waiter that sees a holder's lock also
    /// sees that the holder before it has removed itself.
    holder: AtomicU32,
    absent: Absent,
    waiters: Waiters,
    holds: Holds,
}

impl HeldInfo {
    pub(super) const fn new(name: ValueName, absent: Absent) -> Self {
        Self::with_holds(name, absent, false)
    }

    /// Makes the parts of a lock of which it is recorded how long it is held, if `holds` is set.
    pub(super) const fn with_holds(name: ValueName, absent: Absent, holds: bool) -> Self {
        Self {
            name,
            task: NamedSite::new(TASK),
            blocked: NamedSite::new(BLOCKED),
            holder: AtomicU32::new(FREE),
            absent,
            waiters: Waiters::new(holds),
            holds: Holds::new(holds),
        }
    }

    /// A task has got the lock on the calling thread, and is the only holder.
    #[inline(always)]
    pub(super) fn begin_hold(&self) {
        self.locked();
        self.holds.begin();
    }

    /// The only holder is about to unlock. Begins a flow if a task waits.
    #[inline(always)]
    pub(super) fn end_hold(&self) {
        // One branch, as in a lock of threads.
        if self.waiters.need_care() {
            self.end_hold_slow();
        }
        if !cfg!(feature = "off") {
            self.holder.store(FREE, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn end_hold_slow(&self) {
        self.holds.end(|| self.name);
        self.waiters.before_unlock();
    }

    /// Stores the innermost scope of the calling thread, on which a task has got the lock, and
    /// returns its site.
    #[inline(always)]
    fn locked(&self) -> u32 {
        if cfg!(feature = "off") {
            return FREE;
        }
        let site = match thread::hot().innermost_site() {
            FREE => OUTSIDE,
            site => site,
        };
        self.holder.store(site, Ordering::Relaxed);
        site
    }

    /// A task, which may be one of several readers, has got the lock on the calling thread.
    #[inline(always)]
    pub(super) fn begin_read(&self) -> Reader {
        let site = self.locked();
        let place = match self.holds.are_on() {
            true => Place::take(),
            false => Place::NONE,
        };
        Reader { site, place }
    }

    /// A task, which may be one of several readers, is about to unlock. Removes its site unless
    /// another one has stored itself. A reader that is stored in the meantime may be lost.
    #[inline(always)]
    pub(super) fn end_read(&self, reader: Reader) {
        if self.waiters.need_care() {
            self.end_read_slow(reader.place);
        }
        if !cfg!(feature = "off") && self.holder.load(Ordering::Relaxed) == reader.site {
            self.holder.store(FREE, Ordering::Relaxed);
        }
    }

    #[cold]
    #[inline(never)]
    extern "C" fn end_read_slow(&self, place: Place) {
        self.holds.end_read_since(place.free(), || self.name);
        self.waiters.before_unlock();
    }

    /// Begins the scope of a thread that waits.
    pub(super) fn block(&self) -> BlockedThread<'_> {
        if cfg!(feature = "off") || !record_state::is_on() || thread::drop_if_busy() {
            return BlockedThread {
                info: None,
                _scope: Scope::off(),
            };
        }
        self.waiters.add();
        let mut scope = open_registered(self.blocked.id(self.name).0, [0; ARG_NAMES.len()]);
        // A counted scope has no arguments.
        if record_state::keeps_spans() {
            let name = thread::while_busy(|| self.name.to_string());
            let (holder, holder_scope) = self.holder();
            scope.set_words([&name, holder, &*holder_scope].map(thread::push_text));
        }
        BlockedThread {
            info: Some(self),
            _scope: scope,
        }
    }

    /// Returns the text in place of a holder, and the name of the scope in which it took the lock.
    fn holder(&self) -> (&'static str, Cow<'static, str>) {
        match (self.holder.load(Ordering::Relaxed), self.absent) {
            (FREE, Absent::Released) => (RELEASED, "".into()),
            (FREE, Absent::Unknown) | (OUTSIDE, _) => (UNKNOWN, "".into()),
            (site, _) => thread::while_busy(|| {
                let info = callsite::lock().info_of(SiteId(site));
                match info {
                    Some(info) => ("", info.name.to_string().into()),
                    None => (UNKNOWN, "".into()),
                }
            }),
        }
    }
}

impl Awaited for &HeldInfo {
    fn site(&self) -> SiteId {
        self.task.id(self.name)
    }

    fn begun(&self, wait: &AsyncScope) {
        self.waiters.add();
        let (holder, scope) = self.holder();
        let step = thread::while_busy(|| match holder {
            "" => format!("{HOLDER_SCOPE_STEP}{scope}"),
            holder => format!("{HOLDER_STEP}{holder}"),
        });
        wait.step(&step);
        thread::while_busy(|| drop((step, scope)));
    }

    fn done(&self) {
        self.waiters.remove();
        self.waiters.end_flow();
    }

    fn cancelled(&self) {
        self.waiters.remove_failed();
    }
}

/// The scope of a thread that waits for a lock. Dropped when the thread has the lock.
#[derive(Debug)]
pub(super) struct BlockedThread<'a> {
    /// `None` if the wait is not recorded.
    info: Option<&'a HeldInfo>,
    /// Closes after the flow has ended in it.
    _scope: Scope<{ ARG_NAMES.len() }>,
}

impl Drop for BlockedThread<'_> {
    fn drop(&mut self) {
        if let Some(info) = self.info {
            info.waiters.remove();
            info.waiters.end_flow();
        }
    }
}

/// A lock that one task holds. Dropped just before the unlock.
#[derive(Debug)]
pub(super) struct Hold<'a>(&'a HeldInfo);

impl<'a> Hold<'a> {
    #[inline(always)]
    pub(super) fn new(info: &'a HeldInfo) -> Self {
        info.begin_hold();
        Self(info)
    }

    pub(super) fn info(&self) -> &'a HeldInfo {
        self.0
    }
}

impl Drop for Hold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.0.end_hold();
    }
}

/// A task that reads, until [`HeldInfo::end_read`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader {
    /// The site that it has stored in the lock.
    site: u32,
    place: Place,
}

/// A lock that a task and perhaps other readers hold. Dropped just before the unlock.
#[derive(Debug)]
pub(super) struct ReadHold<'a> {
    info: &'a HeldInfo,
    reader: Reader,
}

impl<'a> ReadHold<'a> {
    #[inline(always)]
    pub(super) fn new(info: &'a HeldInfo) -> Self {
        let reader = info.begin_read();
        Self { info, reader }
    }
}

impl Drop for ReadHold<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.info.end_read(self.reader);
    }
}

/// Makes guards behave as the value that their field `inner` gives access to. A guard is a type in
/// `T`; the bound of an owned one is `'static`.
macro_rules! guards_of_value {
    ($($guard:ty $(, $bound:lifetime)?;)*) => {$(
        impl<T: ?Sized $(+ $bound)?> std::ops::Deref for $guard {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                &self.inner
            }
        }

        impl<T: ?Sized + std::fmt::Debug $(+ $bound)?> std::fmt::Debug for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Debug::fmt(&**self, f)
            }
        }

        impl<T: ?Sized + std::fmt::Display $(+ $bound)?> std::fmt::Display for $guard {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                std::fmt::Display::fmt(&**self, f)
            }
        }
    )*};
}

/// Makes guards give exclusive access to the value in their field `inner`.
macro_rules! guards_that_change {
    ($($guard:ty $(, $bound:lifetime)?;)*) => {$(
        impl<T: ?Sized $(+ $bound)?> std::ops::DerefMut for $guard {
            #[inline]
            fn deref_mut(&mut self) -> &mut T {
                &mut self.inner
            }
        }
    )*};
}

pub(super) use {guards_of_value, guards_that_change};
