//! Every public method of the wrapped locks and channels is here too, or is listed as missing. The
//! sources of the crates that this build uses say which methods there are.
//!
//! The locks of parking_lot are types of `lock_api`, and a sender of `oneshot` is that of tokio, so
//! they have all methods by themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Some types of a crate, in one file, and ours.
struct Pair {
    package: &'static str,
    file: &'static str,
    types: &'static [&'static str],
    /// Files of this crate, of which all methods count.
    ours: &'static [&'static str],
    /// Methods that the oldest tokio that vor supports does not have either, or whose type is not
    /// there, as `docs/locks.md` says.
    missing: &'static [&'static str],
}

const TOKIO_ENDS: &str = "tokio/mpsc/ends.rs";

const PAIRS: &[Pair] = &[
    Pair {
        package: "tokio",
        file: "sync/mutex.rs",
        types: &["Mutex", "MutexGuard", "MappedMutexGuard", "OwnedMutexGuard"],
        ours: &["tokio/mutex.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/rwlock.rs",
        types: &["RwLock"],
        ours: &["tokio/rwlock.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/rwlock/read_guard.rs",
        types: &["RwLockReadGuard"],
        ours: &["tokio/rwlock.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/rwlock/write_guard.rs",
        types: &["RwLockWriteGuard"],
        ours: &["tokio/rwlock.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/rwlock/write_guard_mapped.rs",
        types: &["RwLockMappedWriteGuard"],
        ours: &["tokio/rwlock.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/semaphore.rs",
        types: &["Semaphore", "OwnedSemaphorePermit"],
        ours: &["tokio/semaphore.rs"],
        missing: &[
            "blocking_acquire",
            "blocking_acquire_many",
            "blocking_acquire_many_owned",
            "blocking_acquire_owned",
        ],
    },
    Pair {
        package: "tokio",
        file: "sync/notify.rs",
        types: &["Notify", "Notified"],
        ours: &["tokio/notify.rs"],
        missing: &["notified_owned"],
    },
    Pair {
        package: "tokio",
        file: "sync/barrier.rs",
        types: &["Barrier"],
        ours: &["tokio/barrier.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/once_cell.rs",
        types: &["OnceCell"],
        ours: &["tokio/once_cell.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/oneshot.rs",
        types: &["Receiver"],
        ours: &["tokio/oneshot.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/broadcast.rs",
        types: &["Sender", "WeakSender", "Receiver"],
        ours: &["tokio/broadcast.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/watch.rs",
        types: &["Sender", "Receiver"],
        ours: &["tokio/watch.rs"],
        missing: &[],
    },
    Pair {
        package: "tokio",
        file: "sync/mpsc/bounded.rs",
        types: &["Sender", "WeakSender", "Receiver", "Permit", "OwnedPermit"],
        ours: &["tokio/mpsc/bounded.rs", TOKIO_ENDS],
        missing: &["same_channel_as_sender"],
    },
    Pair {
        package: "tokio",
        file: "sync/mpsc/unbounded.rs",
        types: &[
            "UnboundedSender",
            "WeakUnboundedSender",
            "UnboundedReceiver",
        ],
        ours: &["tokio/mpsc/unbounded.rs", TOKIO_ENDS],
        missing: &[],
    },
    Pair {
        package: "crossbeam-channel",
        file: "channel.rs",
        types: &["Sender", "Receiver"],
        ours: &[
            "channel/ends.rs",
            "channel/crossbeam/by_deadline.rs",
            "channel/crossbeam/mod.rs",
        ],
        missing: &[],
    },
    Pair {
        package: "flume",
        file: "lib.rs",
        types: &["Sender", "Receiver"],
        ours: &["channel/ends.rs", "channel/flume.rs"],
        missing: &["downgrade"],
    },
    Pair {
        package: "parking_lot",
        file: "condvar.rs",
        types: &["Condvar"],
        ours: &["parking_lot/condvar.rs"],
        missing: &[],
    },
    Pair {
        package: "parking_lot",
        file: "once.rs",
        types: &["Once"],
        ours: &["parking_lot/once.rs"],
        missing: &[],
    },
];

/// Returns the folder with the sources from which this build made a package.
///
/// Cargo's `metadata` would name it too, but only after all packages of the workspace are
/// downloaded.
fn source(package: &str) -> PathBuf {
    let program = std::env::current_exe().unwrap();
    let prefix = format!("{}-", package.replace('-', "_"));
    let is_of_package = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(&prefix) && name.ends_with(".d")
    };
    // Builds with an earlier version have left theirs.
    let files = std::fs::read_dir(program.parent().unwrap()).unwrap();
    let newest = files
        .map(|entry| entry.unwrap().path())
        .filter(is_of_package)
        .max_by_key(|path| path.metadata().unwrap().modified().unwrap())
        .unwrap_or_else(|| panic!("no {prefix}*.d beside {}", program.display()));
    // `OUTPUT: SOURCE SOURCE …`, with escaped spaces.
    let text = std::fs::read_to_string(newest)
        .unwrap()
        .replace("\\ ", "\0");
    let root = text
        .split_whitespace()
        .find(|path| path.ends_with("lib.rs"))
        .unwrap();
    PathBuf::from(root.replace('\0', " ")).with_file_name("")
}

/// Returns the name of the type of a line `impl<…> Name<…> …`, if it is no trait's.
fn type_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("impl")?;
    let rest = match rest.strip_prefix('<') {
        Some(parameters) => {
            let mut depth = 1;
            let end = parameters.find(|letter| {
                depth += i32::from(letter == '<') - i32::from(letter == '>');
                depth == 0
            });
            &parameters[end? + 1..]
        }
        None => rest,
    };
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let rest = rest.trim_start();
    let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
    (!rest.contains(" for ")).then(|| &rest[..end])
}

/// Returns the name of the method that a line declares.
fn method_of(line: &str) -> Option<&str> {
    let mut rest = line.trim_start().strip_prefix("pub ")?;
    while let Some(next) = ["const ", "async ", "unsafe "]
        .iter()
        .find_map(|word| rest.strip_prefix(word))
    {
        rest = next;
    }
    let name = rest.strip_prefix("fn ")?;
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    name.find(|letter| !is_part(letter)).map(|end| &name[..end])
}

/// Returns the public methods of some types in a file.
fn methods<'a>(text: &'a str, types: &[&str]) -> BTreeSet<&'a str> {
    let mut is_in = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with("impl") {
            is_in = type_of(line).is_some_and(|name| types.contains(&name));
        } else if line.starts_with('}') {
            is_in = false;
        } else if is_in {
            found.extend(method_of(line));
        }
    }
    found
}

#[test]
fn every_public_method_of_a_wrapped_type_is_there() {
    let read = |path: PathBuf| {
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let locks = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/locks");
    let mut wrong = Vec::new();
    let mut count = 0;
    for pair in PAIRS {
        let text = read(source(pair.package).join(pair.file));
        for name in pair.types {
            let of_type = methods(&text, &[name]);
            if of_type.is_empty() {
                wrong.push(format!("{}: {name} has no methods", pair.file));
            }
            count += of_type.len();
        }
        let ours: String = pair
            .ours
            .iter()
            .map(|file| read(locks.join(file)))
            .collect();
        let ours: BTreeSet<&str> = ours.lines().filter_map(method_of).collect();
        let lacking: Vec<_> = methods(&text, pair.types)
            .into_iter()
            .filter(|method| !ours.contains(method))
            .collect();
        if lacking != pair.missing {
            wrong.push(format!("{} {}: {lacking:?}", pair.package, pair.file));
        }
    }
    assert!(
        wrong.is_empty(),
        "missing, and not listed as such: {wrong:#?}"
    );
    println!("{count} methods");
}

#[test]
fn a_method_is_found_whatever_its_kind() {
    let text = "impl<T: Into<U>, U> Lock<T> where T: Sized {\n    pub const fn new() -> Self {\n\
        pub(crate) fn inner() {}\n    pub async fn lock(&self) {\n}\n\
        impl<T> Drop for Lock<T> {\n    pub fn not_this() {}\n}\n\
        impl Other {\n    pub unsafe fn other<T>() {}\n}\n";
    assert_eq!(methods(text, &["Lock"]), BTreeSet::from(["lock", "new"]));
    assert_eq!(methods(text, &["Other"]), BTreeSet::from(["other"]));
}
