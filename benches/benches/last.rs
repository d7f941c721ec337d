//! The newest records in memory: what a span costs the drain, how many of them fit, and how long a
//! dump takes.
//!
//! Each child records scopes of 200 to 800 ns of work for some seconds, without a break. Its drain
//! does nothing with the spans (`counting`), writes a capture, or keeps the newest records. Before
//! the measurement it records until that memory is full, as it is for nearly all of a long run. The
//! contestants take turns; the medians of their rounds are compared.
//!
//! `-- --seconds N` records for N seconds in each child (default 4), `-- --rounds N` takes N rounds
//! (default 5).

use std::env;
use std::hint::black_box;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vor_benches::arguments::number;
use vor_benches::clock::{process_cpu_ns, thread_cpu_ns};
use vor_benches::contestants;
use vor_benches::process::peak_resident_kib;
use vor_benches::spans::totals;
use vor_benches::work::{Sequence, chain};

/// Names the contestant of a child.
const CHILD: &str = "VOR_BENCH_LAST";
const CONTESTANTS: [&str; 3] = ["counting", "capture", "last"];
const LAST_BYTES: usize = 16_000_000;
/// More spans than fit the memory.
const WARM_UP_SPANS: u64 = 10_000_000;
const SPANS_PER_FRAME: u64 = 10_000;

type Failure = Box<dyn std::error::Error>;

fn record(contestant: &str, folder: &Path, length: Duration) -> Result<(), Failure> {
    let config = vor::Config::new();
    match contestant {
        "counting" => config.enable(),
        "capture" => config.capture(folder.join("run.vor")).enable(),
        _ => config
            .capture(format!("{}/", folder.display()))
            .last(vor::Last::new().size(LAST_BYTES))
            .dump_on(vor::DumpOn::nothing())
            .enable(),
    }
    let mut random = Sequence::new(7);
    let mut record_frame = || {
        for i in 0..SPANS_PER_FRAME {
            let steps = 100 + random.below(300);
            vor::profile_scope!("step");
            black_box(chain(i, steps as u32));
        }
        vor::frame_mark();
        SPANS_PER_FRAME
    };
    let mut warm_up = 0;
    while warm_up < WARM_UP_SPANS {
        warm_up += record_frame();
    }
    vor::flush();
    let mut spans = 0;
    let begin = Instant::now();
    let (process_ns, writer_ns) = (process_cpu_ns(), thread_cpu_ns());
    while begin.elapsed() < length {
        spans += record_frame();
    }
    let writer_ns = thread_cpu_ns() - writer_ns;
    // The last flush is work of the drain, although this thread does it.
    vor::flush();
    let drain_ns = process_cpu_ns() - process_ns - writer_ns;
    println!("drain_ns {}", drain_ns as f64 / spans as f64);
    println!("writer_ns {}", writer_ns as f64 / spans as f64);
    println!("spans {spans}");
    if let Some(kib) = peak_resident_kib() {
        println!("peak_mb {}", kib as f64 * 1024.0 / 1e6);
    }
    if contestant == "last" {
        let begin = Instant::now();
        let path = vor::dump("the bench")?;
        println!("dump_ms {}", begin.elapsed().as_secs_f64() * 1e3);
        let totals = totals(&path)?;
        println!("dumped {}", totals.spans);
        println!("kept_bytes {}", LAST_BYTES as f64 / totals.spans as f64);
        println!(
            "bytes {}",
            std::fs::metadata(&path)?.len() as f64 / totals.spans as f64
        );
        println!("dropped {}", totals.dropped_spans);
    }
    Ok(())
}

fn compare(seconds: u64, rounds: u64) -> Result<(), Failure> {
    let found = contestants::rounds(CHILD, &CONTESTANTS, seconds, rounds)?;
    let of = |contestant: &str, key: &str| found.median(contestant, key);
    println!("{rounds} rounds of {seconds} s each, medians; CPU time per span");
    for contestant in CONTESTANTS {
        println!(
            "{contestant:<9} drain {:6.2} ns, writer {:6.1} ns, {:5.1} M spans, peak {:5.1} MB",
            of(contestant, "drain_ns"),
            of(contestant, "writer_ns"),
            of(contestant, "spans") / 1e6,
            of(contestant, "peak_mb"),
        );
    }
    println!(
        "the drain beyond counting: {:.2} ns in memory, {:.2} ns into a capture",
        of("last", "drain_ns") - of("counting", "drain_ns"),
        of("capture", "drain_ns") - of("counting", "drain_ns"),
    );
    println!(
        "{:.1} M spans, {:.2} bytes each; their dump, {:.2} bytes each, takes {:.0} ms; {} dropped",
        of("last", "dumped") / 1e6,
        of("last", "kept_bytes"),
        of("last", "bytes"),
        of("last", "dump_ms"),
        of("last", "dropped"),
    );
    Ok(())
}

fn run() -> Result<(), Failure> {
    let seconds = number("--seconds", 4)?;
    match env::var(CHILD) {
        Ok(contestant) => {
            let mut args = env::args().skip_while(|arg| arg != "--folder").skip(1);
            let folder = args.next().ok_or("--folder needs a path")?;
            record(
                &contestant,
                Path::new(&folder),
                Duration::from_secs(seconds),
            )
        }
        Err(_) => compare(seconds, number("--rounds", 5)?),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("last: {error}");
            ExitCode::FAILURE
        }
    }
}
