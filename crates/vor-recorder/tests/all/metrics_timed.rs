//! Readers and writers whose calls are scopes with their bytes.

#![cfg(not(feature = "off"))]

use std::io::{self, BufRead, BufReader, Cursor, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use vor_capture::model::batch::ArgValue;
use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::metrics::{IoTick, Timed, drain_io};
use vor_recorder::setup::{self, Config};

fn start() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).enable();
    (folder, path)
}

/// Returns names, arguments and durations in nanoseconds of all spans of a capture.
fn spans(path: &Path) -> Vec<(String, Vec<u64>, u64)> {
    drain::flush();
    let mut spans = Vec::new();
    let mut reader = Reader::open(path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Batch(batch) = event else { continue };
        for thread in &batch.threads {
            assert_eq!(thread.dropped_spans, 0);
            let first = spans.len();
            for at in 0..thread.len() {
                let name = batch.catalog.site_name(thread.sites[at]).to_owned();
                let (start, duration) = (thread.start_ticks[at], thread.duration_ticks[at]);
                let duration_ns = batch.catalog.timeline.duration_ns(start, duration);
                spans.push((name, Vec::new(), duration_ns));
            }
            for args in &thread.args {
                let numbers = args.values.iter().map(|value| match value {
                    ArgValue::U64(number) => *number,
                    value => panic!("{value:?}"),
                });
                spans[first + args.span as usize].1 = numbers.collect();
            }
        }
    }
    spans
}

fn shown(path: &Path) -> Vec<String> {
    let shown = spans(path).into_iter();
    shown
        .map(|(name, args, _)| format!("{name} {args:?}"))
        .collect()
}

/// Reads and writes as much as it has, each call in a known time.
struct Slow<T>(T, Duration);

impl<T: Read> Read for Slow<T> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        std::thread::sleep(self.1);
        self.0.read(buf)
    }
}

struct Fails;

impl Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::ErrorKind::ConnectionReset.into())
    }
}

#[test]
fn each_call_is_a_scope_with_its_bytes() {
    own_process!();
    let (_folder, path) = start();
    let mut file = Timed::named("file", Cursor::new(Vec::new()));
    file.write_all(b"first\nsecond\n").unwrap();
    let parts = [IoSlice::new(b"th"), IoSlice::new(b"ird\n")];
    assert_eq!(file.write_vectored(&parts).unwrap(), 6);
    file.flush().unwrap();
    assert_eq!(file.seek(SeekFrom::Start(1)).unwrap(), 1);
    let (mut one, mut other) = ([0; 1], [0; 3]);
    assert_eq!(file.read(&mut one).unwrap(), 1);
    let mut parts = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut other)];
    assert_eq!(file.read_vectored(&mut parts).unwrap(), 4);
    let mut text = String::new();
    assert_eq!(file.read_to_string(&mut text).unwrap(), 13);
    assert_eq!(
        (one, &other, text.as_str()),
        (*b"r", b"st\n", "second\nthird\n")
    );
    assert_eq!(file.read_to_end(&mut Vec::new()).unwrap(), 0);
    let expected = [
        "write: file [13]",
        "write: file [6]",
        "flush: file []",
        "seek: file []",
        "read: file [1]",
        "read: file [4]",
        "read: file [13]",
        "read: file [0]",
    ];
    assert_eq!(shown(&path), expected);
    assert_eq!(drain_io().bytes, 13 + 6 + 1 + 4 + 13);
    assert_eq!(file.get_ref().position(), 19);
    file.get_mut().set_position(0);
    assert_eq!(file.into_inner().into_inner(), b"first\nsecond\nthird\n");
}

