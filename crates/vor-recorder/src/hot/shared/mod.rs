//! Rings and declarations in a file of shared memory, from which they are
//! [recovered](crate::drain::recovery) if the process is killed or hangs.
//!
//! [`layout`] describes the file. A thread's whole state lies in it: the fast path is the same code
//! with other addresses. Everything else is written by slow paths: a declaration goes into the log
//! before the id that it declares is used, and a position is settled when a pass of the drain has
//! written what it took.
//!
//! The lock of the file is taken below all others.

#![expect(
    unsafe_code,
    reason = "states and the header's words lie in pages that the file provides"
)]

pub(crate) mod layout;

use std::io;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::Arc;

use vor_capture::format::{Encoder, Header, RecordRef};
use vor_capture::model::catalog::{
    MachineInfo, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::timeline::ClockSync;

use crate::clock;
use crate::hot::callsite::{self, Words};
use crate::hot::thread::{self, StateBox, ThreadState};
use crate::os::shared_file::{self, Pages, SharedFile};
use crate::sync::global::{AtomicBool, AtomicPtr, AtomicU64, Mutex};
use crate::sync::{Ordering, lock};
use layout::{BLOCK_HEAD_BYTES, HEADER_BYTES, LOG_AT, RingEntry, SYNCS, word};

/// The file of this process, while it has one.
static FILE: Mutex<Option<Shared>> = Mutex::new(None);

/// Whether there is a file. Written under the lock of the file, read relaxed by slow paths, which
/// then take the lock.
static IS_ON: AtomicBool = AtomicBool::new(false);

/// The header's words, null without a file. Written under the lock of the file; the pages stay
/// mapped.
static WORDS: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());

/// The capture that is being written, and its length. Written and read under the engine's lock.
static CAPTURE: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

struct Shared {
    file: SharedFile,
    /// The block of the log that is being filled, and its length.
    block_at: u64,
    block_bytes: u64,
    used: u64,
    encoder: Encoder,
    rings: u64,
    /// Whether the log could not be written, so that nobody can read later records.
    has_failed: bool,
}

/// A problem that the drain reports, because the thread that met it holds locks.
static PROBLEM: Mutex<Option<String>> = Mutex::new(None);

/// The number of the positions that were settled last. Written under the engine's lock.
static EPOCH: AtomicU64 = AtomicU64::new(0);

/// Returns whether the process has a file of shared memory.
pub(crate) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Makes the file in a folder, with everything that is declared so far. Threads that record for the
/// first time afterwards have their rings in it. Returns `false` if there is one.
pub(crate) fn begin(folder: &Path, header: Header) -> io::Result<bool> {
    // In the order of their nesting, so that no declaration comes between.
    let threads = thread::lock_list();
    let registry = callsite::lock();
    let mut place = lock(&FILE);
    if place.is_some() {
        return Ok(false);
    }
    let file = SharedFile::create(folder)?;
    let path = file.path().to_owned();
    let begun = Shared::begin(file, header).and_then(|(words, mut shared)| {
        for (id, (info, words)) in (1..).zip(registry.after(0)) {
            shared.put_site(id, info, *words)?;
        }
        for (number, info) in (0..).zip(threads.infos()) {
            shared.put_thread(number, info)?;
        }
        Ok((words, shared))
    });
    let (words, shared) = begun.inspect_err(|_| shared_file::unlink(&path))?;
    // The last word: a file without it is not complete.
    set(words, word::MAGIC, layout::MAGIC);
    WORDS.store(words.as_ptr(), Ordering::Relaxed);
    *place = Some(shared);
    IS_ON.store(true, Ordering::Relaxed);
    Ok(true)
}

/// Stores a word of the header.
fn set(words: NonNull<AtomicU64>, at: usize, value: u64) {
    debug_assert!(at < HEADER_BYTES as usize / 8);
    // SAFETY: The header has 512 words, which are zero at first, and its pages stay mapped.
    unsafe { words.add(at).as_ref() }.store(value, Ordering::Release);
}

/// Returns a word of the header.
fn get(words: NonNull<AtomicU64>, at: usize) -> u64 {
    debug_assert!(at < HEADER_BYTES as usize / 8);
    // SAFETY: as in `set`.
    unsafe { words.add(at).as_ref() }.load(Ordering::Acquire)
}

