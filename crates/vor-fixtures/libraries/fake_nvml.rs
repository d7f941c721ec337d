//! A fake NVML driver library for tests. Its cards have known values, and fail, hang or get lost on
//! demand.
//!
//! The variable `VOR_TEST_NVML` contains its first commands, separated by `;`. The function
//! `vor_test_nvml` runs one more. Commands are `gpus N`, `error FUNCTION CODE` (0: none), `delay
//! FUNCTION MILLISECONDS` (asleep), `spin FUNCTION MILLISECONDS` (in a loop), `lost CARD`, `found
//! CARD`, `gpm on`, `gpm stuck`, `gpm lacks METRIC`, `nvlink on` and `note calls`. The functions
//! below compute the values of a card from its number.

use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_char, c_double, c_int, c_uint, c_ulonglong, c_void};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

const OK: c_int = 0;
const UNINITIALIZED: c_int = 1;
const INVALID_ARGUMENT: c_int = 2;
const NOT_SUPPORTED: c_int = 3;
const NOT_FOUND: c_int = 6;
const INSUFFICIENT_SIZE: c_int = 7;
const LOST: c_int = 15;

/// The handle of a card is this value plus its number.
const FIRST: usize = 0x6000;

type Device = *mut c_void;
type Sample = *mut c_void;

/// A place that the caller provides for a result. By the interface, it is valid for one value
/// during the call. The safety of this library depends only on that.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> Out<T> {
    fn put(self, found: Result<T, c_int>) -> c_int {
        match found {
            Ok(value) => {
                // SAFETY: the caller provides a place that is valid for writes, see `Out`.
                unsafe { self.0.write(value) };
                OK
            }
            Err(code) => code,
        }
    }

    /// Returns the place. It must already hold a value.
    fn get(&mut self) -> &mut T {
        // SAFETY: as for `put`. Only functions call this whose caller must have filled in the
        // place.
        unsafe { &mut *self.0 }
    }
}

impl Out<c_char> {
    /// Writes a text and its terminating zero, if there is room for all bytes.
    fn put_text(self, room: c_uint, found: Result<String, c_int>) -> c_int {
        match found {
            Ok(text) if text.len() < room as usize => {
                let text = CString::new(text).unwrap();
                // SAFETY: the caller provides a place for `room` bytes, which are at least those of
                // the text and its terminating zero.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        text.as_ptr(),
                        self.0,
                        text.as_bytes_with_nul().len(),
                    )
                };
                OK
            }
            Ok(_) => INSUFFICIENT_SIZE,
            Err(code) => code,
        }
    }
}

/// A text that the caller provides.
#[repr(transparent)]
pub struct In(*const c_char);

impl In {
    fn get(&self) -> &str {
        // SAFETY: the caller provides a text that ends with 0 and lives during the call.
        unsafe { CStr::from_ptr(self.0) }.to_str().unwrap()
    }
}

#[derive(Default)]
struct State {
    inits: u32,
    gpus: usize,
    errors: HashMap<String, c_int>,
    delays: HashMap<String, u64>,
    spins: HashMap<String, u64>,
    calls: HashMap<String, u64>,
    lost: HashSet<usize>,
    gpm: bool,
    /// Whether the GPM counters are frozen.
    gpm_stuck: bool,
    gpm_lacks: HashSet<c_uint>,
    nvlink: bool,
    /// Whether calls are added to `sequence`.
    notes: bool,
    /// The card functions that were called, in order, each with the card's number.
    sequence: Vec<String>,
    /// Samples that were allocated and not freed, each with the number of the reading that it
    /// holds.
    samples: HashMap<usize, u64>,
    next_sample: u64,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    let make = || {
        let mut state = State {
            gpus: 1,
            ..State::default()
        };
        let text = std::env::var("VOR_TEST_NVML").unwrap_or_default();
        text.split(';').for_each(|command| state.obey(command));
        Mutex::new(state)
    };
    STATE.get_or_init(make).lock().unwrap()
}

impl State {
    fn obey(&mut self, command: &str) {
        let words: Vec<&str> = command.split_whitespace().collect();
        match words[..] {
            [] => (),
            ["gpus", count] => self.gpus = count.parse().unwrap(),
            ["error", function, code] => {
                _ = self.errors.insert(function.into(), code.parse().unwrap());
            }
            ["delay", function, ms] => {
                _ = self.delays.insert(function.into(), ms.parse().unwrap());
            }
            ["lost", card] => _ = self.lost.insert(card.parse().unwrap()),
            ["found", card] => _ = self.lost.remove(&card.parse().unwrap()),
            ["spin", function, ms] => _ = self.spins.insert(function.into(), ms.parse().unwrap()),
            ["gpm", "on"] => (self.gpm, self.gpm_stuck) = (true, false),
            ["gpm", "stuck"] => self.gpm_stuck = true,
            ["gpm", "lacks", metric] => _ = self.gpm_lacks.insert(metric.parse().unwrap()),
            ["nvlink", "on"] => self.nvlink = true,
            ["note", "calls"] => self.notes = true,
            _ => panic!("no command: {command}"),
        }
    }
}

