//! The slowest frames of a capture, found in one pass.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::ControlFlow;

use vor_capture::reader::{Damage, Piece};

use crate::command::failure::Failure;
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::source::Source;

/// Maximum of `--slowest`: each of the frames is read by itself, from its place in the file.
const MAX_SLOWEST: usize = 100_000;

/// Parses the value of `--slowest`.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number) if (1..=MAX_SLOWEST).contains(&number) => Ok(number),
        _ => Err(format!("`{text}` is not a number from 1 to {MAX_SLOWEST}")),
    }
}

/// The slowest frames of a capture.
#[derive(Debug)]
pub(crate) struct Slowest {
    /// Numbers of the frames, the slowest first; among frames of equal duration, the earliest
    /// first.
    pub(crate) indices: Vec<u64>,
    /// Start of the first frame of the capture, in nanoseconds since 1970.
    pub(crate) origin_ns: Option<i64>,
    pub(crate) damage: Damage,
}

/// Finds the `most` slowest frames of a set, among those whose numbers are in `range`.
pub(crate) fn find(
    source: &mut Source,
    set: u32,
    range: FrameRange,
    most: usize,
    progress: &mut Progress,
) -> Result<Slowest, Failure> {
    // The shortest of them is on top.
    let mut longest: BinaryHeap<Reverse<(i64, Reverse<u64>)>> = BinaryHeap::new();
    let mut origin_ns = None;
    let walked = source.walk(progress, |piece| {
        if let Piece::Frame(recovered) = piece
            && recovered.frame.frame_set == set
        {
            let frame = &recovered.frame;
            origin_ns.get_or_insert(frame.catalog.unix_ns(frame.start_ticks));
            if range.contains(frame.index) {
                longest.push(Reverse((frame.duration_ns(), Reverse(frame.index))));
            }
            if longest.len() > most {
                longest.pop();
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if longest.is_empty() {
        return Err(source.failure("no frames"));
    }
    let ordered = longest.into_sorted_vec().into_iter();
    Ok(Slowest {
        indices: ordered.map(|Reverse((_, Reverse(index)))| index).collect(),
        origin_ns,
        damage: walked.damage,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_frames_has_limits() {
        assert_eq!(at_least_one("1"), Ok(1));
        assert_eq!(at_least_one("100000"), Ok(100_000));
        for wrong in ["0", "100001", "-1", "two", ""] {
            let problem = format!("`{wrong}` is not a number from 1 to 100000");
            assert_eq!(at_least_one(wrong), Err(problem));
        }
    }
}
