//! Which segments stay: the limits on size, age and number, and the deletion of the oldest.
//!
//! The folder is read anew each time, so that segments of earlier runs count, and those that
//! someone else deleted do not. A file is deleted only if it has one of the recorder's names, no
//! file `<name>.lock` lies beside it, and no recorder is writing it.
//!
//! The oldest segments are those that were there when this recorder began, as long as nobody writes
//! them. The others, of this recorder and of processes beside it, are in the order of their times.
//! The clock may be set back at any moment, so the recorder's own stay in the order in which it
//! began them: one counts as no newer than those that it began later.

use std::collections::HashMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use vor_capture::sort::sort_by;

use super::names::Names;
use crate::os::report;

/// Limits on all segments together; `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::sinks) struct Limits {
    pub(in crate::sinks) bytes: Option<u64>,
    pub(in crate::sinks) age: Option<Duration>,
    pub(in crate::sinks) count: Option<u64>,
}

/// A segment from so far in the future has a time of a clock that was wrong, and is taken for old.
/// One from the near future was written shortly before the clock was set back.
const NEAR_FUTURE: Duration = Duration::from_secs(24 * 60 * 60);

/// The segments of a folder.
#[derive(Debug)]
pub(in crate::sinks) struct Keeper {
    names: Names,
    limits: Limits,
    /// The segment that this recorder writes.
    current: PathBuf,
    /// The segments that were there when this recorder began, and when they were written, as far
    /// as they are as they were.
    earlier: HashMap<PathBuf, SystemTime>,
    /// The segments that this recorder began, as far as they are there, numbered from 0.
    own: HashMap<PathBuf, u64>,
    own_begun: u64,
    has_reported_full: bool,
    has_reported_locked: bool,
}

struct Segment {
    path: PathBuf,
    bytes: u64,
    /// Its number among those of this recorder.
    own: Option<u64>,
    is_earlier: bool,
    /// When it was last written.
    written: SystemTime,
    age: Duration,
}

impl Keeper {
    pub(in crate::sinks) fn new(names: Names, limits: Limits) -> Self {
        let mut keeper = Self {
            names,
            limits,
            current: PathBuf::new(),
            earlier: HashMap::new(),
            own: HashMap::new(),
            own_begun: 0,
            has_reported_full: false,
            has_reported_locked: false,
        };
        let there = keeper.listed(SystemTime::now());
        keeper.earlier = there
            .map(|segment| (segment.path, segment.written))
            .collect();
        keeper
    }

    pub(in crate::sinks) fn names(&self) -> &Names {
        &self.names
    }

    pub(in crate::sinks) fn limits(&self) -> Limits {
        self.limits
    }

    /// Sets which segment is being written. It is newer than all others.
    pub(in crate::sinks) fn set_current(&mut self, path: &Path) {
        self.current = path.to_owned();
        self.own.insert(path.to_owned(), self.own_begun);
        self.own_begun += 1;
    }

    /// Deletes the oldest segments until those that stay keep to the limits together with
    /// `more_bytes` bytes in `more_count` segments.
    pub(in crate::sinks) fn trim(&mut self, more_bytes: u64, more_count: u64) {
        let segments = self.segments();
        let mut bytes: u64 = segments.iter().map(|segment| segment.bytes).sum();
        let mut count = segments.len() as u64;
        let Limits {
            bytes: most_bytes,
            age: most_age,
            count: most_count,
        } = self.limits;
        let mut is_locked = false;
        for segment in segments {
            let is_over = most_bytes.is_some_and(|most| bytes.saturating_add(more_bytes) > most)
                || most_count.is_some_and(|most| count + more_count > most)
                || most_age.is_some_and(|most| segment.age > most);
            if is_over && self.delete(&segment) {
                bytes -= segment.bytes;
                count -= 1;
            } else {
                is_locked |= is_over && segment.path != self.current;
            }
        }
        if is_locked && !std::mem::replace(&mut self.has_reported_locked, true) {
            report::line(&format!(
                "{}: segments beyond the limit stay: they are locked, or cannot be deleted",
                self.names.folder().display()
            ));
        }
    }

    /// Deletes the oldest segment, because the disk is full. Returns whether there was one.
    pub(in crate::sinks) fn free_one(&mut self) -> bool {
        let segments = self.segments();
        let is_freed = segments.iter().any(|segment| self.delete(segment));
        if is_freed && !std::mem::replace(&mut self.has_reported_full, true) {
            report::line(&format!(
                "{}: the disk is full; the oldest segments are deleted early",
                self.names.folder().display()
            ));
        }
        is_freed
    }

