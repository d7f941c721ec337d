//! A small hostile file gets no more memory than its bytes justify, including its tables of
//! declarations.

use std::io::Cursor;
use std::sync::Arc;

use vor_capture::filled;
use vor_capture::format::{
    Encoder, Header, MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, RecordRef,
};
use vor_capture::model::catalog::{Column, MetricColumn, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::reader::{Capture, Event, Reader};

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

// One test, because all tests of a process share the count.
#[test]
fn tables_of_a_hostile_file_stay_small() {
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
