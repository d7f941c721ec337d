//! Traces in other programs' formats: the cost of a span from the ring to a Perfetto trace, beside
//! the conversion of perfetto-recorder.

use std::error::Error;
use std::hint::black_box;
use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use vor_benches::clock::thread_cpu_ns;
use vor_benches::rounds::median;
use vor_benches::work::{Sequence, chain};
use vor_export::perfetto::PerfettoExporter;

use crate::Options;
use crate::child::{Task, spawn};
use crate::table::{Table, Target};

/// Spans in the ring at each drain, and the number of drains.
const SPANS: u64 = 200_000;
const ROUNDS: usize = 21;

/// Measures in a child, whose recorder drains on request.
pub fn measure(_: &Options, table: &mut Table) {
    let said = match spawn(Task::Traces, 0.0, Path::new("")) {
        Ok(said) => said,
        Err(error) => return table.not_measured("ring to Perfetto trace", error),
    };
    table.add(
        "ring to Perfetto trace, per span",
        Target::AtMost(60.0),
        said["ns"],
        "ns",
    );
    table.add(
        "bytes per span in the Perfetto trace",
        Target::AtMost(30.0),
        said["bytes"],
        "B",
    );
    if let Some(theirs) = said.get("theirs_ns") {
        table.add_noted(
            "perfetto-recorder's conversion / ring to Perfetto trace",
            Target::AtLeast(20.0),
            theirs / said["ns"],
            "x",
            format!("{theirs:.0} ns, {:.0} B", said["theirs_bytes"]),
        );
    }
}

/// The size of the trace in bytes, so far.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

struct Counting;

impl Write for Counting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        black_box(bytes);
        WRITTEN.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Runs the child.
pub fn child() -> Result<(), Box<dyn Error>> {
    vor::Config::new().puffin(false).inline_drain(true).enable();
    let sink = vor::add_sink("a Perfetto trace", PerfettoExporter::new(Counting));
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        work(|i, steps| {
            vor::profile_scope!("work");
            black_box(chain(i, steps));
        });
        let begin = thread_cpu_ns();
        vor::flush();
        times.push((thread_cpu_ns() - begin) as f64 / SPANS as f64);
    }
    drop(sink);
    println!("ns {}", median(times));
    let bytes = WRITTEN.load(Ordering::Relaxed) as f64;
    println!("bytes {}", bytes / (SPANS * ROUNDS as u64) as f64);
    #[cfg(feature = "peers")]
    theirs()?;
    Ok(())
}

/// Runs `span` repeatedly, each time with 200 to 800 ns of work.
fn work(mut span: impl FnMut(u64, u32)) {
    let mut random = Sequence::new(7);
    for i in 0..SPANS {
        span(i, ((200 + random.below(600)) * 52 / 100) as u32);
    }
}

#[cfg(feature = "peers")]
fn theirs() -> Result<(), Box<dyn Error>> {
    use perfetto_recorder::{ThreadTraceData, TraceBuilder};

    vor::disable();
    perfetto_recorder::start()?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("theirs.pftrace");
    let mut times = Vec::new();
    for _ in 0..ROUNDS / 4 {
        work(|i, steps| {
            perfetto_recorder::scope!("work");
            black_box(chain(i, steps));
        });
        let data = ThreadTraceData::take_current_thread();
        let begin = thread_cpu_ns();
        TraceBuilder::new()?
            .process_thread_data(&data)
            .write_to_file(&path)?;
        times.push((thread_cpu_ns() - begin) as f64 / SPANS as f64);
    }
    println!("theirs_ns {}", median(times));
    println!(
        "theirs_bytes {}",
        std::fs::metadata(&path)?.len() as f64 / SPANS as f64
    );
    Ok(())
}
