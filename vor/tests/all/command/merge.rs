//! `vor merge`: captures of several processes on one time axis.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use vor::capture::{FrameSnapshot, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::format::RecordRef;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{
    Catalog, MachineInfo, ProcessInfo, SiteId, SiteInfo, ThreadInfo,
};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, Timeline};
use vor_capture::units;
use vor_fixtures::perfetto;
use vor_fixtures::sealed::{Sealed, kind};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::drafts::{UNIX_NS, WOKEN, contradict, damage, put, scheduler, write_shop};
use crate::command::{Run, vor};

/// A capture of one span, which begins 1 000 ticks after the first one of a nanosecond clock.
#[derive(Clone, Copy)]
struct Small {
    pid: u32,
    name: &'static str,
    host: &'static str,
    boot_id: &'static str,
    hardware_ticks: bool,
    has_clocks: bool,
    /// How far the recorder's estimate of the time is off.
    off_ns: i64,
    /// When the clock was read, and when once more.
    ticks: (u64, u64),
}

impl Small {
    fn write(&self, path: &Path) {
        let mut timeline = Timeline::default();
        let (first, last) = self.ticks;
        for ticks in [first, last] {
            let wall_ns = UNIX_NS + (ticks - first) as i64;
            timeline.push(filled!(ClockSync {
                ticks,
                unix_ns: wall_ns + self.off_ns,
                rate: 1 << 40,
                wall_ns,
            }));
        }
        let clocks = filled!(ClockSnapshot {
            ticks: first,
            monotonic_ns: 40_000,
            boottime_ns: 50_000 + self.off_ns,
        });
        let site = filled!(SiteInfo {
            name: "work".into()
        });
        let catalog = Arc::new(filled!(Catalog {
            process: Arc::new(filled!(ProcessInfo {
                pid: self.pid,
                name: self.name.into(),
                recorder: "test".into(),
            })),
            machine: Arc::new(filled!(MachineInfo {
                host: self.host.into(),
                boot_id: self.boot_id.into(),
                hardware_ticks: self.hardware_ticks,
                clocks: self.has_clocks.then_some(clocks),
            })),
            timeline: Arc::new(timeline),
            sites: Arc::new(vec![Some(Arc::new(site))]),
            threads: Arc::new(vec![Some(Arc::new(filled!(ThreadInfo {
                os_id: u64::from(self.pid),
                name: "main".into(),
            })))]),
            frame_sets: Arc::new(vec![String::new()])
        }));
        let batch = filled!(SpanBatch {
            catalog: Arc::clone(&catalog),
            threads: vec![filled!(ThreadBatch {
                start_ticks: vec![first + 1_000],
                duration_ticks: vec![500],
                sites: vec![SiteId(1)]
            })],
        });
        let frame = filled!(FrameSnapshot {
            catalog,
            start_ticks: first,
            end_ticks: first + 2_000,
            span_count: 1
        });
        let mut sink = CaptureSink::create(path, CaptureOptions::default()).unwrap();
        sink.accept_batch(&batch).unwrap();
        sink.accept_frame(&Arc::new(frame)).unwrap();
        sink.finish().unwrap();
    }
}

fn merge(folder: &Path, captures: &[Small], output: &str) -> Run {
    let mut command = vor();
    command.arg("merge");
    for (i, capture) in captures.iter().enumerate() {
        let path = folder.join(format!("{i}.vor"));
        capture.write(&path);
        command.arg(path);
    }
    Run::from(command.arg("-o").arg(folder.join(output)).output().unwrap())
}

/// Reads a varint.
fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = bytes[0];
        *bytes = &bytes[1..];
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return value;
        }
    }
}

/// Fields of a protobuf message: numbers, and messages as their bytes.
fn fields(mut bytes: &[u8]) -> Vec<(u64, u64, &[u8])> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                found.push((key >> 3, varint(&mut bytes), &[][..]));
                continue;
            }
            1 => 8,
            _ => varint(&mut bytes) as usize,
        };
        found.push((key >> 3, 0, &bytes[..length]));
        bytes = &bytes[length..];
    }
    found
}

fn field<'a>(message: &[(u64, u64, &'a [u8])], number: u64) -> Option<(u64, &'a [u8])> {
    let found = message.iter().find(|field| field.0 == number);
    found.map(|field| (field.1, field.2))
}

