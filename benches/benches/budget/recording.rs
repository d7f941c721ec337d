//! Whole recordings in children: from the first scope to the complete file.

use std::error::Error;

use tempfile::tempdir;
use vor_benches::process::children_cpu_ns;
use vor_benches::spans::totals;

use crate::Options;
use crate::child::{Task, spawn};
use crate::table::{Table, Target};

/// The limits of a recording of one kind.
struct Recording {
    name: &'static str,
    task: Task,
    writer_ns: Target,
    total_ns: Target,
    peak_mb: Target,
    bytes: Target,
    drops: Target,
}

/// Measures recordings of several kinds.
pub fn measure(options: &Options, table: &mut Table) {
    let recordings = [
        Recording {
            name: "flat out",
            task: Task::FlatOut,
            writer_ns: Target::AtMost(21.0),
            total_ns: Target::AtMost(35.0),
            peak_mb: Target::AtMost(32.0),
            bytes: Target::None,
            drops: Target::None,
        },
        Recording {
            name: "25 M spans/s",
            task: Task::Paced,
            writer_ns: Target::None,
            total_ns: Target::None,
            peak_mb: Target::AtMost(32.0),
            bytes: Target::None,
            drops: Target::AtMost(0.0),
        },
        Recording {
            name: "200-800 ns of work",
            task: Task::Work,
            writer_ns: Target::None,
            total_ns: Target::None,
            peak_mb: Target::AtMost(32.0),
            bytes: Target::AtMost(2.2),
            drops: Target::AtMost(0.0),
        },
        Recording {
            name: "random trees",
            task: Task::Trees,
            writer_ns: Target::None,
            total_ns: Target::None,
            peak_mb: Target::AtMost(32.0),
            bytes: Target::AtMost(3.6),
            drops: Target::AtMost(0.0),
        },
    ];
    for recording in recordings {
        if let Err(error) = measure_one(options, table, &recording) {
            table.not_measured(recording.name, error);
        }
    }
}

fn measure_one(
    options: &Options,
    table: &mut Table,
    recording: &Recording,
) -> Result<(), Box<dyn Error>> {
    let folder = tempdir()?;
    let path = folder.path().join("run.vor");
    let cpu_before = children_cpu_ns();
    let said = spawn(recording.task, options.seconds, &path)?;
    let cpu_after = children_cpu_ns();
    let told = |key: &str| {
        said.get(key)
            .copied()
            .ok_or_else(|| format!("the child said nothing of {key}"))
    };
    let spans = told("spans")?;
    let name = recording.name;
    let wall = told("wall_ns")? / spans;
    let note = format!("{:.1} M spans, {wall:.1} ns of wall time each", spans / 1e6);
    table.add_noted(
        format!("{name}: writer per span"),
        recording.writer_ns,
        told("writer_ns")? / spans,
        "ns CPU",
        note,
    );
    table.add(
        format!("{name}: drain per span"),
        Target::None,
        told("drain_ns")? / spans,
        "ns CPU",
    );
    match cpu_before.zip(cpu_after) {
        Some((before, after)) => {
            let ns = (after - before) as f64 / spans;
            table.add(
                format!("{name}: all threads per span, to the finished file"),
                recording.total_ns,
                ns,
                "ns CPU",
            );
        }
        None => table.not_measured(format!("{name}: CPU of all threads"), "no /proc/self/stat"),
    }
    if let Some(floor_ns) = said.get("floor_ns") {
        let ratio = told("writer_ns")? / spans / floor_ns;
        let note = format!("two clock reads: {floor_ns:.2} ns");
        let question = format!("{name}: writer per span / two clock reads");
        table.add_noted(question, Target::None, ratio, "x", note);
    }
    match said.get("peak_kib") {
        Some(kib) => table.add(
            format!("{name}: peak memory"),
            recording.peak_mb,
            kib * 1024.0 / 1e6,
            "MB",
        ),
        None => table.not_measured(format!("{name}: peak memory"), "no /proc/self/status"),
    }
    let totals = totals(&path)?;
    let bytes = totals.bytes as f64 / totals.spans as f64;
    table.add(
        format!("{name}: bytes per span in the file"),
        recording.bytes,
        bytes,
        "B",
    );
    let dropped = totals.dropped_spans as f64;
    let note = format!("{:.2} % of the spans", 100.0 * dropped / spans);
    table.add_noted(
        format!("{name}: dropped spans"),
        recording.drops,
        dropped,
        "spans",
        note,
    );
    if totals.frames > 1 {
        let note = format!("{} frames in the file", totals.frames);
        let merged = totals.merged_marks as f64;
        let question = format!("{name}: merged marks");
        table.add_noted(question, recording.drops, merged, "marks", note);
    }
    let uncounted = (spans - totals.spans as f64 - dropped).abs();
    table.add(
        format!("{name}: spans neither in the file nor counted"),
        Target::AtMost(0.0),
        uncounted,
        "spans",
    );
    let closed = f64::from(u8::from(totals.is_closed));
    table.add(
        format!("{name}: the file ends with its index"),
        Target::AtLeast(1.0),
        closed,
        "",
    );
    Ok(())
}

