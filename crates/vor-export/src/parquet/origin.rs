//! The origin of rows: the first columns of every table, which have one value per file.

use vor_capture::model::catalog::ProcessInfo;

use super::coded::Dictionary;
use super::table::Column;

/// Value of the columns `host` and `version` if neither capture nor caller names one.
const UNKNOWN: &str = "unknown";

/// The origin of a table's rows, for the parts that a capture does not contain.
///
/// # Examples
///
/// ```
/// let origin = vor_export::parquet::Origin::default().host("web-17").version("2.4.1");
/// assert_eq!(origin.version.as_deref(), Some("2.4.1"));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The machine; without one the column is `unknown`.
    pub host: Option<String>,
    /// The version of the program; without one the column is `unknown`.
    pub version: Option<String>,
}

impl Origin {
    /// Sets [`host`](Self::host).
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.host = Some(host.into());
        self
    }

    /// Sets [`version`](Self::version).
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    pub(super) fn host_text(&self) -> &str {
        match self.host.as_deref() {
            None | Some("") => UNKNOWN,
            Some(host) => host,
        }
    }
}

/// The first columns of a table.
#[derive(Clone, Debug)]
pub struct OriginColumns {
    pub(super) origin: Origin,
    /// Whether `host` is a column; in a data set it may be a folder.
    pub(super) with_host: bool,
}

impl OriginColumns {
    /// Returns the columns in the format's notation.
    pub(super) fn schema(&self) -> String {
        let host = if self.with_host {
            "required binary host (STRING);"
        } else {
            ""
        };
        format!(
            "{host}
            required binary process (STRING);
            required int64 pid;
            required binary version (STRING);"
        )
    }

    /// Appends the values of the columns. `zeros` has a zero per row.
    pub(super) fn push<'a>(
        &'a self,
        process: &'a ProcessInfo,
        zeros: &'a [u32],
        columns: &mut Vec<Column<'a>>,
    ) {
        let text = |text| Column::Coded(zeros, Dictionary::Texts(vec![text]));
        if self.with_host {
            columns.push(text(self.origin.host_text()));
        }
        columns.push(text(process.name.as_str()));
        let pid = i64::from(process.pid);
        columns.push(Column::Coded(zeros, Dictionary::Ints(vec![pid])));
        columns.push(text(self.origin.version.as_deref().unwrap_or(UNKNOWN)));
    }
}
