//! The parts of a capture that a [`Decoder`](super::Decoder) could not use.

use std::fmt;

/// A place of a capture that could not be used, or at which something is missing.
///
/// Its text says the reason in a line, without the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Where it begins in the file.
    pub offset: u64,
    /// Bytes that were skipped; 0 when no bytes are left of what is missing.
    pub bytes: u64,
    /// The reason.
    pub reason: DamageReason,
}

/// Damage at one place of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageReason {
    /// The bytes are not a record: a head that contradicts itself, or a wrong checksum.
    Corrupt,
    /// The file ends within a record.
    Torn,
    /// The record was read before.
    Repeated {
        /// Its sequence number.
        seq: u64,
        /// The number of the record that should come next.
        next: u64,
    },
    /// The record is behind later ones. An earlier [`Gap`](Self::Gap) counted it as missing.
    Late {
        /// Its sequence number.
        seq: u64,
        /// The number of the record that should come next.
        next: u64,
    },
    /// Records are missing: the sequence numbers jump.
    Gap {
        /// The number of the record behind the gap.
        seq: u64,
        /// The number of the record that should come next.
        next: u64,
        /// How many records of those between were not read before.
        missing: u64,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason {
            DamageReason::Corrupt => write!(f, "{} bytes are not a record", self.bytes),
            DamageReason::Torn => write!(f, "the file ends {} bytes into a record", self.bytes),
            DamageReason::Repeated { seq, next } => {
                write!(f, "record {seq} is repeated; record {next} is next")
            }
            DamageReason::Late { seq, next } => write!(
                f,
                "record {seq} follows where record {next} is next: it belongs further up"
            ),
            DamageReason::Gap { seq, next, missing } => write!(
                f,
                "record {seq} follows where record {next} is next: {missing} are missing"
            ),
        }
    }
}
