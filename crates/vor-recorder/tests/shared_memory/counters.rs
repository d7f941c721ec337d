//! The side channel of a child that is killed: counters in a file that both processes map.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Most counters.
pub(crate) const COUNTERS: usize = 64;

/// Maps the counters in a file, which is made if it is missing.
#[expect(unsafe_code, reason = "mappings are the C library's")]
pub(crate) fn map(path: &Path) -> &'static [AtomicU64; COUNTERS] {
    let mut options = File::options();
    let file = options.read(true).write(true).create(true).truncate(false);
    let file = file.open(path).unwrap();
    file.set_len(4096).unwrap();
    // SAFETY: A new mapping overlaps nothing. It is a page that the file has, is never unmapped,
    // and is accessed by atomics alone; zeros are valid counters.
    unsafe {
        let pages = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            0,
        );
        assert_ne!(pages, libc::MAP_FAILED);
        &*pages.cast()
    }
}

/// Waits until a counter is not 0.
pub(crate) fn wait_for(counter: &AtomicU64) {
    while counter.load(Ordering::SeqCst) == 0 {
        std::thread::sleep(std::time::Duration::from_micros(100));
    }
}
