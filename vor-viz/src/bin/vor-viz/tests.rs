//! The viewer's window under clicks and typing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use egui::{Key, Vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use vor_fixtures::even::make;
use vor_viz::replay::ReplayState;

use crate::chooser::Chooser;
use crate::pictures;
use crate::recent::Recent;
use crate::viewer::Viewer;

fn harness(viewer: Viewer, dark: bool, scale: f32) -> Harness<'static, Viewer> {
    let mut harness = pictures::builder()
        .with_size(Vec2::new(900.0, 220.0))
        .with_pixels_per_point(scale)
        .build_ui_state(|ui, viewer: &mut Viewer| viewer.show(ui), viewer);
    harness.ctx.set_theme(if dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    });
    settle(&mut harness);
    harness
}

fn settle(harness: &mut Harness<'_, Viewer>) {
    for _ in 0..2000 {
        harness.step();
        if harness.state().is_settled() {
            harness.run_steps(4);
            return;
        }
        thread::sleep(Duration::from_millis(1));
    }
    panic!("the window does not settle");
}

fn capture(folder: &Path, name: &str, frames: u64) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, make(frames, 9, true).bytes).unwrap();
    path
}

fn viewer_of(path: &Path, recent: Recent) -> Viewer {
    Viewer::new(vec![ReplayState::open(path).unwrap()], Chooser::new(recent))
}

#[test]
fn a_typed_path_is_opened_and_stored_for_the_next_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "typed.vor", 300);
    let list = folder.path().join("state/vor/recent");
    let mut harness = harness(
        Viewer::new(Vec::new(), Chooser::new(Recent::in_file(list.clone()))),
        true,
        1.0,
    );
    harness.get_by_label("No capture is open");
    let field = harness.get_by_label("Path of a capture");
    field.focus();
    harness.run();
    harness
        .get_by_label("Path of a capture")
        .type_text("/nowhere/at-all.vor");
    harness.run();
    harness.key_press(Key::Enter);
    harness.run();
    let says = harness
        .get_all_by_label_contains("/nowhere/at-all.vor")
        .count();
    assert!(says > 0);
    assert_eq!(harness.state().title(), "vor");

    let opened = harness
        .state_mut()
        .chooser_mut()
        .open(std::slice::from_ref(&path));
    harness.state_mut().take(opened);
    settle(&mut harness);
    assert_eq!(harness.state().title(), "typed.vor – vor");
    harness.get_by_label("typed.vor");
    assert_eq!(
        Recent::in_file(list.clone()).paths(),
        std::slice::from_ref(&path)
    );

    // The next time, the path is one click away.
    let mut harness = self::harness(
        Viewer::new(Vec::new(), Chooser::new(Recent::in_file(list))),
        true,
        1.0,
    );
    harness.get_by_label_contains("typed.vor").click();
    settle(&mut harness);
    assert_eq!(harness.state().title(), "typed.vor – vor");
}

#[test]
fn captures_that_the_dialog_returns_are_opened() {
    static CHOSEN: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    static MAY_CLOSE: Barrier = Barrier::new(2);
    let folder = tempfile::tempdir().unwrap();
    let names = ["one.vor", "two.vor", "three.vor"];
    let chooser = Chooser::new(Recent::default());
    let mut harness = harness(Viewer::new(Vec::new(), chooser), true, 1.0);
    assert!(
        harness.query_by_label("Browse…").is_none(),
        "no dialog is known"
    );
    let dialog = || {
        MAY_CLOSE.wait();
        CHOSEN.lock().unwrap().clone()
    };
    harness.state_mut().chooser_mut().set_dialog(dialog);
    harness.run();
    // The window goes on while the dialog is open. Without a choice, nothing changes.
    harness.get_by_label("Browse…").click();
    harness.run();
    assert!(!harness.state().is_settled());
    harness.get_by_label("No capture is open");
    MAY_CLOSE.wait();
    settle(&mut harness);
    harness.get_by_label("No capture is open");
    // Of three captures, two are shown.
    *CHOSEN.lock().unwrap() = names.map(|name| capture(folder.path(), name, 100)).to_vec();
    harness.get_by_label("Browse…").click();
    harness.run();
    MAY_CLOSE.wait();
    settle(&mut harness);
    harness.get_by_label_contains("one.vor");
    harness.get_by_label_contains("two.vor");
    assert!(harness.query_by_label_contains("three.vor").is_none());
}

