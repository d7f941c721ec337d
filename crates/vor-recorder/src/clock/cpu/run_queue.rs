//! How often a thread got a processor, and for how long it was runnable before and had none, as the
//! kernel counts both.
//!
//! Linux has them in `/proc/thread-self/schedstat`, whose second and third number it updates when a
//! thread gets a processor. Reading the file takes about a microsecond. They cannot have grown
//! unless the thread was switched out, and then the thread's off-CPU time has grown too, so the
//! file is read once for each growth of that. Each thread keeps its file open.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::os::unix::fs::FileExt;

use super::Queued;
use crate::sync::thread_locals;

const PATH: &str = "/proc/thread-self/schedstat";
/// No thread has been off the CPU for so long.
const NEVER: u64 = u64::MAX;

thread_locals! {
    static LAST: Last = const { Last::none() };
    /// `None` inside if the file cannot be opened.
    static FILE: RefCell<Option<Option<File>>> = const { RefCell::new(None) };
}

/// The last reading.
struct Last {
    /// The thread's off-CPU time at that moment.
    off_cpu_ticks: Cell<u64>,
    queued: Cell<Queued>,
    /// The time that the thread of the parent had been queued at a fork.
    of_parent: Cell<Queued>,
}

impl Last {
    const fn none() -> Self {
        const NONE: Queued = Queued { ns: 0, switches: 0 };
        Self {
            off_cpu_ticks: Cell::new(NEVER),
            queued: Cell::new(NONE),
            of_parent: Cell::new(NONE),
        }
    }
}

/// Returns whether the system reports both.
pub(super) fn is_reported() -> bool {
    std::fs::read(PATH).is_ok_and(|text| parse(&text).is_some())
}

/// Returns the counts of this thread if its off-CPU time has not grown since the last reading.
#[inline(always)]
pub(super) fn known(off_cpu_ticks: u64) -> Option<Queued> {
    LAST.with(|last| (last.off_cpu_ticks.get() == off_cpu_ticks).then(|| last.queued.get()))
}

/// Returns the counts of this thread, whose off-CPU time is `off_cpu_ticks`. They never fall. The
/// first call on a thread allocates.
pub(super) fn queued(off_cpu_ticks: u64) -> Queued {
    known(off_cpu_ticks).unwrap_or_else(|| read(off_cpu_ticks))
}

#[cold]
fn read(off_cpu_ticks: u64) -> Queued {
    let found = FILE.try_with(read_file).ok().flatten().unwrap_or_default();
    LAST.with(|last| {
        last.off_cpu_ticks.set(off_cpu_ticks);
        let (of_parent, before) = (last.of_parent.get(), last.queued.get());
        let queued = Queued {
            ns: before.ns.max(of_parent.ns + found.ns),
            switches: before.switches.max(of_parent.switches + found.switches),
        };
        last.queued.set(queued);
        queued
    })
}

fn read_file(file: &RefCell<Option<Option<File>>>) -> Option<Queued> {
    // A handler that interrupts a reading gets the last one.
    let mut file = file.try_borrow_mut().ok()?;
    let file = file.get_or_insert_with(|| File::open(PATH).ok()).as_ref()?;
    let mut text = [0; 64];
    let bytes = file.read_at(&mut text, 0).ok()?;
    parse(&text[..bytes])
}

/// Continues in the child of a fork, whose thread is another one and counts from 0.
pub(super) fn restart() {
    let was_read = LAST.with(|last| {
        last.of_parent.set(last.queued.get());
        last.off_cpu_ticks.replace(NEVER) != NEVER
    });
    if !was_read {
        return;
    }
    let _ = FILE.try_with(|file| {
        if let Ok(mut file) = file.try_borrow_mut() {
            *file = None;
        }
    });
}

fn parse(text: &[u8]) -> Option<Queued> {
    let mut numbers = std::str::from_utf8(text).ok()?.split_ascii_whitespace();
    // The first one is the time for which the thread ran.
    let ns = numbers.nth(1)?.parse().ok()?;
    let switches = numbers.next()?.parse().ok()?;
    Some(Queued { ns, switches })
}
