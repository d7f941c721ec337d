//! A pass over the folder: each sealed segment that was not shipped is shipped.
//!
//! ```text
//! hold the segment ─▶ its capture ─▶ its tables ─▶ the journal ─▶ (delete it)
//! ```
//!
//! The journal comes after the last object. So a crash at any moment at worst ships a segment a
//! second time, into the same objects. A segment that cannot be shipped stays for the next pass.
//! Three in a row mean an outage of the storage, and end the pass.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::time::Instant;

use tokio::runtime::{Builder, Runtime};
use vor_capture::Error;
use vor_capture::reader::Capture;
use vor_capture::units;
use vor_export::parquet::escaped;
use vor_recorder::__private::report_line;

use super::journal::{Journal, Shipped};
use super::keep::{self, Limits};
use super::parquet::{self, Tables, UNKNOWN_DATE};
use super::retry::Backoff;
use super::sealed::{self, FileState, Segment};
use super::upload::{self, Bound, Problem};
use super::{Report, Shipper, crash_point};

/// Segments in a row that cannot be shipped until the pass ends.
const MAX_FAILURES: u32 = 3;

/// A shipper at work: its journal is open.
#[derive(Debug)]
pub(super) struct Run<'a> {
    shipper: &'a Shipper,
    journal: Journal,
    runtime: Runtime,
    limits: Limits,
    report: Report,
    /// Segments that were sealed and not shipped in the last pass.
    waiting: BTreeSet<String>,
    /// Segments whose problem was reported.
    reported: BTreeSet<String>,
}

/// How a pass ended.
#[derive(Debug)]
enum PassEnd {
    /// All segments were looked at, or the time was over.
    Done,
    /// The storage is out of reach, or fails.
    Outage(String),
    /// The storage refuses for good.
    Refused(String),
}

/// What became of one segment.
enum Fate {
    Shipped,
    /// It is not sealed, or is gone.
    Unsealed,
    Stopped,
    Failed(String),
    Refused(String),
}

