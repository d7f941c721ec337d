//! The store holds and draws its input.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::block::block;
use egui::Color32;
use proptest::prelude::*;
use vor_capture::model::catalog::SiteId;
use vor_viz::store::{
    Extent, FrameBlock, PixelScale, Row, RowBlock, RowPixels, SiteSet, Span, SpanPart, SpanVisitor,
    Store, Task, Track, Walk,
};

fn frame(number: u64, begin_ns: i64, end_ns: i64, rows: Vec<Vec<(i64, u64, u32)>>) -> FrameBlock {
    let rows = rows.into_iter().map(|spans| {
        let mut row = RowBlock::default();
        for (begin, duration, site) in spans {
            row.push(begin, duration, SiteId(site));
        }
        row
    });
    block(number, begin_ns, end_ns, rows.collect())
}

fn spans(row: &Row) -> Vec<(i64, u64, u32)> {
    let all = row.spans(i64::MIN, i64::MAX);
    all.map(|span| (span.begin_ns, span.duration_ns, span.site.0))
        .collect()
}

#[test]
fn a_span_that_ends_later_goes_above_its_contents() {
    let mut store = Store::new(10, 1000);
    store.push_block(frame(
        0,
        0,
        100,
        vec![vec![(10, 10, 1), (50, 40, 2)], vec![(55, 5, 3)]],
    ));
    store.push_block(frame(
        1,
        100,
        200,
        vec![vec![(40, 120, 4)], vec![(110, 20, 5)], vec![(112, 1, 6)]],
    ));
    let rows = &store.tracks()[0].rows;
    assert_eq!(spans(&rows[0]), [(10, 10, 1), (40, 120, 4)]);
    assert_eq!(spans(&rows[1]), [(50, 40, 2), (110, 20, 5)]);
    assert_eq!(spans(&rows[2]), [(55, 5, 3), (112, 1, 6)]);
}

#[test]
fn a_chain_that_crosses_a_mark_goes_above_its_contents() {
    let mut store = Store::new(10, 1000);
    store.push_block(frame(0, 0, 100, vec![vec![(20, 10, 1), (60, 10, 2)]]));
    // 5..150 contains 40..140, and both contain spans of the frame before.
    store.push_block(frame(
        1,
        100,
        200,
        vec![vec![(5, 145, 3)], vec![(40, 100, 4)], vec![(120, 5, 5)]],
    ));
    let rows = &store.tracks()[0].rows;
    assert_eq!(spans(&rows[0]), [(5, 145, 3)]);
    assert_eq!(spans(&rows[1]), [(20, 10, 1), (40, 100, 4)]);
    assert_eq!(spans(&rows[2]), [(60, 10, 2), (120, 5, 5)]);
}

/// Pushes frames of 100 ns with a span of 50 ns each.
fn push_frames(store: &mut Store, count: i64) {
    for i in 0..count {
        let spans = vec![(i * 100, 50, 1)];
        store.push_block(frame(i as u64, i * 100, i * 100 + 100, vec![spans]));
    }
}

#[test]
fn the_oldest_frames_leave_with_their_spans() {
    let mut store = Store::new(3, usize::MAX);
    push_frames(&mut store, 5);
    assert_eq!(store.frames().len(), 3);
    assert_eq!(store.frames()[0].number, 2);
    // Spans leave one chunk at a time; at least those of shown frames stay.
    assert!(store.stored_spans() >= 3);
    assert_eq!(store.index_of(store.id_at(0)), Some(0));
}

#[test]
fn tasks_without_a_lane_are_not_stored_spans() {
    let mut store = Store::new(10, 1_700);
    for number in 0..6 {
        let begin_ns = number * 100;
        let rows = vec![vec![(begin_ns, 50, 1)]];
        let mut block = frame(number as u64, begin_ns, begin_ns + 100, rows);
        // The tasks overlap, so each needs its own lane; there are 256 of them.
        let task = |id| Task {
            id,
            site: SiteId(2),
            begin_ns,
            duration_ns: 90,
        };
        block.threads[0].tasks = (0..300).map(task).collect();
        store.push_block(block);
    }
    let in_tracks: usize = store.tracks().iter().map(Track::span_count).sum();
    assert_eq!(in_tracks, 6 * 257);
    assert_eq!(store.stored_spans(), in_tracks);
    assert_eq!(store.frames().len(), 6, "no frame is evicted");
}

#[test]
fn a_lower_limit_of_spans_changes_the_version_if_frames_leave() {
    let mut store = Store::new(10, usize::MAX);
    push_frames(&mut store, 3);
    let version = store.version();
    store.set_max_spans(1_000);
    assert_eq!((store.frames().len(), store.version()), (3, version));
    store.set_max_spans(1);
    assert_eq!(store.frames().len(), 1);
    assert_ne!(store.version(), version);
}

