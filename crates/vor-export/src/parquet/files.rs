//! The paths of a data set's files, and the way in which complete files get there.
//!
//! ```text
//! <folder>/spans/host=web-17/date=2026-11-21/run-4711-1763683200000.parquet
//!          table partitions …                capture, process, begin of the recording in Unix ms
//! ```
//!
//! The name depends only on the capture, so a second export of it replaces the files. A file is
//! written beside its final path under a name that begins with a dot, which engines skip. It is
//! renamed when all files are complete. A data set that is dropped before that removes its partial
//! files and the folders that it created.

use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::schema::types::TypePtr;
use vor_capture::Error;

use super::table::{Column, Output, TableFile};

/// A column by whose values a data set is split into folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Partition {
    /// `host=…`: the machine. The files then have no such column.
    Host,
    /// `date=YYYY-MM-DD`: the day, in UTC, on which spans ended, values were sampled, and minutes
    /// began.
    Date,
}

impl Partition {
    /// Parses a list such as `host,date`.
    ///
    /// # Errors
    ///
    /// A name is neither `host` nor `date`, or occurs twice.
    ///
    /// # Examples
    ///
    /// ```
    /// use vor_export::parquet::Partition;
    ///
    /// assert_eq!(Partition::list("host,date")?, [Partition::Host, Partition::Date]);
    /// assert_eq!(Partition::list("")?, []);
    /// assert!(Partition::list("day").is_err());
    /// # Ok::<(), vor_capture::Error>(())
    /// ```
    pub fn list(text: &str) -> Result<Vec<Self>, Error> {
        let mut list = Vec::new();
        for name in text
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty())
        {
            let partition = match name {
                "host" => Self::Host,
                "date" => Self::Date,
                _ => {
                    return Err(Error::config(format!(
                        "`{name}` is no partition; use `host` or `date`"
                    )));
                }
            };
            if list.contains(&partition) {
                return Err(Error::config(format!("partition `{name}` is named twice")));
            }
            list.push(partition);
        }
        Ok(list)
    }
}

/// Most open days of a table: threads may reach midnight one after the other.
const MAX_OPEN_DAYS: usize = 2;

const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// The files of a table of a data set.
#[derive(Debug)]
pub(super) struct TableFiles {
    folder: PathBuf,
    /// Partitions, with the folder of those whose value all files share.
    partitions: Vec<(Partition, String)>,
    file_name: String,
    schema: TypePtr,
    open: Vec<(i64, TableFile<File>)>,
    partial: Vec<PartialFile>,
    /// Folders that were created for the files, each after its parent.
    created: Vec<PathBuf>,
}

/// A file under its temporary name.
#[derive(Debug)]
struct PartialFile {
    temporary: PathBuf,
    path: PathBuf,
}

impl TableFiles {
    /// Makes the files of the table in `folder`; a file is created with its first rows.
    pub(super) fn new(
        folder: PathBuf,
        partitions: &[Partition],
        host: &str,
        schema: TypePtr,
    ) -> Self {
        let value = |&partition: &Partition| match partition {
            Partition::Host => (partition, format!("host={}", escaped(host))),
            Partition::Date => (partition, String::new()),
        };
        Self {
            folder,
            partitions: partitions.iter().map(value).collect(),
            file_name: String::new(),
            schema,
            open: Vec::new(),
            partial: Vec::new(),
            created: Vec::new(),
        }
    }

    /// Sets the name of the files, without its extension.
    pub(super) fn set_name(&mut self, name: &str) {
        self.file_name = escaped(name);
    }

