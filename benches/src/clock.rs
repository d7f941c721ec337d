//! The floor: the CPU's counter without any code around it, and the CPU time of threads.

use std::cell::Cell;
use std::hint::black_box;

/// Reads only the counter that a scope reads.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
#[must_use]
#[expect(unsafe_code, reason = "the time-stamp counter is an intrinsic")]
pub fn bare_ticks() -> u64 {
    // SAFETY: every x86-64 CPU has RDTSC, and it only reads a counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Reads only the counter that a scope reads.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
#[must_use]
#[expect(unsafe_code, reason = "the virtual counter is a system register")]
pub fn bare_ticks() -> u64 {
    let ticks: u64;
    // SAFETY: cntvct_el0 is readable in user mode on the systems that the benches run on, and
    // reading it has no effect.
    unsafe {
        core::arch::asm!(
            "mrs {}, cntvct_el0",
            out(reg) ticks,
            options(nomem, nostack, preserves_flags),
        )
    };
    ticks
}

/// Reads the clock that a scope reads.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[inline(always)]
#[must_use]
pub fn bare_ticks() -> u64 {
    vor_recorder::clock::ticks()
}

/// The floor, `passes` times: two reads of the counter.
#[inline(never)]
pub fn two_ticks(passes: u32) {
    for _ in 0..passes {
        black_box(bare_ticks());
        black_box(bare_ticks());
    }
}

/// Two reads of the counter around a block, and a store: the minimal cost of a profiler of blocks
/// in a program.
#[derive(Debug)]
pub struct TwoReads {
    begin: u64,
}

/// The targets of the stores, in turn.
const PLACES: usize = 4096;

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
    static STORED: [Cell<[u64; 2]>; PLACES] = const { [const { Cell::new([0; 2]) }; PLACES] };
}

impl TwoReads {
    /// Reads the counter; the drop reads it again and stores both.
    #[inline(always)]
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it begins now, which is no default"
    )]
    pub fn new() -> Self {
        Self {
            begin: bare_ticks(),
        }
    }
}

impl Drop for TwoReads {
    #[inline(always)]
    fn drop(&mut self) {
        let end = bare_ticks();
        let next = NEXT.get();
        STORED.with(|places| places[next % PLACES].set([self.begin, end]));
        NEXT.set(next + 1);
    }
}

/// Returns the CPU time of the calling thread, in nanoseconds, or the elapsed time on systems
/// without it.
#[must_use]
pub fn thread_cpu_ns() -> u64 {
    #[cfg(unix)]
    return cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    #[cfg(not(unix))]
    return passed_ns();
}

/// Returns the CPU time of all threads of this process, in nanoseconds, or the elapsed time on
/// systems without it.
#[must_use]
pub fn process_cpu_ns() -> u64 {
    #[cfg(unix)]
    return cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID);
    #[cfg(not(unix))]
    return passed_ns();
}

#[cfg(unix)]
#[expect(unsafe_code, reason = "the CPU clocks are a system call")]
fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for the write of the result, and the call touches nothing else.
    let failed = unsafe { libc::clock_gettime(clock, &mut time) } != 0;
    // A clock that fails leaves the time at zero. A rate computed from it is infinite, which cannot
    // pass for a measurement.
    if failed {
        0
    } else {
        time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
    }
}

#[cfg(not(unix))]
fn passed_ns() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}
