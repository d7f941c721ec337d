//! Captures in the panel: the requested frame is shown, the window has no gaps, and nothing in a
//! file stops the panel.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use vor_fixtures::even::{TestCapture, frame_ns, make};
use vor_fixtures::random::seeds;
use vor_viz::overview::OverviewMark;
use vor_viz::replay::{Arriving, ReplayState, WindowLimits};

/// Longer than any test here can take, so that a test that hangs ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Reads the results that arrive, until `is_enough`.
fn poll_until(replay: &mut ReplayState, is_enough: impl Fn(&ReplayState) -> bool) {
    let context = egui::Context::default();
    let begin = Instant::now();
    while !is_enough(replay) {
        assert!(begin.elapsed() < TIMEOUT, "{replay:.0?}");
        thread::sleep(Duration::from_millis(1));
        replay.poll(&context);
    }
}

fn load(replay: &mut ReplayState) {
    poll_until(replay, |replay| !replay.is_loading());
}

fn load_all(replay: &mut ReplayState) {
    poll_until(replay, |replay| {
        !replay.is_loading() && replay.frames_known() == replay.frames_total()
    });
}

fn written(bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    fs::write(&path, bytes).unwrap();
    (folder, path)
}

/// Checks that the window matches the capture, without a gap.
fn assert_window(replay: &ReplayState, spans: usize) {
    let window = replay.window();
    let mut begin_ns: u64 = (0..window.start).map(frame_ns).sum();
    for frame in window.clone() {
        let id = replay.id_of(frame).unwrap();
        assert_eq!(replay.frame_of(id), Some(frame));
        let entry = replay.store().frame(id).unwrap();
        assert_eq!(entry.number, frame + 10);
        assert_eq!(entry.begin_ns, begin_ns as i64, "frame {frame}");
        begin_ns += frame_ns(frame);
        assert_eq!(entry.end_ns, begin_ns as i64, "frame {frame}");
    }
    let held = (window.end - window.start) as usize * spans;
    // Spans leave the store one chunk at a time.
    assert!(replay.store().stored_spans() >= held, "{window:?}");
    let rows = &replay.store().tracks()[0].rows;
    assert!(rows.iter().map(|row| row.len()).sum::<usize>() >= held);
    assert_eq!(replay.id_of(window.end), None);
    assert_eq!(
        window
            .start
            .checked_sub(1)
            .and_then(|before| replay.id_of(before)),
        None
    );
}

#[test]
fn any_of_ten_thousand_frames_is_shown_with_its_neighbours() {
    let (_folder, path) = written(&make(10_000, 30, true).bytes);
    let mut replay = ReplayState::open(&path).unwrap();
    assert_eq!((replay.name(), replay.frames_total()), ("run.vor", 10_000));
    load(&mut replay);
    assert_eq!(replay.window(), 0..256);
    assert!(!replay.follows() && !replay.can_follow());
    assert_window(&replay, 30);
    for frame in [5_000, 9_999, 0, 4_321, 4_322, 20_000, 128] {
        replay.take_arrived();
        replay.go_to(frame);
        poll_until(&mut replay, |replay| {
            replay.id_of(frame.min(9_999)).is_some()
        });
        load(&mut replay);
        let frame = frame.min(9_999);
        assert_eq!(replay.requested(), Some(frame));
        assert_eq!(replay.take_arrived(), replay.id_of(frame), "frame {frame}");
        assert_eq!(replay.take_arrived(), None);
        let window = replay.window();
        assert_eq!(window.end - window.start, 256);
        let middle = frame.clamp(128, 9_999 - 127);
        assert!(window.contains(&middle) && window.contains(&frame));
        assert!(
            window.start.abs_diff(middle - 128) < 130,
            "{window:?} for {frame}"
        );
        assert_window(&replay, 30);
    }
    replay.move_window(7_000);
    load(&mut replay);
    assert_eq!(replay.window(), 7_000..7_256);
    assert_window(&replay, 30);
    assert_eq!(replay.problem(), None);
}

