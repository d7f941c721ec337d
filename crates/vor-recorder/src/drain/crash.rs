//! Appends the open scopes to the capture at a panic and at a signal that ends the process.
//!
//! A note of open scopes must not allocate, nor wait for anything that the ending thread may hold.
//! So everything it needs is ready: the capture's file descriptor, the checksums' seed, the next
//! sequence number, and buffers. One word names the thread that may write, which has a
//! [`WriteGuard`]. The capture's sink holds it while it encodes and writes, and a note while it is
//! being written.
//!
//! - The sink waits for its turn, since its data is nowhere else. A note only tries for the lists
//!   of threads and sites and never waits for the engine, so the sink gets its turn when the note
//!   is written. If a note has not ended within [`MAX_NOTE_TIME`], its thread has stopped in the
//!   middle. The sink then fails, which is reported.
//! - A note tries for a limited time, because the ending thread may be the sink's, in the middle of
//!   a write: for a tenth of a second at a panic, which the program may survive, and for half a
//!   second at a crash. If the note of a panic fails, stderr reports it.
//!
//! A note consists of declarations of the threads and sites that it names, which may not be in the
//! file yet, and one record of open scopes per thread. The sink then continues after them.

#![expect(
    unsafe_code,
    reason = "signals, and the buffers that they share with the sink"
)]

use std::cell::UnsafeCell;
use std::io;
use std::time::Duration;

use vor_capture::format::NoteWriter;
use vor_capture::model::catalog::SiteId;

use super::ending;
use crate::clock;
use crate::hot::{callsite, thread};
use crate::os::{report, signals};
use crate::sync::Ordering;
use crate::sync::global::{AtomicU32, AtomicU64};

/// Most panics that leave a note; a program that panics all the time must not fill its disk.
const MAX_PANIC_NOTES: u32 = 16;
/// How many times a note tries to get the file or a list, and how long it waits between two tries.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);
/// How many times the note of a crash tries to get the file. On an overloaded machine, the sink may
/// write for hundreds of milliseconds.
const CRASH_TRIES: u32 = 500;
/// How long the sink waits for a note that another thread writes.
const MAX_NOTE_TIME: Duration = Duration::from_secs(10);
/// How long a note waits for a pipe whose reader is not reading.
const PIPE_WAIT: Duration = Duration::from_millis(100);

/// The thread that has the right to write the file and use [`SHARED`]; 0 if there is none. Taken by
/// an exchange (acquire), released by a store (release). Read by a handler on the same thread.
static WRITER: AtomicU64 = AtomicU64::new(0);
/// The process that owns the capture; 0 if there is none. Written by the `WRITER`. Read by notes,
/// which then become the `WRITER`.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The process that last used `WRITER`. Exchanged by `watch`, under the lock of the settings.
static OF_PROCESS: AtomicU32 = AtomicU32::new(0);
/// Number of notes at panics. Counted by the panicking threads, relaxed.
static PANIC_NOTES: AtomicU32 = AtomicU32::new(0);

struct Shared(UnsafeCell<Option<Note>>);

// SAFETY: only the thread that WRITER names accesses the cell.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(None));

/// The file and the buffers of notes.
struct Note {
    file: libc::c_int,
    seed: u32,
    next_seq: u32,
    /// Records and bytes of notes that the sink has not counted yet.
    records: u32,
    bytes: u64,
    writer: NoteWriter,
    open: Vec<(SiteId, u64)>,
}

/// The right to write the file; released when dropped.
pub(crate) struct WriteGuard(());

impl Drop for WriteGuard {
    fn drop(&mut self) {
        WRITER.store(0, Ordering::Release);
    }
}

impl WriteGuard {
    /// Takes the right for the sink, and waits for the end of any note.
    pub(crate) fn wait() -> io::Result<Self> {
        let pauses = MAX_NOTE_TIME.as_millis() / PAUSE.as_millis();
        Self::take_within(pauses as u32).ok_or_else(|| {
            let reason = format!("a note of open scopes took longer than {MAX_NOTE_TIME:?}");
            io::Error::new(io::ErrorKind::TimedOut, reason)
        })
    }

