//! The system metrics against the activity of this process.

use std::hint::black_box;
use std::time::{Duration, Instant};

use vor_fixtures::own_process;
use vor_recorder::os::system::{
    COLUMN_COUNT, ProcessSample, ProcessSampler, SystemSample, columns, current_memory_bytes,
};

#[test]
fn columns_have_their_documented_names_order_and_units() {
    let columns = columns();
    let columns: Vec<_> = columns
        .iter()
        .map(|column| (column.name.as_str(), column.unit.as_str()))
        .collect();
    assert_eq!(columns.len(), COLUMN_COUNT);
    assert_eq!(
        columns[..4],
        [
            ("frame_ms", "ms"),
            ("memory_mb", "MB"),
            ("io_ms", "ms"),
            ("io_MB", "MB")
        ]
    );
    assert_eq!(
        columns[4..8],
        [
            ("cpu_pct", "%"),
            ("page_faults", ""),
            ("ctx_switches", ""),
            ("threads", "")
        ]
    );
    assert_eq!(
        columns[8..],
        [("disk_read_MB", "MB"), ("disk_write_MB", "MB")]
    );
}

fn sample(memory_bytes: u64, cpu_time_ns: u64, counters: u64) -> ProcessSample {
    let mut sample = ProcessSample::default();
    sample.memory_bytes = Some(memory_bytes);
    sample.cpu_time_ns = Some(cpu_time_ns);
    sample.minor_page_faults = Some(counters);
    sample.major_page_faults = Some(2 * counters);
    sample.voluntary_context_switches = Some(3 * counters);
    sample.involuntary_context_switches = Some(4 * counters);
    sample.threads = Some(counters);
    sample.disk_read_bytes = Some(1_000_000 * counters);
    sample.disk_write_bytes = Some(2_000_000 * counters);
    sample
}

#[test]
fn counters_become_differences_and_levels_stay() {
    let (previous, current) = (sample(5, 1_000, 10), sample(123_456_789, 15_001_000, 13));
    let mut frame = SystemSample::between(&previous, &current, 10_000_000);
    assert_eq!(
        (frame.frame_ns, frame.io_ns, frame.io_bytes),
        (10_000_000, 0, 0)
    );
    frame.frame_ns = 2_500_000;
    frame.io_ns = 500_000;
    frame.io_bytes = 1_500_000;
    let expected = [2.5, 123.456789, 0.5, 1.5, 150.0, 9.0, 21.0, 13.0, 3.0, 6.0];
    assert_eq!(frame.values(), expected.map(Some));
}

#[test]
fn unknown_values_are_absent_and_never_zero() {
    let (nothing, something) = (ProcessSample::default(), sample(1, 2, 3));
    for (previous, current) in [(&nothing, &nothing), (&something, &nothing)] {
        let values = SystemSample::between(previous, current, 1_000).values();
        let known: Vec<usize> = (0..COLUMN_COUNT).filter(|&i| values[i].is_some()).collect();
        assert_eq!(known, [0, 2, 3], "only the program's own numbers");
    }
    let first = SystemSample::between(&nothing, &something, 1_000).values();
    let known: Vec<usize> = (0..COLUMN_COUNT).filter(|&i| first[i].is_some()).collect();
    assert_eq!(known, [0, 1, 2, 3, 7], "levels need no previous sample");

    assert_eq!(
        SystemSample::between(&something, &something, 0).cpu_pct,
        None
    );
    let fell = SystemSample::between(&sample(1, 9, 9), &something, 1_000);
    assert_eq!(
        (fell.cpu_pct, fell.page_faults, fell.disk_read_bytes),
        (None, None, None)
    );

    let mut only_minor = nothing;
    only_minor.minor_page_faults = Some(7);
    assert_eq!(only_minor.page_faults(), Some(7));
    assert_eq!(only_minor.context_switches(), None);
}

#[cfg(any(target_os = "linux", target_os = "macos", windows))]
mod known_systems {
    use super::*;

    /// Uses CPU time until `wall` has passed. Returns the result of its computation, so that the
    /// compiler cannot remove it.
    fn burn(wall: Duration) -> u64 {
        let began = Instant::now();
        let mut value = 1_u64;
        while began.elapsed() < wall {
            for _ in 0..1_000 {
                value = black_box(
                    value
                        .wrapping_mul(6_364_136_223_846_793_005)
                        .wrapping_add(1),
                );
            }
        }
        value
    }

