//! A file of memory that outlives its process: its pages are mapped, and a killed process leaves
//! what it stored.
//!
//! The file grows by areas, each of which is mapped by itself. A page of a mapping that gets no
//! memory ends the program with SIGBUS, for example in a container with a small `/dev/shm`. So
//! zeros are written to the file before a page is first touched, which fails with an error instead.
//!
//! A lock on the whole file says that its process lives. It is one that belongs to the process and
//! that a fork does not copy.

#![cfg_attr(
    all(unix, not(miri)),
    expect(
        unsafe_code,
        reason = "mappings and locks of a process are the C library's"
    )
)]

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::os::signals;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicU64};

/// Areas begin at multiples of this: the largest page of the supported systems.
pub(crate) const AREA_BYTES: u64 = 64 << 10;

/// How the names of the files end.
pub(crate) const ENDING: &str = ".shm";

/// Most files of one process number in a folder.
const MAX_NAMES: u32 = 100;

/// Whether the file got no memory for a ring since the last [`take_refusal`].
static WAS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether the file got no memory since the last call. Until then none is asked for.
pub(crate) fn take_refusal() -> bool {
    WAS_REFUSED.swap(false, Ordering::Relaxed)
}

/// A file that this process has made and shares with whoever recovers it.
#[derive(Debug)]
pub(crate) struct SharedFile {
    file: Arc<File>,
    path: PathBuf,
    bytes: u64,
    /// The address, the length and the place of each mapping.
    maps: Vec<(usize, usize, u64)>,
}

/// Provides the memory of a part of the file, from its beginning on.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: Arc<File>,
    offset: u64,
    /// Bytes that have memory. Read and written by one thread (relaxed).
    reserved: AtomicU64,
    /// Whether there was no memory once. Set by that thread, read by any, both relaxed.
    is_short: AtomicBool,
}

impl Reserve {
    /// Returns the one for what begins `bytes` later.
    pub(crate) fn after(self, bytes: u64) -> Self {
        let reserved = self.reserved.load(Ordering::Relaxed).saturating_sub(bytes);
        Self {
            offset: self.offset + bytes,
            reserved: AtomicU64::new(reserved),
            ..self
        }
    }

    /// Returns whether there was no memory once.
    pub(crate) fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// Makes `bytes` bytes at `at` have memory. All those before have some already. Returns `false`
    /// if there is none.
    pub(crate) fn reserve(&self, at: u64, bytes: u64) -> bool {
        let reserved = self.reserved.load(Ordering::Relaxed);
        if at + bytes <= reserved {
            return true;
        }
        if WAS_REFUSED.load(Ordering::Relaxed) {
            self.is_short.store(true, Ordering::Relaxed);
            return false;
        }
        // Bytes that are in use must not be written.
        let begin = at.max(reserved);
        let done = write_zeros(&self.file, self.offset + begin, at + bytes - begin).is_ok();
        if done {
            self.reserved.store(at + bytes, Ordering::Relaxed);
        } else {
            self.is_short.store(true, Ordering::Relaxed);
            WAS_REFUSED.store(true, Ordering::Relaxed);
        }
        done
    }
}

/// Pages of the file in memory. They stay mapped until the process ends, because a scope may close
/// in them at any time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pages {
    pub(crate) first: NonNull<u8>,
    pub(crate) offset: u64,
}

