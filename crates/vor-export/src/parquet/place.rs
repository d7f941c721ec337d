//! Where the files of a data set stand, and how they get there whole.
//!
//! ```text
//! <folder>/spans/host=web-17/date=2026-11-21/run-4711-1763683200000.parquet
//!          table partitions …                capture, process, begin of the recording in ms since 1970
//! ```
//!
//! The name is the same whenever the same capture is exported, so doing it again replaces the
//! files. A file is written beside its place, under a name that begins with a dot, which engines
//! pass over, and is renamed when all files are whole. What is dropped before that goes, and so do
//! folders made for it.

use std::fs::{self, File};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::schema::types::TypePtr;
use vor_capture::Error;

use super::table::{Column, Output, TableFile};

/// A column by whose values a data set is split into folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// `host=…`: the machine. The files then have no such column.
    Host,
    /// `date=YYYY-MM-DD`: the day, in UTC, on which spans ended, values were taken, and minutes
    /// began.
    Date,
}

impl Partition {
    /// Reads a list such as `host,date`.
    ///
    /// # Errors
    ///
    /// When a name is neither `host` nor `date`, or is there twice.
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

/// Days of a table that are open at once: threads may reach midnight one after the other.
const OPEN_DAYS: usize = 2;

const DAY_NS: i64 = 86_400 * 1_000_000_000;

/// The files of a table of a data set.
#[derive(Debug)]
pub(super) struct TableFiles {
    folder: PathBuf,
    /// Partitions, with the value of those that all files share.
    partitions: Vec<(Partition, String)>,
    file_name: String,
    schema: TypePtr,
    open: Vec<(i64, TableFile<File>)>,
    written: Vec<Written>,
    /// Folders that were made for the files, each after the one that it is in.
    made: Vec<PathBuf>,
}

/// A file that is written, or being written, and not yet in its place.
#[derive(Debug)]
struct Written {
    partial: PathBuf,
    path: PathBuf,
}

impl TableFiles {
    /// Makes the files of the table in `folder`; none is there before it has rows.
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
            written: Vec::new(),
            made: Vec::new(),
        }
    }

    /// Sets the name of the files, without its end.
    pub(super) fn name(&mut self, name: &str) {
        self.file_name = escaped(name);
    }

    /// Makes all files whole, still beside their places.
    pub(super) fn close(&mut self) -> Result<(), Error> {
        for (_, mut file) in self.open.drain(..) {
            file.finish()?;
        }
        Ok(())
    }

    /// Moves all files to their places; appends where they are.
    pub(super) fn publish(&mut self, paths: &mut Vec<PathBuf>) -> Result<(), Error> {
        for Written { partial, path } in &self.written {
            fs::rename(partial, path).map_err(|error| refused(path, error))?;
            paths.push(path.clone());
        }
        self.written.clear();
        self.made.clear();
        Ok(())
    }

    fn is_by_date(&self) -> bool {
        self.partitions
            .iter()
            .any(|&(partition, _)| partition == Partition::Date)
    }

    /// Returns the day of a time; 0 where all days are one.
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
        self.make(&folder)?;
        let mut path = folder.join(format!("{}.parquet", self.file_name));
        let mut number = 1;
        // A day that comes again, after others, gets another file.
        while self.written.iter().any(|written| written.path == path) {
            number += 1;
            path = folder.join(format!("{}-{number}.parquet", self.file_name));
        }
        let own = std::process::id();
        let partial = folder.join(format!(".{}-{number}.{own}.partial", self.file_name));
        let file = File::create(&partial).map_err(|error| refused(&path, error))?;
        self.written.push(Written { partial, path });
        TableFile::new(file, Arc::clone(&self.schema))
    }

    /// Makes a folder and those around it, and remembers which were not there.
    fn make(&mut self, folder: &Path) -> Result<(), Error> {
        let missing: Vec<_> = folder
            .ancestors()
            .take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists())
            .map(Path::to_owned)
            .collect();
        self.made.extend(missing.into_iter().rev());
        fs::create_dir_all(folder).map_err(|error| refused(folder, error))
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
                if self.open.len() >= OPEN_DAYS {
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

/// What was not published is taken back. Nobody is left to be told if that fails.
impl Drop for TableFiles {
    fn drop(&mut self) {
        self.open.clear();
        for Written { partial, .. } in &self.written {
            drop(fs::remove_file(partial));
        }
        // Only an empty folder goes.
        for folder in self.made.iter().rev() {
            drop(fs::remove_dir(folder));
        }
    }
}

fn refused(path: &Path, error: std::io::Error) -> Error {
    Error::io(format!("cannot write {}", path.display()), error)
}

/// Returns a text as part of a file's name: what may mean something to a system or an engine is
/// written as `%` and its number, as Hive does.
///
/// A dot or an underscore at the begin would hide the file from engines.
fn escaped(text: &str) -> String {
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

/// Returns the date of a day since 1970 in the Gregorian calendar.
fn date(day: i64) -> String {
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