    /// Returns all segments, the oldest first.
    fn segments(&mut self) -> Vec<Segment> {
        let now = SystemTime::now();
        let mut segments: Vec<Segment> = self.listed(now).collect();
        let of = |wanted: fn(&Segment) -> bool| segments.iter().filter(move |one| wanted(one));
        let earlier = of(|one| one.is_earlier).map(|one| (one.path.clone(), one.written));
        let own = of(|one| one.own.is_some()).filter_map(|one| Some((one.path.clone(), one.own?)));
        (self.earlier, self.own) = (earlier.collect(), own.collect());
        // The newest own segment first.
        sort_by(&mut segments, |a, b| b.own.cmp(&a.own));
        let mut newer = None;
        for segment in segments.iter_mut().filter(|segment| segment.own.is_some()) {
            segment.written = newer.map_or(segment.written, |newer| segment.written.min(newer));
            newer = Some(segment.written);
        }
        let is_past = |segment: &Segment| segment.written <= now + NEAR_FUTURE;
        let time = |one: &Segment| (!one.is_earlier, is_past(one), one.written, one.own);
        sort_by(&mut segments, |a, b| {
            (time(a), &a.path).cmp(&(time(b), &b.path))
        });
        segments
    }

    /// Returns all segments as they are in the folder.
    fn listed(&self, now: SystemTime) -> impl Iterator<Item = Segment> {
        let entries = fs::read_dir(self.names.folder()).into_iter().flatten();
        entries.filter_map(move |entry| {
            let entry = entry.ok()?;
            if !self.names.matches(entry.file_name().to_str()?) {
                return None;
            }
            // A link is not followed: it is not a file that a recorder wrote.
            let metadata = entry.metadata().ok().filter(fs::Metadata::is_file)?;
            let written = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
            let path = entry.path();
            let own = self.own.get(&path).copied();
            Some(Segment {
                own,
                is_earlier: own.is_none() && self.earlier.get(&path) == Some(&written),
                path,
                bytes: metadata.len(),
                written,
                age: now.duration_since(written).unwrap_or_default(),
            })
        })
    }

