//! Runs a loader: on a thread of its own, or, where there are no threads, a slice at a time on the
//! one that draws.
//!
//! The thread gets its requests through a mailbox with one slot, so a newer request takes the
//! place of an older one; what it reads comes back through a channel with few places, so it never
//! runs far ahead. It wakes the panel when something arrived. Without threads the same loader is
//! given some milliseconds of each pass.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use web_time::Instant;

use super::loader::{Delivery, Loader, Request, Step};
use crate::store::Store;

/// How long to wait for a file to grow: the recorder writes about as often.
pub(crate) const GROWTH_POLL: Duration = Duration::from_millis(100);

/// Deliveries that may wait. Each request brings two windows at most, and newly grown frames of
/// some megabytes come one by one.
const WAITING: usize = 4;

/// How long the loader works in a pass where there are no threads: drawing needs its share of a
/// sixtieth of a second. A step that was begun is ended.
const WORK: Duration = Duration::from_millis(6);

/// A loader at work.
#[derive(Debug)]
pub(crate) enum Driver {
    Thread {
        shared: Arc<Shared>,
        deliveries: Receiver<Delivery>,
    },
    Inline {
        loader: Box<Loader>,
        /// When this pass's work ends; there is none left where this is missing.
        until: Option<Instant>,
        is_idle: bool,
    },
}

/// Messages of the panel to the thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    mail: Mutex<Mailbox>,
    rung: Condvar,
    context: OnceLock<egui::Context>,
}

#[derive(Debug, Default)]
struct Mailbox {
    request: Option<Request>,
    following: bool,
    ended: bool,
    /// Windows that are shown no more: letting go of millions of spans takes milliseconds.
    gone: Vec<Store>,
}

impl Shared {
    fn mail(&self) -> MutexGuard<'_, Mailbox> {
        // Every change under the lock is complete before anything can panic.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Mailbox)) {
        change(&mut self.mail());
        self.rung.notify_one();
    }
}

impl Driver {
    /// Starts a thread for the loader; without threads there is none.
    pub(crate) fn new(loader: Loader) -> Self {
        let shared = Arc::new(Shared::default());
        let (sender, deliveries) = mpsc::sync_channel(WAITING);
        // A loader that goes to a thread which cannot be started is lost, so it travels in a slot.
        let slot = Arc::new(Mutex::new(Some(loader)));
        let take = |slot: &Mutex<Option<Loader>>| {
            slot.lock().unwrap_or_else(PoisonError::into_inner).take()
        };
        let (its_shared, its_slot) = (Arc::clone(&shared), Arc::clone(&slot));
        let builder = thread::Builder::new().name("vor-replay".to_owned());
        let started = builder.spawn(move || {
            if let Some(loader) = take(&its_slot) {
                run(loader, &its_shared, &sender);
            }
        });
        match (started, &slot) {
            (Err(_), slot) if let Some(loader) = take(slot) => Self::inline(loader),
            _ => Self::Thread { shared, deliveries },
        }
    }

    fn inline(loader: Loader) -> Self {
        Self::Inline {
            loader: Box::new(loader),
            until: None,
            is_idle: false,
        }
    }

    /// Requests frames; this replaces an earlier request.
    pub(crate) fn ask(&mut self, new: Request) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.request = Some(new)),
            Self::Inline {
                loader, is_idle, ..
            } => {
                loader.ask(new);
                *is_idle = false;
            }
        }
    }

    /// Says whether to look for what is written to the file.
    pub(crate) fn set_following(&mut self, following: bool) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.following = following),
            Self::Inline { loader, .. } => loader.set_following(following),
        }
    }

    /// Drops a window, on the loader's thread if there is one, so that the panel need not wait.
    pub(crate) fn drop_window(&mut self, window: Box<Store>) {
        if let Self::Thread { shared, .. } = self {
            shared.update(|mail| mail.gone.push(*window));
        }
    }

    /// Begins a pass of the panel.
    pub(crate) fn begin_pass(&mut self, context: &egui::Context) {
        match self {
            Self::Thread { shared, .. } => {
                shared.context.get_or_init(|| context.clone());
            }
            Self::Inline { until, is_idle, .. } => {
                *until = Some(Instant::now() + WORK);
                if !*is_idle {
                    context.request_repaint();
                }
            }
        }
    }

    /// Returns what arrived, if anything did.
    pub(crate) fn next(&mut self) -> Option<Delivery> {
        match self {
            Self::Thread { deliveries, .. } => deliveries.try_recv().ok(),
            Self::Inline {
                loader,
                until,
                is_idle,
            } => {
                // The first step of a pass is always made, so that there is an end to it.
                while let Some(end) = *until {
                    *is_idle = false;
                    *until = Some(end).filter(|end| Instant::now() < *end);
                    match loader.step() {
                        Step::Gave(delivery) => return Some(delivery),
                        Step::Working => {}
                        Step::Idle => {
                            *until = None;
                            *is_idle = true;
                            return loader
                                .is_following()
                                .then(|| loader.poll_growth())
                                .flatten();
                        }
                    }
                }
                None
            }
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Self::Thread { shared, .. } = self {
            // Not waited for: it ends after the frame that it reads now.
            shared.update(|mail| mail.ended = true);
        }
    }
}

/// Is the thread.
fn run(mut loader: Loader, shared: &Shared, sender: &SyncSender<Delivery>) {
    let deliver = |delivery| {
        let sent = sender.send(delivery).is_ok();
        if let Some(context) = shared.context.get() {
            context.request_repaint();
        }
        sent
    };
    // The first request comes immediately, and before anything else is done: what it brings is what
    // someone waits for.
    let is_early = |mail: &mut Mailbox| !mail.ended && mail.request.is_none();
    let woken = shared.rung.wait_while(shared.mail(), is_early);
    drop(woken.unwrap_or_else(PoisonError::into_inner));
    loop {
        let (following, gone) = {
            let mut mail = shared.mail();
            if mail.ended {
                return;
            }
            if let Some(request) = mail.request.take() {
                loader.ask(request);
            }
            (mail.following, std::mem::take(&mut mail.gone))
        };
        drop(gone);
        loader.set_following(following);
        match loader.step() {
            Step::Gave(delivery) => {
                if !deliver(delivery) {
                    return;
                }
            }
            Step::Working => {}
            Step::Idle => {
                if wait(shared, following)
                    && let Some(delivery) = loader.poll_growth()
                    && !deliver(delivery)
                {
                    return;
                }
            }
        }
    }
}

/// Waits for mail; returns whether it is time to look for more of the file instead.
fn wait(shared: &Shared, following: bool) -> bool {
    let is_quiet = |mail: &mut Mailbox| {
        !mail.ended && mail.request.is_none() && mail.gone.is_empty() && mail.following == following
    };
    if !following {
        let woken = shared.rung.wait_while(shared.mail(), is_quiet);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        return false;
    }
    let woken = shared
        .rung
        .wait_timeout_while(shared.mail(), GROWTH_POLL, is_quiet);
    let (mail, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
    drop(mail);
    timeout.timed_out()
}
