//! The captures of a fleet as one data set, to be asked in SQL.
//!
//! ```text
//! cargo run --release -p vor-examples --features fleet --example fleet -- <folder> [captures]
//! ```
//!
//! Some hosts run a server in two versions, for two days, each process with a capture of its own;
//! in the newer version `decode` is half as slow again since the second day. The program writes
//! these captures, exports them to Parquet, by host and date, and writes beside them what the
//! library's own statistics say, for `ask.py` to compare:
//!
//! ```text
//! <folder>/captures/web-3-0042.vor                                       a capture per process
//! <folder>/data/{spans,metrics,sketches}/host=web-3/date=2026-03-09/…    the data set
//! <folder>/expected.tsv                                                  percentiles of each scope, by host and version
//! ```

mod server;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use server::Process;
use vor_capture::reader::{Event, Reader};
use vor_capture::sink::FrameSink;
use vor_capture::stats::StatsBuilder;
use vor_examples::Outcome;
use vor_export::parquet::{Dataset, Origin, Partition};

const CAPTURES: usize = 1000;

/// Lengths of a scope's spans, by host, version and name.
type Lengths = BTreeMap<(String, String, String), Vec<u64>>;

/// Statistics of the captures of a host and version.
type Statistics = BTreeMap<(String, String), StatsBuilder>;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (folder, captures) = (arguments.next(), arguments.next());
    vor_examples::run(|out| {
        let folder = folder.ok_or("name a folder for the captures and the data set")?;
        let captures = match captures {
            None => CAPTURES,
            Some(text) => text
                .to_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| format!("{} is no number of captures", text.display()))?,
        };
        make(out, Path::new(&folder), captures)
    })
}

fn make(out: &mut dyn Write, folder: &Path, captures: usize) -> Outcome {
    fs::create_dir_all(folder.join("captures"))?;
    let (mut statistics, mut lengths) = (Statistics::new(), Lengths::new());
    let mut spans = 0;
    for number in 0..captures {
        let process = Process::of_fleet(number, captures);
        let path = folder
            .join("captures")
            .join(format!("{}-{number:04}.vor", process.host));
        fs::write(&path, process.capture())?;
        spans += export(
            &path,
            &folder.join("data"),
            &process,
            &mut statistics,
            &mut lengths,
        )?;
    }
    fs::write(folder.join("expected.tsv"), expected(&statistics, lengths)?)?;
    writeln!(
        out,
        "{captures} captures with {spans} spans: {}",
        folder.join("data").display()
    )?;
    Ok(())
}

/// Exports a capture, and adds its spans to what the fleet's are expected to say; returns how many
/// they are.
fn export(
    capture: &Path,
    data: &Path,
    process: &Process,
    statistics: &mut Statistics,
    lengths: &mut Lengths,
) -> Result<u64, Box<dyn std::error::Error>> {
    let stem = capture.file_stem().unwrap_or_default().to_string_lossy();
    let origin = vor::capture::filled!(Origin {
        host: Some(process.host.clone()),
        version: Some(process.version.to_owned()),
    });
    let mut data = Dataset::new(data, &stem, &Partition::list("host,date")?, origin)?;
    // Threads have the same numbers in all captures, so each capture has statistics of its own
    // first.
    let mut own = StatsBuilder::new();
    let mut reader = Reader::open(capture)?;
    while let Some(event) = reader.next_event()? {
        match event {
            Event::Batch(batch) => {
                data.accept_batch(&batch)?;
                own.add_batch(&batch);
                let catalog = &batch.catalog;
                for thread in &batch.threads {
                    for (i, &site) in thread.sites.iter().enumerate() {
                        let length_ns = catalog
                            .timeline
                            .duration_ns(thread.start_ticks[i], thread.duration_ticks[i]);
                        let name = catalog.site_name(site).to_owned();
                        let key = (process.host.clone(), process.version.to_owned(), name);
                        lengths.entry(key).or_default().push(length_ns);
                    }
                }
            }
            Event::Frame(recovered) => data.accept_frame(&recovered.frame)?,
            Event::Loss(loss) => return Err(format!("the capture is damaged: {loss:?}").into()),
            _ => {}
        }
    }
    data.finish()?;
    let key = (process.host.clone(), process.version.to_owned());
    statistics.entry(key).or_default().merge(&own);
    Ok(own.span_count())
}

/// Returns a line per host, version and scope: count, sum, sum of self times, the exact 99th
/// percentile, and the statistics' own.
fn expected(statistics: &Statistics, mut lengths: Lengths) -> Result<String, std::fmt::Error> {
    let catalog = server::catalog(&Process::of_fleet(0, 1));
    let mut table =
        String::from("host\tversion\tname\tcount\tsum_ns\tself_sum_ns\texact_p99_ns\tp99_ns\n");
    for ((host, version), stats) in statistics {
        for row in stats.scope_stats(&catalog) {
            let key = (host.clone(), version.clone(), row.name.clone());
            let mut lengths = lengths.remove(&key).unwrap_or_default();
            lengths.sort_unstable();
            // The value that 99 of 100 do not exceed, by rank and without rounding.
            let rank = (lengths.len() * 99).div_ceil(100);
            let exact = rank.checked_sub(1).map_or(0, |at| lengths[at]);
            writeln!(
                table,
                "{host}\t{version}\t{}\t{}\t{}\t{}\t{exact}\t{}",
                row.name, row.count, row.total_ns, row.self_ns, row.p99_ns
            )?;
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_fleet_is_the_same_each_time() {
        let made = || {
            let folder = tempfile::tempdir().unwrap();
            make(&mut Vec::new(), folder.path(), 8).unwrap();
            assert!(folder.path().join("data/spans").is_dir());
            fs::read_to_string(folder.path().join("expected.tsv")).unwrap()
        };
        let table = made();
        assert_eq!(table, made());
        assert!(table.lines().count() > 8 && table.contains("\tdecode\t"));
    }
}