fn words() -> Option<NonNull<AtomicU64>> {
    NonNull::new(WORDS.load(Ordering::Relaxed))
}

impl Shared {
    /// Makes the header and the first block of the log.
    fn begin(mut file: SharedFile, header: Header) -> io::Result<(NonNull<AtomicU64>, Self)> {
        let pages = file.map_area(HEADER_BYTES, HEADER_BYTES)?;
        let block_at = file.add_area(shared_file::AREA_BYTES, shared_file::AREA_BYTES)?;
        debug_assert_eq!(block_at, LOG_AT);
        let words = pages.first.cast();
        set(words, word::VERSION, layout::VERSION);
        set(words, word::PID, u64::from(header.pid));
        set(
            words,
            word::HAS_HARDWARE_TICKS,
            u64::from(clock::is_hardware()),
        );
        set(words, word::FILE_ID, header.file_id);
        set(words, word::START_UNIX_NS, header.start_unix_ns as u64);
        set(words, word::START_TICKS, header.start_ticks);
        let mut shared = Self {
            file,
            block_at,
            block_bytes: shared_file::AREA_BYTES,
            used: 0,
            encoder: Encoder::new(header),
            rings: 0,
            has_failed: false,
        };
        let mut bytes = Vec::new();
        shared.encoder.header(&mut bytes);
        shared.put(layout::DECLARATION, &bytes)?;
        Ok((words, shared))
    }

    /// Appends an entry to the log.
    fn put(&mut self, kind: u32, payload: &[u8]) -> io::Result<()> {
        let mut entry = Vec::with_capacity(8 + payload.len());
        entry.extend_from_slice(&kind.to_ne_bytes());
        entry.extend_from_slice(&(payload.len() as u32).to_ne_bytes());
        entry.extend_from_slice(payload);
        let bytes = entry.len() as u64;
        if BLOCK_HEAD_BYTES + self.used + bytes > self.block_bytes {
            let needed = BLOCK_HEAD_BYTES + bytes;
            let block_bytes = needed.next_multiple_of(shared_file::AREA_BYTES);
            let next = self.file.add_area(block_bytes, block_bytes)?;
            self.file.write_at(&next.to_ne_bytes(), self.block_at)?;
            (self.block_at, self.block_bytes, self.used) = (next, block_bytes, 0);
        }
        let at = self.block_at + BLOCK_HEAD_BYTES + self.used;
        self.file.write_at(&entry, at)?;
        // Afterwards: a killed process leaves whole entries.
        self.used += bytes;
        self.file
            .write_at(&self.used.to_ne_bytes(), self.block_at + 8)
    }

    fn put_words(&mut self, kind: u32, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(kind, &bytes)
    }

    fn put_site(&mut self, id: u32, info: &Arc<SiteInfo>, words: Words) -> io::Result<()> {
        // First: who knows the site knows its words.
        let meaning = [id, words.kinds, u32::from(words.measures.bits())];
        let bytes: Vec<u8> = meaning.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(layout::WORDS, &bytes)?;
        let mut bytes = Vec::new();
        let sites = RecordRef::Sites {
            first: SiteId(id),
            sites: &[Some(Arc::clone(info))],
        };
        self.encoder.encode(sites, &mut bytes);
        self.put(layout::DECLARATION, &bytes)
    }

    fn put_thread(&mut self, number: u32, info: &Arc<ThreadInfo>) -> io::Result<()> {
        let mut bytes = Vec::new();
        let threads = RecordRef::Threads {
            first: ThreadId(number),
            threads: &[Some(Arc::clone(info))],
        };
        self.encoder.encode(threads, &mut bytes);
        self.put(layout::DECLARATION, &bytes)
    }

    /// Makes a state whose ring lies in the file.
    fn add_state(&mut self, ring_slots: usize) -> io::Result<StateBox> {
        let bytes = StateBox::bytes_in_pages(ring_slots);
        let first_bytes = StateBox::first_bytes_in_pages(ring_slots) as u64;
        let pages = self.file.map_area(bytes as u64, first_bytes)?;
        let file = self.file.reserve_from(pages.offset, first_bytes);
        // SAFETY: The pages are new, and zero, because the file has just grown by them. Pages stay
        // mapped.
        let state = unsafe { StateBox::in_pages(pages.first, ring_slots, file) };
        let entry = entry_of(&state, pages, self.rings);
        self.put_words(layout::RING, &entry.words())?;
        state.set_ring_number(self.rings);
        self.rings += 1;
        Ok(state)
    }
}

