//! An error is of one kind, and its chain is that of the operating system's error.

#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::error::Error as _;
use std::{fmt, io};

use vor_capture::Error;
use vor_capture::format::Header;

#[derive(Debug)]
struct Cause;

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the disk is gone")
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&fmt::Error)
    }
}

#[test]
fn an_error_is_of_one_kind() {
    let decoded = |bytes: &[u8]| Header::decode(bytes).expect_err("no header");
    let errors = [
        (decoded(b"%PDF and so on"), "Corrupt"),
        (decoded(b"VOR1\x09\x00 and more"), "Version"),
        (Error::config("VOR_OUT is empty"), "Config"),
        (Error::io("open a.vor", io::Error::other(Cause)), "Io"),
        (Error::sink("full"), "Sink"),
    ];
    for (error, kind) in &errors {
        let kinds = [
            ("Corrupt", error.is_corrupt()),
            ("Version", error.is_version()),
            ("Config", error.is_config()),
            ("Io", error.is_io()),
            ("Sink", error.is_sink()),
        ];
        let true_kinds: Vec<_> = kinds
            .iter()
            .filter(|(_, is)| *is)
            .map(|(kind, _)| *kind)
            .collect();
        assert_eq!(true_kinds, [*kind]);
        assert_eq!(format!("{error:?}"), format!("Error({kind}: {error})"));
        assert_eq!(error.io_kind().is_some(), error.is_io());
    }
}

#[test]
fn the_source_of_a_refusal_follows_its_text() {
    let error = Error::io("open a.vor", io::Error::other(Cause));
    assert_eq!(error.to_string(), "open a.vor: the disk is gone");
    // The text has the refusal, so the chain goes on behind it.
    assert!(
        error
            .source()
            .is_some_and(|source| source.is::<fmt::Error>())
    );
    assert!(Error::sink("full").source().is_none());
}
