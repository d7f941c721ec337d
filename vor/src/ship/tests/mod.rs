//! Tests of shipping, against folders and stores that fail.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

mod bounds;
mod crash;
mod disk;
mod faults;
mod journal;
mod lines;
mod segments;
mod sink;
mod store;
mod targets;

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use futures_util::{StreamExt as _, TryStreamExt as _};
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use vor_fixtures::captures::make;

use super::target::Target;
use super::{Pace, Shipper};

/// At which [`crash_point`] the process ends; `u64::MAX` is none.
static CRASH_AT: AtomicU64 = AtomicU64::new(u64::MAX);
/// How many of them were reached.
static REACHED: AtomicU64 = AtomicU64::new(0);

/// Ends the process at the point that a test chose, without running any destructor.
pub(super) fn crash_point() {
    let reached = REACHED.fetch_add(1, Ordering::Relaxed);
    if reached == CRASH_AT.load(Ordering::Relaxed) {
        std::process::abort();
    }
}

/// The journal of a [`Place`]. A version that names it otherwise ships every segment again.
const JOURNAL: &str = ".vor-ship-a3c5f2ba29743d43";

/// Names the folder that parent and child share.
const FOLDER: &str = "TEST_SHIP_FOLDER";

/// Returns the command that runs a test of this program in a child with a role and a folder.
fn child_in(folder: &Path, test: &str, role: &str) -> Command {
    let mut command = vor_fixtures::process::child(test, role);
    command.env(FOLDER, folder);
    command
}

/// Returns the folder that the parent gave this child.
fn given_folder() -> PathBuf {
    std::env::var_os(FOLDER).unwrap().into()
}

/// Pauses that a test can wait for, and parts of which a small segment has several.
const QUICK: Pace = Pace {
    attempts: 4,
    pauses: (Duration::from_millis(1), Duration::from_millis(4)),
    outage_pauses: (Duration::from_millis(1), Duration::from_millis(10)),
    request: Duration::from_secs(20),
    part_bytes: 4_000,
    quiet: Duration::from_secs(3600),
    poll: Duration::from_millis(5),
    grace: Duration::from_millis(100),
};

/// A folder of segments, and a store.
struct Place {
    folder: tempfile::TempDir,
    store: Arc<InMemory>,
}

impl Place {
    /// Makes a folder with this many closed segments, `app-0.vor` and so on.
    fn with(segments: u64) -> Self {
        let place = Self {
            folder: tempfile::tempdir().unwrap(),
            store: Arc::new(InMemory::new()),
        };
        (0..segments).for_each(|number| place.add(number));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Adds a closed segment.
    fn add(&self, number: u64) {
        write_segment(self.folder.path(), number);
    }

    /// Ships the folder as the host `web-1`.
    fn shipper(&self) -> Shipper {
        let store: Arc<dyn ObjectStore> = self.store.clone();
        self.shipper_to(store)
    }

    fn shipper_to(&self, store: Arc<dyn ObjectStore>) -> Shipper {
        shipper(self.folder.path(), store)
    }

    fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        objects(&*self.store)
    }

    /// Asserts that the store has exactly what an undisturbed run sends, and each segment byte for
    /// byte.
    fn expect_complete(&self) {
        expect_equal(&self.objects(), &undisturbed(self.folder.path()));
    }
}

/// Writes a closed segment, of more than 4 parts.
fn write_segment(folder: &Path, number: u64) {
    let capture = make(number + 1, 40, 60, true);
    assert!(capture.bytes.len() > 16_000, "{}", capture.bytes.len());
    std::fs::write(folder.join(format!("app-{number}.vor")), capture.bytes).unwrap();
}

/// Returns a closed segment with one damaged place.
fn damaged() -> Vec<u8> {
    let capture = make(2, 40, 60, true);
    let mut bytes = capture.bytes;
    let at = capture.records[capture.records.len() / 2] + 40;
    bytes[at] ^= 0x55;
    bytes
}

/// Sets when a segment was written, in nanoseconds since 1970.
fn set_written(path: &Path, unix_ns: u64) {
    let file = File::options().append(true).open(path).unwrap();
    file.set_modified(UNIX_EPOCH + Duration::from_nanos(unix_ns))
        .unwrap();
}

fn shipper(folder: &Path, store: Arc<dyn ObjectStore>) -> Shipper {
    let target = Target::of_store(store, "fleet");
    let mut shipper = Shipper::to(folder.to_owned(), target).host("web-1");
    shipper.pace = QUICK;
    shipper
}

fn objects(store: &dyn ObjectStore) -> BTreeMap<String, Vec<u8>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let listed: Vec<_> = store.list(None).try_collect().await.unwrap();
        let all = futures_util::stream::iter(listed).then(|meta| async move {
            let bytes = store.get(&meta.location).await.unwrap().bytes().await;
            (meta.location.to_string(), bytes.unwrap().to_vec())
        });
        all.collect().await
    })
}

/// Returns the objects that an undisturbed run sends of a folder, whose captures are the segments.
fn undisturbed(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let copy = tempfile::tempdir().unwrap();
    let mut segments = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "vor") {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            std::fs::copy(&path, copy.path().join(&name)).unwrap();
            segments.insert(name, std::fs::read(&path).unwrap());
        }
    }
    let store = Arc::new(InMemory::new());
    let report = shipper(copy.path(), store.clone()).ship().unwrap();
    assert_eq!((report.segments, report.left), (segments.len() as u64, 0));
    let objects = objects(&*store);
    let captures = objects
        .iter()
        .filter(|(name, _)| name.starts_with("fleet/captures/"));
    let captures: BTreeMap<String, Vec<u8>> = captures
        .map(|(name, bytes)| (name.rsplit('/').next().unwrap().to_owned(), bytes.clone()))
        .collect();
    assert!(captures == segments, "{:?}", captures.keys());
    objects
}

/// Asserts that objects have the same names and bytes.
fn expect_equal(found: &BTreeMap<String, Vec<u8>>, expected: &BTreeMap<String, Vec<u8>>) {
    let names = |objects: &BTreeMap<String, Vec<u8>>| objects.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected));
    for (name, bytes) in expected {
        assert!(found[name] == *bytes, "{name} differs");
    }
}