/// Numbers of frames are known only when all frames before are looked at, which takes longer than
/// to open a capture.
#[test]
fn a_number_is_awaited_until_its_frame_is_known() {
    for is_closed in [true, false] {
        let (_folder, path) = written(&make(3_000, 3, is_closed).bytes);
        // The first frame has the number 10.
        for (number, frame) in [
            (10, 0),
            (1_510, 1_500),
            (3, 0),
            (3_009, 2_999),
            (7_000, 2_999),
        ] {
            let mut replay = ReplayState::open(&path).unwrap();
            replay.go_to_number(number);
            poll_until(&mut replay, |replay| replay.frames_known() == 3_000);
            load(&mut replay);
            assert_eq!(replay.requested(), Some(frame), "{number}");
            assert_eq!(replay.take_arrived(), replay.id_of(frame), "{number}");
            assert!(replay.id_of(frame).is_some());
            assert_window(&replay, 3);
        }
        // What is asked for meanwhile takes its place.
        let mut replay = ReplayState::open(&path).unwrap();
        replay.go_to_number(1_510);
        replay.go_to(20);
        poll_until(&mut replay, |replay| replay.frames_known() == 3_000);
        load(&mut replay);
        assert_eq!(replay.requested(), Some(20));
    }
}

#[test]
fn ids_and_versions_are_unique() {
    let mut replay = ReplayState::from_bytes(make(3_000, 3, true).bytes, "memory").unwrap();
    load(&mut replay);
    let mut seen = std::collections::HashMap::new();
    let mut windows = std::collections::HashMap::new();
    for frame in [1_500, 10, 2_900, 700, 650] {
        replay.go_to(frame);
        load(&mut replay);
        let window = replay.window();
        assert_eq!(
            *windows
                .entry(replay.store().version())
                .or_insert_with(|| window.clone()),
            window
        );
        for frame in replay.window() {
            let id = replay.id_of(frame).unwrap();
            assert_eq!(*seen.entry(id).or_insert(frame), frame, "{id:?}");
        }
    }
}

#[test]
fn all_frames_are_summed_up() {
    let mut replay = ReplayState::from_bytes(make(10_000, 6, true).bytes, "memory").unwrap();
    load_all(&mut replay);
    let summary = replay.summary();
    assert_eq!((summary.frames(), summary.spans()), (10_000, 60_000));
    assert_eq!(summary.dropped_spans(), 70);
    let expected: Vec<f32> = (0..10_000)
        .map(|frame| frame_ns(frame) as f32 / 1e6)
        .collect();
    let durations_ms: Vec<f32> = (0..10_000)
        .map(|frame| summary.durations_ms().get(frame).unwrap())
        .collect();
    assert_eq!(durations_ms, expected);
    assert_eq!(summary.troubled_count(), 10);
    assert_eq!(summary.troubled()[1], (1_999, OverviewMark::Dropped));
}

#[test]
fn metrics_are_reported_by_frame() {
    let mut replay = ReplayState::from_bytes(make(300, 3, true).bytes, "memory").unwrap();
    load(&mut replay);
    let columns = replay.store().catalog().columns.iter();
    let columns: Vec<_> = columns
        .map(|column| (&*column.metric.name, &*column.metric.unit, column.system))
        .collect();
    assert_eq!(columns, [("frame_ms", "ms", true), ("loss", "nats", false)]);
    let metric = |column, frame: u64| {
        let id = replay.id_of(frame)?;
        replay.store().frame(id)?.metric(column)
    };
    assert_eq!(metric(0, 99), Some(3.0));
    assert_eq!(metric(1, 50), Some(50.0 / 8.0));
    for (column, frame) in [(1, 51), (2, 50), (u32::MAX, 50), (0, 299), (0, u64::MAX)] {
        assert_eq!(
            metric(column, frame),
            None,
            "column {column} of frame {frame}"
        );
    }
}

#[test]
fn a_window_keeps_to_its_limits() {
    let mut replay = ReplayState::from_bytes(make(2_000, 90, true).bytes, "memory").unwrap();
    replay.set_limits(WindowLimits {
        frames: 64,
        spans: 1_000_000,
    });
    replay.go_to(1_000);
    load(&mut replay);
    assert_eq!(replay.window(), 968..1_032);
    assert_window(&replay, 90);
    replay.set_limits(WindowLimits {
        frames: 64,
        spans: 950,
    });
    load(&mut replay);
    assert_eq!(replay.window(), 995..1_005);
    assert_window(&replay, 90);
    // The shown frame may exceed the limit of spans.
    replay.set_limits(WindowLimits {
        frames: 64,
        spans: 1,
    });
    load(&mut replay);
    assert_eq!(replay.window(), 1_000..1_001);
    assert_window(&replay, 90);
}

#[test]
fn the_last_of_many_requests_wins() {
    let mut replay = ReplayState::from_bytes(make(10_000, 30, true).bytes, "memory").unwrap();
    let context = egui::Context::default();
    for frame in (0..10_000).step_by(97) {
        replay.go_to(frame);
        replay.poll(&context);
    }
    replay.go_to(123);
    load(&mut replay);
    assert!(replay.id_of(123).is_some());
    assert_window(&replay, 30);
}

