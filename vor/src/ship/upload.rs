//! Sends a file as one object, within bounds of time.
//!
//! A large file is sent in parts, one after the other. An upload that fails, or that a request to
//! stop ends, is aborted: the storage forgets its parts. Until the last request, the object is not
//! there, or the one before it is.

use std::cell::Cell;
use std::fs::File;
use std::future::Future;
use std::io::{Read, Seek, SeekFrom};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use object_store::path::Path as Location;
use object_store::{MultipartUpload, ObjectStoreExt as _};
use vor_capture::Error;

use super::Pace;
use super::retry::{is_permanent, reason};
use super::target::Target;

/// Most parts of an object; S3 takes 10 000.
const MAX_PARTS: u64 = 9_000;
/// How often a request to stop is looked for.
const STOP_POLL: Duration = Duration::from_millis(20);
/// How long the storage may take to forget the parts of an aborted upload.
const ABORT_TIMEOUT: Duration = Duration::from_secs(2);

/// Until when objects may be sent.
#[derive(Debug)]
pub(super) struct Bound<'a> {
    stop: Option<&'a AtomicBool>,
    grace: Duration,
    /// When the current object is given up.
    deadline: Cell<Option<Instant>>,
}

impl<'a> Bound<'a> {
    /// Ends with a flag; the current object has some time more.
    pub(super) fn stopped_by(stop: &'a AtomicBool, grace: Duration) -> Self {
        Self {
            stop: Some(stop),
            grace,
            deadline: Cell::new(None),
        }
    }

    /// Returns a bound at which the current object would be given up, and until which others may
    /// begin; without end if nothing has set the flag.
    pub(super) fn rest(&self) -> Bound<'static> {
        self.is_over();
        Bound {
            stop: None,
            grace: Duration::ZERO,
            deadline: self.deadline.clone(),
        }
    }

    /// Returns whether another object may begin.
    pub(super) fn may_begin(&self) -> bool {
        let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        !is_stopped && !self.is_over()
    }

    /// Returns whether the current object is given up.
    pub(super) fn is_over(&self) -> bool {
        if self.deadline.get().is_none()
            && self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            self.deadline.set(Some(Instant::now() + self.grace));
        }
        self.deadline
            .get()
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Waits until [`is_over`](Self::is_over).
    async fn over(&self) {
        while !self.is_over() {
            tokio::time::sleep(STOP_POLL).await;
        }
    }

    /// Waits for a time, or until no object may begin.
    pub(super) async fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while self.may_begin()
            && let left = until.saturating_duration_since(Instant::now())
            && !left.is_zero()
        {
            tokio::time::sleep(left.min(STOP_POLL)).await;
        }
    }
}

/// Why an object was not sent.
#[derive(Debug)]
pub(super) enum Problem {
    /// The time is over.
    Stopped,
    /// The storage refuses it for good.
    Refused(String),
    /// The storage or the network failed.
    Failed(String),
    /// The file cannot be read, or the folder not written.
    Local(Error),
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self::Local(error)
    }
}

impl From<object_store::Error> for Problem {
    fn from(error: object_store::Error) -> Self {
        match is_permanent(&error) {
            true => Self::Refused(reason(&error)),
            false => Self::Failed(reason(&error)),
        }
    }
}

/// Sends the first `bytes` bytes of a file.
pub(super) async fn send(
    target: &Target,
    location: &Location,
    file: &mut File,
    bytes: u64,
    pace: &Pace,
    bound: &Bound<'_>,
) -> Result<(), Problem> {
    let unreadable = |error| Problem::Local(Error::io("cannot read the file", error));
    file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    let store = &target.store;
    if bytes <= pace.part_bytes {
        let payload = part(file, bytes).map_err(unreadable)?;
        within(pace, bound, store.put(location, payload.into())).await?;
        return Ok(());
    }
    let mut upload = within(pace, bound, store.put_multipart(location)).await?;
    let sent = send_parts(&mut *upload, file, bytes, pace, bound).await;
    if sent.is_err() {
        // The storage may be out of reach. It deletes parts by a rule, or keeps them.
        drop(tokio::time::timeout(ABORT_TIMEOUT, upload.abort()).await);
    }
    sent
}

async fn send_parts(
    upload: &mut dyn MultipartUpload,
    file: &mut File,
    bytes: u64,
    pace: &Pace,
    bound: &Bound<'_>,
) -> Result<(), Problem> {
    let part_bytes = pace.part_bytes.max(bytes.div_ceil(MAX_PARTS));
    let mut left = bytes;
    while left > 0 {
        let payload = part(file, left.min(part_bytes))
            .map_err(|error| Problem::Local(Error::io("cannot read the file", error)))?;
        left -= payload.len() as u64;
        within(pace, bound, upload.put_part(payload.into())).await?;
    }
    within(pace, bound, upload.complete()).await?;
    Ok(())
}

/// Reads exactly this many bytes.
fn part(file: &mut File, bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut payload = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
    file.read_exact(&mut payload)?;
    Ok(payload)
}

/// Waits for a request, up to its time limit and the end of the bound.
async fn within<T>(
    pace: &Pace,
    bound: &Bound<'_>,
    request: impl Future<Output = object_store::Result<T>>,
) -> Result<T, Problem> {
    tokio::select! {
        answer = tokio::time::timeout(pace.request, request) => match answer {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Problem::Failed(format!(
                "no answer within {} s",
                pace.request.as_secs_f64()
            ))),
        },
        () = bound.over() => Err(Problem::Stopped),
    }
}
