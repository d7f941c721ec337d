//! The path of the capture where another process already writes to the chosen one.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_fixtures::own_process;

#[test]
fn capture_path_is_the_real_path() {
    own_process!();
    assert_eq!(vor::capture_path(), None);
    let folder = tempfile::tempdir().unwrap();
    let wanted = folder.path().join("run.vor");
    // Another process that records to this path holds this lock.
    let taken = std::fs::File::create(&wanted).unwrap();
    taken.lock().unwrap();

    vor::Config::new().capture(&wanted).enable();
    let path = vor::capture_path().unwrap();
    assert_eq!(
        path.file_name().unwrap().to_str(),
        Some(format!("run.{}.vor", std::process::id()).as_str())
    );
    vor::frame_mark();
    vor::flush();
    assert_eq!(vor::capture::Capture::open(&path).unwrap().info().frames, 1);
    assert_eq!(std::fs::metadata(&wanted).unwrap().len(), 0);
}