#[test]
fn buttons_and_numbers_move_to_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "run.vor", 3_000);
    let mut harness = harness(viewer_of(&path, Recent::default()), true, 1.0);
    let asked = |harness: &Harness<'_, Viewer>| harness.state().shown()[0].requested();
    assert_eq!(asked(&harness), Some(0));
    harness.get_by_label("Next frame").click();
    settle(&mut harness);
    assert_eq!(asked(&harness), Some(1));
    harness.get_by_label("Previous frame").click();
    harness.run_steps(2);
    harness.get_by_label("Previous frame").click();
    settle(&mut harness);
    assert_eq!(asked(&harness), Some(0));

    harness.get_by_label("frame").focus();
    harness.run_steps(2);
    harness.key_press_modifiers(egui::Modifiers::COMMAND, Key::A);
    harness.run_steps(2);
    harness.get_by_label("frame").type_text("1 500");
    harness.run_steps(2);
    harness.key_press(Key::Enter);
    settle(&mut harness);
    // The program numbers its frames from 10.
    assert_eq!(asked(&harness), Some(1_490));
    assert_eq!(harness.state().shown()[0].window(), 1_362..1_618);
}

#[test]
fn the_command_that_opens_the_selected_time_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "a run.vor", 300);
    let mut harness = harness(viewer_of(&path, Recent::default()), true, 1.0);
    let copied = |harness: &mut Harness<'_, Viewer>| {
        harness.get_by_label("Copy link").click();
        harness.step();
        let commands = &harness.output().platform_output.commands;
        let text = commands.iter().find_map(|command| match command {
            egui::OutputCommand::CopyText(text) => Some(text.clone()),
            _ => None,
        });
        harness.run_steps(2);
        text.unwrap()
    };
    let command = format!("vor view '{}'", path.display());
    assert_eq!(copied(&mut harness), command);
    harness.state_mut().select_time(1_500_000, 2_000_000);
    settle(&mut harness);
    assert_eq!(copied(&mut harness), format!("{command} --time 1.5ms..2ms"));
    // A temporary copy is gone later, and another capture is no copy.
    let viewer = viewer_of(&path, Recent::default());
    let viewer = viewer.copy_of(Some("/data/all captures".to_owned()));
    let mut harness = self::harness(viewer, true, 1.0);
    assert_eq!(copied(&mut harness), "vor view '/data/all captures'");
    let other = capture(folder.path(), "other.vor", 300);
    let chooser = harness.state_mut().chooser_mut();
    let opened = chooser.open(std::slice::from_ref(&other));
    harness.state_mut().take(opened);
    settle(&mut harness);
    assert_eq!(
        copied(&mut harness),
        format!("vor view {}", other.display())
    );
}

#[test]
fn bookmarks_are_kept_beside_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "run.vor", 300);
    let file = folder.path().join("run.vor.bookmarks");
    fs::write(&file, "# mine\n1ms..2ms\tfirst\n").unwrap();
    let mut harness = harness(viewer_of(&path, Recent::default()), true, 1.0);
    let notes = |harness: &Harness<'_, Viewer>| {
        let bookmarks = harness.state().shown()[0].bookmarks().list().iter();
        bookmarks.map(|it| it.note.clone()).collect::<Vec<_>>()
    };
    assert_eq!(notes(&harness), ["first"]);
    let keep = |harness: &mut Harness<'_, Viewer>, from_ns: i64| {
        harness.state_mut().select_time(from_ns, from_ns + 500_000);
        settle(harness);
        harness.hover_at(egui::pos2(80.0, 200.0));
        harness.key_press(Key::B);
        settle(harness);
        // The note is empty.
        harness.key_press(Key::Enter);
        settle(harness);
    };
    keep(&mut harness, 3_000_000);
    let text = "1ms..2ms\tfirst\n3ms..3.5ms\t\n# mine\n";
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(harness.state().problem(), None);
    // The viewer did not write a file that is no text, and keeps it.
    fs::write(&file, [0xff, 0xfe]).unwrap();
    keep(&mut harness, 5_000_000);
    assert_eq!(fs::read(&file).unwrap(), [0xff, 0xfe]);
    let problem = harness.state().problem().unwrap();
    assert!(
        problem.contains("run.vor.bookmarks: bookmarks are not kept: "),
        "{problem}"
    );
}

#[test]
fn a_click_changes_the_colours() {
    let mut harness = harness(
        Viewer::new(Vec::new(), Chooser::new(Recent::default())),
        true,
        1.0,
    );
    assert!(harness.ctx.theme() == egui::Theme::Dark);
    harness.get_by_label("Light").click();
    harness.run_steps(3);
    assert!(harness.ctx.theme() == egui::Theme::Light);
    harness.get_by_label("Dark").click();
    harness.run_steps(3);
    assert!(harness.ctx.theme() == egui::Theme::Dark);
}

