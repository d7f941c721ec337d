//! Every state of the viewer in both themes, as a window of usual size, as large ones and on a
//! phone. Large pictures are kept smaller: a pixel is the mean of those that it stands for.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod game;
#[path = "../all/pictures.rs"]
mod pictures;

use std::time::{Duration, Instant};

use egui::{CentralPanel, Key, Theme, Ui, pos2, vec2};
use egui_kittest::Harness;
use egui_kittest::kittest::Queryable;
use game::Game;
use image::{Rgba, RgbaImage};
use vor_capture::model::catalog::SiteId;
use vor_viz::bookmarks::Bookmarks;
use vor_viz::find::Listed;
use vor_viz::flame::ColorBy;
use vor_viz::panel::{Panel, Tab};
use vor_viz::replay::{Place, ReplayState};

type Viewer = Harness<'static, ReplayState>;

/// Width and height of a picture, and how many of its pixels in a row are one of the kept picture.
const SIZES: [(u32, u32, u32); 4] = [
    (1400, 900, 1),
    (2560, 1440, 4),
    (3840, 2160, 6),
    (390, 844, 1),
];

const TIMEOUT: Duration = Duration::from_secs(60);

fn opened(bytes: Vec<u8>, theme: Theme) -> Viewer {
    let replay = ReplayState::from_bytes(bytes, "game.vor").unwrap();
    let show = move |ui: &mut Ui, replay: &mut ReplayState| {
        ui.ctx().set_theme(theme);
        CentralPanel::default().show(ui, |ui| replay.show(ui));
    };
    let mut viewer = pictures::builder()
        .with_size(vec2(1400.0, 900.0))
        .build_ui_state(show, replay);
    settle(&mut viewer);
    viewer
}