    /// Completes all files, still under their temporary names.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        for (_, mut file) in self.open.drain(..) {
            file.finish()?;
        }
        Ok(())
    }

    /// Renames all files to their final paths, and appends these to `paths`.
    pub(super) fn publish(&mut self, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
        for PartialFile { temporary, path } in &self.partial {
            fs::rename(temporary, path).map_err(|error| not_written(path, error))?;
            paths.push(path.clone());
        }
        self.partial.clear();
        self.created.clear();
        Ok(())
    }

    fn is_by_date(&self) -> bool {
        self.partitions
            .iter()
            .any(|&(partition, _)| partition == Partition::Date)
    }

    /// Returns the day of a time; always 0 without the partition `date`.
    fn day(&self, unix_ns: i64) -> i64 {
        if self.is_by_date() {
            unix_ns.div_euclid(DAY_NS)
        } else {
            0
        }
    }

    fn create(&mut self, day: i64) -> Result<TableFile<File>, Error> {
        let mut folder = self.folder.clone();
        for (partition, value) in &self.partitions {
            match partition {
                Partition::Host => folder.push(value),
                Partition::Date => folder.push(format!("date={}", date(day))),
            }
        }
        self.create_folder(&folder)?;
        let mut path = folder.join(format!("{}.parquet", self.file_name));
        let mut number = 1;
        // A day that returns after others gets another file.
        while self.partial.iter().any(|partial| partial.path == path) {
            number += 1;
            path = folder.join(format!("{}-{number}.parquet", self.file_name));
        }
        let own = std::process::id();
        let temporary = folder.join(format!(".{}-{number}.{own}.partial", self.file_name));
        let file = File::create(&temporary).map_err(|error| not_written(&path, error))?;
        self.partial.push(PartialFile { temporary, path });
        TableFile::new(file, Arc::clone(&self.schema))
    }

    /// Creates a folder and its missing parents, and remembers these.
    fn create_folder(&mut self, folder: &Path) -> Result<(), Error> {
        let missing: Vec<_> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        self.created.extend(missing.into_iter().rev());
        fs::create_dir_all(folder).map_err(|error| not_written(folder, error))
    }
}

impl Output for TableFiles {
    fn period(&self, unix_ns: i64) -> RangeInclusive<i64> {
        if !self.is_by_date() {
            return i64::MIN..=i64::MAX;
        }
        let from_ns = self.day(unix_ns).saturating_mul(DAY_NS);
        let last_ns = i128::from(self.day(unix_ns)) * i128::from(DAY_NS) + i128::from(DAY_NS) - 1;
        from_ns..=i64::try_from(last_ns).unwrap_or(i64::MAX)
    }

    fn write(&mut self, unix_ns: i64, columns: &[Column<'_>]) -> Result<(), Error> {
        let day = self.day(unix_ns);
        let at = match self.open.iter().position(|&(open, _)| open == day) {
            Some(at) => at,
            None => {
                if self.open.len() >= MAX_OPEN_DAYS {
                    self.open.remove(0).1.finish()?;
                }
                let file = self.create(day)?;
                self.open.push((day, file));
                self.open.len() - 1
            }
        };
        self.open[at].1.write(columns)
    }
}

/// Removes the unpublished files. A failure cannot be reported any more.
impl Drop for TableFiles {
    fn drop(&mut self) {
        self.open.clear();
        for PartialFile { temporary, .. } in &self.partial {
            drop(fs::remove_file(temporary));
        }
        // This removes only empty folders.
        for folder in self.created.iter().rev() {
            drop(fs::remove_dir(folder));
        }
    }
}

fn not_written(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot write {}", path.display()), error)
}

/// Returns a text as part of a file name, as in the names of a data set: characters that a system
/// or an engine may interpret become `%` and their code, as in Hive.
///
/// A leading dot or underscore would hide the file from engines.
#[must_use]
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for (at, byte) in text.bytes().enumerate() {
        let is_plain =
            byte.is_ascii_alphanumeric() || byte == b'-' || (at > 0 && matches!(byte, b'.' | b'_'));
        if is_plain {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}

/// Returns the date of a day since 1970 in the Gregorian calendar, as in the folders of a data set.
#[must_use]
pub fn date(day: i64) -> String {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    const DAYS_FROM_1600_TO_1970: i64 = 135_140;
    let since_1600 = day + DAYS_FROM_1600_TO_1970;
    let mut year = 1600 + 400 * since_1600.div_euclid(DAYS_OF_400_YEARS);
    let mut rest = since_1600.rem_euclid(DAYS_OF_400_YEARS);
    let is_leap = |year: i64| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days_of_year = |year| if is_leap(year) { 366 } else { 365 };
    while rest >= days_of_year(year) {
        rest -= days_of_year(year);
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for days in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if rest < days {
            break;
        }
        rest -= days;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", rest + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_have_their_dates() {
        for (day, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (20_453, "2025-12-31"),
            (20_454, "2026-01-01"),
            (-135_140, "1600-01-01"),
            (47_541, "2100-03-01"),
            (i64::MAX / DAY_NS, "2262-04-11"),
            (i64::MIN.div_euclid(DAY_NS), "1677-09-21"),
        ] {
            assert_eq!(date(day), expected, "day {day}");
        }
    }

    #[test]
    fn names_cannot_leave_their_folder() {
        assert_eq!(escaped("web-17.example_a"), "web-17.example_a");
        assert_eq!(escaped("../a b=c\\ö"), "%2E.%2Fa%20b%3Dc%5C%C3%B6");
        assert_eq!(escaped("_hidden"), "%5Fhidden");
        assert_eq!(escaped(""), "");
    }
}
