//! The scope of a wait for a lock.

use std::borrow::Cow;
use std::sync::Arc;

use vor_capture::model::catalog::{SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::waits::{ARG_NAMES, PREFIX};

use super::info::LockInfo;
use crate::hot::scope::{Scope, open_registered};
use crate::hot::thread::{self, Holder, Innermost, ThreadToken};
use crate::hot::{callsite, record_state};

/// Argument texts in place of a name.
const RELEASED: &str = "released meanwhile";
const UNKNOWN: &str = "unknown";
const VOR: &str = "vor";
const NOBODY: &str = "nobody";

/// How often a waiter reads the word of a lock in which no holder is stored. The holder stores
/// itself a moment after it has locked.
const TRIES: u32 = 8;

/// A wait for a lock, from its begin to the moment at which the thread holds the lock.
#[derive(Debug)]
pub(super) struct Wait<'a> {
    /// `None` if the wait is not recorded.
    info: Option<&'a LockInfo>,
    /// Closes after the flow has ended in it.
    _scope: Scope<{ ARG_NAMES.len() }>,
}

impl<'a> Wait<'a> {
    /// Begins a wait. `absent` is the holder's name if none is stored in the lock.
    pub(super) fn begin(info: &'a LockInfo, absent: Absent) -> Self {
        Self::begin_at(info, absent, || info.site())
    }

    /// Does the same for a lock whose site `site` returns.
    pub(super) fn begin_at(
        info: &'a LockInfo,
        absent: Absent,
        site: impl FnOnce() -> SiteId,
    ) -> Self {
        if cfg!(feature = "off") || !record_state::is_on() || thread::drop_if_busy() {
            return Self {
                info: None,
                _scope: Scope::off(),
            };
        }
        info.waiters.add();
        let site = site();
        let mut scope = open_registered(site.0, [0; ARG_NAMES.len()]);
        // A counted scope has no arguments.
        if record_state::keeps_spans() {
            scope.set_words(describe(info, site, absent));
        }
        Self {
            info: Some(info),
            _scope: scope,
        }
    }

    /// Ends the wait of a thread that does not get the lock.
    pub(super) fn give_up(mut self) {
        if let Some(info) = self.info.take() {
            info.waiters.remove_failed();
        }
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        if let Some(info) = self.info {
            info.waiters.remove();
            info.waiters.end_flow();
        }
    }
}

/// The meaning of a lock without a stored holder.
#[derive(Clone, Copy, Debug)]
pub(super) enum Absent {
    /// No thread has begun what is waited for.
    Nobody,
    /// The holder has unlocked.
    Released,
    /// The holder has unlocked, or is one of several readers.
    Unknown,
}

/// Pushes the arguments of a wait into the ring, and returns their words.
fn describe(info: &LockInfo, site: SiteId, absent: Absent) -> [u64; ARG_NAMES.len()] {
    let token = stored_holder(info);
    let holder = match token {
        ThreadToken::NONE => None,
        token => Some(thread::read_holder(token, site, || {
            info.holder.get() == token
        })),
    };
    let scope = match &holder {
        Some(Holder::Thread { innermost, .. }) => *innermost,
        _ => Innermost::NoScope,
    };
    let scope_site = match scope {
        Innermost::Scope(site) => Some(site),
        _ => None,
    };
    let [lock_info, scope_info] = thread::while_busy(|| {
        let registry = callsite::lock();
        [Some(site), scope_site].map(|site| registry.info_of(site?))
    });
    let lock = name_of(lock_info.as_ref());
    let lock = lock.strip_prefix(PREFIX).unwrap_or(lock);
    let (holder, scope) = match (&holder, scope) {
        (Some(Holder::Thread { .. }), Innermost::NotHeld) => (Cow::Borrowed(RELEASED), ""),
        (Some(Holder::Thread { id, info, .. }), Innermost::NoScope) => (label(*id, info), ""),
        (Some(Holder::Thread { id, info, .. }), Innermost::Unreadable) => {
            (label(*id, info), UNKNOWN)
        }
        (Some(Holder::Thread { id, info, .. }), Innermost::Scope(_)) => {
            (label(*id, info), name_of(scope_info.as_ref()))
        }
        (Some(Holder::Vor), _) => (Cow::Borrowed(VOR), ""),
        (Some(Holder::Unknown), _) => (Cow::Borrowed(UNKNOWN), ""),
        (None, _) => match absent {
            Absent::Nobody => (Cow::Borrowed(NOBODY), ""),
            Absent::Released => (Cow::Borrowed(RELEASED), ""),
            Absent::Unknown => (Cow::Borrowed(UNKNOWN), ""),
        },
    };
    [lock, &holder, scope].map(thread::push_text)
}

/// Returns the holder that is stored in a lock, after a few tries.
fn stored_holder(info: &LockInfo) -> ThreadToken {
    for _ in 0..TRIES {
        match info.holder.get() {
            ThreadToken::NONE => std::hint::spin_loop(),
            token => return token,
        }
    }
    ThreadToken::NONE
}

fn name_of(site: Option<&Arc<SiteInfo>>) -> &str {
    site.map_or(UNKNOWN, |site| &site.name)
}

/// Returns the name of a thread, or one made of its number, as exporters show it.
fn label(id: ThreadId, info: &ThreadInfo) -> Cow<'_, str> {
    match (info.name.as_str(), info.os_id) {
        ("", 0) => thread::while_busy(|| Cow::Owned(format!("thread #{}", id.0))),
        ("", os_id) => thread::while_busy(|| Cow::Owned(format!("thread {os_id}"))),
        (name, _) => Cow::Borrowed(name),
    }
}
