//! Ranges of frames, as `--frames` takes them.

use std::str::FromStr;

/// Frames by their numbers: `10..20` (without 20), `10..=20`, `10..`, `..20`, `10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameRange {
    /// The first frame.
    pub(crate) from: u64,
    /// The frame after the last one; `None` for all frames.
    pub(crate) to: Option<u64>,
}

impl FrameRange {
    pub(crate) const ALL: Self = Self { from: 0, to: None };

    pub(crate) fn contains(&self, index: u64) -> bool {
        index >= self.from && self.to.is_none_or(|to| index < to)
    }
}

impl std::fmt::Display for FrameRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.to {
            Some(to) => write!(f, "{}..{to}", self.from),
            None => write!(f, "{}..", self.from),
        }
    }
}

impl FromStr for FrameRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.split_once("..") {
            None => number(text).and_then(|from| Some((from, Some(from.checked_add(1)?)))),
            Some((from, to)) => (|| {
                let from = if from.trim().is_empty() {
                    0
                } else {
                    number(from)?
                };
                let to = match to.strip_prefix('=') {
                    Some(last) => Some(number(last)?.checked_add(1)?),
                    None if to.trim().is_empty() => None,
                    None => Some(number(to)?),
                };
                Some((from, to))
            })(),
        };
        match parsed {
            Some((from, to)) if to.is_none_or(|to| from < to) => Ok(Self { from, to }),
            Some(_) => Err(format!("`{text}` contains no frame")),
            None => Err(format!(
                "`{text}` is not a range of frames; write 10..20, 10.., ..20 or a number"
            )),
        }
    }
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_written() {
        let range = |from, to| Ok(FrameRange { from, to });
        assert_eq!("10..20".parse(), range(10, Some(20)));
        assert_eq!("10..=20".parse(), range(10, Some(21)));
        assert_eq!("10..".parse(), range(10, None));
        assert_eq!("..20".parse(), range(0, Some(20)));
        assert_eq!("..".parse(), range(0, None));
        assert_eq!("7".parse(), range(7, Some(8)));
        for wrong in [
            "",
            "a..b",
            "5..5",
            "9..3",
            "-1..2",
            "1...3",
            "18446744073709551615",
        ] {
            assert!(wrong.parse::<FrameRange>().is_err(), "{wrong}");
        }
        assert_eq!(" 10 ..= 20 ".parse(), range(10, Some(21)));
        assert_eq!(" 3 .. ".parse(), range(3, None));
        let empty: Result<FrameRange, _> = "5..=4".parse();
        assert_eq!(empty, Err("`5..=4` contains no frame".to_owned()));
        assert_eq!("5..=5".parse(), range(5, Some(6)));
        let last: Result<FrameRange, _> = "..=18446744073709551615".parse();
        assert!(last.unwrap_err().contains("is not a range of frames"));
    }

    #[test]
    fn a_range_contains_its_first_frame_and_not_its_end() {
        let contained = |text: &str| {
            let range: FrameRange = text.parse().unwrap();
            let numbers = [0, 9, 10, 11, 19, 20, 21];
            numbers
                .into_iter()
                .filter(|&number| range.contains(number))
                .collect::<Vec<_>>()
        };
        assert_eq!(contained("10..20"), [10, 11, 19]);
        assert_eq!(contained("10.."), [10, 11, 19, 20, 21]);
        assert_eq!(contained("..10"), [0, 9]);
        assert_eq!(contained("..").len(), 7);
        let shown = |text: &str| text.parse::<FrameRange>().unwrap().to_string();
        assert_eq!([shown("10..=20"), shown("10..")], ["10..21", "10.."]);
    }
}
