//! Damage to captures: random pieces are flipped, removed, repeated, or copied from other captures.

use std::ops::Range;

use crate::random::Random;

/// A damaged file, and the ranges of the original that it contains in one piece.
pub struct Mutant {
    pub bytes: Vec<u8>,
    pub intact: Vec<Range<usize>>,
    /// Whether only whole records were removed, moved or repeated.
    pub is_clean: bool,
    /// A range of the file or of the donor that was copied into the file.
    pub copied: Option<Copied>,
    /// A description of the damage.
    pub what: String,
}

/// A range that was copied, and where to.
pub struct Copied {
    pub range: Range<usize>,
    /// Whether it comes from the donor.
    pub is_foreign: bool,
    /// The byte of the original that follows the copy.
    pub before: usize,
}

impl Mutant {
    fn new(pieces: &[Piece<'_>], original: &[u8], is_clean: bool, what: String) -> Self {
        let mut bytes = Vec::new();
        let mut intact = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Original(range) => {
                    bytes.extend_from_slice(&original[range.clone()]);
                    intact.push(range.clone());
                }
                Piece::Other(other) => bytes.extend_from_slice(other),
            }
        }
        Self {
            bytes,
            intact,
            is_clean,
            copied: None,
            what,
        }
    }

    /// Returns whether the file contains a range of the original in one piece.
    pub fn contains(&self, range: &Range<usize>) -> bool {
        let encloses =
            |intact: &Range<usize>| intact.start <= range.start && range.end <= intact.end;
        self.intact.iter().any(encloses)
    }
}

enum Piece<'a> {
    Original(Range<usize>),
    Other(&'a [u8]),
}

/// Damages `original` after its header, and in one of twenty cases the header too. A reader of such
/// a file only has to return.
pub fn mutate_any(random: &mut Random, original: &[u8], records: &[usize], donor: &[u8]) -> Mutant {
    let header_too = random.below(20) == 0;
    let from = if header_too { 0 } else { records[0] };
    mutate(random, original, records, donor, from)
}

/// Damages `original` from byte `from` on. `records` has the offsets of the records, and the file's
/// number of bytes.
pub fn mutate(
    random: &mut Random,
    original: &[u8],
    records: &[usize],
    donor: &[u8],
    from: usize,
) -> Mutant {
    use Piece::{Original, Other};
    let end = original.len();
    let place = from + random.below(end - from);
    let block = |random: &mut Random| {
        let first = random.below(records.len() - 1);
        let last = (first + 1 + random.below(5)).min(records.len() - 1);
        records[first]..records[last]
    };
    let without = |range: Range<usize>| vec![Original(0..range.start), Original(range.end..end)];
    match random.below(8) {
        0 => {
            let flipped = [original[place] ^ (1 << random.below(8))];
            let pieces = [
                Original(0..place),
                Other(&flipped),
                Original(place + 1..end),
            ];
            Mutant::new(&pieces, original, false, format!("flip in byte {place}"))
        }
        1 => {
            let len = (1 + random.below(200)).min(end - place);
            let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let pieces = [
                Original(0..place),
                Other(&noise),
                Original(place + len..end),
            ];
            Mutant::new(
                &pieces,
                original,
                false,
                format!("noise at {place}, {len} bytes"),
            )
        }
        2 => {
            let clean = records.contains(&place);
            Mutant::new(
                &[Original(0..place)],
                original,
                clean,
                format!("cut off at {place}"),
            )
        }
        3 => {
            let at = records[random.below(records.len() - 1)];
            let old = u32::from_le_bytes(original[at..at + 4].try_into().unwrap());
            let new = match random.below(4) {
                0 => old.wrapping_add(random.below(2000) as u32),
                1 => random.next() as u32,
                2 => random.below(1 << 24) as u32,
                _ => old ^ (1 << random.below(32)),
            };
            let new = if new == old { !old } else { new };
            let pieces = [
                Original(0..at),
                Other(&new.to_le_bytes()),
                Original(at + 4..end),
            ];
            Mutant::new(
                &pieces,
                original,
                false,
                format!("length {old} at {at} made {new}"),
            )
        }
        4 => {
            let block = block(random);
            let to = records[random.below(records.len())];
            let pieces = [
                Original(0..to),
                Other(&original[block.clone()]),
                Original(to..end),
            ];
            let what = format!("{block:?} repeated at {to}");
            let mutant = Mutant::new(&pieces, original, true, what);
            Mutant {
                copied: Some(Copied {
                    range: block,
                    is_foreign: false,
                    before: to,
                }),
                ..mutant
            }
        }
        5 => {
            let block = block(random);
            Mutant::new(
                &without(block.clone()),
                original,
                true,
                format!("{block:?} removed"),
            )
        }
        6 => {
            let len = (1 + random.below(300)).min(end - place);
            let range = place..place + len;
            let clean = records.contains(&range.start) && records.contains(&range.end);
            Mutant::new(
                &without(range.clone()),
                original,
                clean,
                format!("{range:?} removed"),
            )
        }
        _ => {
            let begin = random.below(donor.len() - 1);
            let len = (1 + random.below(800)).min(donor.len() - begin);
            let over = random.below(400).min(end - place);
            let other = &donor[begin..begin + len];
            let pieces = [
                Original(0..place),
                Other(other),
                Original(place + over..end),
            ];
            let what = format!("{len} bytes of another capture at {place}, over {over}");
            let mutant = Mutant::new(&pieces, original, false, what);
            Mutant {
                copied: Some(Copied {
                    range: begin..begin + len,
                    is_foreign: true,
                    before: place + over,
                }),
                ..mutant
            }
        }
    }
}

/// Returns the offsets of the records of a version-2 capture, and its number of bytes.
pub fn v2_records(bytes: &[u8]) -> Vec<usize> {
    let header = vor_capture::format::v2::parse_header(bytes)
        .unwrap()
        .unwrap();
    let mut records = vec![header.len];
    let mut at = header.len;
    while at < bytes.len() {
        let len = u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        at = (at + 4 + len).min(bytes.len());
        records.push(at);
    }
    records
}