    #[test]
    fn cpu_time_grows_with_work() {
        own_process!();
        let mut sampler = ProcessSampler::new();
        let before = sampler
            .sample()
            .cpu_time_ns
            .expect("CPU time is known here");
        // Other work on the machine may take the processor, so the loop runs until it has used
        // enough CPU time.
        let began = Instant::now();
        let mut used = 0;
        for _ in 0..10_000 {
            if used >= 50_000_000 {
                break;
            }
            black_box(burn(Duration::from_millis(20)));
            used = sampler
                .sample()
                .cpu_time_ns
                .expect("CPU time is known here")
                - before;
        }
        assert!(used >= 50_000_000, "{used} ns of CPU time");
        // The tests of this file run in as many threads as there are processors.
        let threads = std::thread::available_parallelism().map_or(64, |n| n.get() as u64) + 8;
        assert!(
            used <= threads * began.elapsed().as_nanos() as u64,
            "{used} ns of CPU time"
        );
    }

    #[test]
    fn memory_and_page_faults_grow_with_touched_pages() {
        own_process!();
        const BYTES: usize = 64 << 20;
        let mut sampler = ProcessSampler::new();
        let before = sampler.sample();
        let touched = black_box(vec![1_u8; BYTES]);
        let after = sampler.sample();
        let now = current_memory_bytes().expect("memory is known here");
        drop(touched);
        let grown = after.memory_bytes.expect("memory is known here")
            - before.memory_bytes.expect("and was");
        assert!(
            grown >= (BYTES as u64) * 9 / 10 && grown < 4 * BYTES as u64,
            "{grown} bytes"
        );
        assert!(now >= BYTES as u64, "{now} bytes");
        let faults = after.page_faults().expect("faults are known here")
            - before.page_faults().expect("and were");
        // A page may be as large as 2 MiB where the system uses huge pages.
        assert!(faults >= (BYTES >> 21) as u64, "{faults} page faults");
    }

    #[test]
    #[cfg(not(windows))]
    fn waiting_switches_context_and_threads_are_counted() {
        own_process!();
        let mut sampler = ProcessSampler::new();
        let before = sampler.sample();
        let (sender, started) = std::sync::mpsc::channel::<()>();
        let waiting: Vec<_> = (0..9)
            .map(|_| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    sender.send(()).expect("the receiver waits");
                    std::thread::park();
                })
            })
            .collect();
        (0..9).for_each(|_| started.recv().expect("every thread sends"));
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let after = sampler.sample();
        waiting.iter().for_each(|thread| thread.thread().unpark());
        waiting
            .into_iter()
            .for_each(|thread| thread.join().expect("no thread panics"));
        assert!(
            after.threads.expect("threads are known here") >= 10,
            "{:?}",
            after.threads
        );
        let since =
            |of: fn(&ProcessSample) -> Option<u64>| of(&after).unwrap() - of(&before).unwrap();
        assert!(since(|sample| sample.voluntary_context_switches) >= 20);
        assert!(
            since(ProcessSample::context_switches)
                >= since(|sample| sample.voluntary_context_switches)
        );
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn written_bytes_reach_the_disk_counter() {
        own_process!();
        use std::io::Write;

        let mut sampler = ProcessSampler::new();
        let Some(before) = sampler.sample().disk_write_bytes else {
            // Some containers hide this file from their programs; then no value may be reported.
            assert!(
                std::fs::read("/proc/self/io").is_err(),
                "the file can be read, so it must be used"
            );
            return;
        };
        let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR"))
            .expect("the target directory is writable");
        file.write_all(&vec![7; 4 << 20])
            .expect("there is room for 4 MiB");
        file.sync_all().expect("the file can be flushed");
        let after = sampler
            .sample()
            .disk_write_bytes
            .expect("it was readable before");
        // A file system in memory has no disk to count; the kernel's own account shows that.
        let kernel = std::fs::read_to_string("/proc/self/io").expect("it was readable before");
        let kernel = kernel
            .lines()
            .find_map(|line| line.strip_prefix("write_bytes: "))
            .expect("a known line");
        assert!(kernel.parse::<u64>().expect("a number") >= after && after >= before);
        println!("{} bytes written to disk", after - before);
    }
}
