//! Where an export goes, whole or not at all.
//!
//! A file is written under a name of its own beside the one that was asked for, and takes that name
//! when it is complete. So nobody ever reads half an export, an old file is there until the new one
//! is, and what fails leaves nothing behind. What is no ordinary file (a device, a pipe, a
//! terminal) has no name to take and is written directly, as is stdout.
//!
//! Whoever is told to end (Ctrl-C, a limit on the size of files) would not come to clean up. While
//! there is something to clean up, such signals only set a flag, on which the next write fails.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;
use vor_capture::format::MAGIC;

use crate::command::failure::Failure;

/// A place for an export.
#[derive(Debug)]
pub(crate) struct Output {
    place: Place,
    was_told_to_end: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Place {
    Stdout,
    Special(File),
    #[cfg(feature = "parquet")]
    Folder,
    /// A file that is removed when it is dropped, and the name that it is to take.
    Beside(NamedTempFile, PathBuf),
}

/// Writes to an [`Output`]. A sink may be handed to another thread, so this can be, too.
#[derive(Debug)]
pub(crate) struct Writer {
    inner: Inner,
    was_told_to_end: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Inner {
    Stdout(io::Stdout),
    File(File),
}

impl Output {
    /// Prepares a place: stdout for no path and for `-`.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let was_told_to_end = Arc::new(AtomicBool::new(false));
        let place = match path.filter(|path| *path != Path::new("-")) {
            None => Place::Stdout,
            Some(path) => place_of(path, &was_told_to_end)?,
        };
        Ok(Self {
            place,
            was_told_to_end,
        })
    }

    /// Prepares for an exporter that writes files of its own into a folder, and keeps them only
    /// when it is finished.
    #[cfg(feature = "parquet")]
    pub(crate) fn folder(path: &Path) -> Result<Self, Failure> {
        let was_told_to_end = Arc::new(AtomicBool::new(false));
        heed_signals(&was_told_to_end)
            .map_err(|error| Failure::in_file(path, format!("cannot be created: {error}")))?;
        Ok(Self {
            place: Place::Folder,
            was_told_to_end,
        })
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.place, Place::Stdout)
    }

    /// Makes a writer to the place. What it has not been given when the output is
    /// [kept](Self::keep) is not in it.
    pub(crate) fn writer(&self) -> io::Result<Writer> {
        let inner = match &self.place {
            Place::Stdout => Inner::Stdout(io::stdout()),
            #[cfg(feature = "parquet")]
            Place::Folder => return Err(io::Error::other("a folder is no file")),
            Place::Special(file) => Inner::File(file.try_clone()?),
            Place::Beside(file, _) => Inner::File(file.as_file().try_clone()?),
        };
        Ok(Writer {
            inner,
            was_told_to_end: Arc::clone(&self.was_told_to_end),
        })
    }

    /// Returns an error once a signal has asked the command to end.
    pub(crate) fn expect_time(&self) -> io::Result<()> {
        expect_time(&self.was_told_to_end)
    }

    /// Gives the output the name that was asked for.
    pub(crate) fn keep(self) -> Result<(), Failure> {
        let Place::Beside(file, path) = self.place else {
            return Ok(());
        };
        match file.persist(&path) {
            Ok(_) => Ok(()),
            Err(failed) => Err(Failure::in_file(
                &path,
                format!("cannot be replaced: {}", failed.error),
            )),
        }
    }
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        expect_time(&self.was_told_to_end)?;
        match &mut self.inner {
            Inner::Stdout(stdout) => stdout.write(bytes),
            Inner::File(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.inner {
            Inner::Stdout(stdout) => stdout.flush(),
            Inner::File(file) => file.flush(),
        }
    }
}

/// Of another kind than `Interrupted`, after which a write is tried again.
fn expect_time(was_told_to_end: &AtomicBool) -> io::Result<()> {
    if was_told_to_end.load(Ordering::Relaxed) {
        return Err(io::Error::other("told to end by a signal"));
    }
    Ok(())
}

/// Finds out what a path is, and opens a place for it.
fn place_of(path: &Path, was_told_to_end: &Arc<AtomicBool>) -> Result<Place, Failure> {
    let cannot = |error: io::Error| Failure::in_file(path, format!("cannot be created: {error}"));
    let metadata = match path.metadata() {
        Ok(metadata) => Some(metadata),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(cannot(error)),
    };
    if let Some(metadata) = &metadata {
        if metadata.is_dir() {
            return Err(Failure::in_file(
                path,
                "a directory; name a file for the output",
            ));
        }
        if !metadata.is_file() {
            return OpenOptions::new()
                .write(true)
                .open(path)
                .map(Place::Special)
                .map_err(cannot);
        }
        expect_no_capture(path)?;
        if metadata.permissions().readonly() {
            let error = io::Error::from(io::ErrorKind::PermissionDenied);
            return Err(cannot(error));
        }
    }
    // The file that a link points to is replaced, and not the link.
    let target = match &metadata {
        Some(_) => fs::canonicalize(path).map_err(cannot)?,
        None => path.to_owned(),
    };
    let folder = target.parent().filter(|folder| *folder != Path::new(""));
    let folder = folder.unwrap_or(Path::new("."));
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    name.push(".");
    let mut builder = tempfile::Builder::new();
    builder.prefix(&name).suffix(".part");
    if let Some(permissions) = usual_permissions() {
        builder.permissions(permissions);
    }
    heed_signals(was_told_to_end).map_err(cannot)?;
    let file = builder.tempfile_in(folder).map_err(|error| {
        // Its text names the temporary file, which nobody asked for.
        let kind = error.kind();
        cannot(kind.into())
    })?;
    if let Some(metadata) = metadata {
        // Whoever could read the old file can read the new one. Where that cannot be, the usual
        // permissions do.
        drop(file.as_file().set_permissions(metadata.permissions()));
    }
    Ok(Place::Beside(file, target))
}

/// Refuses to overwrite a capture: it is most likely the input, or a mistake.
fn expect_no_capture(path: &Path) -> Result<(), Failure> {
    let mut begin = [0; MAGIC.len()];
    if let Ok(mut file) = File::open(path)
        && file.read_exact(&mut begin).is_ok()
        && begin == MAGIC
    {
        return Err(Failure::in_file(
            path,
            "captures are not overwritten; name another file for the output",
        ));
    }
    Ok(())
}

/// Returns what the system makes the permissions of a new file from; temporary files are private
/// otherwise.
fn usual_permissions() -> Option<Permissions> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    None
}

/// Lets the signals that end a program set a flag instead; a second one ends it.
fn heed_signals(flag: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_default};

    for signal in [SIGINT, SIGTERM] {
        register_conditional_default(signal, Arc::clone(flag))?;
        register(signal, Arc::clone(flag))?;
    }
    // The write that went beyond the limit tells by itself.
    #[cfg(unix)]
    register(
        signal_hook::consts::SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    )?;
    Ok(())
}
