//! The last thing that the program did: open scopes, appended to the capture at a panic and at a signal that ends the process.
//!
//! A handler of a signal must not allocate, nor wait for what the interrupted thread may hold. So all it needs lies ready: the capture's file descriptor, the checksums' seed, the next sequence number, and
//! buffers. One flag says who may write: the capture's sink takes it while it encodes and writes, a note while it is made. A note that does not get it in a tenth of a
//! second, because the very thread that crashed has it, is not made. The same holds for the lists of threads and of sites, which are only ever tried. The records of a note are declarations of the threads and sites that it names,
//! which may not be in the file yet, and one record of open scopes per thread. The sink then goes on behind them.
//!
//! The stack of a handler may have no more than a few kilobytes left, so a thread of its own, `vor-crash`, makes the note while the handler waits, for a second at most. It sleeps in a read from a pipe until then.
//!
//! A signal's handler has one note made per process, puts back the handlers that were there before, and hands on to the one of its signal; without one it ends the process as the signal would have.
//! They are put back because the one that is handed on to may abort, and the frame of that second signal would not fit beside the first on the stack of handlers.

#![expect(
    unsafe_code,
    reason = "signals, and the buffers that they share with the sink"
)]

use std::cell::UnsafeCell;
use std::sync::Once;
use std::time::Duration;

use crate::catalog::SiteId;
use crate::format::NoteWriter;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU32, AtomicU64};
use crate::{callsite, clock, thread};

use super::{fork, report, signals};

/// Panics that leave a note; a program that panics all the time must not fill its disk.
const MOST_PANIC_NOTES: u32 = 16;
/// How often a note tries to get the flag or a list, and how long it waits between two tries.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);
const SIGNALS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
];

/// Says who may write the file and use [`SHARED`]. Taken by an exchange (acquire), given back by a store (release).
static TAKEN: AtomicBool = AtomicBool::new(false);
/// The process that the rest belongs to, 0 where there is no capture. Written with `TAKEN` taken; read by notes, which then take it.
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The process in which the thread was started. Written and read by `watch`, under the lock of the settings.
static STARTED: AtomicU32 = AtomicU32::new(0);
/// Notes made at panics. Counted by whoever makes one, relaxed.
static PANIC_NOTES: AtomicU32 = AtomicU32::new(0);
/// Whether a signal has made its note. Exchanged by handlers, relaxed.
static SIGNALLED: AtomicBool = AtomicBool::new(false);

/// Where a byte wakes the thread that makes notes, as a file descriptor plus 1; 0 where there is none. Written by `start_thread`, read by handlers, after [`PROCESS`].
static REQUEST: AtomicU64 = AtomicU64::new(0);
/// Set by that thread when a note is made (release), waited for by the handler (acquire).
static DONE: AtomicBool = AtomicBool::new(false);
/// How often the handler looks for that, [`PAUSE`] apart.
const WAITS: u32 = 1_000;

struct Shared(UnsafeCell<Option<Note>>);

// SAFETY: the cell is touched by who has taken TAKEN, and by nobody else.
unsafe impl Sync for Shared {}

static SHARED: Shared = Shared(UnsafeCell::new(None));

/// What a note is made with.
struct Note {
    file: libc::c_int,
    seed: u32,
    next_seq: u32,
    /// Records and bytes of notes that the sink does not know of yet.
    records: u32,
    bytes: u64,
    writer: NoteWriter,
    open: Vec<(SiteId, u64)>,
}

/// The right to write the file; given back when dropped.
pub(crate) struct Turn(());

impl Drop for Turn {
    fn drop(&mut self) {
        TAKEN.store(false, Ordering::Release);
    }
}

impl Turn {
    /// Takes the right, and waits for it no longer than a note takes.
    pub(crate) fn take() -> Option<Self> {
        for _ in 0..TRIES {
            if TAKEN
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return Some(Self(()));
            }
            std::thread::sleep(PAUSE);
        }
        None
    }

    fn note(&mut self) -> &mut Option<Note> {
        // SAFETY: the only value of this type is borrowed for as long as the reference lives, so nobody else touches the cell.
        unsafe { &mut *SHARED.0.get() }
    }

    /// Returns how many records and bytes notes have written since the last call.
    pub(crate) fn taken_records(&mut self) -> (u32, u64) {
        match self.note() {
            Some(note) => (std::mem::take(&mut note.records), std::mem::take(&mut note.bytes)),
            None => (0, 0),
        }
    }

    /// Says with which number the next record begins.
    pub(crate) fn go_on_at(&mut self, next_seq: u32) {
        if let Some(note) = self.note() {
            note.next_seq = next_seq;
        }
    }
}

