//! The captures of a fleet as one data set, to query in SQL.
//!
//! ```text
//! cargo run --release -p vor-examples --features fleet --example fleet -- <folder> [captures]
//! ```
//!
//! Some hosts run a server in two versions, for two days, with a capture per process. In the newer
//! version `decode` takes 50 % more time since the second day. The program writes these captures,
//! exports them to Parquet by host and date, and writes the library's own statistics beside them,
//! which `ask.py` compares with:
//!
//! ```text
//! <folder>/captures/2.4.0/web-3-0042.vor                               a capture per process
//! <folder>/data/{spans,metrics,sketches}/host=web-3/date=2026-03-09/…  the data set
//! <folder>/expected.tsv                          percentiles of each scope, by host and version
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

/// The durations of a scope's spans, by host, version and name.
type Durations = BTreeMap<(String, String, String), Vec<u64>>;

/// The statistics of the captures of a host and version.
type Statistics = BTreeMap<(String, String), StatsBuilder>;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (folder, captures) = (arguments.next(), arguments.next());
    vor_examples::run(|out| {
        let folder = folder.ok_or("usage: fleet FOLDER [CAPTURES]")?;
        let captures = match captures {
            None => CAPTURES,
            Some(text) => text
                .to_str()
                .and_then(|text| text.parse().ok())
                .ok_or_else(|| format!("`{}` is not a number of captures", text.display()))?,
        };
        write_fleet(out, Path::new(&folder), captures)
    })
}

fn write_fleet(out: &mut dyn Write, folder: &Path, captures: usize) -> Outcome {
    for version in server::VERSIONS {
        fs::create_dir_all(folder.join("captures").join(version))?;
    }
    let (mut statistics, mut durations) = (Statistics::new(), Durations::new());
    let mut spans = 0;
    for number in 0..captures {
        let process = Process::of_fleet(number, captures);
        let path = folder
            .join("captures")
            .join(process.version)
            .join(format!("{}-{number:04}.vor", process.host));
        fs::write(&path, process.capture())?;
        spans += export(
            &path,
            &folder.join("data"),
            &process,
            &mut statistics,
            &mut durations,
        )?;
    }
    fs::write(
        folder.join("expected.tsv"),
        expected(&statistics, durations)?,
    )?;
    writeln!(
        out,
        "{captures} captures with {spans} spans: {}",
        folder.join("data").display()
    )?;
    Ok(())
}

/// Exports a capture, adds its spans to the expected values, and returns their number.
fn export(
    capture: &Path,
    data: &Path,
    process: &Process,
    statistics: &mut Statistics,
    durations: &mut Durations,
) -> Result<u64, Box<dyn std::error::Error>> {
    let stem = capture.file_stem().unwrap_or_default().to_string_lossy();
    let origin = vor::capture::filled!(Origin {
        host: Some(process.host.clone()),
        version: Some(process.version.to_owned()),
    });
    let mut data = Dataset::new(data, &stem, &Partition::list("host,date")?, origin)?;
    // Threads have the same numbers in all captures, so each capture gets separate statistics,
    // which are merged at the end.
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
                        let duration_ns = catalog
                            .timeline
                            .duration_ns(thread.start_ticks[i], thread.duration_ticks[i]);
                        let name = catalog.site_name(site).to_owned();
                        let key = (process.host.clone(), process.version.to_owned(), name);
                        durations.entry(key).or_default().push(duration_ns);
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
fn expected(statistics: &Statistics, mut durations: Durations) -> Result<String, std::fmt::Error> {
    let catalog = server::catalog(&Process::of_fleet(0, 1));
    let mut table =
        String::from("host\tversion\tname\tcount\tsum_ns\tself_sum_ns\texact_p99_ns\tp99_ns\n");
    for ((host, version), stats) in statistics {
        for row in stats.scope_stats(&catalog) {
            let key = (host.clone(), version.clone(), row.name.clone());
            let mut durations = durations.remove(&key).unwrap_or_default();
            durations.sort_unstable();
            // By rank and without interpolation: 99 of 100 values do not exceed it.
            let rank = (durations.len() * 99).div_ceil(100);
            let exact = rank.checked_sub(1).map_or(0, |at| durations[at]);
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
        let expected = || {
            let folder = tempfile::tempdir().unwrap();
            write_fleet(&mut Vec::new(), folder.path(), 8).unwrap();
            assert!(folder.path().join("data/spans").is_dir());
            fs::read_to_string(folder.path().join("expected.tsv")).unwrap()
        };
        let table = expected();
        assert_eq!(table, expected());
        assert!(table.lines().count() > 8 && table.contains("\tdecode\t"));
    }
}
