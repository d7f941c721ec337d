//! Damaged captures of both versions in the panel: some hundred seeded mutations, each opened,
//! viewed and used with random inputs.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot be set up should stop"
)]

use std::thread;
use std::time::{Duration, Instant};

use crate::headless::User;
use egui::{Key, vec2};
use vor_fixtures::mutation::{mutate_any, v2_records};
use vor_fixtures::own_process;
use vor_fixtures::random::rounds;
use vor_fixtures::{Random, make};
use vor_viz::panel::Tab;
use vor_viz::replay::ReplayState;

const CASES: usize = 90;

/// The originals take some hundred kilobytes. A panel for one of them, with its font atlas, takes
/// some megabytes.
const MAX_CASE_BYTES: usize = 128 << 20;

/// Longer than any test here can take, so that a test that hangs ends.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A capture and the offsets of its records.
struct Original {
    bytes: Vec<u8>,
    records: Vec<usize>,
}

/// Results of all mutants.
#[derive(Default)]
struct Tally {
    refused: usize,
    opened: usize,
    frames: u64,
    spans: u64,
    problems: usize,
    lost: usize,
}

/// Waits until all requests are complete, and shows the panel.
fn settle(user: &mut User, replay: &mut ReplayState, what: &str) {
    let begin = Instant::now();
    replay.poll(&user.ctx);
    while !replay.is_settled() {
        assert!(begin.elapsed() < TIMEOUT, "{what}: {replay:.0?}");
        thread::sleep(Duration::from_micros(200));
        replay.poll(&user.ctx);
    }
    user.idle_pass(|ui| replay.show(ui));
}

/// Shows the first, last and middle frames and all tabs, with random inputs in between.
fn exercise(user: &mut User, bytes: &[u8], what: &str, tally: &mut Tally) {
    let Ok(mut replay) = ReplayState::from_bytes(bytes.to_vec(), what) else {
        tally.refused += 1;
        return;
    };
    tally.opened += 1;
    settle(user, &mut replay, what);
    let total = replay.frames_total();
    let tabs = [Tab::Metrics, Tab::Scopes, Tab::Icicle];
    let places = [0, total.saturating_sub(1), total / 2, u64::MAX];
    for (i, frame) in places.into_iter().enumerate() {
        replay.go_to(frame);
        replay.panel_mut().set_tab(tabs[i % 3]);
        if i == 2 {
            replay.panel_mut().view_mut().search = "e".into();
        }
        for _ in 0..4 {
            user.random_pass(|ui| replay.show(ui));
        }
        settle(user, &mut replay, what);
        for key in [Key::ArrowDown, Key::Z, Key::Period] {
            user.press(key, |ui| replay.show(ui));
        }
    }
    replay.panel_mut().finish();
    user.idle_pass(|ui| replay.show(ui));

    let window = replay.window();
    let frames = replay.store().frames();
    assert_eq!(window.end - window.start, frames.len() as u64, "{what}");
    let lost = frames.iter().filter(|frame| frame.lost_records > 0).count();
    assert!(
        lost == 0 || replay.problem().is_some(),
        "{what}: {lost} lost frames are not reported"
    );
    assert!(
        replay
            .problem()
            .is_none_or(|problem| problem.lines().count() == 1),
        "{what}"
    );
    tally.frames += total;
    tally.spans += replay.summary().spans();
    tally.problems += usize::from(replay.problem().is_some());
    tally.lost += lost;
}

fn attack(seed: u64, originals: &[Original]) -> Tally {
    let mut random = Random(seed);
    let mut tally = Tally::default();
    let mut users = [(900.0, 1.0), (240.0, 3.0), (1300.0, 0.5)].map(|(width, pixels_per_point)| {
        let size = vec2(width, width * 0.6);
        User::new(random.next(), size, pixels_per_point, width < 1000.0)
    });
    let cases = rounds(CASES);
    for case in 0..cases {
        let original = &originals[case % originals.len()];
        let donor = &originals[(case + 1) % originals.len()];
        let mutant = mutate_any(
            &mut random,
            &original.bytes,
            &original.records,
            &donor.bytes,
        );
        let what = format!("case {case}: {}", mutant.what);
        let grown = vor_fixtures::memory::peak_of(|| {
            exercise(&mut users[case % 3], &mutant.bytes, &what, &mut tally)
        });
        assert!(grown < MAX_CASE_BYTES, "{what}: {grown} bytes");
    }
    println!(
        "{} opened, {} refused, {} with a problem; {} frames, {} spans, {} frames lost",
        tally.opened, tally.refused, tally.problems, tally.frames, tally.spans, tally.lost
    );
    tally
}

#[test]
fn damaged_captures_of_both_versions() {
    own_process!();
    let cases = rounds(CASES);
    let made = (0..6).map(|i| make(90 + i, 60, [3, 12, 0][i as usize % 3], i % 2 == 0));
    let originals: Vec<Original> = made
        .map(|made| Original {
            bytes: made.bytes,
            records: made.records,
        })
        .collect();
    let tally = attack(3, &originals);
    assert!(
        tally.opened > cases * 9 / 10 && tally.frames > 40 * cases as u64,
        "{} frames",
        tally.frames
    );
    assert!(
        tally.problems > cases / 4 && tally.lost > 0,
        "{} problems",
        tally.problems
    );

    let names = [
        "metrics_only",
        "user_units",
        "flame",
        "every3_threads",
        "max5",
        "torn",
    ];
    let originals = names.map(|name| {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/data/v2");
        let bytes = std::fs::read(format!("{folder}/{name}.vor")).unwrap();
        Original {
            records: v2_records(&bytes),
            bytes,
        }
    });
    let tally = attack(2, &originals);
    assert!(
        tally.opened > cases * 3 / 4 && tally.spans > 0,
        "{} opened",
        tally.opened
    );
}