#[test]
fn a_growing_file_is_followed_until_the_user_browses() {
    let TestCapture { bytes, frame_ends } = make(900, 9, true);
    let (_folder, path) = written(&bytes[..frame_ends[99] + 20]);
    let mut file = File::options().append(true).open(&path).unwrap();
    let mut replay = ReplayState::open(&path).unwrap();
    assert!(replay.follows() && replay.can_follow());
    load(&mut replay);
    assert_eq!(replay.window(), 0..100);

    file.write_all(&bytes[frame_ends[99] + 20..frame_ends[119]])
        .unwrap();
    poll_until(&mut replay, |replay| replay.window() == (0..120));
    assert_window(&replay, 9);
    // More than a window at once.
    file.write_all(&bytes[frame_ends[119]..frame_ends[599] + 3])
        .unwrap();
    poll_until(&mut replay, |replay| replay.window() == (344..600));
    assert_window(&replay, 9);

    replay.go_to(50);
    assert!(!replay.follows());
    load(&mut replay);
    file.write_all(&bytes[frame_ends[599] + 3..frame_ends[699]])
        .unwrap();
    thread::sleep(Duration::from_millis(250));
    load(&mut replay);
    assert!(replay.window().contains(&50));

    replay.set_follow(true);
    poll_until(&mut replay, |replay| replay.window() == (444..700));
    assert_window(&replay, 9);
    file.write_all(&bytes[frame_ends[699]..]).unwrap();
    poll_until(&mut replay, |replay| {
        !replay.can_follow() && replay.window() == (644..900)
    });
    load_all(&mut replay);
    assert_eq!(replay.summary().spans(), 8_100);
    assert_eq!(replay.problem(), None);
}

/// A stream of a running program: bytes in memory, which may begin before the first mark.
#[test]
fn bytes_that_arrive_are_followed_like_a_file() {
    let TestCapture { bytes, frame_ends } = make(300, 9, true);
    let arriving = Arriving::default();
    assert!(arriving.is_empty());
    assert!(ReplayState::arriving(&arriving, "stream").is_err());
    arriving.push(&bytes[..frame_ends[0] - 20]);
    let mut replay = ReplayState::arriving(&arriving, "stream").unwrap();
    assert!(replay.follows() && replay.can_follow());
    arriving.push(&bytes[frame_ends[0] - 20..frame_ends[119] + 7]);
    poll_until(&mut replay, |replay| replay.window() == (0..120));
    assert_window(&replay, 9);
    arriving.push(&bytes[frame_ends[119] + 7..]);
    assert_eq!(arriving.len(), bytes.len());
    poll_until(&mut replay, |replay| {
        !replay.can_follow() && replay.window() == (44..300)
    });
    load_all(&mut replay);
    assert_eq!(replay.summary().spans(), 2_700);
    assert_eq!(replay.problem(), None);
}

#[test]
fn a_file_without_frames_waits_for_them() {
    let TestCapture { bytes, frame_ends } = make(5, 3, false);
    let (_folder, path) = written(&bytes[..60]);
    let mut replay = ReplayState::open(&path).unwrap();
    load(&mut replay);
    assert_eq!((replay.frames_total(), replay.window()), (0, 0..0));
    replay.go_to(7);
    replay.move_window(7);
    load(&mut replay);
    replay.set_follow(true);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes[60..frame_ends[4]]).unwrap();
    poll_until(&mut replay, |replay| replay.window() == (0..5));
    assert_window(&replay, 3);
}

#[test]
fn a_file_without_marks_is_one_frame_until_a_mark_comes() {
    let TestCapture { bytes, frame_ends } = make(3, 9, false);
    // All batches of the first frame, and a part of its mark.
    let (_folder, path) = written(&bytes[..frame_ends[0] - 1]);
    let mut replay = ReplayState::open(&path).unwrap();
    poll_until(&mut replay, |replay| replay.window() == (0..1));
    load_all(&mut replay);
    assert_eq!(replay.summary().spans(), 9);
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&bytes[frame_ends[0] - 1..frame_ends[1]])
        .unwrap();
    poll_until(&mut replay, |replay| {
        replay.window() == (0..2) && replay.is_settled()
    });
    assert_window(&replay, 9);
}

/// Checks that a replay has replaced its capture by another one of 30 frames with 6 spans each.
fn assert_replaced(replay: &mut ReplayState) {
    poll_until(replay, |replay| {
        replay.notice().is_some() && replay.is_settled() && replay.frames_total() == 30
    });
    assert_eq!(replay.window(), 0..30);
    assert_window(replay, 6);
    let summary = replay.summary();
    assert_eq!((summary.frames(), summary.spans()), (30, 180));
    assert_eq!(
        replay.notice().map(|notice| notice.lines().count()),
        Some(1)
    );
    assert_eq!(replay.problem(), None);
}

