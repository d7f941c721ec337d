//! `vor merge`: captures of several processes on one time axis.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use vor::capture::{FrameSnapshot, SpanBatch};
use vor::sinks::FrameSink;
use vor_capture::filled;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{
    Catalog, MachineInfo, ProcessInfo, SiteId, SiteInfo, ThreadInfo,
};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync, Timeline};
use vor_recorder::sinks::capture::{CaptureOptions, CaptureSink};

use crate::command::{Run, vor};

const UNIX_NS: i64 = 1_700_000_000_000_000_000;

/// A capture of one span, which begins at tick 2 000 of a nanosecond clock.
struct Small {
    pid: u32,
    host: &'static str,
    boot_id: &'static str,
    hardware_ticks: bool,
    /// How far the recorder's estimate of the time is off.
    off_ns: i64,
}

impl Small {
    fn write(&self, path: &Path) {
        let mut timeline = Timeline::default();
        timeline.push(filled!(ClockSync {
            ticks: 1_000,
            unix_ns: UNIX_NS + self.off_ns,
            rate: 1 << 40,
            wall_ns: UNIX_NS,
        }));
        let clocks = filled!(ClockSnapshot {
            ticks: 1_000,
            monotonic_ns: 40_000,
            boottime_ns: 50_000 + self.off_ns,
        });
        let site = filled!(SiteInfo {
            name: "work".into()
        });
        let catalog = Arc::new(filled!(Catalog {
            process: Arc::new(filled!(ProcessInfo {
                pid: self.pid,
                name: "rank".into(),
                recorder: "test".into(),
            })),
            machine: Arc::new(filled!(MachineInfo {
                host: self.host.into(),
                boot_id: self.boot_id.into(),
                hardware_ticks: self.hardware_ticks,
                clocks: (!self.boot_id.is_empty()).then_some(clocks),
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
                start_ticks: vec![2_000],
                duration_ticks: vec![500],
                sites: vec![SiteId(1)]
            })],
        });
        let frame = filled!(FrameSnapshot {
            catalog,
            start_ticks: 1_000,
            end_ticks: 3_000,
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
    host: "here",
    boot_id: "b1",
    hardware_ticks: true,
    off_ns: 0,
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
fn captures_of_one_boot_with_another_clock_share_the_time_since_boot() {
    let folder = tempfile::tempdir().unwrap();
    let here = Small {
        hardware_ticks: false,
        ..HERE
    };
    let captures = [
        Small { ..here },
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
    // A member is a header of 512 bytes and the content in blocks of 512 bytes. The header has the
    // name first, and the length in octal at 124.
    let (mut members, mut rest) = (Vec::new(), &bytes[..]);
    while rest[0] != 0 {
        let text = |range: std::ops::Range<usize>| {
            let text = std::str::from_utf8(&rest[range]).unwrap();
            text.trim_end_matches('\0').to_owned()
        };
        let length = usize::from_str_radix(text(124..136).trim(), 8).unwrap();
        members.push((text(0..100), &rest[512..512 + length]));
        rest = &rest[512 + length.next_multiple_of(512)..];
    }
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
