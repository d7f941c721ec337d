//! `vor info`: a summary of a capture, mostly from its index.

use std::io::Write;
use std::path::PathBuf;

use serde::Serialize;
use vor_capture::model::catalog::{MachineInfo, ThreadId};
use vor_capture::units;
use vor_export::thread_label;

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::json::{self, DamageJson};
use crate::command::source::Source;
use crate::command::table::{printable, room, wrap};

/// Summarises a capture: frames, spans, threads, duration, drops, damage.
///
/// If the capture has an index, only that is read, so damage in the middle of a large file may not
/// show. `vor check` reads everything.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture: a file, a folder of segments, or a pattern such as 'run-*.vor'.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct InfoJson {
    file: String,
    version: u16,
    file_bytes: u64,
    closed: bool,
    indexed: bool,
    recorder: String,
    process: ProcessJson,
    start_unix_ns: Option<i64>,
    duration_ns: u64,
    /// The time that an empty scope cost its thread, if it was measured.
    scope_ns: Option<f64>,
    dump: Option<DumpJson>,
    frames: u64,
    frame_sets: Vec<String>,
    spans: u64,
    dropped_spans: u64,
    call_sites: u64,
    threads: Vec<ThreadJson>,
    columns: Vec<ColumnJson>,
    damage: DamageJson,
}

#[derive(Debug, Serialize)]
struct ProcessJson {
    pid: u32,
    name: String,
}

/// Why the capture was written, if its records were kept in memory.
#[derive(Debug, Serialize)]
struct DumpJson {
    reason: String,
    unix_ns: i64,
    number: u64,
    missed: u64,
}

#[derive(Debug, Serialize)]
struct ThreadJson {
    name: String,
    os_id: u64,
}

#[derive(Debug, Serialize)]
struct ColumnJson {
    name: String,
    unit: String,
    system: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let source = Source::open(&args.path)?;
    let info = gather(&source);
    if args.json {
        json::write_pretty(out, &info)?;
    } else {
        print(&source, &info, out).map_err(Failure::output)?;
    }
    Ok(Outcome::Success)
}

fn gather(source: &Source) -> InfoJson {
    let catalog = source.capture.catalog();
    let info = &source.info;
    let mut gathered = InfoJson {
        file: source.path.display().to_string(),
        version: info.version,
        file_bytes: info.file_bytes,
        closed: info.closed,
        indexed: info.indexed,
        recorder: catalog.process.recorder.clone(),
        process: ProcessJson {
            pid: catalog.process.pid,
            name: catalog.process.name.clone(),
        },
        // A version-2 file without spans has durations only.
        start_unix_ns: catalog.timeline.syncs().first().map(|sync| sync.unix_ns),
        duration_ns: info.duration_ns,
        scope_ns: scope_ns(&catalog.machine),
        dump: catalog.dump.as_ref().map(|dump| DumpJson {
            reason: dump.reason.clone(),
            unix_ns: catalog.timeline.unix_ns(dump.ticks),
            number: dump.number,
            missed: dump.missed,
        }),
        frames: info.frames,
        frame_sets: catalog.frame_sets.iter().skip(1).cloned().collect(),
        spans: info.spans,
        dropped_spans: info.dropped_spans,
        call_sites: catalog.sites.len() as u64,
        threads: Vec::new(),
        columns: Vec::new(),
        damage: DamageJson::new(&info.damage),
    };
    for (id, thread) in (0..).zip(catalog.threads.iter()) {
        gathered.threads.push(ThreadJson {
            name: thread_label(catalog, ThreadId(id)).into_owned(),
            os_id: thread.as_ref().map_or(0, |thread| thread.os_id),
        });
    }
    for column in catalog.columns.iter() {
        gathered.columns.push(ColumnJson {
            name: column.metric.name.clone(),
            unit: column.metric.unit.clone(),
            system: column.system,
        });
    }
    gathered
}

/// Width of the label in front of a line.
const HEAD: usize = 12;

