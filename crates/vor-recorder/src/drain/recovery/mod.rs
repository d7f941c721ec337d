//! Recovers what a process left in its file of shared memory: the spans that it had not written
//! when it was killed, or those of a process that hangs.
//!
//! A process has such a file if it records with
//! [`Config::shared_memory`](crate::setup::Config::shared_memory). The command is `vor recover`,
//! and `vor attach` for a process that runs.
//!
//! | module | reads |
//! |---|---|
//! | `file` | the header and the log: the process, the clock, names, and where the rings are |
//! | `ring` | the records of a ring, as batches |
//! | `completed` | the capture to which they belong |
//!
//! Nothing in a file is trusted: every place and every length is checked before it is used.

mod completed;
mod file;
mod ring;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::filled;
use vor_capture::format::{Encoder, OpenScopes, RecordRef};
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::sort::sort_by;

use crate::clock;
use crate::drain::collect::MAX_SPANS;
use crate::drain::shared_memory;
use crate::hot::ring::settled::is_whole;
use crate::os::shared_file::ENDING;
use completed::Completed;
use file::{Position, Ring, SharedFile};
use ring::{Damaged, Positions, RingRecords};

/// The file of shared memory of a process.
#[derive(Debug)]
pub struct Remains {
    file: SharedFile,
    path: PathBuf,
}

/// What [`Remains::write`] has written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Recovered {
    /// Finished spans from the rings.
    pub spans: u64,
    /// Spans that the capture had already.
    pub captured_spans: u64,
    /// Open scopes.
    pub open_scopes: u64,
    /// Slots of 16 bytes that the process reused before they were read: one per span, and more for
    /// those with arguments.
    pub overwritten: u64,
    /// Rings of which the file says something impossible.
    pub damaged_rings: u64,
}

/// Most bytes of rings that are read before the first of them are written, while a process runs.
const FETCHED_BYTES: u64 = 1 << 30;
/// Bytes that are encoded before they are written.
const GATHERED_BYTES: usize = 256 << 10;