impl SharedFile {
    /// Makes the file of this process in a folder, for this user alone. If an earlier process with
    /// this number has left one, it is kept, and the new one gets another name.
    pub(crate) fn create(folder: &Path) -> io::Result<Self> {
        let pid = std::process::id();
        for number in 1..=MAX_NAMES {
            let name = match number {
                1 => format!("vor-{pid}{ENDING}"),
                _ => format!("vor-{pid}-{number}{ENDING}"),
            };
            let path = folder.join(name);
            match create_new(&path) {
                Ok(file) => {
                    lock(&file).inspect_err(|_| unlink(&path))?;
                    return Ok(Self {
                        file: Arc::new(file),
                        path,
                        bytes: 0,
                        maps: Vec::new(),
                    });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds an area to the file, of which the first bytes get memory. Returns its place.
    pub(crate) fn add_area(&mut self, bytes: u64, first_bytes: u64) -> io::Result<u64> {
        let offset = self.bytes;
        let end = offset + bytes.next_multiple_of(AREA_BYTES);
        signals::without_signals(|| self.file.set_len(end))?;
        write_zeros(&self.file, offset, first_bytes)?;
        self.bytes = end;
        Ok(offset)
    }

    /// Adds an area and maps it. Only its first bytes have memory; see [`Reserve`].
    pub(crate) fn map_area(&mut self, bytes: u64, first_bytes: u64) -> io::Result<Pages> {
        let offset = self.add_area(bytes, first_bytes)?;
        let len = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let first = map(&self.file, offset, len)?;
        self.maps.push((first.as_ptr().addr(), len, offset));
        Ok(Pages { first, offset })
    }

    /// Returns what provides the memory of an area from a place in it on. `reserved` bytes there
    /// have some already.
    pub(crate) fn reserve_from(&self, offset: u64, reserved: u64) -> Reserve {
        Reserve {
            file: Arc::clone(&self.file),
            offset,
            reserved: AtomicU64::new(reserved),
            is_short: AtomicBool::new(false),
        }
    }

    pub(crate) fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        signals::without_signals(|| write_at(&self.file, bytes, offset))
    }

    /// Removes the file's name. The memory stays until the process ends.
    pub(crate) fn unlink(&self) {
        unlink(&self.path);
    }

    /// Gives this process, the child of a fork, a copy of its own at the same addresses, so that
    /// scopes that close here do not write into the file of the parent.
    #[cfg_attr(not(unix), allow(dead_code, reason = "only Unix forks"))]
    pub(crate) fn leave_to_parent(&self) {
        for &(address, bytes, offset) in &self.maps {
            map_private(&self.file, address, bytes, offset);
        }
    }
}

/// Removes the name of a file.
pub(crate) fn unlink(path: &Path) {
    // It may be gone: someone cleans the folder.
    let _ = std::fs::remove_file(path);
}

/// Writes zeros in pieces.
fn write_zeros(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    static PIECE: [u8; 64 << 10] = [0; 64 << 10];
    signals::without_signals(|| {
        let mut at = offset;
        let end = offset + bytes;
        while at < end {
            let piece = &PIECE[..(end - at).min(PIECE.len() as u64) as usize];
            write_at(file, piece, at)?;
            at += piece.len() as u64;
        }
        Ok(())
    })
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(unix)]
fn create_new(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = std::fs::OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.open(path)
}

#[cfg(not(unix))]
fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(unix))]
fn create_new(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Returns whether another process holds the lock that [`SharedFile::create`] takes.
#[cfg(feature = "recovery")]
pub(crate) fn is_locked(file: &File) -> bool {
    test_lock(file)
}

#[cfg(all(unix, not(miri)))]
fn whole_file(kind: libc::c_int) -> libc::flock {
    // SAFETY: All-zero bytes are a valid `flock`, which is integers: the whole file.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock
}

#[cfg(all(unix, not(miri)))]
fn lock(file: &File) -> io::Result<()> {
    use std::os::fd::AsRawFd;
    let mut lock = whole_file(libc::F_WRLCK as libc::c_int);
    // SAFETY: The descriptor is open, and the lock is a valid argument of this command.
    match unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw mut lock) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(feature = "recovery", unix, not(miri)))]
fn test_lock(file: &File) -> bool {
    use std::os::fd::AsRawFd;
    let mut lock = whole_file(libc::F_WRLCK as libc::c_int);
    // SAFETY: as in `lock`; this command only writes the argument.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &raw mut lock) };
    done == 0 && libc::c_int::from(lock.l_type) != libc::F_UNLCK as libc::c_int
}

#[cfg(all(unix, not(miri)))]
fn map(file: &File, offset: u64, bytes: usize) -> io::Result<NonNull<u8>> {
    use std::os::fd::AsRawFd;
    let offset = libc::off_t::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: New pages at an address of the system's choice overlap nothing that exists.
    let pages = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            offset,
        )
    };
    match NonNull::new(pages.cast()) {
        Some(first) if pages != libc::MAP_FAILED => Ok(first),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(all(unix, not(miri)))]
fn map_private(file: &File, address: usize, bytes: usize, offset: u64) {
    use std::os::fd::AsRawFd;
    // SAFETY: `map` made these pages of this part of the file, and they are never unmapped. The
    // new ones have the same contents, so references into them stay valid.
    let pages = unsafe {
        libc::mmap(
            std::ptr::with_exposed_provenance_mut(address),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_FIXED,
            file.as_raw_fd(),
            offset as libc::off_t,
        )
    };
    if pages == libc::MAP_FAILED {
        crate::os::report::line("the child of a fork still writes into its parent's shared memory");
    }
}

#[cfg(not(all(unix, not(miri))))]
fn lock(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(all(feature = "recovery", not(all(unix, not(miri)))))]
fn test_lock(_: &File) -> bool {
    false
}

#[cfg(not(all(unix, not(miri))))]
fn map(_: &File, _: u64, _: usize) -> io::Result<NonNull<u8>> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(all(unix, not(miri))))]
#[cfg_attr(not(unix), allow(dead_code, reason = "only Unix forks"))]
fn map_private(_: &File, _: usize, _: usize, _: u64) {}
