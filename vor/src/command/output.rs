//! The destination of an export, which is written completely or not at all.
//!
//! A file is written to a temporary file beside it, which is renamed when it is complete. So nobody
//! reads half an export, an old file stays until the new one is complete, and a failure leaves
//! nothing behind. Stdout, devices, pipes and terminals are written directly.
//!
//! A signal that ends the process (Ctrl-C, the limit on the size of files) would leave the
//! temporary file behind. So while there is one, these signals only set a flag, and the next write
//! fails.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tempfile::NamedTempFile;
use vor_capture::format::MAGIC;

use crate::command::failure::Failure;

/// The destination of an export.
#[derive(Debug)]
pub(crate) struct Output {
    place: Place,
    is_interrupted: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Place {
    Stdout,
    Special(File),
    #[cfg(feature = "parquet")]
    Folder,
    /// A temporary file, which is removed when it is dropped, and its final name.
    Temporary(NamedTempFile, PathBuf),
}

/// Writes to an [`Output`]. It is `Send`, because sinks are.
#[derive(Debug)]
pub(crate) struct Writer {
    inner: Inner,
    is_interrupted: Arc<AtomicBool>,
}

#[derive(Debug)]
enum Inner {
    Stdout(io::Stdout),
    File(File),
}

impl Output {
    /// Opens a destination; no path and `-` are stdout.
    pub(crate) fn create(path: Option<&Path>) -> Result<Self, Failure> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        let place = match path.filter(|path| *path != Path::new("-")) {
            None => Place::Stdout,
            Some(path) => open_place(path, &is_interrupted)?,
        };
        Ok(Self {
            place,
            is_interrupted,
        })
    }

    /// Makes the destination of an exporter that writes its files into a folder by itself, and
    /// keeps them only if it finishes.
    #[cfg(feature = "parquet")]
    pub(crate) fn folder(path: &Path) -> Result<Self, Failure> {
        let is_interrupted = Arc::new(AtomicBool::new(false));
        catch_signals(&is_interrupted)
            .map_err(|error| Failure::in_file(path, format!("cannot be created: {error}")))?;
        Ok(Self {
            place: Place::Folder,
            is_interrupted,
        })
    }

    /// Returns whether it is a terminal, given whether stdout is one.
    pub(crate) fn is_terminal(&self, is_stdout_terminal: bool) -> bool {
        matches!(self.place, Place::Stdout) && is_stdout_terminal
    }

    /// Returns a writer to the destination. Only what is written before [`keep`](Self::keep) is in
    /// the file.
    pub(crate) fn writer(&self) -> io::Result<Writer> {
        let inner = match &self.place {
            Place::Stdout => Inner::Stdout(io::stdout()),
            #[cfg(feature = "parquet")]
            Place::Folder => return Err(io::Error::other("the output is a folder")),
            Place::Special(file) => Inner::File(file.try_clone()?),
            Place::Temporary(file, _) => Inner::File(file.as_file().try_clone()?),
        };
        Ok(Writer {
            inner,
            is_interrupted: Arc::clone(&self.is_interrupted),
        })
    }

    /// Returns an error after a signal to end the command.
    pub(crate) fn check_signal(&self) -> io::Result<()> {
        check_signal(&self.is_interrupted)
    }

    /// Renames the complete file to its final name.
    pub(crate) fn persist(self) -> Result<(), Failure> {
        let Place::Temporary(file, path) = self.place else {
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
        check_signal(&self.is_interrupted)?;
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

/// Returns an error after a signal. Its kind is not `Interrupted`, after which a write would be
/// repeated.
fn check_signal(is_interrupted: &AtomicBool) -> io::Result<()> {
    if is_interrupted.load(Ordering::Relaxed) {
        return Err(io::Error::other("ended by a signal"));
    }
    Ok(())
}

/// Opens the destination at a path, by the kind of file that is there.
fn open_place(path: &Path, is_interrupted: &Arc<AtomicBool>) -> Result<Place, Failure> {
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
                "is a directory; name a file for the output",
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
    // The target of a link is replaced, not the link.
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
    catch_signals(is_interrupted).map_err(cannot)?;
    let file = builder.tempfile_in(folder).map_err(|error| {
        // The text of the error names the temporary file, which would confuse.
        let kind = error.kind();
        cannot(kind.into())
    })?;
    if let Some(metadata) = metadata {
        // The new file gets the old one's permissions; if that fails, it keeps the usual ones.
        drop(file.as_file().set_permissions(metadata.permissions()));
    }
    Ok(Place::Temporary(file, target))
}

/// Refuses to overwrite a capture, which is most likely the input or a mistake.
fn expect_no_capture(path: &Path) -> Result<(), Failure> {
    let mut magic = [0; MAGIC.len()];
    if let Ok(mut file) = File::open(path)
        && file.read_exact(&mut magic).is_ok()
        && magic == MAGIC
    {
        return Err(Failure::in_file(
            path,
            "is a capture, which is never overwritten; name another file for the output",
        ));
    }
    Ok(())
}

/// Returns the mode of a new file before the umask; by default, temporary files are private.
fn usual_permissions() -> Option<Permissions> {
    #[cfg(unix)]
    return Some(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    #[cfg(not(unix))]
    None
}

/// Lets the signals that end the process set a flag instead; a second one ends it.
pub(crate) fn catch_signals(flag: &Arc<AtomicBool>) -> io::Result<()> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    use signal_hook::flag::{register, register_conditional_default};

    for signal in [SIGINT, SIGTERM] {
        register_conditional_default(signal, Arc::clone(flag))?;
        register(signal, Arc::clone(flag))?;
    }
    // The write that exceeds the limit fails by itself.
    #[cfg(unix)]
    register(
        signal_hook::consts::SIGXFSZ,
        Arc::new(AtomicBool::new(false)),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stdout_may_be_a_terminal() {
        let folder = tempfile::tempdir().unwrap();
        let stdout = Output::create(Some(Path::new("-"))).unwrap();
        assert!(stdout.is_terminal(true) && !stdout.is_terminal(false));
        let file = Output {
            place: Place::Temporary(NamedTempFile::new_in(&folder).unwrap(), PathBuf::new()),
            is_interrupted: Arc::default(),
        };
        assert!(!file.is_terminal(true));
    }

    #[test]
    fn nothing_is_written_after_a_signal() {
        let output = Output::create(None).unwrap();
        let mut writer = output.writer().unwrap();
        assert!(output.check_signal().is_ok());
        output.is_interrupted.store(true, Ordering::Relaxed);
        for stopped in [output.check_signal(), writer.write_all(b"never written")] {
            let error = stopped.unwrap_err();
            assert_eq!(error.to_string(), "ended by a signal");
            assert_ne!(error.kind(), io::ErrorKind::Interrupted);
        }
    }
}
