//! A place in a capture, as text that opens it again.

use std::fmt;
use std::str::FromStr;

use crate::time_text::{range_ns, range_text};

/// What is looked at in a capture. Times are in nanoseconds on the scale above the flame chart.
///
/// ```
/// # mod vor { pub mod viz { pub use vor_viz::replay::Place; } }
/// use vor::viz::Place;
///
/// let place: Place = "time=1.5ms..2ms".parse().unwrap();
/// assert_eq!(place, Place::Time(1_500_000, 2_000_000));
/// assert_eq!(place.to_string(), "time=1.5ms..2ms");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A selected time.
    Time(i64, i64),
    /// A time that the flame chart shows.
    Zoom(i64, i64),
    /// The pinned frame, by the number that the program gave it.
    Frame(u64),
}

impl Place {
    /// Returns its name and its value, as arguments of the viewer have them.
    #[must_use]
    pub fn parts(&self) -> (&'static str, String) {
        match *self {
            Self::Time(begin_ns, end_ns) => ("time", range_text((begin_ns, end_ns))),
            Self::Zoom(begin_ns, end_ns) => ("zoom", range_text((begin_ns, end_ns))),
            Self::Frame(number) => ("frame", number.to_string()),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = self.parts();
        write!(f, "{name}={value}")
    }
}

impl FromStr for Place {
    /// A line that says what is wrong.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let range = |value: &str| {
            range_ns(value).ok_or_else(|| {
                format!("`{value}` is not a time with a begin and an end, such as 1.2s..1.3s")
            })
        };
        match text.split_once('=') {
            Some(("time", value)) => range(value).map(|(begin, end)| Self::Time(begin, end)),
            Some(("zoom", value)) => range(value).map(|(begin, end)| Self::Zoom(begin, end)),
            Some(("frame", value)) => value
                .parse()
                .map(Self::Frame)
                .map_err(|_| format!("`{value}` is not the number of a frame")),
            _ => Err(format!("`{text}` is not a time=, zoom= or frame=")),
        }
    }
}