/// Returns the name and ID of each process of a trace, and the begin of its thread's first span.
fn begins(trace: &[u8]) -> Vec<(String, u64, u64)> {
    let (mut processes, mut threads, mut begins) =
        (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for (_, _, packet) in fields(trace) {
        let packet = fields(packet);
        let sequence = field(&packet, 10).unwrap().0;
        if let Some((_, descriptor)) = field(&packet, 60) {
            let descriptor = fields(descriptor);
            if let Some((_, process)) = field(&descriptor, 3) {
                let process = fields(process);
                let name = String::from_utf8(field(&process, 6).unwrap().1.to_vec()).unwrap();
                processes.insert(field(&process, 1).unwrap().0, name);
            }
            if let Some((_, thread)) = field(&descriptor, 4) {
                threads.insert(sequence, field(&fields(thread), 1).unwrap().0);
            }
        }
        if let Some((_, snapshot)) = field(&packet, 6) {
            // The clock of a sequence begins with its first span.
            let clocks: Vec<_> = fields(snapshot)
                .into_iter()
                .filter(|field| field.0 == 1)
                .map(|field| fields(field.2))
                .collect();
            if clocks.iter().any(|clock| field(clock, 1).unwrap().0 == 64) {
                begins.insert(sequence, field(&clocks[0], 2).unwrap().0);
            }
        }
    }
    let begin = |(sequence, pid): (&u64, &u64)| (processes[pid].clone(), *pid, begins[sequence]);
    threads.iter().map(begin).collect()
}

const HERE: Small = Small {
    pid: 10,
    name: "rank",
    host: "here",
    boot_id: "b1",
    hardware_ticks: true,
    has_clocks: true,
    off_ns: 0,
    ticks: (1_000, 1_000),
};

#[test]
fn captures_of_one_boot_share_their_ticks() {
    let folder = tempfile::tempdir().unwrap();
    // The second recorder's estimate of the time is half a millisecond later; the ticks show that
    // both spans began at the same time.
    let captures = [
        HERE,
        Small {
            pid: 11,
            off_ns: 500_000,
            ..HERE
        },
    ];
    let run = merge(folder.path(), &captures, "all.pftrace");
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{run:?}");
    assert_eq!(
        run.stderr,
        "vor: one boot of here: aligned to the tick of its clock\n"
    );
    let found = begins(&std::fs::read(folder.path().join("all.pftrace")).unwrap());
    let [first, second] = &found[..] else {
        panic!("{found:?}")
    };
    assert_eq!(
        (&*first.0, first.1, &*second.0, second.1),
        ("rank", 10, "rank", 11)
    );
    assert_eq!(first.2, second.2);
    assert!([51_000, 551_000].contains(&first.2), "{found:?}");
}

#[test]
fn the_longest_recording_has_the_clock_of_all() {
    let folder = tempfile::tempdir().unwrap();
    // The first is the longest. The second has the largest quotient of its ticks, and the third the
    // largest sum.
    let captures = [
        Small {
            ticks: (1_000, 9_000),
            ..HERE
        },
        Small {
            pid: 11,
            off_ns: 70,
            ticks: (10, 500),
            ..HERE
        },
        Small {
            pid: 12,
            off_ns: 300,
            ticks: (100_000, 101_000),
            ..HERE
        },
    ];
    let run = merge(folder.path(), &captures, "all.pftrace");
    assert_eq!(run.code, 0, "{run:?}");
    let found = begins(&std::fs::read(folder.path().join("all.pftrace")).unwrap());
    let found: Vec<_> = found.iter().map(|found| (found.1, found.2)).collect();
    // By the first clock, tick 1 000 is 50 000.
    assert_eq!(found, [(10, 51_000), (11, 50_010), (12, 150_000)]);
}

#[test]
fn captures_without_a_boot_or_without_its_clocks_share_the_wall_clock() {
    let unknown = Small {
        boot_id: "",
        ..HERE
    };
    let without = Small {
        has_clocks: false,
        ..HERE
    };
    for (one, other) in [(unknown, unknown), (HERE, without), (without, HERE)] {
        let folder = tempfile::tempdir().unwrap();
        let later = Small {
            pid: 11,
            off_ns: -4_000,
            ..other
        };
        let run = merge(folder.path(), &[one, later], "all.pftrace");
        assert_eq!(
            run.stderr,
            "vor: aligned by the wall clocks of here: each capture is within 4.00 µs of its own \
            machine's clock; the difference between the clocks is unknown\n"
        );
        let found = begins(&std::fs::read(folder.path().join("all.pftrace")).unwrap());
        let unix = UNIX_NS as u64 + 1_000;
        assert_eq!((found[0].2, found[1].2), (unix, unix - 4_000));
    }
}

#[test]
fn captures_of_one_boot_with_another_clock_share_the_time_since_boot() {
    let folder = tempfile::tempdir().unwrap();
    let here = Small {
        hardware_ticks: false,
        ..HERE
    };
    let captures = [
        here,
        Small {
            pid: 11,
            off_ns: 700,
            ..here
        },
    ];
    let run = merge(folder.path(), &captures, "all.pftrace");
    assert_eq!(
        run.stderr,
        "vor: one boot of here: aligned to about a microsecond\n"
    );
    let found = begins(&std::fs::read(folder.path().join("all.pftrace")).unwrap());
    assert_eq!((found[0].2, found[1].2), (51_000, 51_700));
}

#[test]
fn captures_of_different_machines_share_the_wall_clock_and_report_it() {
    let folder = tempfile::tempdir().unwrap();
    let captures = [
        HERE,
        Small {
            host: "there",
            boot_id: "b2",
            off_ns: 3_000,
            ..HERE
        },
        Small {
            host: "",
            boot_id: "",
            has_clocks: false,
            pid: 0,
            ..HERE
        },
    ];
    let run = merge(folder.path(), &captures, "all.pftrace");
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(
        run.stderr,
        "vor: aligned by the wall clocks of an unknown machine, here, there: each capture is \
        within 3.00 µs of its own machine's clock; the difference between the clocks is unknown\n"
    );
    let found = begins(&std::fs::read(folder.path().join("all.pftrace")).unwrap());
    let unix = UNIX_NS as u64 + 1_000;
    // Two processes with the same ID on different machines are two processes.
    let made = 1 << 30;
    assert_eq!(
        found,
        [
            ("rank on here".to_owned(), 10, unix),
            ("rank on there (pid 10)".to_owned(), made, unix + 3_000),
            ("rank on an unknown machine".to_owned(), made + 1, unix),
        ]
    );
}

/// Returns the names and the contents of an archive.
fn members(archive: &[u8]) -> Vec<(String, &[u8])> {
    // A member is a header of 512 bytes and the content in blocks of 512 bytes. The header has the
    // name first, and the length in octal at 124.
    let (mut members, mut rest) = (Vec::new(), archive);
    while rest[0] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let text = std::str::from_utf8(&rest[range]).unwrap();
            text.trim_end_matches('\0').to_owned()
        };
        let length = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        members.push((text(0..100), &rest[512..512 + length]));
        rest = &rest[512 + length.next_multiple_of(512)..];
    }
    members
}

