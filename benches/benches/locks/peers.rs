//! Other profilers of locks and channels, in the same rounds as the standard library's and ours.
//!
//! | profiler | a lock and unlock | where the data goes |
//! |---|---|---|
//! | vor | stores who holds it; records a wait | a ring, drained by a thread |
//! | hotpath | reads the clock four times; stores the wait and the hold | a queue to a thread with histograms |
//! | Tracy | three events with times | a queue in memory: no server is connected |
//!
//! vor records hold times only on request, so it does less than both. Tracy has no channels.
//! hotpath and Tracy are on from the first contest on, whatever vor's state is.

#![expect(unsafe_code, reason = "Tracy's locks are functions of C")]

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::{Mutex, OnceLock, mpsc};

use tracy_client_sys as tracy;
use vor::sync::{self, channel};
use vor_benches::rounds::{Times, contest};

use super::timed;

/// Fewer than of other contests: Tracy keeps every event in memory.
const ROUNDS: usize = 1_000;
const ITERATIONS: u32 = 400;

/// A mutex that reports to Tracy what Tracy's own wrapper for C++ does.
struct TracyMutex {
    context: *mut tracy::__tracy_lockable_context_data,
    mutex: Mutex<u64>,
}

/// The declaration of a lock of Tracy. Tracy keeps a pointer to it.
struct Place(UnsafeCell<tracy::___tracy_source_location_data>);

// SAFETY: nothing writes to it after its initialisation, and its pointers are to static texts.
unsafe impl Sync for Place {}

static PLACE: Place = Place(UnsafeCell::new(tracy::___tracy_source_location_data {
    name: c"lock".as_ptr(),
    function: c"peers".as_ptr(),
    file: c"peers.rs".as_ptr(),
    line: 1,
    color: 0,
}));

impl TracyMutex {
    fn new() -> Self {
        // SAFETY: the client runs, and the place is static.
        let context = unsafe { tracy::___tracy_announce_lockable_ctx(PLACE.0.get()) };
        Self {
            context,
            mutex: Mutex::new(0),
        }
    }

    #[inline(always)]
    fn add(&self) {
        // SAFETY: the context was announced and is never terminated.
        unsafe {
            let is_on = tracy::___tracy_before_lock_lockable_ctx(self.context) != 0;
            let mut count = self.mutex.lock().unwrap();
            if is_on {
                tracy::___tracy_after_lock_lockable_ctx(self.context);
            }
            *count += 1;
            drop(count);
            tracy::___tracy_after_unlock_lockable_ctx(self.context);
        }
    }
}

/// Starts the other profilers, once.
fn start() {
    static STARTED: OnceLock<hotpath::HotpathGuard> = OnceLock::new();
    STARTED.get_or_init(|| {
        tracy_client::Client::start();
        let builder = hotpath::HotpathGuardBuilder::new("locks");
        builder.format(hotpath::Format::None).build()
    });
    assert!(tracy_client::Client::is_running(), "Tracy does not run");
}

pub(super) fn run(state: &str) {
    start();
    let (std_mutex, mutex) = (&Mutex::new(0_u64), &sync::Mutex::new(0_u64));
    let hotpath_mutex = &hotpath::mutex!(Mutex::new(0_u64));
    let tracy_mutex = &TracyMutex::new();
    let mut loops = [
        timed(|| *black_box(std_mutex).lock().unwrap() += 1),
        timed(|| *black_box(mutex).lock().unwrap() += 1),
        timed(|| *black_box(hotpath_mutex).lock().unwrap() += 1),
        timed(|| black_box(tracy_mutex).add()),
    ];
    let names = ["std Mutex", "vor Mutex", "hotpath Mutex", "Tracy lock"];
    let times = contest(ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);

    let (std_sender, std_receiver) = mpsc::channel();
    let (sender, receiver) = channel::channel();
    let (hotpath_sender, hotpath_receiver) = hotpath::channel!(mpsc::channel::<u64>());
    let mut loops = [
        timed(|| {
            black_box(&std_sender).send(1_u64).unwrap();
            black_box(black_box(&std_receiver).recv().unwrap());
        }),
        timed(|| {
            black_box(&sender).send(1_u64).unwrap();
            black_box(black_box(&receiver).recv().unwrap());
        }),
        timed(|| {
            black_box(&hotpath_sender).send(1_u64).unwrap();
            black_box(black_box(&hotpath_receiver).recv().unwrap());
        }),
    ];
    let names = ["std channel", "vor channel", "hotpath channel"];
    let times = contest(ROUNDS, ITERATIONS, &mut loops, ROUNDS, &mut || {});
    print(state, &names, &times);
}

/// Prints each contestant beside the first one.
fn print(state: &str, names: &[&str], times: &[Times]) {
    let theirs = &times[0];
    for (name, times) in names.iter().zip(times) {
        println!(
            "{state:<4} {name:<24} {:7.2} ns, {:6.3} × std, {:+.2} ns",
            times.median_ns(),
            times.ratio_to(theirs),
            times.more_than_ns(theirs)
        );
    }
}
