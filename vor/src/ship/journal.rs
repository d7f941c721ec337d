//! Which segments were shipped: a file in their folder.
//!
//! ```text
//! .vor-ship-<target>            vor ship 1 s3://bucket/fleet
//!                               cp  64000000  1795633501000000000  app-20261125T190501-77.vor
//! .vor-ship-<target>.lock       locked while a shipper runs
//! .vor-ship-<target>.tables/    Parquet that is not sent yet
//! ```
//!
//! `<target>` follows from the URL and the name of the host, so each target has a journal of its
//! own. A line has what was shipped (`c`: the capture, `p`: Parquet, `d`: no Parquet, because the
//! segment is damaged), the size and the time of the file, and its name. A file of another size or
//! time is another segment.
//!
//! The journal is written beside its place and renamed, once per shipped segment. A crash before
//! that ships the segment again, under the same names. Lines that cannot be read are ignored, with
//! the same effect.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use vor_capture::Error;
use vor_export::parquet::escaped;

use super::sealed::{FileState, Segment};
use super::{Outputs, crash_point};

/// Version of the journal.
const HEAD: &str = "vor ship 1 ";

/// What was shipped of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shipped {
    pub(super) capture: bool,
    pub(super) parquet: bool,
    /// There is no Parquet, because the segment is damaged.
    pub(super) damaged: bool,
}

impl Shipped {
    /// Returns whether nothing is left to do.
    pub(super) fn is_done(self, outputs: Outputs) -> bool {
        (self.capture || !outputs.captures) && (self.parquet || self.damaged || !outputs.parquet)
    }

    /// Returns whether the segment may be deleted: all of it is in the storage.
    pub(super) fn is_safe(self, outputs: Outputs) -> bool {
        self.is_done(outputs) && (self.capture || !self.damaged)
    }
}

/// The journal of a folder and a target.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    head: String,
    entries: BTreeMap<String, (FileState, Shipped)>,
    /// Keeps other shippers away.
    lock: File,
}

impl Drop for Journal {
    fn drop(&mut self) {
        // A child that the program has forked has the same file open.
        drop(self.lock.unlock());
    }
}

impl Journal {
    /// Opens the journal, and removes what a crash has left behind.
    pub(super) fn open(folder: &Path, shown: &str, host: Option<&str>) -> Result<Self, Error> {
        if !folder.is_dir() {
            let problem = "not a folder; name the folder of the segments";
            return Err(Error::config(format!("{}: {problem}", folder.display())));
        }
        let key = hash(&[shown, host.unwrap_or_default()]);
        let path = folder.join(format!(".vor-ship-{key:016x}"));
        let lock_path = with_ending(&path, "lock");
        let failed = |error| Error::io(format!("cannot write {}", lock_path.display()), error);
        let lock = File::create(&lock_path).map_err(failed)?;
        if let Err(TryLockError::WouldBlock) = lock.try_lock() {
            return Err(Error::config(format!(
                "{}: another process ships it to {shown} already",
                folder.display()
            )));
        }
        let journal = Self {
            entries: read(&path),
            head: format!("{HEAD}{shown}"),
            path,
            lock,
        };
        // A folder that stays is written into again.
        drop(fs::remove_dir_all(journal.tables()));
        Ok(journal)
    }

    /// Returns the folder for Parquet that is not sent yet.
    pub(super) fn tables(&self) -> PathBuf {
        with_ending(&self.path, "tables")
    }

    /// Returns what was shipped of a segment.
    pub(super) fn shipped(&self, segment: &Segment) -> Shipped {
        match self.entries.get(&segment.name) {
            Some((state, shipped)) if *state == segment.state => *shipped,
            _ => Shipped::default(),
        }
    }

    /// Notes what was shipped of a segment.
    pub(super) fn note(&mut self, segment: &Segment, shipped: Shipped) -> Result<(), Error> {
        let entry = (segment.state, shipped);
        self.entries.insert(segment.name.clone(), entry);
        self.save()
    }

    /// Forgets the segments that are not in the folder any more.
    pub(super) fn retain(&mut self, segments: &[Segment]) {
        let names: std::collections::BTreeSet<&str> =
            segments.iter().map(|segment| &*segment.name).collect();
        self.entries.retain(|name, _| names.contains(&**name));
    }

    fn save(&self) -> Result<(), Error> {
        let mut text = format!("{}\n", self.head);
        for (name, (state, shipped)) in &self.entries {
            let flags = [
                (shipped.capture, 'c'),
                (shipped.parquet, 'p'),
                (shipped.damaged, 'd'),
            ];
            let flags: String = flags
                .into_iter()
                .filter_map(|(is_on, letter)| is_on.then_some(letter))
                .collect();
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "{flags}\t{}\t{}\t{}",
                state.bytes,
                state.written_ns,
                escaped(name)
            );
        }
        let new = with_ending(&self.path, "new");
        let failed = |error| Error::io(format!("cannot write {}", self.path.display()), error);
        fs::write(&new, text).map_err(failed)?;
        crash_point();
        fs::rename(&new, &self.path).map_err(failed)?;
        crash_point();
        Ok(())
    }
}

/// Reads the entries of a journal.
fn read(path: &Path) -> BTreeMap<String, (FileState, Shipped)> {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = text.lines();
    match lines.next() {
        Some(head) if head.starts_with(HEAD) => lines.filter_map(entry).collect(),
        _ => BTreeMap::new(),
    }
}

fn entry(line: &str) -> Option<(String, (FileState, Shipped))> {
    let mut fields = line.split('\t');
    let flags = fields.next()?;
    let state = FileState {
        bytes: fields.next()?.parse().ok()?,
        written_ns: fields.next()?.parse().ok()?,
    };
    let name = unescaped(fields.next()?)?;
    let shipped = Shipped {
        capture: flags.contains('c'),
        parquet: flags.contains('p'),
        damaged: flags.contains('d'),
    };
    fields.next().is_none().then_some((name, (state, shipped)))
}

/// Returns the text that [`escaped`] wrote.
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next()?, rest.next()?];
        let digits = std::str::from_utf8(&digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

fn with_ending(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

/// Returns a number for texts (FNV-1a), which must stay the same in all versions.
fn hash(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
