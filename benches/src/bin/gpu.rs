//! The program of `.ci/gpu`, which compares vor's rows and ranges to a real NVIDIA card.
//!
//! `gpu load SECONDS` keeps the card busy. `gpu copies SECONDS` keeps its bus busy and prints the
//! bytes that went over it. `gpu rows SECONDS` prints the mean of each row and the CPU time of the
//! thread that polls. `gpu polls` prints the cost of a poll. `gpu launches` prints the time to
//! launch a kernel, alone and in a scope. The program uses the driver's own library, so it needs no
//! toolkit.

use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use libloading::Library;
use vor_benches::rounds::{Loop, contest};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_recorder::__private::Cards;
use vor_recorder::clock::cpu::thread_cpu_ns;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let seconds = || -> Result<Duration, Box<dyn Error>> {
        let text = std::env::args().nth(2).ok_or("no number of seconds")?;
        let seconds = text
            .parse()
            .map_err(|_| format!("`{text}` is not a number of seconds"))?;
        Ok(Duration::try_from_secs_f64(seconds)?)
    };
    match task.as_str() {
        "load" => load(seconds()?),
        "copies" => copies(seconds()?),
        "rows" => rows(seconds()?),
        "polls" => polls(),
        "launches" => launches(),
        _ => Err(format!(
            "unknown task `{task}`; the tasks are load SECONDS, copies SECONDS, rows SECONDS, \
             polls and launches"
        )
        .into()),
    }
}

/// Keeps the card's multiprocessors busy.
fn load(length: Duration) -> Result<(), Box<dyn Error>> {
    let card = Card::new()?;
    let begin = Instant::now();
    while begin.elapsed() < length {
        // Some milliseconds each.
        card.launch(2048, 1_000_000)?;
        card.wait()?;
    }
    Ok(())
}

/// Copies to the card, and prints the MB per second.
fn copies(length: Duration) -> Result<(), Box<dyn Error>> {
    let card = Card::new()?;
    let from = vec![1_u8; ROOM];
    let begin = Instant::now();
    let mut bytes = 0.0;
    while begin.elapsed() < length {
        card.copy(&from)?;
        bytes += from.len() as f64;
    }
    println!(
        "copied_mb_s {:.1}",
        bytes / 1e6 / begin.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Makes some fast, slow and alternating polls of the cards, as the poller does ten times a second,
/// once a second and in turns. Prints the mean times.
fn polls() -> Result<(), Box<dyn Error>> {
    const TIMES: u32 = 30;
    /// Counters need some time between two samples.
    const PAUSE: Duration = Duration::from_millis(150);
    let mut cards = Cards::find().ok_or("no card found")?;
    let mut measure = |name: &str, poll: fn(&mut Cards)| {
        // The first poll takes longer.
        poll(&mut cards);
        let (mut wall, mut cpu_ns) = (Duration::ZERO, 0);
        for _ in 0..TIMES {
            std::thread::sleep(PAUSE);
            let (begin, before_ns) = (Instant::now(), thread_cpu_ns());
            poll(&mut cards);
            wall += begin.elapsed();
            cpu_ns += thread_cpu_ns()
                .zip(before_ns)
                .map_or(0, |(after, before)| after - before);
        }
        println!(
            "{name} {:.1} us of CPU time, {:.1} us in all",
            cpu_ns as f64 / 1e3 / f64::from(TIMES),
            wall.as_secs_f64() * 1e6 / f64::from(TIMES)
        );
    };
    measure("fast", |cards| cards.poll_fast());
    measure("energy", Cards::poll_energy);
    measure("slow", Cards::poll_slow);
    measure("turn", Cards::poll_turn);
    Ok(())
}

/// Sums and numbers of the values of each row.
#[derive(Clone, Default)]
struct Sums(Arc<Mutex<BTreeMap<String, (f64, u32)>>>);

impl FrameSink for Sums {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        let Ok(mut sums) = self.0.lock() else {
            return Ok(());
        };
        for value in &frame.metrics {
            let name = &frame.catalog.columns[value.column as usize].metric.name;
            let sum = sums.entry(name.clone()).or_default();
            *sum = (sum.0 + value.value, sum.1 + 1);
        }
        Ok(())
    }
}

/// Marks frames for `length`, and prints the means of their rows.
fn rows(length: Duration) -> Result<(), Box<dyn Error>> {
    let sums = Sums::default();
    Config::new().sink("sums", sums.clone()).enable();
    // Until the first values have arrived.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(3) {
        drain::frame_mark();
        std::thread::sleep(Duration::from_millis(50));
    }
    drain::flush();
    sums.0.lock().map_err(|_| "the sink panicked")?.clear();
    let (begin, busy_ns) = (Instant::now(), poller_cpu_ns());
    while begin.elapsed() < length {
        drain::frame_mark();
        std::thread::sleep(Duration::from_millis(50));
    }
    let took_ns = poller_cpu_ns()
        .zip(busy_ns)
        .map(|(after, before)| after - before);
    let passed_ns = begin.elapsed().as_nanos() as f64;
    drain::flush();
    for (name, (sum, count)) in &*sums.0.lock().map_err(|_| "the sink panicked")? {
        // Energy is a sum; all other rows are means.
        let shown = if name.ends_with("_energy") {
            *sum
        } else {
            sum / f64::from(*count)
        };
        println!("{name} {shown:.3}");
    }
    println!("seconds {:.3}", passed_ns / 1e9);
    if let Some(took_ns) = took_ns {
        println!("poller_cpu_pct {:.4}", took_ns as f64 / passed_ns * 100.0);
    }
    Ok(())
}

