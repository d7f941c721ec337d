//! Any payload under a valid checksum is a record, an error, or skipped as unknown.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use proptest::prelude::*;
use vor_capture::format::{RecordHead, decode_payload};
use vor_fixtures::decoded::decode;

use crate::round_trip::{HEADER, read, sealed};

proptest! {
    #[test]
    fn hostile_payloads_are_records_or_errors(kind in 0..16_u8, payload: Vec<u8>) {
        // The checksum is made valid, so that the payload itself is tested.
        let mut file = Vec::new();
        HEADER.encode(&mut file);
        let bytes = sealed(0, kind, 0, &payload);
        let head = RecordHead::parse(&HEADER, &bytes).unwrap();
        let alone = decode_payload(&HEADER, &head, &payload);
        file.extend_from_slice(&bytes);
        let (records, damage) = read(&file, 64);
        prop_assert_eq!(alone.is_err(), !damage.is_empty());
        prop_assert_eq!(alone.is_ok_and(|record| record.is_some()), !records.is_empty());
    }
}

#[test]
fn unknown_kinds_and_codecs_are_skipped_and_counted() {
    let mut file = Vec::new();
    HEADER.encode(&mut file);
    file.extend(sealed(0, 200, 0, b"from the future"));
    file.extend(sealed(1, 7, 9, b"in another codec"));
    let decoded = decode(&file, file.len()).unwrap();
    let records: Vec<_> = decoded.records.iter().map(|found| &found.record).collect();
    assert_eq!(records, [&None, &None]);
    assert!(decoded.damage.is_empty() && decoded.refused.is_empty());
    assert_eq!((decoded.unfinished, decoded.missing_records), (None, 0));
}

#[test]
fn a_compressed_payload_cannot_claim_more_than_it_can_hold() {
    let mut payload = vec![0x80, 0x80, 0x80, 0x02];
    payload.extend([0_u8; 20]);
    let bytes = sealed(0, 7, 1, &payload);
    let head = RecordHead::parse(&HEADER, &bytes).unwrap();
    let error = decode_payload(&HEADER, &head, &payload).unwrap_err();
    assert!(
        error.is_corrupt() && error.to_string().contains("4194304"),
        "{error}"
    );
}
