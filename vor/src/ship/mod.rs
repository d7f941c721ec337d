//! Ships the segments of a capture to object storage: S3, Google Cloud Storage, Azure, or a folder.
//!
//! ```text
//! <prefix>/captures/host=web-17/date=2026-11-25/app-20261125T190501-77.vor
//! <prefix>/spans/host=web-17/date=2026-11-25/app-20261125T190501-77-77-1795633501000.parquet
//! <prefix>/metrics/…  <prefix>/sketches/…
//! ```
//!
//! A [`Shipper`] reads a folder of [segments](crate::Segments) and uploads each one that is sealed:
//! no recorder writes it, and no file `<segment>.lock` lies beside it. The names of the objects
//! follow from the host and the segment alone, so an upload that is repeated replaces the same
//! objects. Each segment arrives at least once.
//!
//! | part | does |
//! |---|---|
//! | `target` | makes the client of the object storage from a URL and the environment |
//! | `sealed` | finds the segments that are complete, and holds one while it is read |
//! | `journal` | remembers in the folder which segments were shipped |
//! | `parquet` | makes the tables of a segment |
//! | `upload` | sends a file as one object, in parts if it is large |
//! | `retry` | pauses between attempts, and tells errors that pass from those that stay |
//! | `keep` | deletes segments, the shipped ones first |
//! | `pass` | does all of that for each segment of the folder, once |
//! | `sink` | ships the program's own segments while it runs |
//!
//! # Memory and time
//!
//! A file of more than 8 MiB is sent in parts of 8 MiB, of which one is in memory. Parquet is
//! written to files in the folder, one segment at a time. All of this happens on a thread of its
//! own, which opens no scope.
//!
//! An upload that fails is repeated up to three times, after pauses that double and vary at random.
//! Beneath that, the client of the storage repeats single requests. What still fails waits for the
//! next pass.

mod target;
mod sealed;
mod journal;
mod parquet;
mod retry;
mod upload;
mod keep;
mod pass;
mod sink;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use vor_capture::Error;
use vor_recorder::__private::{for_new_thread, host_name, stay_silent};
use vor_recorder::sinks::segments::Segments;

use pass::Run;
use target::Target;
use upload::Bound;

pub use sink::ShipSink;

/// Ships the segments of a folder.
///
/// # Examples
///
/// ```no_run
/// let shipper = vor::ship::Shipper::new("captures/", "s3://bucket/fleet")?
///     .program_version("2.4.1")
///     .delete_shipped(true);
/// let report = shipper.ship()?;
/// println!("{} segments, {} bytes", report.segments, report.bytes);
/// # Ok::<(), vor::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Shipper {
    folder: PathBuf,
    target: Target,
    outputs: Outputs,
    host: Option<String>,
    program_version: Option<String>,
    delete_shipped: bool,
    keep: Segments,
    pace: Pace,
}

/// The forms in which a segment is shipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Outputs {
    captures: bool,
    parquet: bool,
}

/// Times and sizes, which tests make smaller.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Attempts to send an object in one pass.
    attempts: u32,
    /// The first pause after a failed attempt, and the longest.
    pauses: (Duration, Duration),
    /// The same after a pass that the storage ended.
    outage_pauses: (Duration, Duration),
    /// How long a request may take, with the repetitions of the client.
    request: Duration,
    /// Bytes of a part; a smaller file is sent in one piece.
    part_bytes: u64,
    /// How long a segment without an end must be unchanged until its recorder counts as ended.
    quiet: Duration,
    /// Time between two looks into the folder.
    poll: Duration,
    /// How long the current object may take after the request to stop.
    grace: Duration,
}

impl Pace {
    const USUAL: Self = Self {
        attempts: 4,
        pauses: (Duration::from_millis(500), Duration::from_secs(30)),
        outage_pauses: (Duration::from_secs(2), Duration::from_secs(60)),
        request: Duration::from_secs(120),
        part_bytes: 8 << 20,
        quiet: Duration::from_secs(10),
        poll: Duration::from_secs(1),
        grace: Duration::from_secs(5),
    };
}

impl Shipper {
    /// Makes a shipper of the segments in `folder` to a URL: `s3://BUCKET/PREFIX`,
    /// `gs://BUCKET/PREFIX`, `az://CONTAINER/PREFIX` or `file:///FOLDER`.
    ///
    /// Credentials, the region and the address of the server come from the environment:
    /// `AWS_ACCESS_KEY_ID`, `AWS_ENDPOINT`, `GOOGLE_SERVICE_ACCOUNT`, `AZURE_STORAGE_ACCOUNT_NAME`
    /// and the others that the crate `object_store` reads. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// The URL names no object storage, or has a password or a query; or a setting in the
    /// environment is unusable ([`Error::is_config`]).
    pub fn new(folder: impl Into<PathBuf>, url: &str) -> Result<Self, Error> {
        Ok(Self::to(folder.into(), Target::open(url)?))
    }