impl Remains {
    /// Opens a file of shared memory.
    ///
    /// # Errors
    ///
    /// It cannot be read, or it is not such a file.
    ///
    /// # Examples
    ///
    /// ```
    /// # use vor_recorder::drain::recovery::Remains;
    /// for path in Remains::list() {
    ///     let remains = Remains::open(&path)?;
    ///     println!("{}: process {}", path.display(), remains.pid());
    /// }
    /// # Ok::<(), vor_capture::Error>(())
    /// ```
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self {
            file: SharedFile::open(path)?,
            path: path.to_owned(),
        })
    }

    /// Returns the paths of all files in the folders that are used by default, sorted.
    #[must_use]
    pub fn list() -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in shared_memory::folders() {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let is_ours = |path: &PathBuf| {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                name.starts_with("vor-") && name.ends_with(ENDING)
            };
            found.extend(entries.map(|entry| entry.path()).filter(is_ours));
        }
        sort_by(&mut found, Ord::cmp);
        found.dedup();
        found
    }

    /// Opens the newest file of a process in the folders that are used by default.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn of_process(pid: u32) -> Result<Self, Error> {
        let files = Self::list().into_iter();
        let files = files.filter_map(|path| Self::open(&path).ok());
        let of_process = files.filter(|remains| remains.pid() == pid);
        let newest = of_process.max_by_key(|remains| remains.file.header.start_unix_ns);
        newest.ok_or_else(|| {
            Error::config(format!(
                "process {pid} has no file of shared memory; it needs VOR_RECORD_SHM=1"
            ))
        })
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the process that made the file.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.file.header.pid
    }

    /// Returns when recording began, in nanoseconds since 1970.
    #[must_use]
    pub fn start_unix_ns(&self) -> i64 {
        self.file.header.start_unix_ns
    }

    /// Returns how much memory the file takes, in bytes.
    #[must_use]
    pub fn memory_bytes(&self) -> u64 {
        self.file.memory_bytes()
    }

    /// Returns whether the process still runs.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.file.is_locked()
    }

    /// Returns the path of the capture that the process was writing, if it was one with all spans.
    #[must_use]
    pub fn capture(&self) -> Option<PathBuf> {
        let (file_id, _) = self.file.capture()?;
        let (_, path) = self.file.captures().find(|(id, _)| *id == file_id)?;
        Some(path)
    }

    /// Writes a capture of the spans that the process had not written, and of the scopes that were
    /// open. With a `capture` that the process was writing, it begins with what is in that, so that
    /// every span is there once.
    ///
    /// # Errors
    ///
    /// The file or the capture cannot be read, the capture is not the one that the process was
    /// writing, or the output cannot be written.
    pub fn write(&self, capture: Option<&Path>, out: &mut dyn Write) -> Result<Recovered, Error> {
        let mut output = Output {
            encoder: Encoder::new(self.file.header),
            bytes: Vec::new(),
            out,
        };
        let mut completed = match capture {
            Some(path) => {
                // Most of it before the positions are read, because a running process goes on.
                let mut completed = Completed::open(path, self.file.position().capture)?;
                output.encoder = completed.begin()?;
                completed.advance(None, &mut output.encoder, &mut *output.out)?;
                Some(completed)
            }
            None => {
                output.encoder.header(&mut output.bytes);
                None
            }
        };
        let known = self.file.log()?;
        let (position, positions) = self.positions(&known.rings);
        // Once more: what was declared before the records of these positions.
        let log = self.file.log()?;
        let mut recovered = Recovered {
            damaged_rings: positions.iter().filter(|ring| ring.is_err()).count() as u64,
            ..Recovered::default()
        };
        let rings = positions.into_iter().zip(&log.rings);
        let rings = rings.filter_map(|(positions, ring)| Some((positions.ok()?, ring)));
        let mut rings: Vec<_> = rings
            .map(|(positions, ring)| RingRecords::new(&self.file, ring, positions, &log.words))
            .collect();
        if self.is_alive() {
            let mut room = FETCHED_BYTES;
            rings.iter_mut().for_each(|ring| ring.fetch(&mut room));
        }
        let mut catalog = log.catalog;
        if let Some(completed) = &mut completed {
            completed.advance(position.capture, &mut output.encoder, &mut *output.out)?;
            recovered.captured_spans = completed.add_to(&mut catalog);
        }
        output.declare(&catalog)?;
        let mut last_ticks = catalog.timeline.syncs().last().map_or(0, |sync| sync.ticks);
        let catalog = Arc::new(catalog);
        // A share of each thread at a time, as the drain does.
        loop {
            let threads: Vec<_> = rings
                .iter_mut()
                .filter_map(RingRecords::next_batch)
                .collect();
            if threads.is_empty() {
                break;
            }
            for batch in &threads {
                recovered.spans += batch.len() as u64;
                let ends = batch.start_ticks.iter().zip(&batch.duration_ticks);
                let last = ends
                    .map(|(start, duration)| start.saturating_add(*duration))
                    .max();
                last_ticks = last_ticks.max(last.unwrap_or_default());
            }
            debug_assert!(threads.iter().all(|batch| batch.len() <= MAX_SPANS));
            output.put(RecordRef::Batch(&filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads
            })))?;
        }
        recovered.overwritten = rings.iter().map(|ring| ring.overwritten).sum();
        recovered.damaged_rings += rings.iter().filter(|ring| ring.is_damaged).count() as u64;
        let open: Vec<_> = rings
            .iter_mut()
            .filter_map(RingRecords::take_open)
            .collect();
        if !open.is_empty() {
            let starts = open
                .iter()
                .flat_map(|(_, scopes)| scopes.iter().map(|(_, start)| *start));
            last_ticks = last_ticks.max(starts.max().unwrap_or_default());
            recovered.open_scopes = open.iter().map(|(_, scopes)| scopes.len() as u64).sum();
            output.put_open(self.now(last_ticks), open)?;
        }
        output.close(&catalog)?;
        Ok(recovered)
    }

    /// Reads the positions of all rings that belong to one state of the outputs.
    ///
    /// A ring has two settled positions, so one of them belongs to this state unless the process
    /// has gone on meanwhile.
    fn positions(&self, rings: &[Ring]) -> (Position, Vec<Result<Positions, Damaged>>) {
        const TRIES: u32 = 100;
        let mut tries = 0;
        loop {
            let position = self.file.position();
            let read = |ring: &Ring| Positions::read(&self.file, &ring.entry, position.epoch);
            let all = rings.iter().map(read).collect();
            tries += 1;
            let now = self.file.position().epoch;
            if is_whole(position.epoch, now) || tries == TRIES {
                return (position, all);
            }
        }
    }

    /// Returns when the open scopes were open: now if the process runs and has the same counter,
    /// otherwise the last moment that is known of it.
    fn now(&self, last_ticks: u64) -> u64 {
        let shares_counter = self.file.has_hardware_ticks() && clock::is_hardware();
        match shares_counter && self.is_alive() {
            true => clock::ticks().max(last_ticks),
            false => last_ticks,
        }
    }
}

/// The capture that is being written.
struct Output<'a> {
    encoder: Encoder,
    bytes: Vec<u8>,
    out: &'a mut dyn Write,
}

impl Output<'_> {
    fn declare(&mut self, catalog: &Catalog) -> Result<(), Error> {
        self.put(RecordRef::Process(&catalog.process))?;
        self.put(RecordRef::Machine(&catalog.machine))?;
        for sync in catalog.timeline.syncs() {
            self.put(RecordRef::Clock(sync))?;
        }
        self.put(RecordRef::Threads {
            first: ThreadId(0),
            threads: &catalog.threads,
        })?;
        self.put(RecordRef::Sites {
            first: SiteId(1),
            sites: &catalog.sites,
        })
    }

    fn put(&mut self, record: RecordRef<'_>) -> Result<(), Error> {
        self.encoder.encode(record, &mut self.bytes);
        if self.bytes.len() < GATHERED_BYTES {
            return Ok(());
        }
        self.write_out()
    }

    fn put_open(
        &mut self,
        ticks: u64,
        threads: Vec<(ThreadId, Vec<(SiteId, u64)>)>,
    ) -> Result<(), Error> {
        self.put(RecordRef::OpenScopes(&filled!(OpenScopes {
            ticks,
            threads
        })))
    }

    fn close(&mut self, catalog: &Catalog) -> Result<(), Error> {
        self.encoder.close(catalog, &mut self.bytes);
        self.write_out()
    }

    fn write_out(&mut self) -> Result<(), Error> {
        let written = self.out.write_all(&self.bytes);
        self.bytes.clear();
        written.map_err(|error| Error::io("the recovered capture cannot be written", error))
    }
}