#[test]
fn traces_of_an_archive_share_the_ticks_of_one_boot() {
    let folder = tempfile::tempdir().unwrap();
    let captures = [
        Small {
            name: "a/b:c d-\u{e9}_1.2",
            ticks: (1_000, 9_000),
            ..HERE
        },
        Small {
            name: "0123456789012345678901234567890123456789012345678901234567890123456789",
            pid: 11,
            off_ns: 500_000,
            ..HERE
        },
    ];
    let run = merge(folder.path(), &captures, "all.tar");
    assert_eq!(run.code, 0, "{run:?}");
    let bytes = std::fs::read(folder.path().join("all.tar")).unwrap();
    let members = members(&bytes);
    let names: Vec<_> = members.iter().map(|member| member.0.as_str()).collect();
    assert_eq!(
        names,
        [
            "perfetto_manifest.json",
            "1-a_b_c_d-__1.2-10.pftrace",
            "2-012345678901234567890123456789012345678901234567890123456789-11.pftrace",
        ]
    );
    for (_, trace) in &members[1..] {
        assert_eq!(begins(trace)[0].2, 51_000);
    }
}

#[test]
fn an_archive_has_a_trace_for_each_capture_and_a_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let captures = [
        HERE,
        Small {
            host: "there",
            boot_id: "b2",
            ..HERE
        },
    ];
    let run = merge(folder.path(), &captures, "all.TAR");
    assert_eq!(run.code, 0, "{run:?}");
    let bytes = std::fs::read(folder.path().join("all.TAR")).unwrap();
    let members = members(&bytes);
    let names: Vec<_> = members.iter().map(|member| member.0.as_str()).collect();
    let traces = [
        "1-rank_on_here-10.pftrace",
        "2-rank_on_there__pid_10_-1073741824.pftrace",
    ];
    assert_eq!(names, ["perfetto_manifest.json", traces[0], traces[1]]);
    let manifest: serde_json::Value = serde_json::from_slice(members[0].1).unwrap();
    let expected = serde_json::json!({ "perfetto_manifest": { "version": 1, "files": [
        { "path": traces[0], "machine": { "name": "here" } },
        { "path": traces[1], "machine": { "name": "there" } },
    ] } });
    assert_eq!(manifest, expected);
    // Each by the clock of its own machine.
    for (_, trace) in &members[1..] {
        assert_eq!(begins(trace)[0].2, 51_000);
    }
}

