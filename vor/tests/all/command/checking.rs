//! `vor check`: the whole text and the whole JSON.

use serde_json::json;
use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, SegmentInfo};
use vor_capture::units;
use vor_fixtures::captures::record_offsets;
use vor_fixtures::sealed::{Sealed, kind};

use crate::command::drafts::{Draft, contradict, damage, frame, put, shop, thread, write_shop};
use crate::command::{run, v2};

#[test]
fn the_state_of_a_capture_is_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let closed = write_shop().close();
    let path = put(folder.path(), "run.vor", &closed);
    let name = path.display();
    let check = run("check", &path, &[]);
    assert_eq!((check.code, check.stderr.as_str()), (0, ""));
    assert_eq!(check.stdout, format!("{name}: ok, 3 frames, 8 spans\n"));

    put(folder.path(), "run.vor", &write_shop().bytes());
    let check = run("check", &path, &[]);
    assert_eq!((check.code, check.stderr.as_str()), (0, ""));
    assert_eq!(
        check.stdout,
        format!(
            "{name}: ok, 3 frames, 8 spans; not closed: the program still records, or it was \
            killed\n"
        )
    );
    let json: serde_json::Value =
        serde_json::from_str(&run("check", &path, &["--json"]).stdout).unwrap();
    assert_eq!(
        json,
        json!({
            "file": name.to_string(), "version": 3, "ok": true, "closed": false, "frames": 3,
            "incomplete_frames": 0, "spans": 8, "dropped_spans": 0,
            "damage": { "count": 0, "bytes": 0, "losses": [], "tail": null },
        })
    );

    let old = v2("flame.vor");
    let check = run("check", &old, &[]);
    assert_eq!((check.code, check.stdout.lines().count()), (0, 2));
    assert!(
        check.stdout.ends_with(
            "\n  version 2 has no checksums: wrong values that can be decoded are not found\n"
        ),
        "{check:?}"
    );
}

#[test]
fn each_loss_has_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let mut bytes = write_shop().close();
    let (begin, length) = damage(&mut bytes, kind::BATCH, 1);
    let path = put(folder.path(), "run.vor", &bytes);
    let name = path.display();
    let check = run("check", &path, &["--json"]);
    assert_eq!((check.code, check.stderr.as_str()), (1, ""));
    let json: serde_json::Value = serde_json::from_str(&check.stdout).unwrap();
    // The bytes that no record has, and the record that is missing therefore.
    let reason = |at: usize| json["damage"]["losses"][at]["reason"].as_str().unwrap();
    assert_eq!(
        json,
        json!({
            "file": name.to_string(), "version": 3, "ok": false, "closed": true, "frames": 3,
            "incomplete_frames": 1, "spans": 5, "dropped_spans": 0,
            "damage": {
                "count": 2, "bytes": length, "tail": null,
                "losses": [
                    { "offset": begin, "bytes": length, "reason": reason(0) },
                    { "offset": begin + length, "bytes": 0, "reason": reason(1) },
                ],
            },
        })
    );
    let check = run("check", &path, &[]);
    assert_eq!(check.code, 1, "{check:?}");
    assert_eq!(
        check.stdout,
        format!(
            "{name}: DAMAGED, 3 frames, 5 spans\n  1 frame with lost records\n  \
            at byte {begin}, {}: {}\n  at byte {}, 0 B: {}\n",
            units::bytes(length as u64),
            reason(0),
            begin + length,
            reason(1)
        )
    );

    // The last record of a file that is not closed ends too early.
    let mut torn = write_shop().bytes();
    let ends = record_offsets(&torn);
    torn.pop();
    let (begin, length) = (ends[ends.len() - 2], torn.len() - ends[ends.len() - 2]);
    put(folder.path(), "run.vor", &torn);
    let check = run("check", &path, &[]);
    assert_eq!(check.code, 1, "{check:?}");
    let length = units::bytes(length as u64);
    let expected = format!("{name}: DAMAGED, 3 frames, 7 spans\n  at byte {begin}, {length}: ");
    assert!(check.stdout.starts_with(&expected), "{check:?}");
    assert_eq!(check.stdout.lines().count(), 2, "{check:?}");
}

#[test]
fn frames_without_their_records_are_damage_also_where_no_byte_is() {
    let folder = tempfile::tempdir().unwrap();
    let mut sealed = Sealed::of(&write_shop().close());
    contradict(&mut sealed, &[11, 12]);
    let path = put(folder.path(), "run.vor", &sealed.bytes());
    let check = run("check", &path, &[]);
    assert_eq!((check.code, check.stderr.as_str()), (1, ""));
    assert_eq!(
        check.stdout,
        format!(
            "{}: DAMAGED, 3 frames, 8 spans\n  2 frames with lost records\n",
            path.display()
        )
    );
}

#[test]
fn losses_beyond_a_thousand_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut draft = Draft::new(shop());
    for index in 0..503 {
        let start = 1_000 * index;
        draft.batch(vec![thread(0, &[(start + 10, 500, 2)])]);
        draft.frame(frame(index, (start, start + 1_000), 1));
    }
    let mut bytes = draft.close();
    let ends = record_offsets(&bytes);
    let is_batch = |begin: &&usize| bytes.get(**begin + 12) == Some(&kind::BATCH);
    let batches: Vec<usize> = ends.iter().filter(is_batch).copied().collect();
    batches.iter().for_each(|begin| bytes[begin + 16] ^= 1);
    let path = put(folder.path(), "run.vor", &bytes);
    let check = run("check", &path, &[]);
    assert_eq!(check.code, 1, "{}", check.stderr);
    let lines: Vec<&str> = check.stdout.lines().collect();
    let head = format!("{}: DAMAGED, 503 frames, 0 spans", path.display());
    assert_eq!(
        lines[..2],
        [head.as_str(), "  503 frames with lost records"]
    );
    // Each batch is bytes that no record has, and a missing record.
    assert!(lines[1000].starts_with(&format!("  at byte {}, ", batches[499])));
    assert_eq!(lines[1002..], ["  and 6 more places"]);
}

#[test]
fn a_missing_segment_is_damage() {
    let folder = tempfile::tempdir().unwrap();
    let put_segment = |number: u64| {
        let segment = filled!(SegmentInfo { run: 5, number });
        let mut draft = Draft::new(filled!(Catalog {
            segment: Some(segment),
            ..shop()
        }));
        let start = 1_000 * number;
        draft.batch(vec![thread(0, &[(start + 10, 500, 2)])]);
        draft.frame(frame(number, (start, start + 1_000), 1));
        put(folder.path(), &format!("{number}.vor"), &draft.close());
    };
    let name = folder.path().display();
    put_segment(0);
    put_segment(2);
    let check = run("check", folder.path(), &[]);
    assert_eq!(
        (check.code, check.stderr.lines().count()),
        (1, 1),
        "{check:?}"
    );
    assert_eq!(
        check.stdout,
        format!("{name}: DAMAGED, 2 frames, 2 spans\n")
    );
    put_segment(1);
    let check = run("check", folder.path(), &[]);
    assert_eq!((check.code, check.stderr.as_str()), (0, ""));
    assert_eq!(check.stdout, format!("{name}: ok, 3 frames, 3 spans\n"));
}
