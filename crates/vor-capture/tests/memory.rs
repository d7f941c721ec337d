//! A small hostile file gets no more memory than its bytes justify, including its tables of
//! declarations and its payloads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::Cursor;
use std::sync::{Arc, Mutex};

use vor_capture::filled;
use vor_capture::format::{
    Encoder, Header, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, RecordRef,
};
use vor_capture::model::catalog::{Column, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Event, Reader};
use vor_fixtures::random::Random;
use vor_fixtures::sealed::{Mutation, Sealed, declarations, kind, put_varint, seeds};

#[global_allocator]
static ALLOCATOR: vor_fixtures::memory::Counting = vor_fixtures::memory::Counting;

const MAX_LIVE_BYTES: usize = 64 << 20;

/// A file that declares the last id of every table, again and again under other names. Each
/// declaration is followed by a frame that holds the tables at that point.
fn hostile() -> Vec<u8> {
    let mut encoder = Encoder::new(Header {
        file_id: 5,
        flags: Header::KEEPS_SPANS,
        ..Header::default()
    });
    let mut file = Vec::new();
    encoder.header(&mut file);
    for index in 0..6_u64 {
        let name = format!("name {index}");
        let site = Some(Arc::new(filled!(SiteInfo {
            name: name.clone().into()
        })));
        let thread = Some(Arc::new(filled!(ThreadInfo {
            os_id: index,
            name: name.clone(),
        })));
        let column = filled!(Column {
            metric: MetricColumn {
                name: name.clone(),
                unit: String::new(),
            },
            system: index % 2 == 0,
        });
        let declarations = [
            RecordRef::Sites {
                first: SiteId(MAX_DECLARED_ID - 1),
                sites: &[site],
            },
            RecordRef::Threads {
                first: ThreadId(MAX_DECLARED_ID - 1),
                threads: &[thread],
            },
            RecordRef::Columns {
                first: MAX_COLUMNS - 1,
                columns: &[column],
            },
            RecordRef::FrameSets {
                first: MAX_FRAME_SETS - 1,
                names: &[name],
            },
        ];
        for declaration in declarations {
            encoder.encode(declaration, &mut file);
        }
        for frame_set in [MAX_FRAME_SETS - 1, 0] {
            let frame = filled!(FrameSnapshot {
                index,
                frame_set,
                end_ticks: index
            });
            encoder.encode(RecordRef::Frame(&frame), &mut file);
        }
    }
    file
}

/// Held by the test that measures: all tests of a process share the count.
static MEASURED: Mutex<()> = Mutex::new(());

#[test]
fn changed_payloads_get_little_memory() {
    let _measured = MEASURED.lock().unwrap_or_else(|error| error.into_inner());
    let (mut most, mut what) = (0, String::new());
    for (seed, capture) in seeds().iter().enumerate() {
        let whole = Sealed::of(capture);
        for case in 0..100 {
            let mut random = Random((seed as u64) << 40 | case);
            let mutations = [0, 1, 2].map(|_| Mutation::random(&mut random));
            let mut sealed = whole.clone();
            sealed.mutate(&mutations);
            let file = sealed.bytes();
            let bytes = vor_fixtures::memory::peak_of(|| read(&file));
            if bytes > most {
                (most, what) = (bytes, format!("seed {seed}, {mutations:?}"));
            }
        }
    }
    println!("peak: {most} bytes, {what}");
    assert!(most < MAX_LIVE_BYTES, "{most} bytes: {what}");
}

/// Every number of these payloads is made a large one, whatever it counts.
#[test]
fn large_counts_of_small_payloads_get_little_memory() {
    let _measured = MEASURED.lock().unwrap_or_else(|error| error.into_inner());
    let whole = Sealed::of(&seeds()[0]);
    // Tables of declarations have a test of their own.
    for kind in (kind::BATCH..=kind::HEAP).chain([kind::SCHEDULER]) {
        let payload = &whole.records[whole.find(kind)].payload;
        for at in 0..payload.len().min(32) {
            for count in [1 << 12, 1 << 18, u64::MAX] {
                let mut changed = payload[..at].to_vec();
                put_varint(&mut changed, count);
                changed.extend_from_slice(&payload[at + 1..]);
                let mut sealed = declarations();
                sealed.push(kind, &changed);
                let file = sealed.bytes();
                let bytes = vor_fixtures::memory::peak_of(|| read(&file));
                assert!(
                    bytes < MAX_LIVE_BYTES,
                    "{bytes} bytes: kind {kind}, {count} at {at}"
                );
            }
        }
    }
}

/// Reads a file with both readers.
fn read(file: &[u8]) {
    let mut reader = Reader::new(file).unwrap();
    while reader.next_event().unwrap().is_some() {}
    let mut reader = Reader::new(file).unwrap();
    while reader.next_recovered().unwrap().is_some() {}
    let mut capture = Capture::new(Cursor::new(file.to_vec())).unwrap();
    for i in 0..capture.frame_count().min(100) {
        let _ = capture.frame(i);
    }
}

#[test]
fn tables_of_a_hostile_file_stay_small() {
    let _measured = MEASURED.lock().unwrap_or_else(|error| error.into_inner());
    let file = hostile();
    assert!(file.len() < 10_000, "{} bytes", file.len());
    let frames = vor_fixtures::memory::peak_of(|| {
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut frames = 0;
        while let Some(frame) = reader.next_frame().unwrap() {
            frames += 1;
            assert!(frame.system.len() <= MAX_COLUMNS as usize);
        }
        assert_eq!(frames, 6);
        let catalog = reader.catalog().unwrap();
        assert_eq!(catalog.site_name(SiteId(MAX_DECLARED_ID - 1)), "name 5");
        assert_eq!(catalog.thread_name(ThreadId(MAX_DECLARED_ID - 1)), "name 5");
    });
    let events = vor_fixtures::memory::peak_of(|| {
        let mut reader = Reader::new(file.as_slice()).unwrap();
        let mut frames = 0;
        while let Some(event) = reader.next_event().unwrap() {
            frames += usize::from(matches!(event, Event::Frame(_)));
        }
        assert_eq!(frames, 12);
    });
    let capture = vor_fixtures::memory::peak_of(|| {
        let mut capture = Capture::new(Cursor::new(file.clone())).unwrap();
        assert_eq!(capture.frame_count(), 6);
        for i in 0..6 {
            assert_eq!(capture.frame(i).unwrap().index, i);
        }
        capture.select_frame_set(MAX_FRAME_SETS - 1).unwrap();
        assert_eq!(capture.frame_count(), 6);
    });
    for bytes in [frames, events, capture] {
        // The tables really exist, and stay below the bound.
        assert!((16 << 20..MAX_LIVE_BYTES).contains(&bytes), "{bytes} bytes");
    }
    println!("peak: frames {frames}, events {events}, capture {capture} bytes");
}
