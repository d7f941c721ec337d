//! Rows that a system does not have, or hides from a program: they are absent, and one event at the
//! level `DEBUG` gives the reason.
#![cfg(all(
    feature = "tracing",
    any(target_os = "linux", target_os = "macos", windows),
    not(feature = "off")
))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::setup::Config;
use vor_recorder::{drain, setup};

static EVENTS: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps the names of the rows of all frames.
#[derive(Clone, Default)]
struct Rows(Arc<Mutex<BTreeSet<String>>>);

impl FrameSink for Rows {
    fn interest(&self) -> Interest {
        Interest::METRICS
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let columns = &frame.catalog.columns;
        let rows = frame.metrics.iter();
        let names = rows.map(|row| columns[row.column as usize].metric.name.clone());
        self.0.lock().unwrap().extend(names);
        Ok(())
    }
}

/// Takes away the files that this process reads its rows from, until the result is dropped, where
/// that is possible.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "limits are set by the C library")]
fn forbid_files() -> impl Drop {
    struct LimitGuard(libc::rlimit);

    impl Drop for LimitGuard {
        fn drop(&mut self) {
            // SAFETY: the call reads a limit on this stack frame.
            unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const self.0) };
        }
    }

    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the calls write to and read from limits on this stack frame.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut before), 0);
        let none = libc::rlimit {
            rlim_cur: 0,
            ..before
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const none), 0);
    }
    LimitGuard(before)
}

#[test]
fn one_event_gives_the_reason_for_absent_rows() {
    own_process!();
    crate::debug_events::each(|text| EVENTS.lock().unwrap().push(text));
    let rows = Rows::default();
    #[cfg(target_os = "linux")]
    let forbidden = forbid_files();
    Config::new()
        .inline_drain(true)
        .sink("rows", rows.clone())
        .enable();
    for _ in 0..4 {
        // Counters are compared with a sample that is at least 10 ms old.
        std::thread::sleep(Duration::from_millis(15));
        drain::frame_mark();
    }
    setup::disable();
    setup::enable();
    drain::frame_mark();
    #[cfg(target_os = "linux")]
    drop(forbidden);

    let all = [
        "frame_ms",
        "memory_mb",
        "io_ms",
        "io_MB",
        "cpu_pct",
        "page_faults",
        "ctx_switches",
        "threads",
        "disk_read_MB",
        "disk_write_MB",
    ];
    let stat = "/proc/self/stat: Too many open files (os error 24)";
    let io = "/proc/self/io: Too many open files (os error 24)";
    let (absent, told): (&[&str], Vec<String>) = if cfg!(target_os = "linux") {
        let told = format!("memory_mb, threads ({stat}), disk_read_MB, disk_write_MB ({io})");
        (
            &["memory_mb", "threads", "disk_read_MB", "disk_write_MB"],
            vec![told],
        )
    } else if cfg!(windows) {
        (
            &["ctx_switches"],
            vec!["ctx_switches (Windows does not report it)".to_owned()],
        )
    } else {
        (&[], Vec::new())
    };
    let there: BTreeSet<String> = all
        .iter()
        .filter(|row| !absent.contains(row))
        .map(ToString::to_string)
        .collect();
    assert_eq!(*rows.0.lock().unwrap(), there);
    let told: Vec<String> = told
        .iter()
        .map(|told| format!("these rows are absent: {told}"))
        .collect();
    assert_eq!(*EVENTS.lock().unwrap(), told);
}