#[test]
fn the_list_of_captures_is_bounded_and_has_no_duplicates() {
    let folder = tempfile::tempdir().unwrap();
    let list = folder.path().join("recent");
    let mut recent = Recent::in_file(list.clone());
    for i in 0..40 {
        recent.add(&folder.path().join(format!("{}.vor", i % 20)));
    }
    recent.add(Path::new("two\nlines.vor"));
    assert_eq!(recent.paths().len(), 12);
    assert_eq!(recent.paths()[0], folder.path().join("19.vor"));
    assert_eq!(Recent::in_file(list.clone()).paths(), recent.paths());
    fs::write(&list, [0xff, 0xfe, 0x00]).unwrap();
    assert!(Recent::in_file(list).paths().is_empty());
}

#[test]
fn the_header_looks_right() {
    let folder = tempfile::tempdir().unwrap();
    let long = format!("{}.vor", "a-capture-with-a-rather-long-name-".repeat(5));
    let path = capture(folder.path(), &long, 12_345);
    let damaged = {
        let mut bytes = make(500, 9, true);
        let at = bytes.frame_ends[250] - 2;
        bytes.bytes[at] ^= 1;
        ReplayState::from_bytes(bytes.bytes, "damaged.vor").unwrap()
    };
    let mut damaged = harness(
        Viewer::new(vec![damaged], Chooser::new(Recent::default())),
        false,
        1.0,
    );
    assert!(damaged.state().shown()[0].problem().is_some());
    damaged.snapshot("viewer_damaged_light");
    let mut results = damaged.take_snapshot_results();
    let mut long = harness(viewer_of(&path, Recent::default()), true, 2.0);
    long.snapshot("viewer_long_name_dark");
    results.extend(long.take_snapshot_results());
    let mut empty = harness(
        Viewer::new(Vec::new(), Chooser::new(Recent::default())),
        false,
        1.0,
    );
    empty.snapshot("viewer_empty_light");
    results.extend(empty.take_snapshot_results());
}

#[test]
fn the_selection_is_exported_beside_the_capture() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "run.vor", 300);
    let mut replay = ReplayState::open(&path).unwrap();
    replay.go_to(0);
    let viewer = Viewer::new(vec![replay], Chooser::new(Recent::default()));
    let mut harness = harness(viewer, true, 1.0);
    for (format, name) in [
        ("Perfetto trace", "run.frame-10.pftrace"),
        ("Chrome trace", "run.frame-10.json"),
        ("Spans as CSV", "run.frame-10.csv"),
        ("Picture of the flame chart (PNG)", "run.frame-10.png"),
        ("Spans as CSV", "run.frame-10.2.csv"),
    ] {
        harness.get_by_label("Export").click();
        harness.run_steps(4);
        harness.get_by_label(format).click();
        harness.run_steps(4);
        let written = fs::metadata(folder.path().join(name)).unwrap();
        assert!(written.len() > 100, "{name} has {} bytes", written.len());
        assert!(
            harness.query_by_label_contains(name).is_some(),
            "the window shows the path of {name}"
        );
    }
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        6,
        "no other file remains"
    );
}

#[test]
fn a_selected_time_is_exported_from_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = capture(folder.path(), "run.vor", 600);
    let mut viewer = viewer_of(&path, Recent::default());
    viewer.select_time(400_000_000, 450_000_000);
    let mut harness = harness(viewer, true, 1.0);
    harness.get_by_label("Export").click();
    harness.run_steps(4);
    assert!(harness.query_all_by_label("selected 50.0 ms").count() > 1);
    harness.get_by_label("Spans as CSV").click();
    let name = "run.time-400000000-450000000.csv";
    for _ in 0..2000 {
        harness.step();
        if harness.query_by_label_contains(name).is_some() {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert!(harness.query_by_label_contains(name).is_some());
    let written = fs::read_to_string(folder.path().join(name)).unwrap();
    // Frames of a millisecond with nine spans each, and none of three.
    assert!(
        written.lines().count() > 400,
        "{} lines",
        written.lines().count()
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn two_captures_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let shown = ["one.vor", "other.vor"]
        .map(|name| ReplayState::open(capture(folder.path(), name, 50)).unwrap());
    let viewer = Viewer::new(shown.into(), Chooser::new(Recent::default()));
    let mut harness = harness(viewer, false, 1.0);
    harness.set_size(Vec2::new(1000.0, 640.0));
    harness.get_by_label("Compare them").click();
    settle(&mut harness);
    harness.run_steps(20);
    assert!(harness.query_by_label_contains("slower in B").is_some());
    harness.snapshot("viewer_compare_light");
}
