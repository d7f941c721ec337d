//! URLs, and what messages show of them.

use super::super::target::Target;

#[test]
fn urls_of_object_storages_are_accepted() {
    for (url, location) in [
        ("s3://bucket", "captures/a.vor"),
        ("s3://bucket/", "captures/a.vor"),
        ("s3://bucket/fleet/eu/", "fleet/eu/captures/a.vor"),
        ("s3a://bucket/fleet", "fleet/captures/a.vor"),
        ("gs://bucket/fleet", "fleet/captures/a.vor"),
        (
            "abfss://box@a.dfs.core.windows.net/fleet",
            "fleet/captures/a.vor",
        ),
        (
            "https://a.blob.core.windows.net/box/fleet",
            "fleet/captures/a.vor",
        ),
        ("file:///var/lib/fleet", "var/lib/fleet/captures/a.vor"),
    ] {
        let target = Target::open(url).unwrap();
        assert_eq!(target.shown, url.trim_end_matches('/'));
        let found = target.location("captures/a.vor").unwrap();
        assert_eq!(found.as_ref(), location, "{url}");
    }
    let target = Target::open("s3://bucket/fleet").unwrap();
    let error = target.location("captures//a.vor").unwrap_err();
    assert_eq!(
        error.to_string(),
        "s3://bucket/fleet/captures//a.vor: no name of an object"
    );
}

#[test]
fn other_urls_are_refused_in_one_line_without_secrets() {
    for (url, expected) in [
        (
            "s3://key:secret@bucket/x",
            "s3://bucket/x: the URL has a user or a query; ",
        ),
        (
            "s3://secret@bucket/x",
            "s3://bucket/x: the URL has a user or a query; ",
        ),
        (
            "https://a.blob.core.windows.net/c?sig=secret",
            "https://a.blob.core.windows.net/c: the URL has a user or a query; ",
        ),
        (
            "abfss://c:secret@a.dfs.core.windows.net/x",
            "abfss://c@a.dfs.core.windows.net/x: the URL has a user or a query; ",
        ),
        (
            "https://a.example:8443/x?sig=secret",
            "https://a.example:8443/x: the URL has a user or a query; ",
        ),
        (
            "https://example.org/x",
            "https://example.org/x: not an object storage; use s3://",
        ),
        (
            "ftp://example.org/x",
            "ftp://example.org/x: not an object storage; use s3://",
        ),
        ("memory:///", "memory://: not an object storage; use s3://"),
        (
            "captures/secret",
            "the URL of the object storage cannot be read; use s3://",
        ),
        (
            "",
            "the URL of the object storage cannot be read; use s3://",
        ),
    ] {
        let error = Target::open(url).unwrap_err();
        assert!(error.is_config());
        let line = error.to_string();
        assert!(line.starts_with(expected), "{url}: {line}");
        assert!(!line.contains("secret") && !line.contains('\n'), "{line}");
    }
}

#[test]
fn a_target_does_not_print_its_client() {
    let target = Target::open("s3://bucket/fleet").unwrap();
    assert_eq!(format!("{target:?}"), "Target(\"s3://bucket/fleet\")");
}
