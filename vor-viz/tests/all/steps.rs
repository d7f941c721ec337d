//! From frame to frame of a capture that is larger than the part in memory, by keys and buttons.

use egui::{Key, Modifiers, Role};
use egui_kittest::kittest::Queryable;

use crate::find::{FRAMES, Viewer, opened, press, settle};

/// Returns the place of the pinned frame in the capture.
fn pinned(viewer: &Viewer) -> Option<u64> {
    let replay = viewer.state();
    let pinned = replay.panel().view().pinned()?;
    replay.frame_of(pinned)
}

/// Returns the number in the header.
fn number(viewer: &Viewer) -> String {
    let field = viewer.get_by_role_and_label(Role::TextInput, "frame");
    field.value().unwrap()
}

#[test]
fn keys_go_beyond_the_frames_in_memory() {
    let mut viewer = opened(true);
    let window = viewer.state().window();
    assert!(window.end < FRAMES, "{window:?}");
    let mut goes = |key, expected| {
        press(&mut viewer, Modifiers::NONE, key);
        assert_eq!(pinned(&viewer), expected, "{key:?}");
    };
    goes(Key::End, Some(FRAMES - 1));
    goes(Key::ArrowLeft, Some(FRAMES - 2));
    goes(Key::Home, Some(0));
    goes(Key::ArrowRight, Some(1));
    goes(Key::Space, None);
    // The newest frame, as in a running program.
    goes(Key::Space, Some(FRAMES - 1));
    goes(Key::ArrowRight, Some(FRAMES - 1));
    // Past both edges of the frames in memory.
    for key in [Key::Comma, Key::Period] {
        let window = viewer.state().window();
        let (edge, beyond) = match key {
            Key::Comma => (window.start, window.start - 1),
            _ => (window.end - 1, window.end),
        };
        let (store, view) = viewer.state_mut().panel_mut().parts();
        let index = usize::try_from(edge - window.start).unwrap();
        view.pin(store.id_at(index));
        press(&mut viewer, Modifiers::NONE, key);
        assert_eq!(
            pinned(&viewer),
            Some(beyond),
            "{key:?} from {edge} of {window:?}"
        );
        viewer.state_mut().go_to(FRAMES / 2);
        settle(&mut viewer);
    }
}

#[test]
fn the_header_has_the_number_of_the_pinned_frame() {
    let mut viewer = opened(true);
    viewer.state_mut().go_to(600);
    settle(&mut viewer);
    // Numbers are ten above places.
    assert_eq!(number(&viewer), "610");
    press(&mut viewer, Modifiers::NONE, Key::ArrowRight);
    assert_eq!(number(&viewer), "611");
    let (store, view) = viewer.state_mut().panel_mut().parts();
    view.pin(store.id_at(7));
    settle(&mut viewer);
    let shown = pinned(&viewer).unwrap();
    assert_eq!(number(&viewer), (shown + 10).to_string());
    viewer.get_by_label("Next frame").click();
    settle(&mut viewer);
    assert_eq!(pinned(&viewer), Some(shown + 1));
    assert_eq!(number(&viewer), (shown + 11).to_string());
}