fn entry_of(state: &ThreadState, Pages { first, offset }: Pages, number: u64) -> RingEntry {
    let base = first.as_ptr().addr();
    let ring = state.ring.places(base);
    let places = state.places(base);
    RingEntry {
        slots: offset + ring.slots,
        slots_address: ring.slots_address,
        slot_count: ring.slot_count,
        chunk_slots: ring.chunk_slots,
        order: offset + ring.order,
        cursor: offset + ring.cursor,
        started: offset + ring.started,
        freed: offset + ring.freed,
        settled: offset + ring.settled,
        dropped: offset + ring.dropped,
        top: offset + places.top,
        exited: offset + places.exited,
        open: offset + places.open,
        open_count: places.open_count,
        open_bytes: places.open_bytes,
        open_start: places.open_start,
        open_site: places.open_site,
        number,
    }
}

/// Runs `write` with the file, if there is one. If the log cannot be written, the file is given
/// up: without declarations nobody can read its records.
fn with_file(write: impl FnOnce(&mut Shared) -> io::Result<()>) {
    if !is_on() {
        return;
    }
    let mut place = lock(&FILE);
    if let Some(shared) = &mut *place
        && !shared.has_failed
        && let Err(error) = write(shared)
    {
        shared.has_failed = true;
        shared.file.unlink();
        note_problem(format!(
            "{} cannot be written: {error}; nothing can be recovered from it",
            shared.file.path().display()
        ));
    }
}

fn note_problem(problem: String) {
    lock(&PROBLEM).get_or_insert(problem);
}

/// Takes a problem that is to be reported.
pub(crate) fn take_problem() -> Option<String> {
    if !is_on() {
        return None;
    }
    if shared_file::take_refusal() {
        static ONCE: AtomicBool = AtomicBool::new(false);
        if !ONCE.swap(true, Ordering::Relaxed) {
            note_problem(
                "shared memory is full: rings do not grow, and spans that find no room are dropped"
                    .to_owned(),
            );
        }
    }
    lock(&PROBLEM).take()
}

/// Declares a site. Called before its id is used, under the lock of the registry.
pub(crate) fn declare_site(id: u32, info: &Arc<SiteInfo>, words: Words) {
    with_file(|shared| shared.put_site(id, info, words));
}

/// Declares a thread, under the lock of the list of threads.
pub(crate) fn declare_thread(number: u32, info: &Arc<ThreadInfo>) {
    with_file(|shared| shared.put_thread(number, info));
}

/// Declares the process and the machine.
pub(crate) fn declare_process(process: &ProcessInfo, machine: &MachineInfo) {
    with_file(|shared| {
        let mut bytes = Vec::new();
        shared
            .encoder
            .encode(RecordRef::Process(process), &mut bytes);
        shared
            .encoder
            .encode(RecordRef::Machine(machine), &mut bytes);
        shared.put(layout::DECLARATION, &bytes)
    });
}

/// Makes a state in the file. `None` if there is no file, or no memory for it.
pub(crate) fn new_state(ring_slots: usize) -> Option<StateBox> {
    if !is_on() {
        return None;
    }
    let mut place = lock(&FILE);
    let shared = place.as_mut().filter(|shared| !shared.has_failed)?;
    match shared.add_state(ring_slots) {
        Ok(state) => Some(state),
        Err(error) => {
            note_problem(format!(
                "{} has no room for the ring of a thread: {error}; its spans cannot be recovered",
                shared.file.path().display()
            ));
            None
        }
    }
}

/// Notes which thread records into a state in the file from now on.
pub(crate) fn declare_owner(state: &ThreadState, thread: u32) {
    if let Some(ring) = state.ring_number() {
        let position = state.ring.pushed_position();
        let words = [ring, u64::from(thread), position];
        with_file(|shared| shared.put_words(layout::OWNER, &words));
    }
}