    /// Takes the right for a note, if it becomes free within a number of tries.
    fn take_within(tries: u32) -> Option<Self> {
        let this = signals::this_thread();
        for _ in 0..tries {
            if WRITER
                .compare_exchange(0, this, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Some(Self(()));
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    fn note(&mut self) -> &mut Option<Note> {
        // SAFETY: the only value of this type is borrowed for as long as the reference lives, so no
        // other code accesses the cell.
        unsafe { &mut *SHARED.0.get() }
    }

    /// Returns the number of records and bytes that notes have written since the last call.
    pub(crate) fn take_records(&mut self) -> (u32, u64) {
        match self.note() {
            Some(note) => (
                std::mem::take(&mut note.records),
                std::mem::take(&mut note.bytes),
            ),
            None => (0, 0),
        }
    }

    /// Sets the sequence number of the next record.
    pub(crate) fn set_next_seq(&mut self, next_seq: u32) {
        if let Some(note) = self.note() {
            note.next_seq = next_seq;
        }
    }
}

/// Writes later notes to this file: those of panics and, with `signals`, those of signals that end
/// the process.
pub(crate) fn watch(file: libc::c_int, seed: u32, next_seq: u32, signals: bool) {
    begin(
        Some(Note {
            file,
            seed,
            next_seq,
            records: 0,
            bytes: 0,
            writer: NoteWriter::default(),
            open: Vec::with_capacity(thread::MAX_OPEN),
        }),
        signals,
    );
}

/// Has signals that end the process handled, for a sink that keeps its records in memory.
#[cfg(feature = "segments")]
pub(crate) fn watch_memory(signals: bool) {
    begin(None, signals);
}

fn begin(note: Option<Note>, signals: bool) {
    if OF_PROCESS.swap(std::process::id(), Ordering::Relaxed) != std::process::id() {
        // A thread of the parent may have been writing at the fork.
        WRITER.store(0, Ordering::Release);
    }
    match WriteGuard::wait() {
        Ok(mut guard) => {
            *guard.note() = note;
            PROCESS.store(std::process::id(), Ordering::Release);
        }
        Err(error) => report::line(&format!(
            "open scopes are not noted when the program crashes: {error}"
        )),
    }
    if signals {
        ending::install();
    }
}

/// Returns whether the recorder of this process has something to do at its end. May be called in a
/// handler.
pub(super) fn is_watching() -> bool {
    PROCESS.load(Ordering::Acquire) == std::process::id()
}

/// Returns whether this thread has a [`WriteGuard`]. May be called in a handler.
pub(super) fn is_writing() -> bool {
    WRITER.load(Ordering::Relaxed) == signals::this_thread()
}

/// Writes no more notes to this file.
pub(crate) fn forget(file: libc::c_int) {
    if let Ok(mut guard) = WriteGuard::wait()
        && let Some(note) = guard.note()
        && note.file == file
    {
        *guard.note() = None;
        PROCESS.store(0, Ordering::Release);
    }
}

/// Writes a note at a panic.
pub(super) fn note_panic() {
    let is_due = PANIC_NOTES.fetch_add(1, Ordering::Relaxed) < MAX_PANIC_NOTES;
    if is_due && !append(TRIES) && !thread::is_busy() {
        report::line(
            "the open scopes at this panic are not in the capture: \
             another thread is writing to it",
        );
    }
}

/// Writes a note at a crash, if it can.
pub(super) fn note_crash() {
    append(CRASH_TRIES);
}

/// Appends the open scopes to the capture. Returns whether that succeeded or there is no capture.
fn append(tries: u32) -> bool {
    // A child of a fork has its parent's file until it opens its own.
    if !is_watching() {
        return true;
    }
    let Some(mut guard) = WriteGuard::take_within(tries) else {
        return false;
    };
    let Some(note) = guard.note() else {
        return true;
    };
    signals::without_signals(|| note.write())
}

impl Note {
    /// Writes the note, and returns whether all of it was available and written.
    fn write(&mut self) -> bool {
        let Self {
            file,
            seed,
            next_seq,
            records,
            bytes,
            writer,
            open,
        } = self;
        let mut is_whole = true;
        let mut put = |record: Option<&[u8]>| {
            // No record may follow a torn record.
            let record = record.filter(|_| is_whole);
            if let Some(record) = record {
                let written = write_all(*file, record);
                is_whole = written == record.len();
                *records = records.wrapping_add(1);
                *bytes += written as u64;
            }
            record.is_some()
        };
        let mut next = |took: bool| {
            let seq = *next_seq;
            *next_seq = seq.wrapping_add(u32::from(took));
            (*seed, *next_seq)
        };
        let now = clock::ticks();
        let has_threads = thread::try_each_open(TRIES, PAUSE, open, |id, info, open| {
            let mut place = next(false);
            if let Some(info) = info {
                place = next(put(writer.thread(place, id, info)));
            }
            if let Some(registry) = callsite::try_lock(TRIES, PAUSE) {
                for (site, _) in open {
                    if let Some(info) = registry.info_of(*site) {
                        place = next(put(writer.site(place, *site, &info)));
                    }
                }
            }
            next(put(Some(writer.open_scopes(place, now, id, open))));
        });
        has_threads && is_whole
    }
}

/// Writes a record whole, or as much of it as the system accepts, and returns the number of bytes.
/// A reader skips a torn record.
fn write_all(file: libc::c_int, record: &[u8]) -> usize {
    let mut rest = record;
    while !rest.is_empty() {
        // SAFETY: the bytes are readable for their length; the system checks the descriptor.
        let written = unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) };
        let error = io::Error::last_os_error().kind();
        match usize::try_from(written) {
            Ok(written) if written > 0 => rest = rest.get(written..).unwrap_or(&[]),
            Err(_) if error == io::ErrorKind::Interrupted => {}
            Err(_) if error == io::ErrorKind::WouldBlock => {
                if !matches!(signals::wait_for_room(file, PIPE_WAIT), Ok(true)) {
                    break;
                }
            }
            _ => break,
        }
    }
    record.len() - rest.len()
}
