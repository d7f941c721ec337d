//! Damage to captures: random pieces flipped, cut out, repeated, or taken from other captures.

use std::ops::Range;

use crate::random::Random;

/// A damaged file, and which bytes of the original are in it in one piece.
pub struct Mutant {
    pub bytes: Vec<u8>,
    pub kept: Vec<Range<usize>>,
    /// Whether only whole records were cut out, moved or repeated.
    pub clean: bool,
    pub what: String,
}

impl Mutant {
    fn of(pieces: &[Piece<'_>], original: &[u8], clean: bool, what: String) -> Self {
        let mut bytes = Vec::new();
        let mut kept = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Kept(range) => {
                    bytes.extend_from_slice(&original[range.clone()]);
                    kept.push(range.clone());
                }
                Piece::Other(other) => bytes.extend_from_slice(other),
            }
        }
        Self {
            bytes,
            kept,
            clean,
            what,
        }
    }

    pub fn keeps(&self, range: &Range<usize>) -> bool {
        let within = |kept: &Range<usize>| kept.start <= range.start && range.end <= kept.end;
        self.kept.iter().any(within)
    }
}

enum Piece<'a> {
    Kept(Range<usize>),
    Other(&'a [u8]),
}

/// Damages `original` behind its header, and one time in twenty the header too; then nothing is
/// promised of the file but an answer.
pub fn mutate_any(random: &mut Random, original: &[u8], records: &[usize], donor: &[u8]) -> Mutant {
    let header_too = random.below(20) == 0;
    let from = if header_too { 0 } else { records[0] };
    mutate(random, original, records, donor, from)
}

/// Damages `original` behind byte `from`. `records` has where each record begins, and the file's
/// length.
pub fn mutate(
    random: &mut Random,
    original: &[u8],
    records: &[usize],
    donor: &[u8],
    from: usize,
) -> Mutant {
    use Piece::{Kept, Other};
    let end = original.len();
    let place = from + random.below(end - from);
    let block = |random: &mut Random| {
        let first = random.below(records.len() - 1);
        let last = (first + 1 + random.below(5)).min(records.len() - 1);
        records[first]..records[last]
    };
    let cut = |range: Range<usize>| vec![Kept(0..range.start), Kept(range.end..end)];
    match random.below(8) {
        0 => {
            let flipped = [original[place] ^ (1 << random.below(8))];
            let pieces = [Kept(0..place), Other(&flipped), Kept(place + 1..end)];
            Mutant::of(&pieces, original, false, format!("flip in byte {place}"))
        }
        1 => {
            let len = (1 + random.below(200)).min(end - place);
            let noise: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let pieces = [Kept(0..place), Other(&noise), Kept(place + len..end)];
            Mutant::of(
                &pieces,
                original,
                false,
                format!("noise at {place}, {len} bytes"),
            )
        }
        2 => {
            let clean = records.contains(&place);
            Mutant::of(
                &[Kept(0..place)],
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
            let pieces = [Kept(0..at), Other(&new.to_le_bytes()), Kept(at + 4..end)];
            Mutant::of(
                &pieces,
                original,
                false,
                format!("length {old} at {at} made {new}"),
            )
        }
        4 => {
            let block = block(random);
            let to = records[random.below(records.len())];
            let pieces = [Kept(0..to), Other(&original[block.clone()]), Kept(to..end)];
            Mutant::of(
                &pieces,
                original,
                true,
                format!("{block:?} repeated at {to}"),
            )
        }
        5 => {
            let block = block(random);
            Mutant::of(
                &cut(block.clone()),
                original,
                true,
                format!("{block:?} removed"),
            )
        }
        6 => {
            let len = (1 + random.below(300)).min(end - place);
            let range = place..place + len;
            let clean = records.contains(&range.start) && records.contains(&range.end);
            Mutant::of(
                &cut(range.clone()),
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
            let pieces = [Kept(0..place), Other(other), Kept(place + over..end)];
            let what = format!("{len} bytes of another capture at {place}, over {over}");
            Mutant::of(&pieces, original, false, what)
        }
    }
}

/// Returns where the records of a version-2 capture begin, and its length.
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
