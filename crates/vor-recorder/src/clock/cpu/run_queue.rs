//! The time for which a thread was runnable and had no processor, as the kernel counts it.
//!
//! Linux has it in `/proc/thread-self/schedstat`, whose second number it updates when a thread gets
//! a processor. Reading the file takes about a microsecond. It cannot have grown unless the thread
//! was switched out, and then the thread's off-CPU time has grown too, so the file is read once for
//! each growth of that. Each thread keeps its file open.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::sync::thread_locals;

const PATH: &str = "/proc/thread-self/schedstat";
/// No thread has been off the CPU for so long.
const NEVER: u64 = u64::MAX;

thread_locals! {
    static LAST: Last = const { Last { off_cpu_ticks: Cell::new(NEVER), ns: Cell::new(0) } };
    /// `None` inside if the file cannot be opened.
    static FILE: RefCell<Option<Option<File>>> = const { RefCell::new(None) };
}

/// The last reading.
struct Last {
    /// The thread's off-CPU time at that moment.
    off_cpu_ticks: Cell<u64>,
    ns: Cell<u64>,
}

/// Returns whether the system reports the time.
pub(super) fn is_reported() -> bool {
    std::fs::read(PATH).is_ok_and(|text| second_number(&text).is_some())
}

/// Returns the time of this thread if its off-CPU time has not grown since the last reading.
#[inline(always)]
pub(super) fn known_ns(off_cpu_ticks: u64) -> Option<u64> {
    LAST.with(|last| (last.off_cpu_ticks.get() == off_cpu_ticks).then(|| last.ns.get()))
}

/// Returns the time of this thread, whose off-CPU time is `off_cpu_ticks`. It never falls. The
/// first call on a thread allocates.
pub(super) fn ns(off_cpu_ticks: u64) -> u64 {
    known_ns(off_cpu_ticks).unwrap_or_else(|| read(off_cpu_ticks))
}

#[cold]
fn read(off_cpu_ticks: u64) -> u64 {
    let found = FILE.try_with(read_file).ok().flatten();
    LAST.with(|last| {
        last.off_cpu_ticks.set(off_cpu_ticks);
        let ns = found.unwrap_or(0).max(last.ns.get());
        last.ns.set(ns);
        ns
    })
}

fn read_file(file: &RefCell<Option<Option<File>>>) -> Option<u64> {
    // A handler that interrupts a reading gets the last one.
    let mut file = file.try_borrow_mut().ok()?;
    let file = file.get_or_insert_with(|| File::open(PATH).ok()).as_ref()?;
    let mut text = [0; 64];
    let bytes = file.read_at(&mut text, 0).ok()?;
    second_number(&text[..bytes])
}

/// Starts again in the child of a fork, whose thread is another one.
pub(super) fn restart() {
    let was_read = LAST.with(|last| last.off_cpu_ticks.replace(NEVER)) != NEVER;
    if !was_read {
        return;
    }
    let _ = FILE.try_with(|file| {
        if let Ok(mut file) = file.try_borrow_mut() {
            *file = None;
        }
    });
}

fn second_number(text: &[u8]) -> Option<u64> {
    let number = text.split(|byte| *byte == b' ').nth(1)?;
    std::str::from_utf8(number).ok()?.parse().ok()
}