    fn to(folder: PathBuf, target: Target) -> Self {
        Self {
            folder,
            target,
            outputs: Outputs {
                captures: true,
                parquet: true,
            },
            host: None,
            program_version: None,
            delete_shipped: false,
            keep: Segments::new(),
            pace: Pace::USUAL,
        }
    }

    /// Sets whether segments are shipped as they are. Default: yes.
    #[must_use]
    pub fn captures(mut self, on: bool) -> Self {
        self.outputs.captures = on;
        self
    }

    /// Sets whether segments are shipped as Parquet. Default: yes.
    #[must_use]
    pub fn parquet(mut self, on: bool) -> Self {
        self.outputs.parquet = on;
        self
    }

    /// Sets the name of the machine, instead of the one in each segment.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into()).filter(|host| !host.is_empty());
        self
    }

    /// Sets the version of the recorded program, for the column `version`.
    #[must_use]
    pub fn program_version(mut self, version: impl Into<String>) -> Self {
        self.program_version = Some(version.into());
        self
    }

    /// Sets whether a segment is deleted once it is shipped. Default: no.
    #[must_use]
    pub fn delete_shipped(mut self, on: bool) -> Self {
        self.delete_shipped = on;
        self
    }

    /// Limits the segments in the folder, by the limits of `segments` on all of them together. The
    /// oldest shipped ones are deleted first. If that is not enough, the oldest of the others are
    /// deleted, reported and counted as [lost](Report::lost). Default: no limit.
    #[must_use]
    pub fn keep(mut self, segments: Segments) -> Self {
        self.keep = segments;
        self
    }

    /// Returns the folder of the segments.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the URL, as messages show it.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.target.shown
    }

    /// Ships all sealed segments that are not shipped yet, and returns what was done and what is
    /// left. Damaged and lost segments are reported on stderr, in a line each.
    ///
    /// # Errors
    ///
    /// The folder cannot be read or written, or another shipper ships it to the same URL.
    pub fn ship(&self) -> Result<Report, Error> {
        self.ship_until(&AtomicBool::new(false))
    }

    /// Does the same as [`ship`](Self::ship), but begins no further object once `stop` is set, and
    /// gives up the current one 5 seconds later.
    ///
    /// # Errors
    ///
    /// As [`ship`](Self::ship).
    pub fn ship_until(&self, stop: &AtomicBool) -> Result<Report, Error> {
        let grace = self.pace.grace;
        self.on_own_thread(|| Run::open(self)?.once(&Bound::stopped_by(stop, grace)))
    }

    /// Ships all sealed segments, and then each new one as soon as it is sealed, until `stop` is
    /// set. The current object has 5 seconds to end then. Outages are reported on stderr, in a line
    /// each, and waited for.
    ///
    /// # Errors
    ///
    /// As [`ship`](Self::ship); or the storage refuses the first object for good: the bucket does
    /// not exist, or the credentials are wrong.
    pub fn follow(&self, stop: &AtomicBool) -> Result<Report, Error> {
        let grace = self.pace.grace;
        self.on_own_thread(|| Run::open(self)?.follow(&Bound::stopped_by(stop, grace), true))
    }

    /// Runs `work` on a thread that records nothing and in which no async runtime runs.
    fn on_own_thread<R: Send>(
        &self,
        work: impl FnOnce() -> Result<R, Error> + Send,
    ) -> Result<R, Error> {
        std::thread::scope(|scope| {
            let builder = std::thread::Builder::new().name("vor-ship".to_owned());
            let run = || {
                stay_silent();
                work()
            };
            let started = for_new_thread(|| builder.spawn_scoped(scope, run));
            let thread = started.map_err(|error| {
                Error::io("a thread that ships segments cannot be started", error)
            })?;
            match thread.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Returns the host of a segment whose capture names this one, or cannot be read.
    fn host_of(&self, named: Option<&str>) -> String {
        let is_known = |host: &String| !host.is_empty();
        let named = || named.map(str::to_owned).filter(is_known);
        let here = || Some(host_name()).filter(is_known);
        let host = self.host.clone().or_else(named).or_else(here);
        host.unwrap_or_else(|| "unknown".to_owned())
    }
}

/// What a [`Shipper`] has done, and what is left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// Segments that were shipped.
    pub segments: u64,
    /// Objects that were sent.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Attempts to send an object that were repeated.
    pub retries: u64,
    /// Segments that are damaged, and so have no Parquet in the storage.
    pub damaged: u64,
    /// Segments that were deleted before they were shipped.
    pub lost: u64,
    /// Segments that are sealed and not shipped.
    pub left: u64,
    /// Segments that are being written, or have a file `<segment>.lock` beside them.
    pub unsealed: u64,
    /// Why the last segment that is left could not be shipped.
    pub problem: Option<String>,
}

/// A point at which tests end the process.
#[cfg(not(test))]
fn crash_point() {}
#[cfg(test)]
use tests::crash_point;