fn print(source: &Source, info: &InfoJson, out: &mut impl Write) -> std::io::Result<()> {
    let room = room();
    let mut line = |head: &str, text: &str| {
        let lines = match room {
            Some(room) => wrap(text, room.saturating_sub(HEAD + 2)),
            None => vec![text.to_owned()],
        };
        for (i, text) in lines.iter().enumerate() {
            let head = if i == 0 { head } else { "" };
            writeln!(out, "{head:<HEAD$}  {text}")?;
        }
        Ok::<(), std::io::Error>(())
    };
    line("capture", &printable(&info.file))?;
    let state = match (info.closed, info.indexed) {
        (true, true) => "closed, with an index",
        (true, false) => "closed, without an index",
        _ => "not closed: the program still records, or it was killed",
    };
    let size = units::bytes(info.file_bytes);
    line(
        "file",
        &format!("version {}, {size}, {state}", info.version),
    )?;
    let mut program = printable(&info.process.name);
    if info.process.name.is_empty() {
        program = "not known".into();
    }
    if info.process.pid != 0 {
        program = format!("{program}, process {}", info.process.pid);
    }
    line(
        "program",
        &format!("{program}, recorded by vor {}", printable(&info.recorder)),
    )?;
    if let Some(start) = info.start_unix_ns {
        line("recorded", &units::date(start))?;
    }
    line("duration", &units::duration(info.duration_ns as f64))?;
    if let Some(dump) = &info.dump {
        line("dumped", &dumped(dump))?;
    }
    line("frames", &frames(info))?;
    if !info.frame_sets.is_empty() {
        let names: Vec<String> = info.frame_sets.iter().map(|name| printable(name)).collect();
        line("frame sets", &names.join(", "))?;
    }
    line("spans", &spans(info))?;
    if let Some(ns) = info.scope_ns {
        line("cost", &cost(ns, info.spans))?;
    }
    line(
        "threads",
        &names(info.threads.iter().map(|thread| thread.name.as_str())),
    )?;
    let of_kind = |system| {
        let columns = info
            .columns
            .iter()
            .filter(move |column| column.system == system);
        names(columns.map(|column| column.name.as_str()))
    };
    line("sampled", &of_kind(true))?;
    line("metrics", &of_kind(false))?;
    let damage = &source.info.damage;
    let lost = damage.count + u64::from(damage.tail.as_ref().is_some_and(|tail| tail.bytes > 0));
    let known = match (lost, info.indexed) {
        (0, true) => "none known; `vor check` reads everything".into(),
        (0, false) => "none".into(),
        (lost, _) => format!("in {}; see `vor check`", units::counted(lost, "place")),
    };
    line("damage", &known)
}

fn scope_ns(machine: &MachineInfo) -> Option<f64> {
    (machine.scope_ps > 0).then_some(machine.scope_ps as f64 / 1000.0)
}

fn cost(scope_ns: f64, spans: u64) -> String {
    format!(
        "an empty scope took {} when recording began; so many spans took {}",
        units::duration(scope_ns),
        units::duration(scope_ns * spans as f64)
    )
}

fn dumped(dump: &DumpJson) -> String {
    let missed = match dump.missed {
        0 => String::new(),
        missed => format!(
            "; {} before it had no dump of their own",
            units::counted(missed, "trigger")
        ),
    };
    format!(
        "at {}: {}{missed}",
        units::date(dump.unix_ns),
        printable(&dump.reason)
    )
}

fn frames(info: &InfoJson) -> String {
    match info.frames {
        0 => "none".into(),
        frames => {
            let mean_ns = info.duration_ns as f64 / frames as f64;
            format!(
                "{}, {} each on average",
                units::count(frames),
                units::duration(mean_ns)
            )
        }
    }
}

fn spans(info: &InfoJson) -> String {
    if info.spans == 0 && info.dropped_spans == 0 {
        return "none".into();
    }
    let sites = units::counted(info.call_sites, "call site");
    let mut text = format!("{} of {sites}", units::count(info.spans));
    if info.dropped_spans == 0 {
        text.push_str(", none dropped");
    } else {
        let all = info.spans as f64 + info.dropped_spans as f64;
        let share = 100.0 * info.dropped_spans as f64 / all;
        text = format!(
            "{text}, {} DROPPED ({share:.2} %)",
            units::count(info.dropped_spans)
        );
    }
    text
}

/// Maximum number of names in a list; `--json` has all.
const MAX_NAMES: usize = 24;

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(printable).collect();
    match names.len() {
        0 => "none".into(),
        1..=MAX_NAMES => names.join(", "),
        // A program with a thread per task has thousands.
        all => {
            let rest = all - MAX_NAMES;
            format!("{} and {rest} more", names[..MAX_NAMES].join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_24_names_and_the_number_of_the_others() {
        let all: Vec<String> = (0..27).map(|number| format!("n{number}")).collect();
        let listed = |count: usize| names(all[..count].iter().map(String::as_str));
        assert_eq!(listed(0), "none");
        assert_eq!(listed(2), "n0, n1");
        assert_eq!(listed(24), all[..24].join(", "));
        assert_eq!(listed(25), format!("{} and 1 more", all[..24].join(", ")));
        assert_eq!(listed(27), format!("{} and 3 more", all[..24].join(", ")));
    }

    #[test]
    fn a_dump_has_the_triggers_that_it_stands_for() {
        let dump = |missed| DumpJson {
            reason: "asked\n".into(),
            unix_ns: 0,
            number: 3,
            missed,
        };
        let at = "at 1970-01-01 00:00:00 UTC: asked\\n";
        assert_eq!(dumped(&dump(0)), at);
        let missed = "; 1 trigger before it had no dump of their own";
        assert_eq!(dumped(&dump(1)), format!("{at}{missed}"));
    }
}