/// Runs passes until everything is read that is shown.
fn settle(viewer: &mut Viewer) {
    let (began, mut settled) = (Instant::now(), 0);
    while settled < 4 {
        assert!(began.elapsed() < TIMEOUT);
        viewer.step();
        settled = match viewer.state().is_settled() {
            true => settled + 1,
            false => 0,
        };
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn panel(viewer: &mut Viewer) -> &mut Panel {
    viewer.state_mut().panel_mut()
}

/// Returns a smaller picture.
fn reduced(picture: &RgbaImage, by: u32) -> RgbaImage {
    let (pixels, _) = picture.as_raw().as_chunks();
    let (width, by) = (picture.width() as usize, by as usize);
    let size = (picture.width() / by as u32, picture.height() / by as u32);
    RgbaImage::from_fn(size.0, size.1, |x, y| {
        let first = y as usize * by * width + x as usize * by;
        let mut sums = 0;
        for dy in 0..by {
            for pixel in &pixels[first + dy * width..][..by] {
                sums += lanes(*pixel);
            }
        }
        let mean = |lane: u32| ((sums >> (16 * lane)) as u16 / (by * by) as u16) as u8;
        Rgba([mean(0), mean(1), mean(2), mean(3)])
    })
}

/// Returns the channels as numbers of 16 bits, which can be added at once: a test is not optimised.
fn lanes(pixel: [u8; 4]) -> u64 {
    let word = u64::from(u32::from_le_bytes(pixel));
    let halves = (word | word << 16) & 0x0000_ffff_0000_ffff;
    (halves | halves << 8) & 0x00ff_00ff_00ff_00ff
}

/// Compares the pictures of a state in each size and theme with the kept ones.
fn state(name: &str, bytes: &[u8], prepare: impl Fn(&mut Viewer)) {
    let mut results = Vec::new();
    for theme in [Theme::Dark, Theme::Light] {
        let mut viewer = opened(bytes.to_vec(), theme);
        prepare(&mut viewer);
        settle(&mut viewer);
        for (width, height, by) in SIZES {
            viewer.set_size(vec2(width as f32, height as f32));
            settle(&mut viewer);
            pictures::rest(&mut viewer);
            let picture = reduced(&viewer.render().unwrap(), by);
            let theme = match theme {
                Theme::Dark => "dark",
                Theme::Light => "light",
            };
            let name = format!("sizes/{name}_{width}x{height}_{theme}");
            results.push(egui_kittest::try_image_snapshot(&picture, name));
        }
    }
    for result in results {
        result.unwrap();
    }
}

/// Goes to one of the slow frames.
fn pin(viewer: &mut Viewer) {
    viewer.state_mut().go_to(105);
    settle(viewer);
}

/// Presses a key over the panel, and moves the pointer out of the way.
fn press(viewer: &mut Viewer, key: Key) {
    viewer.hover_at(pos2(80.0, 450.0));
    viewer.key_press(key);
    settle(viewer);
    viewer.remove_cursor();
}

/// Puts the first span of a name into focus.
fn focus_on(viewer: &mut Viewer, name: &str) {
    panel(viewer).view_mut().search = name.to_owned();
    viewer.step();
    press(viewer, Key::N);
    panel(viewer).view_mut().search.clear();
}

fn find(viewer: &mut Viewer, listed: Listed) {
    panel(viewer).set_tab(Tab::Find);
    panel(viewer).find_mut().list(listed);
}

#[test]
fn the_whole_capture() {
    state("whole", &Game::default().capture(), |viewer| {
        panel(viewer).set_tab(Tab::Metrics);
    });
}

#[test]
fn a_span_in_focus_with_its_arrows() {
    state("arrows", &Game::default().capture(), |viewer| {
        pin(viewer);
        panel(viewer).set_tab(Tab::Scopes);
        focus_on(viewer, "update");
    });
}

#[test]
fn waits_of_a_slow_frame() {
    state("waits", &Game::default().capture(), |viewer| {
        pin(viewer);
        panel(viewer).set_tab(Tab::Scopes);
        panel(viewer).chart_mut().set_color_by(ColorBy::Wait);
        focus_on(viewer, "wait: cache");
    });
}

#[test]
fn the_source_of_a_span() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("src");
    std::fs::create_dir(&source).unwrap();
    let text = "//! A game.\n".to_owned() + &"    step(&mut world, dt);\n".repeat(80);
    std::fs::write(source.join("game.rs"), text).unwrap();
    state("source", &Game::default().capture(), |viewer| {
        let folders = vec![folder.path().to_owned()];
        panel(viewer).chart_mut().set_source_folders(folders);
        pin(viewer);
        panel(viewer).set_tab(Tab::Icicle);
        focus_on(viewer, "physics");
    });
}

#[test]
fn an_open_menu() {
    state("menu", &Game::default().capture(), |viewer| {
        panel(viewer).set_tab(Tab::Metrics);
        viewer.get_by_label("Tracks").click();
        settle(viewer);
        viewer.remove_cursor();
    });
}

#[test]
fn a_search() {
    state("search", &Game::default().capture(), |viewer| {
        pin(viewer);
        panel(viewer).view_mut().search = "draw".to_owned();
    });
}

#[test]
fn a_selected_time_as_a_flame_graph() {
    state("selected", &Game::default().capture(), |viewer| {
        let place = Place::Time(700_000_000, 760_000_000);
        viewer.state_mut().go_to_place(place);
        panel(viewer).set_tab(Tab::Icicle);
    });
}

#[test]
fn calls_of_a_scope() {
    state("calls", &Game::default().capture(), |viewer| {
        find(viewer, Listed::Calls(SiteId(6)));
    });
}

#[test]
fn messages_of_the_capture() {
    state("messages", &Game::default().capture(), |viewer| {
        find(viewer, Listed::Messages);
    });
}

#[test]
fn the_slowest_frames() {
    state("frames", &Game::default().capture(), |viewer| {
        find(viewer, Listed::Frames);
    });
}

#[test]
fn bookmarks_with_notes() {
    state("bookmarks", &Game::default().capture(), |viewer| {
        let text = "700ms..760ms\tslow: waits for the cache\n1.2s..1.3s\tas usual\n";
        viewer.state_mut().set_bookmarks(Bookmarks::parse(text));
        find(viewer, Listed::Bookmarks);
    });
}

#[test]
fn the_reason_for_a_slow_frame() {
    state("why", &Game::default().capture(), |viewer| {
        pin(viewer);
        panel(viewer).set_tab(Tab::Compare);
        panel(viewer).set_explains(true);
    });
}

#[test]
fn a_comparison_of_two_times() {
    state("compare", &Game::default().capture(), |viewer| {
        panel(viewer).set_tab(Tab::Compare);
        let usual = Place::Time(300_000_000, 400_000_000);
        viewer.state_mut().go_to_place(usual);
        settle(viewer);
        viewer.get_by_label("Keep selected 100 ms").click();
        viewer.step();
        let slow = Place::Time(800_000_000, 900_000_000);
        viewer.state_mut().go_to_place(slow);
    });
}

#[test]
fn two_hundred_threads_in_groups_and_three_hundred_metrics() {
    let game = Game {
        frames: 60,
        workers: 196,
        metrics: 295,
        ..Game::default()
    };
    state("many", &game.capture(), |viewer| {
        panel(viewer).set_tab(Tab::Metrics);
        panel(viewer).chart_mut().set_grouped(true);
        panel(viewer).plots_mut().set_grouped(true);
    });
}

#[test]
fn a_capture_without_frames() {
    let game = Game {
        marks_frames: false,
        ..Game::default()
    };
    state("no_frames", &game.capture(), |viewer| {
        panel(viewer).set_tab(Tab::Scopes);
    });
}

#[test]
fn a_damaged_capture() {
    let mut bytes = Game::default().capture();
    let (from, to) = (bytes.len() / 2, bytes.len() * 6 / 10);
    bytes[from..to].fill(0xa5);
    state("damaged", &bytes, |viewer| {
        panel(viewer).set_tab(Tab::Scopes);
    });
}

#[test]
fn the_table_of_keys() {
    state("keys", &Game::default().capture(), |viewer| {
        press(viewer, Key::Questionmark);
    });
}