#[test]
fn another_file_at_the_same_path_is_read_from_its_start() {
    let other = make(30, 6, false);
    let TestCapture { bytes, .. } = make(50, 9, false);
    let (folder, path) = written(&bytes);
    let mut replay = ReplayState::open(&path).unwrap();
    load_all(&mut replay);
    assert_eq!((replay.window(), replay.notice()), (0..50, None));
    let former = replay.id_of(3).unwrap();

    let fresh = folder.path().join("fresh.vor");
    fs::write(&fresh, &other.bytes[..other.frame_ends[9]]).unwrap();
    fs::rename(&fresh, &path).unwrap();
    poll_until(&mut replay, |replay| replay.frames_total() == 10);
    // It grows as the earlier file would have grown.
    let mut file = File::options().append(true).open(&path).unwrap();
    file.write_all(&other.bytes[other.frame_ends[9]..]).unwrap();
    assert_replaced(&mut replay);
    assert_eq!(replay.frame_of(former), None);
    assert!(replay.follows());
}

#[test]
fn a_rewritten_file_is_read_from_its_start() {
    let other = make(30, 6, false).bytes;
    let (_folder, path) = written(&make(50, 9, false).bytes);
    let mut replay = ReplayState::open(&path).unwrap();
    load_all(&mut replay);
    let mut file = File::create(&path).unwrap();
    // A header that is not complete yet has nothing to show.
    file.write_all(&other[..20]).unwrap();
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(250) {
        replay.poll(&egui::Context::default());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((replay.frames_total(), replay.notice()), (50, None));
    file.write_all(&other[20..]).unwrap();
    assert_replaced(&mut replay);
}

#[test]
fn a_file_that_becomes_shorter_is_read_again() {
    let TestCapture { bytes, frame_ends } = make(50, 9, false);
    let (_folder, path) = written(&bytes);
    let mut replay = ReplayState::open(&path).unwrap();
    load(&mut replay);
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(frame_ends[3] as u64).unwrap();
    poll_until(&mut replay, |replay| {
        replay.notice().is_some() && !replay.is_loading()
    });
    assert_eq!((replay.frames_total(), replay.window()), (4, 0..4));
    // A deleted file is still shown.
    fs::remove_file(&path).unwrap();
    thread::sleep(Duration::from_millis(250));
    replay.go_to(40);
    load(&mut replay);
    assert_eq!((replay.requested(), replay.window()), (Some(3), 0..4));
    assert_window(&replay, 9);
}

#[test]
fn a_torn_file_is_searched_for_its_frames_in_the_background() {
    let TestCapture { bytes, frame_ends } = make(3_000, 9, false);
    let (_folder, path) = written(&bytes[..frame_ends[2_499] + 11]);
    // Requests before the number of frames is known are kept.
    let open = |request: &dyn Fn(&mut ReplayState)| {
        let mut replay = ReplayState::open(&path).unwrap();
        assert!(replay.is_searching() && replay.is_loading() && !replay.is_settled());
        assert_eq!((replay.frames_total(), replay.window()), (0, 0..0));
        request(&mut replay);
        load_all(&mut replay);
        assert!(!replay.is_searching());
        assert_eq!(
            (replay.frames_total(), replay.info().file_bytes),
            (2_500, frame_ends[2_499] as u64 + 11)
        );
        assert_window(&replay, 9);
        replay
    };
    let replay = open(&|_| {});
    assert_eq!(
        (replay.window(), replay.requested(), replay.follows()),
        (2_244..2_500, None, true)
    );
    let mut replay = open(&|replay| replay.go_to(1_000));
    assert_eq!(
        (replay.window(), replay.requested()),
        (872..1_128, Some(1_000))
    );
    assert_eq!(replay.take_arrived(), replay.id_of(1_000));
    let replay = open(&|replay| replay.go_to(u64::MAX));
    assert_eq!(
        (replay.window(), replay.requested()),
        (2_244..2_500, Some(2_499))
    );
    let replay = open(&|replay| replay.move_window(7));
    assert_eq!(replay.window(), 7..263);
    // The number of frames of a closed file is known immediately.
    let (_folder, path) = written(&make(20, 9, true).bytes);
    let replay = ReplayState::open(&path).unwrap();
    assert_eq!((replay.is_searching(), replay.frames_total()), (false, 20));
}

#[test]
fn a_lost_frame_keeps_its_place() {
    let TestCapture {
        mut bytes,
        frame_ends,
    } = make(600, 9, true);
    for frame in [0, 299, 300, 599] {
        bytes[frame_ends[frame] - 2] ^= 1;
    }
    let mut replay = ReplayState::from_bytes(bytes, "damaged").unwrap();
    load_all(&mut replay);
    replay.go_to(300);
    load(&mut replay);
    let store = replay.store();
    let entry = |frame| store.frame(replay.id_of(frame).unwrap()).unwrap();
    for frame in [299, 300] {
        assert_eq!(entry(frame).lost_records, 1);
        assert!(entry(frame).duration_ms().is_nan());
        assert_eq!(entry(frame).begin_ns, entry(298).end_ns);
        assert_eq!(entry(frame).number, frame + 10);
    }
    assert_eq!((entry(301).number, entry(298).number), (311, 308));
    assert!(
        replay.problem().unwrap().contains("damaged"),
        "{:?}",
        replay.problem()
    );
    let troubled: Vec<u64> = replay
        .summary()
        .troubled()
        .iter()
        .map(|troubled| troubled.0)
        .collect();
    assert_eq!(troubled, [0, 299, 300, 599]);
    let lost = replay.summary().durations_ms().get(300);
    assert!(lost.is_none_or(f32::is_nan), "{lost:?}");
    replay.go_to(0);
    load(&mut replay);
    let first = &replay.store().frames()[0];
    // The lost frame began at some time before the next one.
    assert_eq!(first.end_ns, replay.store().frames()[1].begin_ns);
}

#[test]
fn flipped_bytes_stop_nothing() {
    let TestCapture { bytes, .. } = make(200, 9, true);
    for seed in seeds(60) {
        let mut bytes = bytes.clone();
        let mut state = seed;
        for _ in 0..8 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = 44 + (state >> 20) as usize % (bytes.len() - 44);
            bytes[at] ^= 1 << (state & 7);
        }
        if seed % 3 == 0 {
            bytes.truncate(bytes.len() - seed as usize * 7);
        }
        let mut replay = ReplayState::from_bytes(bytes, "flipped").unwrap();
        load_all(&mut replay);
        replay.go_to(seed * 3);
        load(&mut replay);
        let window = replay.window();
        assert_eq!(
            (window.end - window.start) as usize,
            replay.store().frames().len()
        );
        let whole = replay
            .store()
            .frames()
            .iter()
            .all(|frame| frame.lost_records == 0);
        assert!(whole || replay.problem().is_some(), "seed {seed}");
    }
}

