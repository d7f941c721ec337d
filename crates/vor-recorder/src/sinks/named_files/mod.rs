//! Captures with names by the time, of which the newest are kept: segments of a run, and dumps.
//!
//! - `names`: file names that sort by time.
//! - `keep`: which of them stay.

mod keep;
mod names;

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use vor_capture::Error;

use super::capture::{CaptureOptions, CaptureSink, Moment};
use crate::os::file::{MakeRoom, is_full_kind};
use crate::sync::lock;
pub use keep::has_lock_file;
pub(super) use keep::{Keeper, Limits};
pub(super) use names::Names;
pub(crate) use names::is_segmented;

/// Most names that are tried for a file.
const MAX_NAMES: u32 = 1 << 16;

/// Begins a capture whose name sorts after `last`; returns it with its name. If the disk is full,
/// then and later, the oldest one is deleted.
pub(super) fn begin(
    keeper: &Arc<Mutex<Keeper>>,
    options: CaptureOptions,
    start: Moment,
    last: &str,
) -> Result<(CaptureSink, String), Error> {
    let (mut sink, name) = loop {
        let (path, name) = new_file(&mut lock(keeper), last)?;
        match CaptureSink::begin(&path, options, start) {
            Ok(sink) => break (sink, name),
            Err(error) => {
                // Without a header it is no capture.
                let _ = std::fs::remove_file(&path);
                let is_full = error.io_kind().is_some_and(is_full_kind);
                if !is_full || !lock(keeper).free_one() {
                    return Err(error);
                }
            }
        }
    };
    let for_room = Arc::clone(keeper);
    let make_room: MakeRoom = Box::new(move || lock(&for_room).free_one());
    sink.when_full(make_room);
    Ok((sink, name))
}

/// Creates an empty file whose name sorts after `last`; returns its path and its name.
fn new_file(keeper: &mut Keeper, last: &str) -> Result<(PathBuf, String), Error> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_s = since.map_or(0, |since| since.as_secs() as i64);
    let pid = std::process::id();
    let folder = keeper.names().folder().to_owned();
    let mut name = keeper.names().name(unix_s, pid);
    let failed = |error| Error::io(format!("cannot write {}", folder.display()), error);
    let mut counter = 0;
    // Within a second, and if the clock was set back, names continue from the last one.
    if *name <= *last {
        (name, counter) = keeper.names().after(last);
    }
    for _ in 0..MAX_NAMES {
        let path = folder.join(&name);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(_) => return Ok((path, name)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                counter += 1;
                name = keeper.names().counted(&name, counter);
            }
            Err(error) if is_full_kind(error.kind()) && keeper.free_one() => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// Returns the name of the program, without its extension.
pub(super) fn program() -> String {
    let executable = std::env::current_exe().ok();
    let stem = executable.as_deref().and_then(Path::file_stem);
    stem.map(|stem| stem.to_string_lossy().into_owned())
        .unwrap_or_default()
}
