//! Files that sinks write. A FIFO or a device may accept only part of a write, or nothing for a
//! while. Then the writer waits for a limited time.
//!
//! Opening never waits: a FIFO without a reader is refused. A write waits for a slow reader, and
//! gives up when the reader has read nothing for two seconds. Once the process exits, all writes
//! together have ten seconds. A file on a disk has no such bound: a write returns when the system
//! has accepted it, so a hanging network disk blocks its writer. The same applies to pipes on
//! systems other than Unix.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;
#[cfg(unix)]
use std::sync::OnceLock;
#[cfg(unix)]
use std::time::{Duration, Instant};

#[cfg(unix)]
use crate::os::signals;

/// Longest wait for a reader that reads nothing.
#[cfg(unix)]
const READER_TIMEOUT: Duration = Duration::from_secs(2);
/// Interval at which a waiting writer checks whether the process is ending.
#[cfg(unix)]
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

/// Deadline of all writes, once the process ends. Set once, read by waiting writers.
#[cfg(unix)]
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// Makes all waiting writes end within `bound`. Only the first call has an effect.
#[cfg(unix)]
pub(crate) fn end_within(bound: Duration) {
    DEADLINE.get_or_init(|| Instant::now() + bound);
}

/// A file, a FIFO or a device that is written from beginning to end.
pub struct OutputFile {
    file: File,
    /// Whether a wait for its reader timed out. Later writes do not wait.
    has_timed_out: bool,
    make_room: Option<MakeRoom>,
}

/// Frees space on a full disk, and returns whether it did.
pub(crate) type MakeRoom = Box<dyn FnMut() -> bool + Send + Sync>;

impl std::fmt::Debug for OutputFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OutputFile")
            .field("file", &self.file)
            .finish_non_exhaustive()
    }
}

/// Returns whether an error says that the disk, or the user's share of it, is full.
pub(crate) fn is_full_kind(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

impl OutputFile {
    /// Opens `path` for writing; an existing file is emptied.
    ///
    /// # Errors
    ///
    /// The file cannot be opened, or it is a FIFO that nobody reads.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::open(path, true)
    }

    /// Opens `path` for writing; an existing file keeps its content.
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
                has_timed_out: false,
                make_room: None,
            }),
            Err(error) if is_unread_fifo(path, &error) => Err(io::Error::new(
                error.kind(),
                "nobody reads this FIFO; start its reader first",
            )),
            Err(error) => Err(error),
        }
    }

    /// Calls `make_room` when the disk is full, and repeats the write after it returned true.
    pub(crate) fn when_full(&mut self, make_room: MakeRoom) {
        self.make_room = Some(make_room);
    }

    pub(crate) fn inner(&self) -> &File {
        &self.file
    }

    /// Waits until the file has room for a write.
    #[cfg(unix)]
    fn wait(&mut self) -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let start = Instant::now();
        while !self.has_timed_out {
            let now = Instant::now();
            let left = DEADLINE.get().map(|end| end.saturating_duration_since(now));
            let left = READER_TIMEOUT
                .saturating_sub(now - start)
                .min(left.unwrap_or(Duration::MAX));
            if signals::wait_for_room(self.file.as_raw_fd(), left.min(CHECK_INTERVAL))? {
                return Ok(());
            }
            self.has_timed_out = left.is_zero();
        }
        Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "its reader did not read all of it before the program ended",
        ))
    }

    #[cfg(not(unix))]
    fn wait(&mut self) -> io::Result<()> {
        self.has_timed_out = true;
        Err(io::ErrorKind::WouldBlock.into())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                Err(error)
                    if is_full_kind(error.kind())
                        && self.make_room.as_mut().is_some_and(|make_room| make_room()) => {}
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

/// Returns whether `path` still names the open file.
#[cfg(unix)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |metadata: io::Result<std::fs::Metadata>| {
        Some((metadata.as_ref().ok()?.dev(), metadata.ok()?.ino()))
    };
    let found = identity(std::fs::metadata(path));
    found.is_some() && found == identity(file.metadata())
}

/// Returns whether `path` still names the open file: another process may have renamed it.
#[cfg(windows)]
pub(crate) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::windows::io::AsRawHandle;
    use windows_sys::Win32::Storage::FileSystem::{
        BY_HANDLE_FILE_INFORMATION, GetFileInformationByHandle,
    };
    #[expect(unsafe_code, reason = "the identity of a file is a system call")]
    let identity = |file: &File| {
        let mut info = BY_HANDLE_FILE_INFORMATION::default();
        // SAFETY: the handle belongs to a file that is open during the call, and `info` is a valid
        // place for the result.
        let done =
            unsafe { GetFileInformationByHandle(file.as_raw_handle().cast(), &raw mut info) };
        (done != 0).then_some((
            info.dwVolumeSerialNumber,
            info.nFileIndexHigh,
            info.nFileIndexLow,
        ))
    };
    let found = File::open(path).ok().and_then(|at| identity(&at));
    found.is_some() && found == identity(file)
}

/// Other systems have no second process.
#[cfg(not(any(unix, windows)))]
pub(crate) fn is_at(_: &File, _: &Path) -> bool {
    true
}

/// Maps a file into memory and unmaps it. The mapping is executable if that is allowed, because
/// some recorders see only such mappings.
#[cfg(all(feature = "export", target_os = "linux"))]
#[expect(unsafe_code, reason = "mappings are the C library's")]
pub(crate) fn map_once(file: &File) -> io::Result<()> {
    const BYTES: usize = 4096;
    for protection in [libc::PROT_READ | libc::PROT_EXEC, libc::PROT_READ] {
        // SAFETY: a new mapping at a place of the system's choice touches no existing memory,
        // and is never read.
        let place = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                BYTES,
                protection,
                libc::MAP_PRIVATE,
                std::os::fd::AsRawFd::as_raw_fd(file),
                0,
            )
        };
        if place != libc::MAP_FAILED {
            // SAFETY: it is the mapping just made, to which no reference exists.
            unsafe { libc::munmap(place, BYTES) };
            return Ok(());
        }
    }
    Err(io::Error::last_os_error())
}

/// Other systems' recorders do not look for mappings.
#[cfg(all(
    feature = "export",
    not(any(target_os = "linux", target_arch = "wasm32"))
))]
pub(crate) fn map_once(_: &File) -> io::Result<()> {
    Ok(())
}

// wine does not rename a file while it is open as Windows does.
#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_write_to_a_full_disk_is_repeated_while_room_is_made() -> io::Result<()> {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicU32, Ordering};
        let mut file = OutputFile::create(Path::new("/dev/full"))?;
        let error = file.write(b"text").expect_err("a full disk");
        assert!(is_full_kind(error.kind()));
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        file.when_full(Box::new(move || {
            counted.fetch_add(1, Ordering::Relaxed) < 3
        }));
        assert!(file.write(b"text").is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 4);
        Ok(())
    }

    #[test]
    fn a_renamed_file_is_no_longer_at_its_path() -> io::Result<()> {
        let folder = tempfile::tempdir()?;
        let [path, other] = ["run.vor", "other.vor"].map(|name| folder.path().join(name));
        let file = File::create(&path)?;
        assert!(is_at(&file, &path) && !is_at(&file, &other));
        std::fs::rename(&path, &other)?;
        assert!(!is_at(&file, &path) && is_at(&file, &other));
        let _new = File::create(&path)?;
        assert!(!is_at(&file, &path), "another file has the name");
        Ok(())
    }
}
