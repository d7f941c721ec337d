//! Units of Perfetto's counters.

/// The unit of a counter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CounterUnit {
    /// No unit.
    None,
    /// Nanoseconds.
    TimeNs,
    /// Things.
    Count,
    /// Bytes.
    SizeBytes,
    /// Any other, such as `%`.
    Custom(String),
}

impl CounterUnit {
    /// Returns the viewer's unit for the unit of a metric, and the factor between them: `MB` is a
    /// million bytes.
    ///
    /// Milliseconds remain a custom unit: Perfetto's own unit is nanoseconds, and it shows 20 ms as
    /// `20M ns`.
    #[must_use]
    pub fn of_metric(unit: &str) -> (Self, u64) {
        let (thousand, ki) = (1000_u64, 1024_u64);
        match unit {
            "" => (Self::None, 1),
            "ns" => (Self::TimeNs, 1),
            "count" => (Self::Count, 1),
            "B" | "bytes" => (Self::SizeBytes, 1),
            "kB" | "KB" => (Self::SizeBytes, thousand),
            "MB" => (Self::SizeBytes, thousand.pow(2)),
            "GB" => (Self::SizeBytes, thousand.pow(3)),
            "KiB" => (Self::SizeBytes, ki),
            "MiB" => (Self::SizeBytes, ki.pow(2)),
            "GiB" => (Self::SizeBytes, ki.pow(3)),
            other => (Self::Custom(other.to_owned()), 1),
        }
    }

    /// Returns the number of the unit in Perfetto's schema, or the name of a unit without a number.
    pub(super) fn code(&self) -> (Option<u64>, Option<&str>) {
        match self {
            Self::None => (None, None),
            Self::TimeNs => (Some(1), None),
            Self::Count => (Some(2), None),
            Self::SizeBytes => (Some(3), None),
            Self::Custom(name) => (None, Some(name)),
        }
    }
}
