//! Files that sinks write. A FIFO or a device takes part of a write, or nothing for a while: then
//! the writer waits, and not for ever.
//!
//! Opening never waits: a FIFO that nobody reads is refused. A write waits for a reader that is
//! slow, and gives up when the reader has taken nothing for two seconds. Once the process ends,
//! all writes together have ten seconds at an exit. A file on a disk has no such bound: the
//! system has taken a write when it returns, and a network disk that hangs keeps its writer.
//! Elsewhere than on Unix the same holds for pipes.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
#[cfg(unix)]
use std::sync::OnceLock;
#[cfg(unix)]
use std::time::{Duration, Instant};

#[cfg(unix)]
use crate::os::signals;

/// How long a reader may take nothing.
#[cfg(unix)]
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a writer that waits looks whether the process ends.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(50);

/// When writes must have ended, once the process ends.
#[cfg(unix)]
static END_BY: OnceLock<Instant> = OnceLock::new();

/// Has all writes that wait for a reader end within `bound`. The first call counts.
#[cfg(unix)]
pub(crate) fn end_within(bound: Duration) {
    END_BY.get_or_init(|| Instant::now() + bound);
}

/// A file, a FIFO or a device that is written from its begin to its end.
#[derive(Debug)]
pub struct OutputFile {
    file: File,
    /// Whether its reader was waited for in vain. It is not waited for again.
    gave_up: bool,
}

impl OutputFile {
    /// Opens `path` for writing; an existing file is emptied.
    ///
    /// # Errors
    ///
    /// When the file cannot be opened, or is a FIFO that nobody reads.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, true)
    }

    /// As [`create`](Self::create), and leaves in it what an existing file holds.
    pub(crate) fn create_or_keep(path: &Path) -> io::Result<Self> {
        Self::open(path, false)
    }

    fn open(path: &Path, truncate: bool) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(truncate);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
        match options.open(path) {
            Ok(file) => Ok(Self {
                file,
                gave_up: false,
            }),
            Err(error) if is_unread_fifo(path, &error) => Err(io::Error::new(
                error.kind(),
                "nobody reads this FIFO; start its reader first",
            )),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn inner(&self) -> &File {
        &self.file
    }

    /// Waits until the reader takes more.
    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let begun = Instant::now();
        while !self.gave_up {
            let now = Instant::now();
            let left = END_BY.get().map(|end| end.saturating_duration_since(now));
            let left = PATIENCE
                .saturating_sub(now - begun)
                .min(left.unwrap_or(Duration::MAX));
            if signals::wait_for_room(self.file.as_raw_fd(), left.min(LOOK))? {
                return Ok(());
            }
            self.gave_up = left.is_zero();
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "its reader takes nothing, or too little until the program ends",
        ))
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<()> {
        self.gave_up = true;
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(unix)]
fn is_unread_fifo(path: &Path, error: &io::Error) -> bool {
    use std::os::unix::fs::FileTypeExt;
    error.raw_os_error() == Some(libc::ENXIO)
        && std::fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo())
}

#[cfg(not(unix))]
fn is_unread_fifo(_: &Path, _: &io::Error) -> bool {
    false
}