/// Has notes go to this file from now on, and installs the handlers at the first call.
pub(crate) fn watch(file: libc::c_int, seed: u32, next_seq: u32) {
    if STARTED.load(Ordering::Relaxed) != std::process::id() {
        // In the child of a fork the flag may have been taken by a thread of the parent's.
        TAKEN.store(false, Ordering::Release);
        STARTED.store(std::process::id(), Ordering::Relaxed);
        start_thread();
    }
    if let Some(mut turn) = Turn::take() {
        *turn.note() = Some(Note {
            file,
            seed,
            next_seq,
            records: 0,
            bytes: 0,
            writer: NoteWriter::new(),
            open: Vec::with_capacity(thread::MAX_OPEN),
        });
        PROCESS.store(std::process::id(), Ordering::Release);
    }
    install();
}

/// Starts the thread that makes the notes of handlers.
fn start_thread() {
    let mut ends = [-1; 2];
    // SAFETY: `ends` has room for the two descriptors.
    let failed = unsafe { libc::pipe(ends.as_mut_ptr()) } != 0;
    if failed {
        return REQUEST.store(0, Ordering::Relaxed);
    }
    let [requests, request] = ends;
    for end in ends {
        // SAFETY: the descriptor is this function's; a child that another program becomes must not have it.
        unsafe { libc::fcntl(end, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    let run = move || {
        thread::stay_busy();
        let mut byte = 0_u8;
        loop {
            // SAFETY: `byte` has room for the one byte that is asked for.
            match unsafe { libc::read(requests, (&raw mut byte).cast(), 1) } {
                1 => {
                    append();
                    DONE.store(true, Ordering::Release);
                }
                -1 if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    };
    match signals::for_new_thread(|| fork::spawn("vor-crash", run)) {
        Ok(()) => REQUEST.store(request as u64 + 1, Ordering::Relaxed),
        Err(error) => {
            REQUEST.store(0, Ordering::Relaxed);
            report::line(&format!(
                "the thread for crashes cannot be started: {error}; open scopes are noted at panics only"
            ));
        }
    }
}

/// Has that thread make a note, and waits for it.
fn ask() {
    let request = REQUEST.load(Ordering::Relaxed);
    if PROCESS.load(Ordering::Acquire) != std::process::id() || request == 0 {
        return;
    }
    let byte = 1_u8;
    // SAFETY: the byte is readable, and the call is allowed in a handler.
    let asked = unsafe { libc::write((request - 1) as libc::c_int, (&raw const byte).cast(), 1) } == 1;
    let mut waits = 0;
    while asked && !DONE.load(Ordering::Acquire) && waits < WAITS {
        std::thread::sleep(PAUSE);
        waits += 1;
    }
}

/// Has no more notes go to this file.
pub(crate) fn forget(file: libc::c_int) {
    if let Some(mut turn) = Turn::take()
        && let Some(note) = turn.note()
        && note.file == file
    {
        *turn.note() = None;
        PROCESS.store(0, Ordering::Release);
    }
}

/// Makes a note at a panic.
pub(super) fn note_panic() {
    if PANIC_NOTES.fetch_add(1, Ordering::Relaxed) < MOST_PANIC_NOTES {
        append();
    }
}

/// Appends what is open to the capture.
fn append() {
    // A child of a fork has its parent's file until it has one of its own.
    if PROCESS.load(Ordering::Acquire) != std::process::id() {
        return;
    }
    if let Some(mut turn) = Turn::take()
        && let Some(note) = turn.note()
    {
        signals::without_signals(|| note.write());
    }
}

impl Note {
    fn write(&mut self) {
        let Self {
            file,
            seed,
            next_seq,
            records,
            bytes,
            writer,
            open,
        } = self;
        let mut put = |record: Option<&[u8]>| {
            if let Some(record) = record {
                *records = records.wrapping_add(1);
                *bytes += write_all(*file, record);
            }
            record.is_some()
        };
        let mut next = |took: bool| {
            let seq = *next_seq;
            *next_seq = seq.wrapping_add(u32::from(took));
            (*seed, *next_seq)
        };
        let now = clock::ticks();
        thread::try_each_open(TRIES, PAUSE, open, |id, info, open| {
            let mut place = next(false);
            if let Some(info) = info {
                place = next(put(writer.thread(place, id, info)));
            }
            if let Some(registry) = callsite::try_lock(TRIES, PAUSE) {
                for (site, _) in open {
                    if let Some(info) = registry.name_of(*site) {
                        place = next(put(writer.site(place, *site, &info)));
                    }
                }
            }
            next(put(Some(writer.open_scopes(place, now, id, open))));
        });
    }
}

/// Writes a record whole, or as much of it as the system takes, and returns how much that is; a reader passes over what is torn.
fn write_all(file: libc::c_int, record: &[u8]) -> u64 {
    let mut rest = record;
    while !rest.is_empty() {
        // SAFETY: the bytes are readable for their length; whether the descriptor is good the system judges.
        let written = unsafe { libc::write(file, rest.as_ptr().cast(), rest.len()) };
        let Some(written) = usize::try_from(written).ok().filter(|&written| written > 0) else {
            break;
        };
        rest = rest.get(written..).unwrap_or(&[]);
    }
    (record.len() - rest.len()) as u64
}

/// The handlers that were there before, in the order of [`SIGNALS`].
struct Before(UnsafeCell<[Option<libc::sigaction>; SIGNALS.len()]>);

// SAFETY: each place is written once, before the handler that reads it is installed.
unsafe impl Sync for Before {}

static BEFORE: Before = Before(UnsafeCell::new([None; SIGNALS.len()]));

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            // SAFETY: a `sigaction` is plain memory, of which all zeros are a good one; `begin` has the signature that SA_SIGINFO asks for and lives as long as the program. What was there is
            // noted before a handler can ask for it: in between, this very thread could only crash here.
            unsafe {
                let mut before: libc::sigaction = std::mem::zeroed();
                if libc::sigaction(signal, std::ptr::null(), &raw mut before) != 0 {
                    continue;
                }
                (*BEFORE.0.get())[index] = Some(before);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = on_signal as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
                libc::sigemptyset(&raw mut action.sa_mask);
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    });
}

/// Puts back the handlers that were there before, of those signals whose handler is still this module's.
fn step_aside() {
    for (index, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: a `sigaction` is plain memory, of which all zeros are a good one; the places of `BEFORE` are not written any more once a handler is installed; the call is allowed in a handler.
        unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            if let Some(before) = (*BEFORE.0.get())[index]
                && libc::sigaction(signal, std::ptr::null(), &raw mut now) == 0
                && now.sa_sigaction == on_signal as *const () as usize
            {
                libc::sigaction(signal, &raw const before, std::ptr::null_mut());
            }
        }
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut core::ffi::c_void) {
    if !SIGNALLED.swap(true, Ordering::Relaxed) {
        ask();
        step_aside();
    }
    let index = SIGNALS.iter().position(|one| *one == signal);
    // SAFETY: the places are not written any more once a handler is installed.
    let before = index.and_then(|index| unsafe { (*BEFORE.0.get())[index] });
    match before {
        Some(before) if before.sa_sigaction == libc::SIG_IGN => {}
        Some(before) if before.sa_sigaction != libc::SIG_DFL => {
            // SAFETY: this is the handler that the program or its runtime had installed, called with what the system gave, as its flags ask for.
            unsafe {
                if before.sa_flags & libc::SA_SIGINFO != 0 {
                    type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut core::ffi::c_void);
                    std::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal, info, context);
                } else {
                    type Handler = extern "C" fn(libc::c_int);
                    std::mem::transmute::<usize, Handler>(before.sa_sigaction)(signal);
                }
            }
        }
        _ => {
            // SAFETY: both calls are allowed in a handler. The signal is blocked until it returns, and then does what it does without one.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
    }
}
