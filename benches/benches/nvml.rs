//! The cost of a poll of a GPU, beside the calls of the driver's library.
//!
//! The library is that of the tests, whose functions take almost no time. The same functions are
//! called without vor in the same rounds. On a machine with a card, `.ci/gpu` prints the cost of a
//! poll with the real library.

#![allow(
    clippy::expect_used,
    reason = "a bench that cannot be set up should stop"
)]

use std::ffi::{c_int, c_uint, c_void};
use std::hint::black_box;

use libloading::Library;
use vor_benches::rounds::{Loop, contest};
use vor_recorder::__private::Cards;

const CHILD: &str = "VOR_BENCH_CHILD";
const ROUNDS: usize = 2000;
const PASSES: u32 = 20;

fn main() {
    if std::env::var_os(CHILD).is_some() {
        return measure();
    }
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    vor_fixtures::libraries::build("fake_nvml.rs", folder.path(), "libnvidia-ml.so.1");
    for (name, begin) in [("without GPM", ""), ("with GPM", "gpm on")] {
        let mut command =
            std::process::Command::new(std::env::current_exe().expect("a bench has a path"));
        command
            .env(CHILD, "1")
            .env("LD_LIBRARY_PATH", folder.path())
            .env("VOR_TEST_NVML", begin);
        print!(
            "{name}:\n{}",
            String::from_utf8_lossy(&vor_fixtures::process::run_to_success(&mut command).stdout)
        );
    }
}

fn measure() {
    let mut cards = Cards::find().expect("the library has a card");
    let driver = Driver::new();
    // Rows are declared with their first values, and counters need two samples.
    let poll = |cards: &mut Cards| {
        cards.poll_fast();
        cards.poll_slow();
    };
    (0..3).for_each(|_| poll(&mut cards));
    let cards = std::cell::RefCell::new(cards);
    let mut contestants: Vec<Loop<'_>> = vec![
        Box::new(|passes| (0..passes).for_each(|_| driver.fast())),
        Box::new(|passes| (0..passes).for_each(|_| cards.borrow_mut().poll_fast())),
        Box::new(|passes| {
            for _ in 0..passes {
                driver.fast();
                driver.slow();
            }
        }),
        Box::new(|passes| (0..passes).for_each(|_| poll(&mut cards.borrow_mut()))),
    ];
    let times = contest(ROUNDS, PASSES, &mut contestants, usize::MAX, &mut || ());
    for (name, library, poll) in [
        ("fast", &times[0], &times[1]),
        ("fast and slow", &times[2], &times[3]),
    ] {
        println!(
            "  a poll, {name}: {:.2} µs, of which the library {:.2} µs: {:.2} µs of our own",
            poll.median_ns() / 1e3,
            library.median_ns() / 1e3,
            poll.more_than_ns(library) / 1e3,
        );
    }
}

type OfCard = unsafe extern "C" fn(*mut c_void, *mut u64) -> c_int;
type OfCardAndKind = unsafe extern "C" fn(*mut c_void, c_uint, *mut u64) -> c_int;
type OfCardTwice = unsafe extern "C" fn(*mut c_void, *mut u64, *mut u64) -> c_int;

/// Calls the library's functions as often as a poll does.
struct Driver {
    card: *mut c_void,
    numbers_fast: Vec<OfCard>,
    memory: OfCard,
    clock: OfCardAndKind,
    numbers_slow: Vec<OfCard>,
    temperature: OfCardAndKind,
    video: Vec<OfCardTwice>,
    processes: Vec<OfCardTwice>,
    _library: Library,
}

#[expect(unsafe_code, reason = "the driver is a library")]
impl Driver {
    fn new() -> Self {
        // SAFETY: the library is already in the process, and its functions have these signatures.
        // They write no more than the space below can hold.
        unsafe {
            let library = Library::new("libnvidia-ml.so.1").expect("the library is there");
            let of_card = |name: &str| {
                *library
                    .get::<OfCard>(name.as_bytes())
                    .expect("it is exported")
            };
            let of_kind = |name: &str| {
                *library
                    .get::<OfCardAndKind>(name.as_bytes())
                    .expect("it is exported")
            };
            let twice = |name: &str| {
                *library
                    .get::<OfCardTwice>(name.as_bytes())
                    .expect("it is exported")
            };
            let mut card = std::ptr::null_mut();
            let by_number = library
                .get::<unsafe extern "C" fn(c_uint, *mut *mut c_void) -> c_int>(
                    b"nvmlDeviceGetHandleByIndex_v2",
                )
                .expect("it is exported");
            assert_eq!(by_number(0, &raw mut card), 0);
            Self {
                card,
                numbers_fast: ["UtilizationRates", "PowerUsage", "TotalEnergyConsumption"]
                    .map(|name| of_card(&format!("nvmlDeviceGet{name}")))
                    .into(),
                memory: of_card("nvmlDeviceGetMemoryInfo_v2"),
                clock: of_kind("nvmlDeviceGetClockInfo"),
                numbers_slow: ["EnforcedPowerLimit", "CurrentClocksThrottleReasons"]
                    .map(|name| of_card(&format!("nvmlDeviceGet{name}")))
                    .into(),
                temperature: of_kind("nvmlDeviceGetTemperature"),
                video: ["Encoder", "Decoder"]
                    .map(|name| twice(&format!("nvmlDeviceGet{name}Utilization")))
                    .into(),
                processes: ["Compute", "Graphics"]
                    .map(|name| twice(&format!("nvmlDeviceGet{name}RunningProcesses_v3")))
                    .into(),
                _library: library,
            }
        }
    }

    fn fast(&self) {
        let mut room = [0_u64; 8];
        // SAFETY: the same as in `new`.
        unsafe {
            for function in &self.numbers_fast {
                function(self.card, room.as_mut_ptr());
            }
            // The version of the memory struct says that it has 40 bytes.
            room[0] = 40 | 2 << 24;
            (self.memory)(self.card, room.as_mut_ptr());
            (self.clock)(self.card, 1, room.as_mut_ptr());
        }
        black_box(room);
    }

    fn slow(&self) {
        let (mut room, mut other) = ([0_u64; 32], [0_u64; 32]);
        // SAFETY: the same as in `new`.
        unsafe {
            for function in &self.numbers_slow {
                function(self.card, room.as_mut_ptr());
            }
            (self.temperature)(self.card, 0, room.as_mut_ptr());
            for function in &self.video {
                function(self.card, room.as_mut_ptr(), other.as_mut_ptr());
            }
            // First the number of processes, and then all of them: two processes of 24 bytes.
            for function in &self.processes {
                for count in [0, 7] {
                    room[0] = count;
                    function(self.card, room.as_mut_ptr(), other.as_mut_ptr());
                }
            }
        }
        black_box((room, other));
    }
}
