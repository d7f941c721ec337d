//! The cost of tracking for the allocator: a malloc and a free, of one object repeatedly and of a
//! random one of 4096.
//!
//! Criterion shows the times. Interleaved rounds give the difference to the bare allocator, because
//! a few nanoseconds are less than the noise of a busy machine. With the feature `peers`, other
//! allocators that attribute allocations run in separate rounds.
//!
//! The bench also counts the memory of the samples of a heap. It measures the additional memory of
//! a program with a sampled heap, in separate processes.

#![expect(unsafe_code, reason = "allocators are called by hand")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use criterion::Criterion;
use vor::heap::TrackingAllocator;
use vor_benches::clock::thread_cpu_ns;
use vor_benches::rounds::{Loop, contest, median};

static BARE: System = System;
static COUNTING: TrackingAllocator = TrackingAllocator::system();
static SAMPLED: TrackingAllocator =
    TrackingAllocator::system().sampled(vor::heap::DEFAULT_SAMPLE_BYTES);
static EXACT: TrackingAllocator = TrackingAllocator::system().exact();

/// Counts the memory of the program apart from the timed allocators: the tables of vor.
struct LiveBytes(AtomicUsize);

#[global_allocator]
static LIVE_BYTES: LiveBytes = LiveBytes(AtomicUsize::new(0));

// SAFETY: every call is forwarded unchanged to the system's allocator.
unsafe impl GlobalAlloc for LiveBytes {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.0.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, object: *mut u8, layout: Layout) {
        self.0.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the same contract.
        unsafe { System.dealloc(object, layout) }
    }
}

/// Objects of the random set.
const OBJECTS: usize = 4096;
/// Bytes of the object that is allocated repeatedly.
const HOT_BYTES: usize = 64;
/// Live samples during the timed frees: those of 16 GiB.
const LIVE_SAMPLES: f64 = 32_000.0;

/// Allocates and frees one object repeatedly. Always inlined, so that the allocator is as
/// constant as a global one.
#[inline(always)]
fn hot(allocator: &'static impl GlobalAlloc, pairs: u32) {
    let layout = Layout::new::<[u8; HOT_BYTES]>();
    for _ in 0..pairs {
        // SAFETY: the layout is not empty, and the object is freed once, by the same allocator.
        unsafe {
            let object = black_box(allocator.alloc(black_box(layout)));
            allocator.dealloc(object, layout);
        }
    }
}

/// Objects of many sizes, one of which is freed and allocated again in each step.
struct RandomSet {
    objects: Vec<(*mut u8, Layout)>,
    random: u64,
    /// Whether new objects are filled, as programs do.
    fills: bool,
}

impl RandomSet {
    #[inline(always)]
    fn new(allocator: &'static impl GlobalAlloc, fills: bool) -> Self {
        let mut set = Self {
            objects: Vec::with_capacity(OBJECTS),
            random: 0x9E37_79B9_7F4A_7C15,
            fills,
        };
        for _ in 0..OBJECTS {
            let layout = set.layout();
            // SAFETY: the layout is not empty.
            set.objects
                .push((unsafe { allocator.alloc(layout) }, layout));
        }
        set
    }

    #[inline(always)]
    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// 16 to 271 bytes.
    #[inline(always)]
    fn layout(&mut self) -> Layout {
        let bytes = 16 + (self.next() >> 40) as usize % 256;
        Layout::from_size_align(bytes, 8).unwrap_or(Layout::new::<u64>())
    }

    #[inline(always)]
    fn step(&mut self, allocator: &'static impl GlobalAlloc, pairs: u32) {
        for _ in 0..pairs {
            let place = (self.next() >> 20) as usize % OBJECTS;
            let layout = self.layout();
            let (object, old) = self.objects[place];
            // SAFETY: this allocator made the object with this layout, and the set does not use it
            // again.
            unsafe {
                allocator.dealloc(object, old);
                let object = allocator.alloc(layout);
                if self.fills {
                    object.write_bytes(1, layout.size());
                }
                self.objects[place] = (object, layout);
            }
        }
    }
}