#[test]
fn bytes_of_a_buffer_are_recorded_once_when_they_are_consumed() {
    own_process!();
    let (_folder, path) = start();
    let mut lines = Timed::named("lines", BufReader::with_capacity(4, &b"a\nbc\n"[..]));
    assert_eq!(lines.fill_buf().unwrap(), b"a\nbc");
    assert_eq!(lines.fill_buf().unwrap(), b"a\nbc");
    assert_eq!(drain_io().bytes, 0);
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    lines.read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), drain_io().bytes), ("a\nbc\n", 5));
    let fills = [4, 4, 4, 2, 1].map(|bytes| format!("fill: lines [{bytes}]"));
    assert_eq!(shown(&path), fills);
}

#[test]
fn the_time_of_a_call_is_that_of_its_scope_and_of_the_io() {
    own_process!();
    const CALL: Duration = Duration::from_millis(20);
    let (_folder, path) = start();
    let mut slow = Timed::named("slow", Slow(&b"four"[..], CALL));
    slow.read_exact(&mut [0; 4]).unwrap();
    drain::frame_mark();
    let [(name, bytes, duration_ns)] = &spans(&path)[..] else {
        panic!("one call")
    };
    assert_eq!((name.as_str(), &bytes[..]), ("read: slow", &[4][..]));
    let mut reader = Reader::open(&path).unwrap();
    let frame = loop {
        if let Some(Event::Frame(recovered)) = reader.next_event().unwrap() {
            break recovered.frame;
        }
    };
    assert_eq!(frame.metric("io_MB"), Some(4e-6));
    let io_ns = frame.metric("io_ms").unwrap() * 1e6;
    let least_ns = CALL.as_nanos() as f64;
    assert!(
        io_ns >= least_ns && *duration_ns as f64 >= io_ns * 0.999,
        "{io_ns} {duration_ns}"
    );
    assert!(*duration_ns < 50 * CALL.as_nanos() as u64);
}

#[test]
fn a_call_that_fails_has_no_bytes() {
    own_process!();
    let (_folder, path) = start();
    let line = line!() + 1;
    let mut fails = Timed::new(Fails);
    assert!(fails.read(&mut [0; 8]).is_err());
    assert_eq!(shown(&path), [format!("read: {}:{line} [0]", file!())]);
    assert_eq!(drain_io().bytes, 0);
}

#[test]
fn only_the_io_is_recorded_while_recording_is_off() {
    own_process!();
    let mut file = Timed::named("file", Cursor::new(Vec::new()));
    file.write_all(b"before").unwrap();
    let IoTick { elapsed_ns, bytes } = drain_io();
    assert!(elapsed_ns > 0 && bytes == 6);
    let (_folder, path) = start();
    setup::disable();
    file.write_all(b"while off").unwrap();
    setup::enable();
    assert!(spans(&path).is_empty());
}

/// A sink that writes by a timed writer. What it writes is vor's.
#[test]
fn nothing_is_recorded_inside_vor() {
    use std::sync::Arc;
    use vor_capture::model::batch::SpanBatch;
    use vor_capture::model::frame::FrameSnapshot;
    use vor_capture::sink::{FrameSink, Interest};

    #[derive(Debug)]
    struct Writes(Timed<Vec<u8>>);

    impl FrameSink for Writes {
        fn interest(&self) -> Interest {
            Interest::BATCHES
        }

        fn accept_batch(&mut self, _: &SpanBatch) -> Result<(), vor_capture::Error> {
            self.0.write_all(b"batch").unwrap();
            Ok(())
        }

        fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
            Ok(())
        }
    }

    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    let sink = Writes(Timed::named("sink", Vec::new()));
    Config::new().capture(&path).sink("writes", sink).enable();
    drop(vor_recorder::hot::scope::scope("work"));
    drain::flush();
    let mut names = Vec::new();
    let mut reader = Reader::open(&path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Batch(batch) = event else { continue };
        let sites = batch.threads.iter().flat_map(|thread| &thread.sites);
        names.extend(sites.map(|site| batch.catalog.site_name(*site).to_owned()));
    }
    assert_eq!((names, drain_io().bytes), (vec!["work".to_owned()], 0));
}
