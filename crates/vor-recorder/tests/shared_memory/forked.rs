//! Children of a fork have a file of their own, and do not write into that of their parent.

use std::path::Path;

use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::drain::recovery::Remains;
use vor_recorder::hot::scope::scope;
use vor_recorder::profile_scope;
use vor_recorder::setup::Config;

const SPANS: usize = 5000;

/// Returns the names of all spans that a file gives.
fn names(path: &Path) -> Vec<String> {
    let mut bytes = Vec::new();
    Remains::open(path)
        .unwrap()
        .write(None, &mut bytes)
        .unwrap();
    let mut reader = Reader::new(std::io::Cursor::new(bytes)).unwrap();
    let mut names = Vec::new();
    while let Some(event) = reader.next_event().unwrap() {
        if let Event::Batch(batch) = event {
            let sites = batch.threads.iter().flat_map(|share| &share.sites);
            names.extend(sites.map(|site| batch.catalog.site(*site).unwrap().name.to_string()));
        }
    }
    names
}

#[test]
fn a_child_of_a_fork_leaves_the_file_of_its_parent_alone() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    Config::new().shared_memory_in(folder.path()).enable();
    let outer = scope("outer");
    {
        profile_scope!("before");
    }
    #[expect(unsafe_code, reason = "only the C library forks")]
    // SAFETY: the child does nothing but record, and ends.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        for _ in 0..SPANS {
            profile_scope!("in the child");
        }
        drop(outer);
        #[expect(unsafe_code, reason = "the child must not run the exit of the tests")]
        // SAFETY: it ends this process.
        unsafe {
            libc::_exit(0)
        };
    }
    for _ in 0..SPANS {
        profile_scope!("in the parent");
    }
    let mut status = 0;
    #[expect(unsafe_code, reason = "the child is not one of the standard library")]
    // SAFETY: the place for the status is valid during the call.
    let ended = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    assert_eq!((ended, status), (pid, 0));
    drop(outer);

    let file = |pid: u32| folder.path().join(format!("vor-{pid}.shm"));
    let of_parent = names(&file(std::process::id()));
    let count = |names: &[String], name: &str| names.iter().filter(|n| *n == name).count();
    let sums = ["before", "in the parent", "in the child", "outer"].map(|n| count(&of_parent, n));
    assert_eq!(sums, [1, SPANS, 0, 1]);
    // The child had no time to write a capture, and its ring holds everything.
    let of_child = names(&file(pid as u32));
    let sums = ["before", "in the parent", "in the child", "outer"].map(|n| count(&of_child, n));
    assert_eq!(sums, [0, 0, SPANS, 1]);
}