#[test]
fn captures_of_version_2_are_shown() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.ci/data/v2");
    for (name, frames) in [
        ("metrics_only", None),
        ("flame", Some(true)),
        ("every3_threads", Some(true)),
        ("torn", None),
    ] {
        let mut replay = ReplayState::open(folder.join(format!("{name}.vor"))).unwrap();
        load_all(&mut replay);
        let total = replay.frames_total();
        assert!(total > 0, "{name}");
        assert_eq!(replay.window(), 0..total.min(256), "{name}");
        if let Some(has_spans) = frames {
            assert_eq!(replay.store().stored_spans() > 0, has_spans, "{name}");
        }
        let last = total - 1;
        replay.go_to(last);
        load(&mut replay);
        assert!(replay.id_of(last).is_some());
        let entry = replay.store().frame(replay.id_of(last).unwrap()).unwrap();
        assert!(entry.metric(0).unwrap().is_finite(), "{name}");
    }
}

#[test]
fn a_file_that_is_no_capture_is_refused_in_one_line() {
    let v3 = make(3, 3, true).bytes;
    let files: [(&str, &[u8]); 4] = [
        ("empty", b""),
        ("foreign", b"\x89PNG\r\n\x1a\nsomething else"),
        ("cut", &v3[..20]),
        ("newer", b"VOR1\x09\x00and so on, and so on, and so on"),
    ];
    for (name, bytes) in files {
        let (_folder, path) = written(bytes);
        let error = ReplayState::open(&path).unwrap_err().to_string();
        assert!(error.starts_with(path.to_str().unwrap()), "{name}: {error}");
        assert_eq!(error.lines().count(), 1, "{name}: {error}");
        let error = ReplayState::from_bytes(bytes.to_vec(), name)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("{name}: ")), "{error}");
    }
    let error = ReplayState::open("/nowhere/run.vor")
        .unwrap_err()
        .to_string();
    assert!(error.contains("/nowhere/run.vor"), "{error}");
    assert!(ReplayState::open(std::env::temp_dir()).is_err());
}
