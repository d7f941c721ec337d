//! The program `vor-viz`: pictures without a window, and its errors when it cannot make them.
#![cfg(feature = "viewer")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use vor_fixtures::even::make;

fn vor_viz(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vor-viz"));
    // A test opens no window.
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.args(args).output().unwrap()
}

/// Checks that a run failed with one line, and returns it.
fn refused(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let line = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.starts_with("vor-viz: "), "{line}");
    line
}

/// The width, the height and the RGB bytes of a picture.
fn picture(path: &Path) -> (u32, u32, Vec<u8>) {
    let decoder = png::Decoder::new(BufReader::new(File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!(info.color_type, png::ColorType::Rgb);
    (info.width, info.height, pixels)
}

fn mean(pixels: &[u8]) -> f64 {
    pixels.iter().map(|&byte| f64::from(byte)).sum::<f64>() / pixels.len() as f64
}

/// Returns the number of bytes that differ by more than a shade. The edges of letters differ by
/// one, depending on their order in the texture of the font.
fn differing(a: &[u8], b: &[u8]) -> usize {
    a.iter()
        .zip(b)
        .filter(|(a, b)| a.abs_diff(**b) > 24)
        .count()
}

fn folder_with_capture(frames: u64, is_closed: bool) -> (tempfile::TempDir, String, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    fs::write(&path, make(frames, 9, is_closed).bytes).unwrap();
    let out = folder.path().join("out.png");
    let path = path.to_str().unwrap().to_owned();
    (folder, path, out)
}

#[test]
fn a_picture_has_the_requested_size_and_colours() {
    let (folder, path, out) = folder_with_capture(500, true);
    let out_text = out.to_str().unwrap();
    let mut means = Vec::new();
    for (theme, size, scale) in [
        ("dark", "640x200", "1"),
        ("light", "333x211", "2"),
        ("light", "640x200", "1"),
    ] {
        let args = [
            "--frame",
            "321",
            "--screenshot",
            out_text,
            "--size",
            size,
            "--theme",
            theme,
            "--scale",
            scale,
        ];
        let output = vor_viz(&[&[path.as_str()][..], &args].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let (width, height, pixels) = picture(&out);
        assert_eq!(format!("{width}x{height}"), size);
        means.push(mean(&pixels));
        // The background has text on it: names and numbers.
        let ground = &pixels[pixels.len() - 3..];
        let different = pixels
            .chunks_exact(3)
            .filter(|pixel| *pixel != ground)
            .count();
        assert!(different > 300, "{different}");
    }
    assert!(
        means[0] < 60.0 && means[1] > 200.0 && means[2] > 200.0,
        "{means:?}"
    );
    // The old picture is replaced, and no other file remains, except for the survey, which a slow
    // machine keeps.
    let mut names: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    names.retain(|name| name != "run.vor.survey");
    names.sort();
    assert_eq!(names, ["out.png", "run.vor"]);
}

#[test]
fn a_picture_shows_the_requested_frame() {
    // A file without an index is searched for its frames after it is opened.
    for is_closed in [true, false] {
        let (_folder, path, out) = folder_with_capture(500, is_closed);
        let take = |frame: &str| {
            let output = vor_viz(&[
                &path,
                "--frame",
                frame,
                "--screenshot",
                out.to_str().unwrap(),
                "--size",
                "640x120",
            ]);
            assert!(output.status.success(), "{output:?}");
            picture(&out).2
        };
        let first = take("7");
        assert_eq!(differing(&first, &take("7")), 0);
        assert!(differing(&first, &take("456")) > 100);
    }
}

#[test]
fn two_captures_and_none_are_shown() {
    let (_folder, path, out) = folder_with_capture(3, true);
    let out = out.to_str().unwrap();
    let take = |captures: &[&str]| {
        let output = vor_viz(&[captures, &["--screenshot", out, "--size", "500x300"]].concat());
        assert!(output.status.success(), "{output:?}");
        picture(Path::new(out)).2
    };
    let pictures = [take(&[]), take(&[&path]), take(&[&path, &path])];
    assert!(pictures[0] != pictures[1] && pictures[1] != pictures[2]);
}

#[test]
fn failures_are_reported_in_one_line() {
    let (folder, path, out) = folder_with_capture(20, true);
    let out = out.to_str().unwrap();
    let foreign = folder.path().join("foreign.vor");
    fs::write(&foreign, "not a capture").unwrap();
    let foreign = foreign.to_str().unwrap();
    let said = |args: &[&str]| refused(&vor_viz(args));
    assert!(said(&["/nowhere/run.vor"]).contains("/nowhere/run.vor"));
    assert!(said(&[foreign]).contains("not a vor capture"));
    assert!(said(&[&path, foreign, "--screenshot", out]).contains("foreign.vor"));
    assert!(
        said(&[&path, "--frame", "30", "--screenshot", out])
            .contains("there is no frame 30: the last one is 29")
    );
    assert!(said(&[&path, "--screenshot", out, "--size", "0x10"]).contains("0x10"));
    assert!(said(&[&path, "--screenshot", out, "--scale", "nan"]).contains("nan"));
    assert!(said(&[&path, "--screenshot", "/nowhere/out.png"]).contains("/nowhere/out.png"));
    assert!(said(&["--frame", "3"]).contains("CAPTURE"));
    assert!(said(&[&path, "--size", "90x90"]).contains("--screenshot"));
    assert!(said(&[&path, "--scale", "2"]).contains("--screenshot"));
    assert!(said(&["--bogus"]).contains("--bogus"));
    assert!(!Path::new(out).exists());
}

#[test]
fn help_and_version_are_printed() {
    let help = vor_viz(&["--help"]);
    assert!(help.status.success() && help.stderr.is_empty());
    let help = String::from_utf8(help.stdout).unwrap();
    for option in ["--frame", "--screenshot", "--size", "--theme", "--scale"] {
        assert!(help.contains(option), "{help}");
    }
    let version = vor_viz(&["--version"]);
    assert!(
        String::from_utf8(version.stdout)
            .unwrap()
            .contains(env!("CARGO_PKG_VERSION"))
    );
}