#[derive(Default)]
struct Log(Vec<(u32, usize, u64)>);

impl SpanVisitor for Log {
    fn enter(&mut self, _: &Span, _: usize) {}

    fn leave(&mut self, span: &Span, depth: usize, part: SpanPart) {
        self.0.push((span.site.0, depth, part.self_ns()));
    }
}

#[test]
fn a_walk_reports_depths_and_self_times_in_slices_of_any_size() {
    let mut store = Store::new(10, 1000);
    let rows = vec![
        vec![(0, 50, 1), (60, 20, 2), (90, 110, 7)],
        vec![(5, 10, 3), (20, 30, 4), (61, 19, 5), (92, 3, 8)],
        vec![(20, 5, 6)],
    ];
    store.push_block(frame(0, 0, 200, rows));
    let walks = [
        // Span 7 ends after the end of the walk, so the spans inside it are separate.
        (
            Walk::new(&store.tracks()[0], 0, 100, Extent::Whole),
            vec![
                (3, 1, 10),
                (6, 2, 5),
                (4, 1, 25),
                (1, 0, 10),
                (5, 1, 19),
                (2, 0, 1),
                (8, 0, 3),
            ],
        ),
        // Its first 10 ns are within the walk, with span 8.
        (
            Walk::new(&store.tracks()[0], 0, 100, Extent::Clipped),
            vec![
                (3, 1, 10),
                (6, 2, 5),
                (4, 1, 25),
                (1, 0, 10),
                (5, 1, 19),
                (2, 0, 1),
                (8, 1, 3),
                (7, 0, 7),
            ],
        ),
        // Spans 1, 4 and 6 began before the walk.
        (
            Walk::new(&store.tracks()[0], 22, 48, Extent::Whole),
            vec![(6, 0, 5)],
        ),
        (
            Walk::new(&store.tracks()[0], 22, 48, Extent::Clipped),
            vec![(6, 2, 3), (4, 1, 23), (1, 0, 0)],
        ),
        (
            Walk::new(&store.tracks()[0], 22, 50, Extent::Whole),
            vec![(6, 2, 5), (4, 1, 25), (1, 0, 10)],
        ),
        // A walk within a span reports that span.
        (
            Walk::new(&store.tracks()[0], 120, 130, Extent::Clipped),
            vec![(7, 0, 10)],
        ),
    ];
    let track = &store.tracks()[0];
    for (walk, expected) in walks {
        for slice in 1..8 {
            let (mut log, mut walk) = (Log::default(), walk.clone());
            while walk.resume(track, slice, &mut log) {}
            assert_eq!(log.0, expected, "in slices of {slice}: {walk:?}");
        }
    }
}

#[test]
fn spans_at_the_ends_of_a_clipped_walk_belong_to_one_of_two_adjacent_walks() {
    let mut store = Store::new(10, 1000);
    // Spans 2 and 4 have a duration of zero.
    let row = vec![
        (0, 50, 1),
        (50, 0, 2),
        (50, 50, 3),
        (100, 0, 4),
        (100, 50, 5),
    ];
    store.push_block(frame(0, 0, 150, vec![row]));
    let track = &store.tracks()[0];
    let visited = |begin_ns, end_ns| {
        let mut log = Log::default();
        let mut walk = Walk::new(track, begin_ns, end_ns, Extent::Clipped);
        while walk.resume(track, 100, &mut log) {}
        log.0
    };
    assert_eq!(visited(0, 50), [(1, 0, 50), (2, 0, 0)]);
    assert_eq!(visited(50, 100), [(3, 0, 50), (4, 0, 0)]);
    assert_eq!(visited(100, 150), [(5, 0, 50)]);
}

/// Spans as gaps and durations of many magnitudes.
fn row_of_spans() -> impl Strategy<Value = Vec<(i64, u64, u32)>> {
    let gap = prop_oneof![Just(0u64), 1u64..20, 1u64..5_000, 1u64..200_000];
    let length = prop_oneof![20 => 0u64..20, 20 => 1u64..3_000, 1 => 1u64..6_000_000_000];
    proptest::collection::vec((gap, length, 1u32..40), 1..6000).prop_map(|spans| {
        let mut end = 0;
        let place = |(gap, length, site)| {
            let begin = end + gap as i64;
            end = begin + length as i64;
            (begin, length, site)
        };
        spans.into_iter().map(place).collect()
    })
}