/// Notes the capture into which spans go from now on.
pub(crate) fn declare_capture(file_id: u64, path: &Path, bytes: u64) {
    CAPTURE[0].store(file_id, Ordering::Relaxed);
    CAPTURE[1].store(bytes, Ordering::Relaxed);
    let mut payload = file_id.to_ne_bytes().to_vec();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    payload.extend_from_slice(path.as_os_str().as_encoded_bytes());
    with_file(|shared| shared.put(layout::CAPTURE, &payload));
}

/// Returns whether every span goes into a capture.
pub(crate) fn has_capture() -> bool {
    CAPTURE[0].load(Ordering::Relaxed) != 0
}

/// Notes that a capture has ended, or cannot be written any more.
pub(crate) fn capture_ended(file_id: u64) {
    if CAPTURE[0].load(Ordering::Relaxed) == file_id {
        CAPTURE[0].store(0, Ordering::Relaxed);
        CAPTURE[1].store(0, Ordering::Relaxed);
    }
}

/// Notes that a capture has grown to this length.
pub(crate) fn capture_has(file_id: u64, bytes: u64) {
    if CAPTURE[0].load(Ordering::Relaxed) == file_id {
        CAPTURE[1].store(bytes, Ordering::Relaxed);
    }
}

/// Adds a point of the clock. Called under the engine's lock.
pub(crate) fn put_sync(sync: &ClockSync) {
    let Some(words) = words() else { return };
    let count = get(words, word::SYNC_COUNT);
    // The first one stays, and the newest replaces the oldest of the others.
    let at = match count as usize {
        0 => 0,
        count => 1 + (count - 1) % (SYNCS - 1),
    };
    let values = [
        sync.ticks,
        sync.unix_ns as u64,
        sync.rate,
        sync.wall_ns as u64,
    ];
    for (i, value) in values.into_iter().enumerate() {
        set(words, word::SYNCS + 4 * at + i, value);
    }
    set(words, word::SYNC_COUNT, count + 1);
}

/// Settles, under the engine's lock, what the outputs have written. `settle` notes the positions of
/// the rings for an epoch, and returns whether one has changed; `release` frees what no recovery
/// needs.
pub(crate) fn settle(settle: impl FnOnce(u64) -> bool, release: impl FnOnce()) {
    let Some(words) = words() else { return };
    let epoch = EPOCH.load(Ordering::Relaxed) + 1;
    let of = |entry: usize| get(words, word::CAPTURE + 3 * entry);
    let (last, next) = if of(0) < of(1) { (1, 0) } else { (0, 1) };
    let capture = [&CAPTURE[0], &CAPTURE[1]].map(|word| word.load(Ordering::Relaxed));
    let known = [1, 2].map(|i| get(words, word::CAPTURE + 3 * last + i));
    let mut has_changed = capture != known;
    if has_changed {
        let at = word::CAPTURE + 3 * next;
        set(words, at + 1, capture[0]);
        set(words, at + 2, capture[1]);
        // Last: until then this entry is older than the other.
        set(words, at, epoch);
    }
    has_changed |= settle(epoch);
    if has_changed {
        EPOCH.store(epoch, Ordering::Relaxed);
        set(words, word::EPOCH, epoch);
    }
    release();
}

/// Removes the file's name at the end of the process, when the outputs have everything.
#[cfg(any(unix, windows))]
pub(crate) fn end() {
    if let Some(shared) = &*lock(&FILE) {
        shared.file.unlink();
    }
}

/// Returns whether the file is unlocked. Used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(FILE.try_lock()) && crate::os::detach::is_open(PROBLEM.try_lock())
}

/// Locks the file for the duration of a fork.
#[cfg(unix)]
pub(crate) fn lock_for_fork() -> impl std::any::Any {
    lock(&FILE)
}

/// Leaves the file to the parent, in the child of a fork.
#[cfg(unix)]
pub(crate) fn forget() {
    IS_ON.store(false, Ordering::Relaxed);
    WORDS.store(std::ptr::null_mut(), Ordering::Relaxed);
    EPOCH.store(0, Ordering::Relaxed);
    for word in &CAPTURE {
        word.store(0, Ordering::Relaxed);
    }
    if let Some(shared) = lock(&FILE).take() {
        shared.file.leave_to_parent();
    }
}
