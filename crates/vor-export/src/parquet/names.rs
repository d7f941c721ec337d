//! What is the same in all rows of a file, and texts that many rows share.

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::ProcessInfo;

use super::coded::Dictionary;
use super::table::Column;

/// What a table says where nobody told a host or a version.
const UNKNOWN: &str = "unknown";

/// Where the rows of a table come from, as far as a capture does not say.
///
/// # Examples
///
/// ```
/// let origin = vor_export::parquet::Origin {
///     host: Some("web-17".into()),
///     version: Some("2.4.1".into()),
/// };
/// assert_ne!(origin, Default::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The machine; `unknown` stands in the tables where it is not told.
    pub host: Option<String>,
    /// The version of the program that was measured; `unknown` where it is not told.
    pub version: Option<String>,
}

impl Origin {
    /// Returns the first columns of every table, in the format's notation.
    pub(super) fn schema(with_host: bool) -> &'static str {
        if with_host {
            "required binary host (STRING);
            required binary process (STRING);
            required int64 pid;
            required binary version (STRING);"
        } else {
            "required binary process (STRING);
            required int64 pid;
            required binary version (STRING);"
        }
    }

    /// Appends the values of the first columns of every table. `same` is as many zeros as there are
    /// rows.
    pub(super) fn push_columns<'a>(
        &'a self,
        process: &'a ProcessInfo,
        with_host: bool,
        same: &'a [u32],
        columns: &mut Vec<Column<'a>>,
    ) {
        let text = |text| Column::Coded(same, Dictionary::Texts(vec![text]));
        if with_host {
            columns.push(text(self.host()));
        }
        columns.push(text(process.name.as_str()));
        let pid = i64::from(process.pid);
        columns.push(Column::Coded(same, Dictionary::Ints(vec![pid])));
        columns.push(text(self.version.as_deref().unwrap_or(UNKNOWN)));
    }

    pub(super) fn host(&self) -> &str {
        match self.host.as_deref() {
            None | Some("") => UNKNOWN,
            Some(host) => host,
        }
    }
}

/// Texts, each once, and which of them each of the given ones is.
#[derive(Debug)]
pub(super) struct Names<'a> {
    texts: Vec<&'a str>,
    codes: Vec<u32>,
}

impl<'a> Names<'a> {
    pub(super) fn of(given: impl Iterator<Item = &'a str>) -> Self {
        let mut known = FxHashMap::default();
        let mut texts = Vec::new();
        let codes = given
            .map(|text| {
                *known.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() as u32 - 1
                })
            })
            .collect();
        Self { texts, codes }
    }

    /// Returns the codes of rows that say which of the given texts they have.
    pub(super) fn codes(&self, rows: &[u32]) -> Vec<u32> {
        rows.iter().map(|&row| self.codes[row as usize]).collect()
    }

    pub(super) fn dictionary(&self) -> Dictionary<'a> {
        Dictionary::Texts(self.texts.clone())
    }
}