impl<'a> Run<'a> {
    /// Opens the journal of the folder.
    pub(super) fn open(shipper: &'a Shipper) -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            journal: Journal::open(
                &shipper.folder,
                &shipper.target.shown,
                shipper.host.as_deref(),
            )?,
            runtime: runtime.map_err(|error| Error::io("cannot start to ship", error))?,
            limits: Limits::of(&shipper.keep),
            report: Report::default(),
            waiting: BTreeSet::new(),
            reported: BTreeSet::new(),
            shipper,
        })
    }

    /// Ships what is there.
    pub(super) fn once(mut self, bound: &Bound<'_>) -> Result<Report, Error> {
        self.pass(bound)?;
        Ok(self.report)
    }

    /// Ships what is there, and what comes, until the bound. With `refusal_ends`, the refusal of
    /// the first object is an error; otherwise it is waited for as an outage is.
    pub(super) fn follow(
        &mut self,
        bound: &Bound<'_>,
        refusal_ends: bool,
    ) -> Result<Report, Error> {
        let pace = self.shipper.pace;
        let mut backoff = Backoff::new(pace.outage_pauses);
        let mut is_out = false;
        let mut next_pass = Instant::now();
        while bound.may_begin() {
            if Instant::now() >= next_pass {
                let problem = match self.pass(bound)? {
                    PassEnd::Refused(problem)
                        if refusal_ends && self.report.objects == 0 && !is_out =>
                    {
                        return Err(Error::config(format!("{}: {problem}", self.shipper.url())));
                    }
                    PassEnd::Refused(problem) | PassEnd::Outage(problem) => Some(problem),
                    PassEnd::Done => None,
                };
                match problem {
                    Some(problem) => {
                        // Reported once for each row of failures.
                        if !std::mem::replace(&mut is_out, true) {
                            report_line(&format!(
                                "{}: {problem}; {} waiting for the next attempt",
                                self.shipper.url(),
                                units::counted(self.report.left, "segment")
                            ));
                        }
                        next_pass = Instant::now() + backoff.pause();
                    }
                    None => {
                        is_out = false;
                        backoff.reset();
                    }
                }
            } else {
                self.keep(self.limits)?;
            }
            self.runtime.block_on(bound.pause(pace.poll));
        }
        Ok(self.report.clone())
    }

    /// Looks at each segment once.
    fn pass(&mut self, bound: &Bound<'_>) -> Result<PassEnd, Error> {
        let segments = self.look()?;
        // What is there now is shipped before any of it is lost.
        let now = self.limits.not_below(&segments);
        let (mut end, mut failures) = (PassEnd::Done, 0);
        self.report.problem = None;
        self.report.unsealed = 0;
        for segment in &segments {
            let shipped = self.journal.shipped(segment);
            if shipped.is_done(self.shipper.outputs) {
                self.delete_shipped(segment, shipped);
                continue;
            }
            if !matches!(end, PassEnd::Done) || !bound.may_begin() {
                self.count_waiting(segment);
                continue;
            }
            match self.ship(segment, bound)? {
                Fate::Shipped => {
                    failures = 0;
                    self.waiting.remove(&segment.name);
                }
                Fate::Unsealed => self.report.unsealed += 1,
                Fate::Stopped => {
                    self.waiting.insert(segment.name.clone());
                }
                Fate::Failed(problem) => {
                    failures += 1;
                    self.waiting.insert(segment.name.clone());
                    self.report.problem = Some(problem.clone());
                    if failures >= MAX_FAILURES {
                        end = PassEnd::Outage(problem);
                    }
                }
                Fate::Refused(problem) => {
                    self.waiting.insert(segment.name.clone());
                    self.report.problem = Some(problem.clone());
                    end = PassEnd::Refused(problem);
                }
            }
            self.keep(now)?;
        }
        // Fewer failures than that, and no success after them.
        if matches!(end, PassEnd::Done)
            && failures > 0
            && let Some(problem) = &self.report.problem
        {
            end = PassEnd::Outage(problem.clone());
        }
        self.keep(self.limits)?;
        self.report.left = self.waiting.len() as u64;
        Ok(end)
    }

    /// Lists the folder. A segment that waited and is gone is lost: somebody else deleted it.
    fn look(&mut self) -> Result<Vec<Segment>, Error> {
        let segments = sealed::list(&self.shipper.folder)?;
        let names: BTreeSet<&str> = segments.iter().map(|segment| &*segment.name).collect();
        let gone = |name: &String| !names.contains(&**name);
        for name in self.waiting.extract_if(.., gone) {
            self.report.lost += 1;
            report_line(&format!(
                "{}: deleted by another process before it was shipped",
                self.shipper.folder.join(name).display()
            ));
        }
        self.reported.retain(|name| names.contains(&**name));
        self.journal.retain(&segments);
        Ok(segments)
    }

    /// Counts a segment that this pass does not try, if it is sealed.
    fn count_waiting(&mut self, segment: &Segment) {
        match sealed::hold(segment, self.shipper.pace.quiet) {
            Ok(Some(_)) => {
                self.waiting.insert(segment.name.clone());
            }
            Ok(None) | Err(_) => self.report.unsealed += 1,
        }
    }

    /// Ships one segment, and notes it.
    fn ship(&mut self, segment: &Segment, bound: &Bound<'_>) -> Result<Fate, Error> {
        let mut held = match sealed::hold(segment, self.shipper.pace.quiet) {
            Ok(Some(held)) => held,
            Ok(None) => return Ok(Fate::Unsealed),
            Err(error) if error.io_kind() == Some(std::io::ErrorKind::NotFound) => {
                return Ok(Fate::Unsealed);
            }
            Err(error) => return Ok(Fate::Failed(error.to_string())),
        };
        let sent = self.send(segment, &mut held.0, bound);
        parquet::remove(&self.journal.tables());
        let shipped = match sent {
            Ok(shipped) => shipped,
            Err(Problem::Stopped) => return Ok(Fate::Stopped),
            Err(Problem::Refused(problem)) => return Ok(Fate::Refused(problem)),
            Err(Problem::Failed(problem)) => return Ok(Fate::Failed(problem)),
            Err(Problem::Local(error)) => {
                return Ok(Fate::Failed(in_segment(segment, &error.to_string())));
            }
        };
        // A file that has grown meanwhile is shipped again.
        let is_same = |file: &File| {
            let metadata = file.metadata();
            metadata.is_ok_and(|metadata| FileState::of(&metadata) == segment.state)
        };
        if !is_same(&held.0) {
            return Ok(Fate::Unsealed);
        }
        self.journal.note(segment, shipped)?;
        // A damaged segment has nothing in the storage if only tables are shipped.
        self.report.segments += u64::from(shipped.is_safe(self.shipper.outputs));
        self.report.damaged += u64::from(shipped.damaged);
        drop(held);
        self.delete_shipped(segment, shipped);
        Ok(Fate::Shipped)
    }

    /// Sends the objects of a segment. Returns what was sent.
    fn send(
        &mut self,
        segment: &Segment,
        file: &mut File,
        bound: &Bound<'_>,
    ) -> Result<Shipped, Problem> {
        let shipper = self.shipper;
        let mut capture = match Capture::open(&segment.path) {
            Ok(capture) => Ok(capture),
            Err(error) if error.is_io() => return Err(error.into()),
            Err(error) => Err(error.to_string()),
        };
        let identity = capture.as_ref().ok().map(parquet::identity);
        let host = shipper.host_of(identity.as_ref().map(|identity| &*identity.host));
        let date = identity.map_or(UNKNOWN_DATE.to_owned(), |identity| identity.date);
        let mut shipped = self.journal.shipped(segment);
        if shipper.outputs.captures && !shipped.capture {
            let name = format!(
                "captures/host={}/date={date}/{}",
                escaped(&host),
                escaped(&segment.name)
            );
            self.object(&name, file, segment.state.bytes, bound)?;
            shipped.capture = true;
        }
        if shipper.outputs.parquet && !shipped.parquet && !shipped.damaged {
            let folder = self.journal.tables();
            parquet::remove(&folder);
            let tables = match &mut capture {
                Ok(capture) => parquet::write(
                    &segment.path,
                    capture,
                    &folder,
                    stem(&segment.name),
                    &host,
                    shipper.program_version.as_deref(),
                    bound,
                )?,
                Err(problem) => Tables::Damaged(problem.clone()),
            };
            match tables {
                Tables::Complete(files) => {
                    for (path, name) in files {
                        self.table(&path, &name, bound)?;
                    }
                    shipped.parquet = true;
                }
                Tables::Damaged(problem) => {
                    shipped.damaged = true;
                    self.report_damage(segment, &problem);
                }
                Tables::Stopped => return Err(Problem::Stopped),
            }
        }
        Ok(shipped)
    }

    fn table(&mut self, path: &Path, name: &str, bound: &Bound<'_>) -> Result<(), Problem> {
        let failed = |error| Error::io(path.display().to_string(), error);
        let mut file = File::open(path).map_err(failed)?;
        let bytes = file.metadata().map_err(failed)?.len();
        self.object(name, &mut file, bytes, bound)
    }

    /// Sends an object, in several attempts.
    fn object(
        &mut self,
        name: &str,
        file: &mut File,
        bytes: u64,
        bound: &Bound<'_>,
    ) -> Result<(), Problem> {
        let (target, pace) = (&self.shipper.target, &self.shipper.pace);
        let location = target.location(name)?;
        let mut backoff = Backoff::new(pace.pauses);
        let mut attempt = 1;
        loop {
            let sending = upload::send(target, &location, file, bytes, pace, bound);
            match self.runtime.block_on(sending) {
                Ok(()) => break,
                Err(Problem::Failed(_)) if attempt < pace.attempts && bound.may_begin() => {
                    attempt += 1;
                    self.report.retries += 1;
                    self.runtime.block_on(bound.pause(backoff.pause()));
                }
                Err(problem) => return Err(problem),
            }
        }
        crash_point();
        self.report.objects += 1;
        self.report.bytes += bytes;
        Ok(())
    }

    /// Reports once that a segment has no Parquet.
    fn report_damage(&mut self, segment: &Segment, problem: &str) {
        if !self.reported.insert(segment.name.clone()) {
            return;
        }
        let problem = in_segment(segment, problem);
        let outcome = match self.shipper.outputs.captures {
            true => "shipped as a capture, without Parquet",
            false => "not shipped: it has no Parquet",
        };
        report_line(&format!("{problem}; {outcome}"));
    }

    fn delete_shipped(&mut self, segment: &Segment, shipped: Shipped) {
        if self.shipper.delete_shipped && shipped.is_safe(self.shipper.outputs) {
            // If somebody reads it, a later pass deletes it.
            keep::delete(segment);
            crash_point();
        }
    }

    /// Deletes segments: shipped ones beyond the limits, and others beyond `of_others`.
    fn keep(&mut self, of_others: Limits) -> Result<(), Error> {
        if !self.limits.are_set() {
            return Ok(());
        }
        let outputs = self.shipper.outputs;
        let segments = sealed::list(&self.shipper.folder)?;
        let is_shipped = |segment: &Segment| self.journal.shipped(segment).is_safe(outputs);
        for (segment, was_shipped) in keep::trim(&segments, [self.limits, of_others], is_shipped) {
            self.waiting.remove(&segment.name);
            if !was_shipped {
                self.report.lost += 1;
                report_line(&format!(
                    "{}: deleted before it was shipped: the folder has more than may be kept",
                    segment.path.display()
                ));
            }
        }
        Ok(())
    }
}

/// Returns a problem with the path of the segment before it, once.
fn in_segment(segment: &Segment, problem: &str) -> String {
    let path = segment.path.display().to_string();
    let rest = problem.strip_prefix(&*path).unwrap_or(problem);
    format!("{path}: {}", rest.trim_start_matches([':', ' ']))
}

/// Returns a file name without its extension.
fn stem(name: &str) -> &str {
    name.strip_suffix(".vor").unwrap_or(name)
}