/// Measures recordings at full speed, with a mark after each group of spans.
pub fn measure_frames(options: &Options, table: &mut Table) {
    let most = |measured: bool, most| {
        if measured {
            Target::AtMost(most)
        } else {
            Target::None
        }
    };
    for (name, spans) in [
        ("a mark every 30 spans", 30),
        ("a mark every 100 spans", 100),
        ("a mark every 300 spans", 300),
        ("a mark every 1000 spans", 1_000),
        ("a mark every 10000 spans", 10_000),
    ] {
        let recording = Recording {
            name,
            task: Task::Frames(spans),
            writer_ns: most(spans >= 100, 25.0),
            total_ns: most(spans >= 300, 40.0),
            peak_mb: Target::AtMost(32.0),
            bytes: Target::None,
            drops: most(spans >= 100, 0.0),
        };
        if let Err(error) = measure_one(options, table, &recording) {
            table.not_measured(name, error);
        }
    }
    for spans in [100, 1_000] {
        let name = format!("nobody reads, a mark every {spans} spans");
        let path = std::path::Path::new("");
        let said = match spawn(Task::FramesUnread(spans), options.seconds, path) {
            Ok(said) => said,
            Err(error) => {
                table.not_measured(name, error);
                continue;
            }
        };
        let of = |key: &str| said.get(key).copied().unwrap_or(f64::NAN);
        let writer = of("writer_ns") / of("spans");
        let question = format!("{name}: writer per span");
        table.add(question, Target::None, writer, "ns CPU");
        let question = format!("{name}: drain per span");
        table.add(
            question,
            Target::None,
            of("drain_ns") / of("spans"),
            "ns CPU",
        );
        let question = format!("{name}: writer / two clock reads");
        table.add(question, Target::None, writer / of("floor_ns"), "x");
    }
}

/// Measures the cost of a mark for its caller.
pub fn measure_marks(_: &Options, table: &mut Table) {
    let measured = tempdir()
        .map_err(Into::into)
        .and_then(|folder| spawn(Task::Marks, 0.0, &folder.path().join("run.vor")));
    let said = match measured {
        Ok(said) => said,
        Err(error) => return table.not_measured("frame_mark", error),
    };
    for spans in [0, 1_000, 10_000, 100_000, 1_000_000] {
        match said.get(&format!("after_{spans}")) {
            Some(ns) => table.add(
                format!("frame_mark after {spans} spans"),
                Target::AtMost(5.0),
                ns / 1000.0,
                "us",
            ),
            None => table.not_measured(
                format!("frame_mark after {spans} spans"),
                "the child said nothing of it",
            ),
        }
    }
}

/// Measures the cost of an idle recorder.
pub fn measure_idle(options: &Options, table: &mut Table) {
    let length = options.seconds.max(5.0);
    let measured = tempdir()
        .map_err(Into::into)
        .and_then(|folder| spawn(Task::Idle, length, &folder.path().join("run.vor")));
    let said = match measured {
        Ok(said) => said,
        Err(error) => return table.not_measured("idle", error),
    };
    let targets = [
        ("cpu_share", "idle: share of one core", 0.001, 1.0, "cores"),
        (
            "wakeups_per_second",
            "idle: wake-ups of the worker per second",
            1.0,
            1.0,
            "/s",
        ),
        (
            "resident_kib",
            "idle: resident memory over the program's own",
            4.0,
            1024.0 / 1e6,
            "MB",
        ),
    ];
    for (key, question, most, scale, unit) in targets {
        match said.get(key) {
            Some(value) => table.add(question, Target::AtMost(most), value * scale, unit),
            None => table.not_measured(question, "the child said nothing of it"),
        }
    }
}