/// Runs a command.
#[unsafe(no_mangle)]
pub extern "C" fn vor_test_nvml(command: In) {
    state().obey(command.get());
}

/// Returns how often a function was called.
#[unsafe(no_mangle)]
pub extern "C" fn vor_test_nvml_calls(function: In) -> u64 {
    state().calls.get(function.get()).copied().unwrap_or(0)
}

/// Returns how often a function was called, for any card, between a call of `first` and the next
/// call of `last`. Both end with the number of a card.
#[unsafe(no_mangle)]
pub extern "C" fn vor_test_nvml_calls_between(first: In, last: In, function: In) -> u64 {
    let (mut is_between, mut calls) = (false, 0);
    for called in &state().sequence {
        is_between = called == first.get() || is_between && called != last.get();
        calls += u64::from(
            called.split(' ').next() == Some(function.get())
                && (is_between || called == last.get()),
        );
    }
    calls
}

/// Returns the number of live GPM samples.
#[unsafe(no_mangle)]
pub extern "C" fn vor_test_nvml_samples() -> u64 {
    state().samples.len() as u64
}

/// Returns the CPU time of the thread.
fn thread_cpu_ns() -> u64 {
    unsafe extern "C" {
        fn clock_gettime(clock: c_int, time: *mut [i64; 2]) -> c_int;
    }
    let mut time = [0; 2];
    // SAFETY: the pointer points to as many bytes as a `timespec` has on 64-bit systems, and the
    // clock with number 3 is the thread's.
    unsafe { clock_gettime(3, &mut time) };
    time[0] as u64 * 1_000_000_000 + time[1] as u64
}

/// Starts every call: counts it, then waits or fails if a command requested that.
fn enter(function: &str) -> Result<MutexGuard<'static, State>, c_int> {
    let mut now = state();
    match now.calls.get_mut(function) {
        Some(calls) => *calls += 1,
        None => drop(now.calls.insert(function.into(), 1)),
    }
    if let Some(&ms) = now.delays.get(function).filter(|ms| **ms > 0) {
        drop(now);
        std::thread::sleep(Duration::from_millis(ms));
        now = state();
    }
    if let Some(&ms) = now.spins.get(function).filter(|ms| **ms > 0) {
        drop(now);
        let end_ns = thread_cpu_ns() + ms * 1_000_000;
        while thread_cpu_ns() < end_ns {}
        now = state();
    }
    match now.errors.get(function).copied().unwrap_or(OK) {
        OK if now.inits == 0 && function != "nvmlInit_v2" => Err(UNINITIALIZED),
        OK => Ok(now),
        code => Err(code),
    }
}

/// Does the same as `enter` for a function of a card, and returns the card's number.
fn card(function: &str, device: Device) -> Result<usize, c_int> {
    let mut now = enter(function)?;
    let number = device.addr().wrapping_sub(FIRST);
    if now.notes {
        now.sequence.push(format!("{function} {number}"));
    }
    match number {
        _ if number >= now.gpus => Err(INVALID_ARGUMENT),
        _ if now.lost.contains(&number) => Err(LOST),
        _ => Ok(number),
    }
}