/// Returns which pixels a row with one span paints.
fn painted(span: (i64, u64), scale: &PixelScale) -> Vec<bool> {
    let mut store = Store::new(10, usize::MAX);
    store.push_block(frame(0, 0, i64::MAX, vec![vec![(span.0, span.1, 1)]]));
    let mut colors = vec![Color32::TRANSPARENT; scale.width()];
    let pixels = RowPixels {
        colors: &mut colors,
        wide: &mut Vec::new(),
    };
    store.tracks()[0].rows[0].paint(scale, None, |_, _, _| Color32::WHITE, pixels);
    let is_painted = |color: &Color32| *color != Color32::TRANSPARENT;
    colors.iter().map(is_painted).collect()
}

#[test]
fn a_span_that_ends_in_the_first_pixel_is_shown_there() {
    for (end_px, expected) in [(0.1, 1), (0.4, 1), (0.6, 1), (1.4, 1), (1.6, 2)] {
        let begin = 1_000.0 - end_px * 100.0;
        let scale = PixelScale::new(begin, begin + 1_000.0, 10);
        let found = painted((0, 1_000), &scale);
        let first: Vec<bool> = (0..10).map(|pixel| pixel < expected).collect();
        assert_eq!(found, first, "{end_px}");
    }
}

#[test]
fn a_moment_less_than_a_nanosecond_before_the_picture_is_not_shown() {
    let scale = PixelScale::new(1_000.5, 1_010.5, 100);
    assert!(painted((1_000, 0), &scale).iter().all(|on| !on));
}

#[test]
fn an_hour_is_as_wide_as_it_is_where_a_pixel_is_half_a_minute() {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let scale = PixelScale::new(0.0, 10.0 * HOUR_NS as f64, 1_000);
    let found = painted((0, HOUR_NS), &scale);
    assert_eq!(found.iter().filter(|on| **on).count(), 100);
}

/// Returns the pixels that contain any part of a span, without merging.
fn brute_force(
    spans: &[(i64, u64, u32)],
    scale: &PixelScale,
    shown: impl Fn(u32) -> bool,
) -> Vec<bool> {
    let mut occupied = vec![false; scale.width()];
    for &(begin, length, _) in spans.iter().filter(|span| shown(span.2)) {
        let first = scale.x(begin).floor();
        let last = scale.x(begin + length as i64).floor();
        if last < 0.0 || first >= scale.width() as f64 {
            continue;
        }
        let last = (last as usize).min(scale.width() - 1);
        occupied[first.max(0.0) as usize..=last].fill(true);
    }
    occupied
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_pixel_is_occupied_where_a_span_is_and_nowhere_else(
        all in row_of_spans(),
        from in 0.0f64..1.0,
        zoom in 0.0f64..1.0,
        width in 1usize..2000,
        searched in 0u32..40,
    ) {
        let mut store = Store::new(10, usize::MAX);
        store.push_block(frame(0, 0, i64::MAX, vec![all.clone()]));
        let row = &store.tracks()[0].rows[0];
        let end = row.end_ns() as f64;
        let begin = end * from;
        let length = ((end - begin) * zoom.powi(4)).max(10.0);
        let scale = PixelScale::new(begin, begin + length, width);
        let wanted = (searched > 0).then(|| SiteSet::new([SiteId(searched)]));
        let mut colors = vec![Color32::TRANSPARENT; width];
        let mut wide = Vec::new();
        row.paint(
            &scale,
            wanted.as_ref(),
            |_, _, _| Color32::WHITE,
            RowPixels {
                colors: &mut colors,
                wide: &mut wide,
            },
        );
        let painted: Vec<bool> = colors
            .iter()
            .map(|&color| color != Color32::TRANSPARENT)
            .collect();
        let expected = brute_force(&all, &scale, |site| searched == 0 || site == searched);
        let near = |pixels: &[bool], i: usize| {
            pixels[i.saturating_sub(1)..width.min(i + 2)]
                .iter()
                .any(|&on| on)
        };
        for i in 0..width {
            prop_assert!(
                !painted[i] || near(&expected, i),
                "pixel {i} is painted, and no span is near"
            );
            prop_assert!(
                !expected[i] || near(&painted, i),
                "pixel {i} should show a span"
            );
        }
    }

    #[test]
    fn spans_come_out_unchanged(all in row_of_spans(), cut in 1usize..6000) {
        let mut store = Store::new(10, usize::MAX);
        let cut = cut.min(all.len());
        store.push_block(frame(0, 0, 0, vec![all[..cut].to_vec()]));
        store.push_block(frame(1, 0, 0, vec![all[cut..].to_vec()]));
        let row = &store.tracks()[0].rows[0];
        prop_assert_eq!(spans(row), all.clone());
        for &(begin, length, site) in all.iter().filter(|span| span.1 > 0).take(100) {
            let found = row.span_at(begin + length as i64 / 2).unwrap();
            prop_assert_eq!(
                (found.begin_ns, found.duration_ns, found.site.0),
                (begin, length, site)
            );
        }
    }
}