    /// Deletes a segment that nobody reads or writes. Returns whether it is gone.
    fn delete(&self, segment: &Segment) -> bool {
        if segment.path == self.current || has_lock_file(&segment.path) {
            return false;
        }
        // A recorder locks the file that it writes. The lock is released when `file` is closed.
        if let Ok(file) = File::open(&segment.path)
            && let Err(TryLockError::WouldBlock) = file.try_lock()
        {
            return false;
        }
        match fs::remove_file(&segment.path) {
            Ok(()) => true,
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }
}

/// Returns whether a reader holds a segment by a file `<segment>.lock` beside it.
pub fn has_lock_file(path: &Path) -> bool {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".lock");
    path.with_file_name(name).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        folder: tempfile::TempDir,
        keeper: Keeper,
    }

    /// Makes segments of 100 bytes, the first one the oldest, each a minute younger than the one
    /// before; the last one is a minute old.
    fn make(count: u32, limits: Limits) -> Made {
        let folder = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        for i in 0..count {
            write(
                folder.path(),
                &format!("run-0000{i:02}.vor"),
                now,
                count - i,
            );
        }
        let keeper = keeper(folder.path(), limits);
        Made { folder, keeper }
    }

    fn keeper(folder: &Path, limits: Limits) -> Keeper {
        Keeper::new(Names::new(&folder.join("run-%H%M%S.vor"), ""), limits)
    }

    fn write(folder: &Path, name: &str, now: SystemTime, minutes: u32) {
        let path = folder.join(name);
        fs::write(&path, [0; 100]).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(now - minutes * Duration::from_secs(60))
            .unwrap();
    }

    impl Made {
        fn names(&self) -> Vec<String> {
            let entries = fs::read_dir(self.folder.path()).unwrap();
            let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<_> = entries
                .map(|entry| name(entry).into_string().unwrap())
                .collect();
            names.sort();
            names
        }

        fn kept(&self) -> Vec<u32> {
            let names = self.names();
            let number = |name: &String| name.get(8..10)?.parse().ok();
            names
                .iter()
                .filter(|name| name.ends_with(".vor"))
                .filter_map(number)
                .collect()
        }
    }

    const NONE: Limits = Limits {
        bytes: None,
        age: None,
        count: None,
    };

    #[test]
    fn each_limit_deletes_the_oldest() {
        let bytes = |most| Limits {
            bytes: Some(most),
            ..NONE
        };
        let count = |most| Limits {
            count: Some(most),
            ..NONE
        };
        let minutes = |most: u64| Limits {
            age: Some(Duration::from_secs(most * 60 + 30)),
            ..NONE
        };
        for (limits, more, expected) in [
            (NONE, (1000, 10), vec![0, 1, 2, 3]),
            (bytes(400), (0, 0), vec![0, 1, 2, 3]),
            (bytes(399), (0, 0), vec![1, 2, 3]),
            (bytes(400), (100, 1), vec![1, 2, 3]),
            (bytes(400), (101, 1), vec![2, 3]),
            (bytes(0), (0, 0), vec![]),
            (count(4), (0, 0), vec![0, 1, 2, 3]),
            (count(4), (0, 1), vec![1, 2, 3]),
            (count(1), (0, 0), vec![3]),
            (minutes(4), (0, 0), vec![0, 1, 2, 3]),
            (minutes(3), (0, 0), vec![1, 2, 3]),
            (minutes(1), (0, 0), vec![3]),
        ] {
            let mut made = make(4, limits);
            made.keeper.trim(more.0, more.1);
            assert_eq!(made.kept(), expected, "{limits:?} {more:?}");
        }
    }

    #[test]
    fn locked_segments_the_current_one_and_foreign_files_stay() {
        let mut made = make(
            6,
            Limits {
                bytes: Some(0),
                ..NONE
            },
        );
        let folder = made.folder.path().to_owned();
        fs::write(folder.join("run-000001.vor.lock"), "").unwrap();
        for foreign in ["other.vor", "run-000001.txt", "run-00000x.vor", "notes"] {
            write(&folder, foreign, SystemTime::now(), 1000);
        }
        fs::create_dir(folder.join("run-000050.vor")).unwrap();
        made.keeper.set_current(&folder.join("run-000003.vor"));
        let written = File::open(folder.join("run-000004.vor")).unwrap();
        written.lock().unwrap();
        made.keeper.trim(0, 0);
        assert_eq!(
            made.names(),
            [
                "notes",
                "other.vor",
                "run-000001.txt",
                "run-000001.vor",
                "run-000001.vor.lock",
                "run-000003.vor",
                "run-000004.vor",
                "run-00000x.vor",
                "run-000050.vor",
            ]
        );
        assert!(!made.keeper.free_one(), "nothing may be deleted");
        drop(written);
        fs::remove_file(folder.join("run-000001.vor.lock")).unwrap();
        assert!(made.keeper.free_one());
        assert_eq!(made.kept(), [3, 4, 50], "the oldest goes first");
    }

    #[test]
    fn after_the_clock_was_set_back_the_oldest_still_go_first() {
        for (ahead_s, oldest) in [(7200, [0, 1, 2, 40]), (30 * 86_400, [40, 0, 1, 2])] {
            let mut made = make(3, NONE);
            let future = SystemTime::now() + Duration::from_secs(ahead_s);
            write(made.folder.path(), "run-000040.vor", future, 0);
            made.keeper = keeper(made.folder.path(), NONE);
            for gone in oldest {
                assert!(made.kept().contains(&gone));
                assert!(made.keeper.free_one());
                assert!(!made.kept().contains(&gone), "{gone} goes first");
            }
        }
    }

    #[test]
    fn own_segments_go_in_the_order_in_which_they_began_after_earlier_ones() {
        let mut made = make(4, NONE);
        let now = SystemTime::now();
        let set_back = [(52, 0), (50, 10), (51, 5)];
        for (name, minutes) in set_back {
            let name = format!("run-0000{name}.vor");
            write(made.folder.path(), &name, now, minutes);
            made.keeper.set_current(&made.folder.path().join(name));
        }
        for kept in [&[2, 3, 50, 51, 52][..], &[50, 51, 52], &[50, 51], &[51]] {
            while made.kept().len() > kept.len() {
                assert!(made.keeper.free_one());
            }
            assert_eq!(made.kept(), kept);
        }
        assert!(!made.keeper.free_one());
        assert_eq!((made.keeper.own.len(), made.keeper.earlier.len()), (1, 0));
    }

    /// A busy recorder keeps no old segment at the cost of a quiet one's new segment.
    #[test]
    fn segments_of_processes_at_the_same_time_go_by_their_times() {
        let mut made = make(2, NONE);
        let folder = made.folder.path().to_owned();
        let now = SystemTime::now();
        // The second of the segments that were there is another process's, which goes on with it.
        write(&folder, "run-000001.vor", now, 7);
        for (name, minutes, is_own) in [(10, 9, true), (20, 8, false), (11, 6, true), (12, 0, true)]
        {
            let name = format!("run-0000{name}.vor");
            write(&folder, &name, now, minutes);
            if is_own {
                made.keeper.set_current(&folder.join(name));
            }
        }
        for gone in [0, 10, 20, 1, 11] {
            assert!(made.keeper.free_one());
            assert!(
                !made.kept().contains(&gone),
                "{gone} goes next: {:?}",
                made.kept()
            );
        }
        assert_eq!(made.kept(), [12]);
    }
}
