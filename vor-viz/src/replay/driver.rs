//! Runs a loader on its own thread, or in slices on the drawing thread where threads do not exist.
//!
//! The thread gets its requests through a mailbox with one slot, so a newer request replaces an
//! older one. Results return through a channel of small capacity, so the thread never runs far
//! ahead. It wakes the panel for each result. Without threads, the same loader gets some
//! milliseconds of each pass.

use std::sync::mpsc::{self, Receiver, SyncSender};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use web_time::Instant;

use super::loader::{Delivery, Loader, Request, Step};
use super::whole_work::{PictureRequest, WholeRequest};
use crate::store::{Layer, Store};

/// Interval between checks for file growth. With the recorder's 20 ms, what is shown is mostly less
/// than 60 ms old.
const GROWTH_POLL: Duration = Duration::from_millis(20);

/// Capacity for deliveries. Each request brings at most two windows, and new frames of some
/// megabytes arrive one by one.
const WAITING: usize = 4;

/// Work time per pass without threads: drawing needs its share of a sixtieth of a second. A step
/// that has begun is completed.
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
        /// End of this pass's work; `None` if the work of this pass is done.
        until: Option<Instant>,
        is_idle: bool,
    },
}

/// Messages of the panel to the thread.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    mail: Mutex<Mailbox>,
    wakeup: Condvar,
    context: OnceLock<egui::Context>,
}

#[derive(Debug, Default)]
struct Mailbox {
    request: Option<Request>,
    following: bool,
    ended: bool,
    /// Windows that are no longer shown: dropping millions of spans takes milliseconds.
    dropped_windows: Vec<Store>,
    dropped_layers: Vec<Layer>,
    /// Work on the whole capture that begins or ends.
    whole: Option<Option<WholeRequest>>,
    picture: Option<PictureRequest>,
    /// Whether there are questions.
    is_asked: bool,
}

impl Shared {
    fn mail(&self) -> MutexGuard<'_, Mailbox> {
        // Every change under the lock is complete before anything can panic.
        self.mail.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut Mailbox)) {
        change(&mut self.mail());
        self.wakeup.notify_one();
    }
}

impl Driver {
    /// Starts a thread for the loader; without threads, the loader runs inline.
    pub(crate) fn new(loader: Loader) -> Self {
        let shared = Arc::new(Shared::default());
        let (sender, deliveries) = mpsc::sync_channel(WAITING);
        // A closure is lost if its thread cannot start. The loader therefore travels in a shared
        // slot.
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
    pub(crate) fn request(&mut self, new: Request) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.request = Some(new)),
            Self::Inline {
                loader, is_idle, ..
            } => {
                loader.request(new);
                *is_idle = false;
            }
        }
    }

    /// Sets whether the loader checks for file growth.
    pub(crate) fn set_following(&mut self, following: bool) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.following = following),
            Self::Inline { loader, .. } => loader.set_following(following),
        }
    }

    /// Drops a window. If the loader has a thread, that thread drops it, so that the panel does not
    /// wait.
    pub(crate) fn drop_window(&mut self, window: Box<Store>) {
        if let Self::Thread { shared, .. } = self {
            shared.update(|mail| mail.dropped_windows.push(*window));
        }
    }

    /// Drops a layer, as [`drop_window`](Self::drop_window) does a window.
    pub(crate) fn drop_layer(&mut self, layer: Box<Layer>) {
        if let Self::Thread { shared, .. } = self {
            shared.update(|mail| mail.dropped_layers.push(*layer));
        }
    }

    /// Begins the work on the whole capture, or ends it.
    pub(crate) fn set_whole(&mut self, request: Option<WholeRequest>) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.whole = Some(request)),
            Self::Inline {
                loader, is_idle, ..
            } => {
                loader.set_whole(request);
                *is_idle = false;
            }
        }
    }

    /// Requests a picture of a range of time; this replaces an earlier request.
    pub(crate) fn request_picture(&mut self, request: PictureRequest) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.picture = Some(request)),
            Self::Inline {
                loader, is_idle, ..
            } => {
                loader.request_picture(request);
                *is_idle = false;
            }
        }
    }

    /// Tells the loader that there are questions.
    pub(crate) fn ask(&mut self) {
        match self {
            Self::Thread { shared, .. } => shared.update(|mail| mail.is_asked = true),
            Self::Inline { is_idle, .. } => *is_idle = false,
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

    /// Without threads, only a pass can check for growth, so another one comes soon.
    pub(crate) fn wait_for_growth(&self, context: &egui::Context) {
        if let Self::Inline { .. } = self {
            context.request_repaint_after(GROWTH_POLL);
        }
    }

    /// Returns the next delivery, if one arrived.
    pub(crate) fn next(&mut self) -> Option<Delivery> {
        match self {
            Self::Thread { deliveries, .. } => deliveries.try_recv().ok(),
            Self::Inline {
                loader,
                until,
                is_idle,
            } => {
                // Each pass does at least one step, so that the work ends.
                while let Some(end) = *until {
                    *is_idle = false;
                    *until = Some(end).filter(|end| Instant::now() < *end);
                    match loader.step() {
                        Step::Delivered(delivery) => return Some(delivery),
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
            // There is no join: the thread ends after the frame that it reads now.
            shared.update(|mail| mail.ended = true);
        }
    }
}

/// The main function of the thread.
fn run(mut loader: Loader, shared: &Shared, sender: &SyncSender<Delivery>) {
    let deliver = |delivery| {
        let sent = sender.send(delivery).is_ok();
        if let Some(context) = shared.context.get() {
            context.request_repaint();
        }
        sent
    };
    // The first request arrives immediately and is processed first: its result is the one that the
    // user waits for.
    let is_early = |mail: &mut Mailbox| !mail.ended && mail.request.is_none();
    let woken = shared.wakeup.wait_while(shared.mail(), is_early);
    drop(woken.unwrap_or_else(PoisonError::into_inner));
    loop {
        let (following, dropped_windows, dropped_layers) = {
            let mut mail = shared.mail();
            if mail.ended {
                return;
            }
            mail.is_asked = false;
            if let Some(whole) = mail.whole.take() {
                loader.set_whole(whole);
            }
            if let Some(picture) = mail.picture.take() {
                loader.request_picture(picture);
            }
            if let Some(request) = mail.request.take() {
                loader.request(request);
            }
            (
                mail.following,
                std::mem::take(&mut mail.dropped_windows),
                std::mem::take(&mut mail.dropped_layers),
            )
        };
        drop((dropped_windows, dropped_layers));
        loader.set_following(following);
        match loader.step() {
            Step::Delivered(delivery) => {
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

/// Waits for mail; returns whether the wait timed out and the file should be checked for growth.
fn wait(shared: &Shared, following: bool) -> bool {
    let is_quiet = |mail: &mut Mailbox| {
        !mail.ended
            && mail.request.is_none()
            && mail.dropped_windows.is_empty()
            && mail.dropped_layers.is_empty()
            && mail.whole.is_none()
            && mail.picture.is_none()
            && !mail.is_asked
            && mail.following == following
    };
    if !following {
        let woken = shared.wakeup.wait_while(shared.mail(), is_quiet);
        drop(woken.unwrap_or_else(PoisonError::into_inner));
        return false;
    }
    let woken = shared
        .wakeup
        .wait_timeout_while(shared.mail(), GROWTH_POLL, is_quiet);
    let (mail, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
    drop(mail);
    timeout.timed_out()
}