#[test]
fn damage_is_reported_and_the_rest_is_merged() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, torn) = (
        folder.path().join("whole.vor"),
        folder.path().join("torn.vor"),
    );
    HERE.write(&whole);
    Small { pid: 11, ..HERE }.write(&torn);
    let bytes = std::fs::read(&torn).unwrap();
    std::fs::write(&torn, &bytes[..bytes.len() - 40]).unwrap();
    let output = folder.path().join("all.pftrace");
    let mut command = vor();
    command
        .arg("merge")
        .args([&whole, &torn])
        .arg("-o")
        .arg(&output);
    let run = Run::from(command.output().unwrap());
    assert_eq!(run.code, 3, "{run:?}");
    assert!(run.stderr.contains("torn.vor: the last"), "{run:?}");
    assert_eq!(begins(&std::fs::read(&output).unwrap()).len(), 2);
}

/// Merges two files.
fn merge_files(folder: &Path, files: [&[u8]; 2]) -> (Run, Vec<u8>) {
    let output = folder.join("all.pftrace");
    let mut command = vor();
    command.arg("merge").arg("-o").arg(&output);
    for (name, bytes) in ["one.vor", "two.vor"].iter().zip(files) {
        command.arg(put(folder, name, bytes));
    }
    let run = Run::from(command.output().unwrap());
    (run, std::fs::read(output).unwrap())
}

#[test]
fn any_capture_that_lacks_something_makes_the_trace_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write_shop().close();
    let mut damaged = whole.clone();
    let (_, lost) = damage(&mut damaged, kind::BATCH, 1);
    let mut sealed = Sealed::of(&whole);
    contradict(&mut sealed, &[11, 12]);
    let contradicting = sealed.bytes();
    let lost = units::bytes(lost as u64);
    let loss = format!("damaged in 2 places, {lost} skipped; see `vor check`");
    let contradictions = "2 frames with lost records; see `vor check`";
    for (files, code, reports) in [
        ([&whole, &whole], 0, &[][..]),
        (
            [&damaged, &damaged],
            3,
            &[("one.vor", loss.as_str()), ("two.vor", &loss)],
        ),
        ([&damaged, &whole], 3, &[("one.vor", &loss)]),
        ([&whole, &contradicting], 3, &[("two.vor", contradictions)]),
        ([&contradicting, &whole], 3, &[("one.vor", contradictions)]),
    ] {
        let (run, _) = merge_files(folder.path(), files.map(Vec::as_slice));
        let report =
            |(name, what)| format!("vor: {}: {what}\n", folder.path().join(name).display());
        let reports: String = reports.iter().copied().map(report).collect();
        assert_eq!(run.code, code, "{run:?}");
        let aligned = "vor: aligned by the wall clocks of web-1: each capture is within 0 ns of \
            its own machine's clock; the difference between the clocks is unknown\n";
        assert_eq!(run.stderr, format!("{reports}{aligned}"));
    }
}

#[test]
fn frames_metrics_and_the_scheduler_are_in_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let whole = write_shop().close();
    let (_, trace) = merge_files(folder.path(), [&whole, &whole]);
    let trace = perfetto::read(&trace);
    let mut slices: Vec<(&str, u64)> = trace
        .slices
        .iter()
        .map(|slice| (slice.name.as_str(), slice.end_ns - slice.start_ns))
        .collect();
    slices.sort_unstable();
    let mut expected = [
        ("frame", 4_000),
        ("frame", 4_000),
        ("frame", 5_000),
        ("frame", 11_000),
        ("parse", 50),
        ("parse", 100),
        ("parse", 300),
        ("parse", 400),
        ("render", 2_500),
        ("request", 1_000),
        ("request", 2_000),
        ("request", 10_000),
    ]
    .repeat(2);
    expected.sort_unstable();
    assert_eq!(slices, expected);
    let mut values = trace.values.clone();
    values.retain(|(name, _)| name == "loss");
    let values: Vec<f64> = values.into_iter().map(|(_, value)| value).collect();
    assert_eq!(values, [0.5, 0.5, 0.25, 0.25]);

    let mut draft = write_shop();
    draft.record(RecordRef::Scheduler(&scheduler()));
    let (_, trace) = merge_files(folder.path(), [&whole, &draft.close()]);
    assert!(
        trace
            .windows(WOKEN.len())
            .any(|part| part == WOKEN.as_bytes())
    );
}

#[test]
fn one_capture_or_none_is_no_merge_and_a_capture_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.vor");
    HERE.write(&path);
    let run = |args: &[&Path]| {
        let mut command = vor();
        command.arg("merge").args(args).arg("-o").arg(&path);
        Run::from(command.output().unwrap())
    };
    assert_eq!(run(&[&path]).code, 2);
    let before = std::fs::read(&path).unwrap();
    let refused = run(&[&path, &path]);
    assert!(
        refused
            .refusal()
            .contains("is a capture, which is never overwritten"),
        "{refused:?}"
    );
    let gone = folder.path().join("gone.vor");
    assert!(run(&[&path, &gone]).refusal().contains("gone.vor"));
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