fn uuid(number: usize) -> String {
    format!("GPU-{number:08x}-0000-4000-8000-000000000000")
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlInit_v2() -> c_int {
    match enter("nvmlInit_v2") {
        Ok(mut now) => {
            now.inits += 1;
            OK
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlShutdown() -> c_int {
    match enter("nvmlShutdown") {
        Ok(mut now) => {
            now.inits -= 1;
            OK
        }
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlSystemGetDriverVersion(version: Out<c_char>, room: c_uint) -> c_int {
    let found = enter("nvmlSystemGetDriverVersion").map(|_| "570.1".to_owned());
    version.put_text(room, found)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetCount_v2(count: Out<c_uint>) -> c_int {
    count.put(enter("nvmlDeviceGetCount_v2").map(|now| now.gpus as c_uint))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByIndex_v2(number: c_uint, device: Out<Device>) -> c_int {
    let device_of = std::ptr::without_provenance_mut(FIRST + number as usize);
    device.put(card("nvmlDeviceGetHandleByIndex_v2", device_of).map(|_| device_of))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetHandleByUUID(text: In, device: Out<Device>) -> c_int {
    let text = text.get();
    let find = |now: MutexGuard<'static, State>| {
        let number = (0..now.gpus)
            .find(|number| uuid(*number) == text)
            .ok_or(NOT_FOUND)?;
        if now.lost.contains(&number) {
            Err(LOST)
        } else {
            Ok(std::ptr::without_provenance_mut(FIRST + number))
        }
    };
    device.put(enter("nvmlDeviceGetHandleByUUID").and_then(find))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUUID(device: Device, text: Out<c_char>, room: c_uint) -> c_int {
    text.put_text(room, card("nvmlDeviceGetUUID", device).map(uuid))
}

/// Functions of a card that return one number.
macro_rules! numbers {
    ($($name:ident: $type:ty = $value:expr;)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name(device: Device, place: Out<$type>) -> c_int {
            let value: fn($type) -> $type = $value;
            place.put(card(stringify!($name), device).map(|number| value(number as $type)))
        }
    )*};
}

numbers! {
    nvmlDeviceGetPowerUsage: c_uint = |card| 100_000 + 1000 * card;
    nvmlDeviceGetEnforcedPowerLimit: c_uint = |card| 700_000 + card;
    // In millijoules: a constant power of `100 + card` watts since the first query.
    nvmlDeviceGetTotalEnergyConsumption: c_ulonglong = |card| since_begin_ms() * (100 + card);
    // Idle. Power limits the clocks of card 0, heat those of the others.
    nvmlDeviceGetCurrentClocksThrottleReasons: c_ulonglong =
        |card| 1 | if card == 0 { 0x4 } else { 0x40 };
}

fn since_begin_ms() -> u64 {
    static BEGIN: OnceLock<Instant> = OnceLock::new();
    BEGIN.get_or_init(Instant::now).elapsed().as_millis() as u64
}

#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetUtilizationRates(device: Device, place: Out<Utilization>) -> c_int {
    let rates = |card| Utilization {
        gpu: 10 + card as c_uint,
        memory: 90,
    };
    place.put(card("nvmlDeviceGetUtilizationRates", device).map(rates))
}

#[repr(C)]
pub struct Memory {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetMemoryInfo_v2(device: Device, mut place: Out<Memory>) -> c_int {
    let version = place.get().version;
    let memory = |card| match version as usize == size_of::<Memory>() | 2 << 24 {
        true => {
            let used = (card as u64 + 1) * 1_000_000_000;
            Ok(Memory {
                version,
                total: 80_000_000_000,
                reserved: 500_000_000,
                free: 79_500_000_000 - used,
                used,
            })
        }
        false => Err(INVALID_ARGUMENT),
    };
    place.put(card("nvmlDeviceGetMemoryInfo_v2", device).and_then(memory))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    sensor: c_uint,
    place: Out<c_uint>,
) -> c_int {
    let found = card("nvmlDeviceGetTemperature", device);
    let known = found.and_then(|card| {
        if sensor == 0 {
            Ok(40 + card as c_uint)
        } else {
            Err(INVALID_ARGUMENT)
        }
    });
    place.put(known)
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetClockInfo(
    device: Device,
    kind: c_uint,
    place: Out<c_uint>,
) -> c_int {
    let found = card("nvmlDeviceGetClockInfo", device);
    // Clock 1 is that of the multiprocessors.
    let known = found.and_then(|card| {
        if kind == 1 {
            Ok(1000 + card as c_uint)
        } else {
            Err(INVALID_ARGUMENT)
        }
    });
    place.put(known)
}

fn video(
    function: &str,
    device: Device,
    percent: c_uint,
    place: Out<c_uint>,
    period_us: Out<c_uint>,
) -> c_int {
    period_us.put(Ok(1000));
    place.put(card(function, device).map(|card| percent + card as c_uint))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetEncoderUtilization(
    device: Device,
    place: Out<c_uint>,
    period_us: Out<c_uint>,
) -> c_int {
    video(
        "nvmlDeviceGetEncoderUtilization",
        device,
        30,
        place,
        period_us,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetDecoderUtilization(
    device: Device,
    place: Out<c_uint>,
    period_us: Out<c_uint>,
) -> c_int {
    video(
        "nvmlDeviceGetDecoderUtilization",
        device,
        50,
        place,
        period_us,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetPcieThroughput(
    device: Device,
    counter: c_uint,
    place: Out<c_uint>,
) -> c_int {
    let rate = |card| match counter {
        0 => Ok(10_000 + card as c_uint),
        1 => Ok(20_000 + card as c_uint),
        _ => Err(INVALID_ARGUMENT),
    };
    place.put(card("nvmlDeviceGetPcieThroughput", device).and_then(rate))
}

#[repr(C)]
pub struct Process {
    pid: c_uint,
    used_bytes: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

/// Lists this process and another one, or returns only their number if there is no room.
fn list(
    function: &str,
    device: Device,
    own_mb: u64,
    mut count: Out<c_uint>,
    places: *mut Process,
) -> c_int {
    let number = match card(function, device) {
        Ok(number) => number as u64,
        Err(code) => return code,
    };
    let process = |pid, mb| Process {
        pid,
        used_bytes: mb * 1_000_000,
        gpu_instance: u32::MAX,
        compute_instance: u32::MAX,
    };
    if std::mem::replace(count.get(), 2) < 2 {
        return INSUFFICIENT_SIZE;
    }
    // SAFETY: the caller provides room for as many entries as it declared, which is two or more.
    unsafe {
        places.write(process(1, 7777));
        places
            .add(1)
            .write(process(std::process::id(), own_mb + number));
    }
    OK
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: Out<c_uint>,
    places: *mut Process,
) -> c_int {
    list(
        "nvmlDeviceGetComputeRunningProcesses_v3",
        device,
        300,
        count,
        places,
    )
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Device,
    count: Out<c_uint>,
    places: *mut Process,
) -> c_int {
    list(
        "nvmlDeviceGetGraphicsRunningProcesses_v3",
        device,
        200,
        count,
        places,
    )
}

#[repr(C)]
pub struct GpmSupport {
    version: c_uint,
    is_supported: c_uint,
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmQueryDeviceSupport(device: Device, place: Out<GpmSupport>) -> c_int {
    let found = card("nvmlGpmQueryDeviceSupport", device);
    let support = |_| {
        let is_supported = c_uint::from(state().gpm);
        GpmSupport {
            version: 1,
            is_supported,
        }
    };
    place.put(found.map(support))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleAlloc(place: Out<Sample>) -> c_int {
    let make = |mut now: MutexGuard<'static, State>| {
        now.next_sample += 1;
        let handle = now.next_sample as usize;
        now.samples.insert(handle, 0);
        std::ptr::without_provenance_mut(handle)
    };
    place.put(enter("nvmlGpmSampleAlloc").map(make))
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleFree(sample: Sample) -> c_int {
    match enter("nvmlGpmSampleFree") {
        Ok(mut now) => match now.samples.remove(&sample.addr()) {
            Some(_) => OK,
            None => INVALID_ARGUMENT,
        },
        Err(code) => code,
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmSampleGet(device: Device, sample: Sample) -> c_int {
    if let Err(code) = card("nvmlGpmSampleGet", device) {
        return code;
    }
    let mut now = state();
    let (taken, is_supported) = (now.next_sample, now.gpm);
    match now.samples.get_mut(&sample.addr()) {
        Some(place) if is_supported => {
            *place = taken;
            OK
        }
        Some(_) => NOT_SUPPORTED,
        None => INVALID_ARGUMENT,
    }
}

#[repr(C)]
pub struct GpmMetric {
    id: c_uint,
    code: c_int,
    value: c_double,
    texts: [*const c_char; 3],
}

#[repr(C)]
pub struct GpmMetrics {
    version: c_uint,
    count: c_uint,
    samples: [Sample; 2],
    metrics: [GpmMetric; 210],
}

#[unsafe(no_mangle)]
pub extern "C" fn nvmlGpmMetricsGet(mut request: Out<GpmMetrics>) -> c_int {
    let now = match enter("nvmlGpmMetricsGet") {
        Ok(now) => now,
        Err(code) => return code,
    };
    let request = request.get();
    let taken = request
        .samples
        .map(|sample| now.samples.get(&sample.addr()).copied().unwrap_or(0));
    if request.version != 1 || taken[0] == 0 || taken[1] <= taken[0] {
        return INVALID_ARGUMENT;
    }
    for metric in &mut request.metrics[..request.count as usize] {
        // Metrics of NVLink are not supported by default, because most cards have none. Bytes are
        // in MiB per second.
        (metric.code, metric.value) = match metric.id {
            60 | 61 if !now.nvlink => (NOT_SUPPORTED, 0.0),
            id if now.gpm_lacks.contains(&id) => (NOT_SUPPORTED, 0.0),
            _ if now.gpm_stuck => (OK, 0.0),
            60 => (OK, 3000.0),
            61 => (OK, 5000.0),
            20 => (OK, 250.0),
            21 => (OK, 500.0),
            id => (OK, 60.5 + f64::from(id)),
        };
    }
    OK
}
