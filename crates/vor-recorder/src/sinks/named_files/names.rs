//! Names of captures: from a pattern and a time to a name, and back from a name to "one of ours".
//!
//! A pattern is a file name with fields: `%Y %m %d %H %M %S` (the time at which the file begins,
//! UTC) and `%p` (the process). If a name is taken, or would not sort after the last one, a counter
//! is added before the extension: `run-20261125T190501_000001.vor`. The underscore sorts after the
//! dot, so a counted name sorts after the plain one.

use std::path::{Path, PathBuf};

/// The names of one recorder's captures, in one folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sinks) struct Names {
    folder: PathBuf,
    parts: Vec<Part>,
    /// The extension, with its dot; empty if there is none.
    extension: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A field of the time, by its letter.
    Time(char),
    Process,
}

/// Digits of the counter.
const COUNTER_DIGITS: usize = 6;

/// Returns the fields of a pattern's file name that are not known, if the name has a known one.
fn has_field(name: &str) -> bool {
    let fields = ["%Y", "%m", "%d", "%H", "%M", "%S", "%p"];
    fields.iter().any(|field| name.contains(field))
}

/// Returns whether a path asks for segments: it ends with a slash, is a folder, or has a pattern as
/// its name.
pub(crate) fn is_segmented(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let ends_with_slash = text.ends_with('/') || (cfg!(windows) && text.ends_with('\\'));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ends_with_slash || has_field(&name) || path.is_dir()
}

impl Names {
    /// Makes the names for a folder or a pattern; `program` begins the names in a folder.
    pub(in crate::sinks) fn new(path: &Path, program: &str) -> Self {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let text = path.to_string_lossy();
        let is_pattern = has_field(&name) && !text.ends_with('/') && !path.is_dir();
        let (folder, pattern) = if is_pattern {
            let folder = path.parent().unwrap_or(Path::new(""));
            (folder.to_owned(), name.into_owned())
        } else {
            let program: String = program
                .chars()
                .map(|letter| match letter {
                    '%' | '/' | '\\' => '-',
                    letter => letter,
                })
                .collect();
            let program = if program.is_empty() { "run" } else { &program };
            (path.to_owned(), format!("{program}-%Y%m%dT%H%M%S-%p.vor"))
        };
        let folder = match folder.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => folder,
        };
        let (stem, extension) = match pattern.rfind('.') {
            Some(dot) if dot > 0 && !has_field(&pattern[dot..]) => pattern.split_at(dot),
            _ => (&*pattern, ""),
        };
        Self {
            folder,
            parts: parts(stem),
            extension: extension.to_owned(),
        }
    }

    pub(in crate::sinks) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name for a time.
    pub(in crate::sinks) fn name(&self, unix_s: i64, pid: u32) -> String {
        let mut name = String::new();
        let date = civil(unix_s);
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Process => name.push_str(&pid.to_string()),
                Part::Time(field) => {
                    let (value, digits) = date.field(*field);
                    name.push_str(&format!("{value:0digits$}"));
                }
            }
        }
        name + &self.extension
    }

    /// Returns `name` with this counter, instead of the one that it may have.
    pub(in crate::sinks) fn counted(&self, name: &str, counter: u32) -> String {
        let (stem, _) = self.split(name);
        format!("{stem}_{counter:0COUNTER_DIGITS$}{}", self.extension)
    }

    /// Returns the next name after `last` that differs in its counter only, and that counter.
    pub(in crate::sinks) fn after(&self, last: &str) -> (String, u32) {
        let counter = self.split(last).1 + 1;
        (self.counted(last, counter), counter)
    }

    /// Returns the stem of a name without its counter, and the counter; 0 if it has none.
    fn split<'a>(&self, name: &'a str) -> (&'a str, u32) {
        let stem = name.strip_suffix(&*self.extension).unwrap_or(name);
        let counted = stem.rsplit_once('_').filter(|(_, counter)| {
            counter.len() == COUNTER_DIGITS && counter.bytes().all(|digit| digit.is_ascii_digit())
        });
        match counted {
            Some((stem, counter)) => (stem, counter.parse().unwrap_or(0)),
            None => (stem, 0),
        }
    }

    /// Returns whether a file name is one of these names.
    pub(in crate::sinks) fn matches(&self, name: &str) -> bool {
        let Some(stem) = name.strip_suffix(&*self.extension) else {
            return false;
        };
        if matches(&self.parts, stem) {
            return true;
        }
        // A counter may follow.
        matches(&self.parts, self.split(name).0)
    }
}

fn parts(pattern: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut letters = pattern.chars().peekable();
    while let Some(letter) = letters.next() {
        let field = match (letter, letters.peek()) {
            ('%', Some('p')) => Some(Part::Process),
            ('%', Some(&field @ ('Y' | 'm' | 'd' | 'H' | 'M' | 'S'))) => Some(Part::Time(field)),
            _ => None,
        };
        match field {
            Some(field) => {
                letters.next();
                if !text.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut text)));
                }
                parts.push(field);
            }
            None => text.push(letter),
        }
    }
    if !text.is_empty() {
        parts.push(Part::Text(text));
    }
    parts
}

