//! Records that a crashing process appends to the capture that its encoder wrote.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use vor_capture::filled;
use vor_capture::format::{
    Compression, Encoder, Header, NoteWriter, OpenScopes, Record, RecordHead, RecordRef,
};
use vor_capture::model::catalog::{SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_fixtures::decoded::decode;

const HEADER: Header = Header {
    file_id: 77,
    pid: 42,
    flags: 0,
    start_unix_ns: 5,
    start_ticks: 9,
};

/// Most bytes of the texts of a declaration.
const MAX_BYTES: usize = 16 << 10;

fn site(name_bytes: usize, arg_bytes: &[usize]) -> SiteInfo {
    filled!(SiteInfo {
        name: "n".repeat(name_bytes).into(),
        module_path: "module".into(),
        file: "file.rs".into(),
        category: "category".into(),
        line: 12,
        arg_names: arg_bytes
            .iter()
            .map(|&bytes| "a".repeat(bytes).into())
            .collect(),
    })
}

fn thread(name_bytes: usize) -> ThreadInfo {
    filled!(ThreadInfo {
        name: "t".repeat(name_bytes),
    })
}

#[test]
fn notes_between_the_records_of_an_encoder_read_back() {
    let mut encoder = Encoder::new(HEADER);
    let (mut file, mut notes) = (Vec::new(), NoteWriter::default());
    encoder.header(&mut file);
    assert_eq!(encoder.place().1, 0);
    let open = filled!(OpenScopes {
        ticks: 1_000,
        threads: vec![(ThreadId(7), vec![(SiteId(3), 900), (SiteId(4), 1_100)])],
    });
    encoder.encode(RecordRef::OpenScopes(&open), &mut file);
    let (seed, first) = encoder.place();
    assert_eq!(first, 1);
    let (site, thread) = (site(20, &[5, 6]), thread(9));
    let written = [
        notes
            .site((seed, first), SiteId(3), &site)
            .unwrap()
            .to_vec(),
        notes
            .thread((seed, first + 1), ThreadId(7), &thread)
            .unwrap()
            .to_vec(),
        notes
            .open_scopes((seed, first + 2), 1_000, ThreadId(7), &open.threads[0].1)
            .to_vec(),
    ]
    .concat();
    file.extend_from_slice(&written);
    encoder.skip(3, written.len() as u64);
    assert_eq!(
        (encoder.place().1, encoder.offset()),
        (4, file.len() as u64)
    );
    encoder.encode(RecordRef::OpenScopes(&open), &mut file);
    assert_eq!(encoder.index().records, 5);

    let decoded = decode(&file, 100).unwrap();
    assert!(decoded.damage.is_empty() && decoded.refused.is_empty());
    assert_eq!(decoded.missing_records, 0);
    let records: Vec<_> = decoded
        .records
        .into_iter()
        .filter_map(|found| found.record)
        .collect();
    let again = || Record::OpenScopes(open.clone());
    let site = Record::Sites {
        first: SiteId(3),
        sites: vec![site],
    };
    let thread = Record::Threads {
        first: ThreadId(7),
        threads: vec![thread],
    };
    assert_eq!(records, [again(), site, thread, again(), again()]);
}

#[test]
fn a_declaration_with_longer_texts_than_fit_is_not_written() {
    let mut notes = NoteWriter::default();
    // The other texts, and two names of arguments with ten bytes each for their lengths.
    let rest = "modulefile.rscategory".len() + 2 * (100 + 10);
    for (bytes, fits) in [(MAX_BYTES - rest, true), (MAX_BYTES - rest + 1, false)] {
        let site = site(bytes, &[100, 100]);
        assert_eq!(notes.site((1, 2), SiteId(1), &site).is_some(), fits);
    }
    for (bytes, fits) in [(MAX_BYTES, true), (MAX_BYTES + 1, false)] {
        assert_eq!(
            notes.thread((1, 2), ThreadId(1), &thread(bytes)).is_some(),
            fits
        );
    }
}

#[test]
fn fast_compression_starts_at_larger_records() {
    let open = |scopes: usize| {
        filled!(OpenScopes {
            ticks: 0,
            threads: vec![(ThreadId(1), vec![(SiteId(1), 0); scopes])],
        })
    };
    let codecs = |compression| {
        let mut encoder = Encoder::new(HEADER);
        encoder.set_compression(compression);
        [20, 21, 22, 100, 253, 254, 255].map(|scopes| {
            let mut record = Vec::new();
            encoder.encode(RecordRef::OpenScopes(&open(scopes)), &mut record);
            RecordHead::parse(&HEADER, &record).unwrap().codec
        })
    };
    // Four bytes, or five from 128 scopes on, and two for each scope: 48 and 512 bytes decide.
    assert_eq!(codecs(Compression::Usual), [0, 0, 1, 1, 1, 1, 1]);
    assert_eq!(codecs(Compression::Fast), [0, 0, 0, 0, 0, 1, 1]);
}