/// Returns the CPU time of the thread that polls the cards, in nanoseconds.
fn poller_cpu_ns() -> Option<u64> {
    for task in std::fs::read_dir("/proc/self/task").ok()?.flatten() {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        if name.trim() == "vor-gpu" {
            let times = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            return times.split(' ').next()?.parse().ok();
        }
    }
    None
}

/// Compares launching an empty kernel with launching it in a scope.
fn launches() -> Result<(), Box<dyn Error>> {
    const ROUNDS: usize = 300;
    const LAUNCHES: u32 = 200;
    let card = Card::new()?;
    Config::new().enable();
    let launch = |card: &Card| {
        if let Err(error) = card.launch(1, 0) {
            eprintln!("{error}");
        }
    };
    let wait = |card: &Card| {
        if let Err(error) = card.wait() {
            eprintln!("{error}");
        }
    };
    let mut contestants: Vec<Loop<'_>> = vec![
        Box::new(|launches| {
            (0..launches).for_each(|_| launch(&card));
            wait(&card);
        }),
        Box::new(|launches| {
            for _ in 0..launches {
                profile_scope!("launch");
                launch(&card);
            }
            wait(&card);
        }),
    ];
    let times = contest(ROUNDS, LAUNCHES, &mut contestants, 1, &mut || {
        drain::flush()
    });
    println!("launch_ns {:.1}", times[0].median_ns());
    println!("launch_in_scope_ns {:.1}", times[1].median_ns());
    println!("more_ns {:.1}", times[1].more_than_ns(&times[0]));
    Ok(())
}

/// A kernel that multiplies and adds a given number of times. The driver compiles it for the
/// present card.
const KERNEL: &CStr = c"
.version 6.4
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 out, .param .u32 rounds)
{
    .reg .pred %more;
    .reg .u32 %i, %n;
    .reg .f32 %sum;
    .reg .u64 %place;
    ld.param.u64 %place, [out];
    ld.param.u32 %n, [rounds];
    mov.u32 %i, 0;
    mov.f32 %sum, 0f3F800000;
again:
    fma.rn.f32 %sum, %sum, 0f3F7FFFFF, 0f3A83126F;
    add.u32 %i, %i, 1;
    setp.lt.u32 %more, %i, %n;
    @%more bra again;
    cvta.to.global.u64 %place, %place;
    st.global.f32 [%place], %sum;
    ret;
}
";

/// Bytes allocated on the card: enough that this process's own memory is visible.
const ROOM: usize = 256 << 20;

type Launch = unsafe extern "C" fn(
    *mut c_void,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    c_uint,
    *mut c_void,
    *mut *mut c_void,
    *mut *mut c_void,
) -> c_int;