fn matches(parts: &[Part], text: &str) -> bool {
    let Some((part, rest)) = parts.split_first() else {
        return text.is_empty();
    };
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    match part {
        Part::Text(expected) => text
            .strip_prefix(&**expected)
            .is_some_and(|text| matches(rest, text)),
        Part::Time(field) => {
            let len = if *field == 'Y' { 4 } else { 2 };
            digits >= len && matches(rest, &text[len..])
        }
        Part::Process => (1..=digits.min(10)).any(|len| matches(rest, &text[len..])),
    }
}

/// A date and a time of day, UTC.
struct Civil {
    year: i64,
    month: i64,
    day: i64,
    second: i64,
}

impl Civil {
    /// Returns the value of a field, and how many digits it has.
    fn field(&self, field: char) -> (i64, usize) {
        match field {
            'Y' => (self.year, 4),
            'm' => (self.month, 2),
            'd' => (self.day, 2),
            'H' => (self.second / 3600, 2),
            'M' => (self.second / 60 % 60, 2),
            _ => (self.second % 60, 2),
        }
    }
}

/// Returns the date of a number of seconds since 1970, in the Gregorian calendar.
fn civil(unix_s: i64) -> Civil {
    let (days, second) = (unix_s.div_euclid(86_400), unix_s.rem_euclid(86_400));
    // Days since 1 March of the year 0: the leap day is the last one of its year.
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    Civil {
        year: year_of_era + era * 400 + i64::from(month <= 2),
        month,
        day,
        second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 25 November 2026, 19:05:01.
    const TIME: i64 = 1_795_633_501;

    #[test]
    fn names_have_the_time_the_process_and_a_counter() {
        let names = Names::new(Path::new("dir/"), "app");
        assert_eq!(names.folder(), Path::new("dir/"));
        assert_eq!(names.name(TIME, 77), "app-20261125T190501-77.vor");
        assert_eq!(
            names.counted(&names.name(TIME, 77), 3),
            "app-20261125T190501-77_000003.vor"
        );
        let names = Names::new(Path::new("a/run-%Y.%p"), "app");
        assert_eq!(names.folder(), Path::new("a"));
        assert_eq!(
            names.counted(&names.name(TIME, 77), 1),
            "run-2026.77_000001"
        );
        let names = Names::new(Path::new("100%-%H%M%S.vor"), "app");
        assert_eq!(names.folder(), Path::new("."));
        assert_eq!(names.name(TIME, 77), "100%-190501.vor");
        assert_eq!(
            Names::new(Path::new("d/"), "").name(0, 1),
            "run-19700101T000000-1.vor"
        );
        // Leap days and ends of years.
        let day = Names::new(Path::new("%Y%m%d"), "");
        for (days, expected) in [
            (11_016, "20000229"),
            (11_017, "20000301"),
            (20_818, "20261231"),
        ] {
            assert_eq!(day.name(days * 86_400 + 86_399, 1), expected);
        }
    }

    #[test]
    fn only_own_names_match() {
        let names = Names::new(Path::new("dir/"), "app");
        for own in [
            "app-20261125T190501-77.vor",
            "app-20251125T190501-1234567.vor",
            "app-20261125T190501-77_000003.vor",
        ] {
            assert!(names.matches(own), "{own}");
        }
        for other in [
            "app-20261125T190501.vor",
            "app-20261125T190501-77.vor.lock",
            "app-20261125T190501-77_003.vor",
            "app-20261125T190501-77_00000x.vor",
            "app-20261125T190501-x.vor",
            "app-2026112T190501-77.vor",
            "apq-20261125T190501-77.vor",
            "app-20261125T190501-77.vor.vor",
            "app-20261125T190501-77-copy.vor",
            "my-app-20261125T190501-77.vor",
            ".vor",
            "",
        ] {
            assert!(!names.matches(other), "{other}");
        }
        assert!(Names::new(Path::new("%p%Y.vor"), "").matches("772026.vor"));
    }

    #[test]
    fn counted_names_sort_after_the_plain_one_and_before_the_next_second() {
        let names = Names::new(Path::new("dir/"), "app");
        let plain = names.name(TIME, 77);
        let (first, counter) = names.after(&plain);
        assert_eq!((&*first, counter), ("app-20261125T190501-77_000001.vor", 1));
        let in_order = [
            plain.clone(),
            first.clone(),
            names.after(&first).0,
            names.counted(&plain, 10),
            names.name(TIME + 1, 77),
            names.name(TIME + 60, 77),
            names.name(TIME + 86_400 * 40, 77),
        ];
        assert!(in_order.is_sorted());
    }

    #[test]
    fn folders_and_patterns_ask_for_segments() {
        let folder = tempfile::tempdir().unwrap();
        for path in ["new/", "run-%Y.vor", "a/%p.vor"] {
            assert!(is_segmented(Path::new(path)), "{path}");
        }
        assert!(is_segmented(folder.path()));
        for path in ["run.vor", "a/run.vor", "100%.vor", "%Y/run.vor"] {
            assert!(!is_segmented(Path::new(path)), "{path}");
        }
    }
}