fn criterion_groups(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("alloc");
    macro_rules! pair {
        ($name:literal, $allocator:ident) => {
            group.bench_function(concat!("hot/", $name), |bencher| {
                bencher.iter_custom(|pairs| {
                    let begin = Instant::now();
                    hot(&$allocator, pairs as u32);
                    begin.elapsed()
                });
            });
            let mut set = RandomSet::new(&$allocator, false);
            group.bench_function(concat!("random_4096/", $name), |bencher| {
                bencher.iter_custom(|pairs| {
                    let begin = Instant::now();
                    set.step(&$allocator, pairs as u32);
                    begin.elapsed()
                });
            });
        };
    }
    pair!("system", BARE);
    pair!("counting", COUNTING);
    pair!("sampled", SAMPLED);
    pair!("exact", EXACT);
    group.finish();
}

/// Returns loops over the named allocators: of one object repeatedly, and of a random one.
macro_rules! loops {
    (hot: $($allocator:ident),+) => {
        [$(Box::new(|pairs| hot(&$allocator, pairs)) as Loop<'_>),+]
    };
    (random $fills:expr; $($allocator:ident),+) => {
        [$({
            let mut set = RandomSet::new(&$allocator, $fills);
            Box::new(move |pairs| set.step(&$allocator, pairs)) as Loop<'_>
        }),+]
    };
}

/// Runs rounds of pairs, and prints the cost of each contestant over the bare allocator.
fn print_over_bare(name: &str, rounds: usize, pairs: u32, loops: &mut [Loop<'_>]) {
    let times = contest(rounds, pairs, loops, usize::MAX, &mut || {});
    if let [bare, tracked @ ..] = times.as_slice() {
        print!("  {name:<12} {:>6.1}  ", bare.median_ns());
        for times in tracked {
            print!("  {:+.2}", times.more_than_ns(bare));
        }
        println!();
    }
}

/// Pairs per turn with the random set: enough to fill the caches with the set of that turn.
const RANDOM_PAIRS: u32 = 40_000;

/// Prints the cost of the modes over the bare allocator.
fn over_bare(scopes: &str) {
    println!("ns per pair, {scopes}: bare, over it counting, sampled, exact");
    let mut hot_loops = loops!(hot: BARE, COUNTING, SAMPLED, EXACT);
    print_over_bare("hot", 1001, 2000, &mut hot_loops);
    let mut random_loops = loops!(random false; BARE, COUNTING, SAMPLED, EXACT);
    print_over_bare("random 4096", 101, RANDOM_PAIRS, &mut random_loops);
    let mut filled_loops = loops!(random true; BARE, COUNTING, SAMPLED, EXACT);
    print_over_bare("and filled", 101, RANDOM_PAIRS, &mut filled_loops);
}

#[cfg(feature = "peers")]
mod peers {
    //! Other allocators that attribute the live heap.

    use tracing_prof::reporter::ProfileReporter;
    use tracing_prof::{ProfileConfig, ProfileLayer};
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    static TRACING_PROF: tracing_prof::TrackingAllocator =
        tracing_prof::TrackingAllocator::system();
    static DHAT: dhat::Alloc = dhat::Alloc;

    /// A reporter that discards its input.
    struct Nobody;

    impl ProfileReporter for Nobody {}

    fn with_tracing_prof(when: &str) {
        println!("ns per pair, {when}: bare, over it exact, tracing-prof");
        print_over_bare(
            "hot",
            1001,
            2000,
            &mut loops!(hot: BARE, EXACT, TRACING_PROF),
        );
        let mut random_loops = loops!(random false; BARE, EXACT, TRACING_PROF);
        print_over_bare("random 4096", 101, RANDOM_PAIRS, &mut random_loops);
        let mut filled_loops = loops!(random true; BARE, EXACT, TRACING_PROF);
        print_over_bare("and filled", 101, RANDOM_PAIRS, &mut filled_loops);
    }

    /// Prints the cost of these allocators. No scope of vor is open, as in the first table.
    pub(super) fn print() {
        with_tracing_prof("no span is open");
        let layer = ProfileLayer::new(
            ProfileConfig::new()
                .track_allocations(true)
                .track_heap(true),
            Nobody,
        );
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            let _outer = tracing::info_span!("outer").entered();
            let _inner = tracing::info_span!("inner").entered();
            with_tracing_prof("two spans are open");
        });
        // In test mode, it writes no file at its end.
        let _profiler = dhat::Profiler::builder().testing().build();
        println!("ns per pair: bare, over it exact, dhat");
        print_over_bare("hot", 101, 200, &mut loops!(hot: BARE, EXACT, DHAT));
        let mut random_loops = loops!(random false; BARE, EXACT, DHAT);
        print_over_bare("random 4096", 21, 4_000, &mut random_loops);
    }
}

/// Returns addresses like those of glibc for large objects, without memory behind them.
struct Nowhere(AtomicUsize);

static NOWHERE: TrackingAllocator<Nowhere> =
    TrackingAllocator::new(Nowhere(AtomicUsize::new(0x7000_0000_0010)))
        .sampled(vor::heap::DEFAULT_SAMPLE_BYTES);

// SAFETY: the objects are only for the table of samples, which does not access their memory.
unsafe impl GlobalAlloc for Nowhere {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let address = self.0.fetch_add(layout.size() + 4096, Ordering::Relaxed);
        std::ptr::without_provenance_mut(address)
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Bytes of the smallest heap that has this number of samples.
const SAMPLED_HEAP_BYTES: f64 = LIVE_SAMPLES * vor::heap::DEFAULT_SAMPLE_BYTES as f64;

/// Makes as many live samples as in a heap of 16 GiB, without the heap, and prints their memory.
fn fill_with_samples() {
    let layout = Layout::new::<[u8; vor::heap::DEFAULT_SAMPLE_BYTES as usize]>();
    // The chance that an object of the interval's size is a sample.
    let chance = -f64::exp_m1(-1.0);
    let resident = || vor::current_memory_bytes().unwrap_or(0);
    let (held_before, resident_before) = (LIVE_BYTES.0.load(Ordering::Relaxed), resident());
    for _ in 0..(LIVE_SAMPLES / chance) as usize {
        // SAFETY: the layout is not empty.
        black_box(unsafe { NOWHERE.alloc(layout) });
    }
    let held = LIVE_BYTES.0.load(Ordering::Relaxed) - held_before;
    let resident = resident().saturating_sub(resident_before);
    println!(
        "{LIVE_SAMPLES} samples of {:.1} GiB: tables of {:.2} MiB, {:.0} bytes a sample; with the \
        filter {:.2} MiB are resident, {:.3} % of the heap",
        SAMPLED_HEAP_BYTES / (1_u64 << 30) as f64,
        held as f64 / (1 << 20) as f64,
        held as f64 / LIVE_SAMPLES,
        resident as f64 / (1 << 20) as f64,
        100.0 * resident as f64 / SAMPLED_HEAP_BYTES
    );
}

/// Size and number of the objects of a small heap of 256 MiB.
const SMALL_BYTES: usize = 64;
const SMALL_OBJECTS: usize = (256 << 20) / SMALL_BYTES;

/// Names the allocator with which a process fills its memory.
const MEMORY_OF: &str = "VOR_BENCH_MEMORY_OF";

/// Makes a heap of small objects, frees every other one, fills the gaps again, and prints the
/// resident memory.
fn fill_heap(mode: &str) {
    macro_rules! fill {
        ($allocator:ident) => {{
            let layout = Layout::new::<[u8; SMALL_BYTES]>();
            // SAFETY: the layout is not empty.
            let object = || unsafe {
                let object = $allocator.alloc(layout);
                object.write_bytes(1, SMALL_BYTES);
                object
            };
            let mut objects: Vec<*mut u8> = (0..SMALL_OBJECTS).map(|_| object()).collect();
            for place in objects.iter_mut().step_by(2) {
                // SAFETY: this allocator made the object with this layout, and the object is
                // replaced.
                unsafe { $allocator.dealloc(*place, layout) };
                *place = object();
            }
            println!("{}", vor::current_memory_bytes().unwrap_or(0));
            black_box(objects);
        }};
    }
    match mode {
        "sampled" => fill!(SAMPLED),
        "exact" => fill!(EXACT),
        _ => fill!(BARE),
    }
}

/// Prints the additional memory of a process with a tracked heap.
fn memory() {
    let resident = |mode: &str| -> Option<f64> {
        let program = std::env::current_exe().ok()?;
        let output = std::process::Command::new(program)
            .env(MEMORY_OF, mode)
            .output()
            .ok()?;
        String::from_utf8(output.stdout).ok()?.trim().parse().ok()
    };
    let more = |mode: &str| -> f64 {
        let differences = (0..5).map(|_| {
            resident(mode)
                .zip(resident("bare"))
                .map_or(f64::NAN, |(more, bare)| more - bare)
        });
        median(differences.collect())
    };
    let heap = (SMALL_BYTES * SMALL_OBJECTS) as f64;
    for mode in ["sampled", "exact"] {
        let more = more(mode);
        println!(
            "256 MiB in objects of {SMALL_BYTES} bytes, {mode}: {:.2} MiB more are resident, {:.2} \
            % of the heap, {:.2} bytes an object",
            more / (1 << 20) as f64,
            100.0 * more / heap,
            more / SMALL_OBJECTS as f64
        );
    }
}

/// Prints the rate of two threads together against that of one, by the CPU time of each.
fn two_threads() {
    macro_rules! rate {
        ($allocator:ident) => {{
            let burst = || {
                let mut set = RandomSet::new(&$allocator, false);
                let begin = thread_cpu_ns();
                set.step(&$allocator, 400_000);
                hot(&$allocator, 400_000);
                let rate = 1.0 / (thread_cpu_ns() - begin) as f64;
                for (object, layout) in set.objects {
                    // SAFETY: this allocator made the object with this layout, and the set no
                    // longer exists.
                    unsafe { $allocator.dealloc(object, layout) };
                }
                rate
            };
            let both = Barrier::new(2);
            let ratios = (0..31).map(|_| {
                let alone = burst();
                let together = std::thread::scope(|threads| {
                    let other = threads.spawn(|| {
                        both.wait();
                        burst()
                    });
                    both.wait();
                    burst() + other.join().unwrap_or(f64::NAN)
                });
                together / alone
            });
            median(ratios.collect())
        }};
    }
    println!(
        "2 threads / 1: bare {:.2}, counting {:.2}, sampled {:.2}, exact {:.2}",
        rate!(BARE),
        rate!(COUNTING),
        rate!(SAMPLED),
        rate!(EXACT)
    );
}

fn main() -> ExitCode {
    if let Ok(mode) = std::env::var(MEMORY_OF) {
        fill_heap(&mode);
        return ExitCode::SUCCESS;
    }
    let mut criterion = Criterion::default().configure_from_args();
    criterion_groups(&mut criterion);
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return ExitCode::SUCCESS;
    }
    memory();
    two_threads();
    over_bare("no live samples, no scope is open");
    #[cfg(feature = "peers")]
    peers::print();
    fill_with_samples();
    over_bare("32 000 live samples, no scope is open");
    vor::Config::new().enable();
    {
        vor::profile_scope!("outer");
        vor::profile_scope!("inner");
        over_bare("32 000 live samples, two scopes are open");
    }
    criterion.final_summary();
    ExitCode::SUCCESS
}