/// The first card that CUDA sees, with the kernel on it.
struct Card {
    launch: Launch,
    synchronize: unsafe extern "C" fn() -> c_int,
    copy: unsafe extern "C" fn(u64, *const c_void, usize) -> c_int,
    kernel: *mut c_void,
    /// An address on the card.
    place: u64,
    _library: Library,
}

#[expect(unsafe_code, reason = "CUDA is a library")]
impl Card {
    fn new() -> Result<Self, Box<dyn Error>> {
        // SAFETY: the signatures are those of CUDA's `cuda.h`. Every written place lives across the
        // call, and `_library` keeps the functions loaded.
        unsafe {
            let library = Library::new("libcuda.so.1")?;
            let init: unsafe extern "C" fn(c_uint) -> c_int = *library.get(b"cuInit")?;
            done("cuInit", init(0))?;
            let device_get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int =
                *library.get(b"cuDeviceGet")?;
            let mut device = 0;
            done("cuDeviceGet", device_get(&mut device, 0))?;
            let retain: unsafe extern "C" fn(*mut *mut c_void, c_int) -> c_int =
                *library.get(b"cuDevicePrimaryCtxRetain")?;
            let mut context = null_mut();
            done("cuDevicePrimaryCtxRetain", retain(&mut context, device))?;
            let set_current: unsafe extern "C" fn(*mut c_void) -> c_int =
                *library.get(b"cuCtxSetCurrent")?;
            done("cuCtxSetCurrent", set_current(context))?;
            let load: unsafe extern "C" fn(*mut *mut c_void, *const c_void) -> c_int =
                *library.get(b"cuModuleLoadData")?;
            let mut module = null_mut();
            done(
                "cuModuleLoadData",
                load(&mut module, KERNEL.as_ptr().cast()),
            )?;
            let find: unsafe extern "C" fn(
                *mut *mut c_void,
                *mut c_void,
                *const std::ffi::c_char,
            ) -> c_int = *library.get(b"cuModuleGetFunction")?;
            let mut kernel = null_mut();
            done(
                "cuModuleGetFunction",
                find(&mut kernel, module, c"spin".as_ptr()),
            )?;
            let allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int =
                *library.get(b"cuMemAlloc_v2")?;
            let mut place = 0;
            done("cuMemAlloc", allocate(&mut place, ROOM))?;
            Ok(Self {
                launch: *library.get(b"cuLaunchKernel")?,
                synchronize: *library.get(b"cuCtxSynchronize")?,
                copy: *library.get(b"cuMemcpyHtoD_v2")?,
                kernel,
                place,
                _library: library,
            })
        }
    }

    /// Starts the kernel in `blocks` blocks of 256 threads.
    fn launch(&self, blocks: c_uint, rounds: u32) -> Result<(), Box<dyn Error>> {
        let (mut place, mut rounds) = (self.place, rounds);
        let mut parameters: [*mut c_void; 2] = [(&raw mut place).cast(), (&raw mut rounds).cast()];
        // SAFETY: the parameters are those of the kernel, and are copied before the call returns.
        // Every thread writes to the same allocated place of the card.
        let code = unsafe {
            (self.launch)(
                self.kernel,
                blocks,
                1,
                1,
                256,
                1,
                1,
                0,
                null_mut(),
                parameters.as_mut_ptr(),
                null_mut(),
            )
        };
        done("cuLaunchKernel", code)
    }

    /// Copies to the card, and waits for it.
    fn copy(&self, from: &[u8]) -> Result<(), Box<dyn Error>> {
        let length = from.len().min(ROOM);
        // SAFETY: `length` bytes are readable here, and are allocated on the card.
        done("cuMemcpyHtoD", unsafe {
            (self.copy)(self.place, from.as_ptr().cast(), length)
        })
    }

    /// Waits for all started work.
    fn wait(&self) -> Result<(), Box<dyn Error>> {
        // SAFETY: the function takes no arguments.
        done("cuCtxSynchronize", unsafe { (self.synchronize)() })
    }
}

fn done(what: &str, code: c_int) -> Result<(), Box<dyn Error>> {
    if code == 0 {
        Ok(())
    } else {
        Err(format!("{what} failed: it returned {code}").into())
    }
}
