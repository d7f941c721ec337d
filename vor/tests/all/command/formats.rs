//! Every format of `vor export`, as far as the command takes part. Other checks run the viewers on
//! the exporters' output.

use std::collections::HashMap;

use serde_json::Value;

#[cfg(feature = "parquet")]
use crate::command::TABLES;
use crate::command::recording::recording;
#[cfg(feature = "parquet")]
use crate::command::{drafts, v2};
use crate::command::{export, run};

fn exported(to: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = export(&recording().path, to, &out, &[]);
    assert_eq!(run.code, 0, "{to}: {run:?}");
    std::fs::read(out).unwrap()
}

#[test]
fn a_perfetto_trace_has_the_name_of_every_scope() {
    let trace = exported("perfetto");
    // The first field of `Trace` is `packet`, and the first field of the packet is its sequence.
    assert_eq!((trace[0], trace[2]), (0x0a, 0x50));
    let recording = recording();
    for span in &recording.spans {
        let name = span.name.as_bytes();
        assert!(
            trace.windows(name.len()).any(|part| part == name),
            "{}",
            span.name
        );
    }
}

#[test]
fn collapsed_stacks_have_the_self_times_of_all_spans() {
    let text = String::from_utf8(exported("collapsed")).unwrap();
    let mut by_leaf: HashMap<&str, i64> = HashMap::new();
    for line in text.lines() {
        let (stack, ns) = line.rsplit_once(' ').unwrap();
        let leaf = stack.rsplit(';').next().unwrap();
        *by_leaf.entry(leaf).or_default() += ns.parse::<i64>().unwrap();
    }
    let stats = run("stats", &recording().path, &["--json"]).json();
    let scopes = stats["scopes"].as_array().unwrap();
    assert!(scopes.len() > 2);
    let mut expected: HashMap<&str, i64> = HashMap::new();
    for scope in scopes {
        *expected.entry(scope["name"].as_str().unwrap()).or_default() +=
            scope["self_ns"].as_i64().unwrap();
    }
    expected.retain(|_, ns| *ns > 0);
    by_leaf.retain(|_, ns| *ns > 0);
    assert_eq!(by_leaf, expected);
}

#[test]
fn a_pprof_profile_is_gzipped_and_labels_are_its_own_option() {
    let recording = recording();
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pb.gz");
    let mut options = vec!["--to", "pprof", "-o", out.to_str().unwrap()];
    assert_eq!(run("export", &recording.path, &options).code, 0);
    let plain = std::fs::read(&out).unwrap();
    assert_eq!(plain[..3], [0x1f, 0x8b, 8]);
    options.extend(["--label", "frame", "--label", "item"]);
    assert_eq!(run("export", &recording.path, &options).code, 0);
    assert!(std::fs::read(&out).unwrap().starts_with(&plain[..3]));
    options.extend(["--name", "no such scope"]);
    assert!(
        run("export", &recording.path, &options)
            .refusal()
            .contains("no such scope")
    );
    let refused = run("export", &recording.path, &["--to", "csv", "--label", "n"]);
    assert!(
        refused.refusal().contains("--label needs --to pprof"),
        "{refused:?}"
    );
}

#[test]
fn profiles_are_whole_json() {
    let speedscope: Value = serde_json::from_slice(&exported("speedscope")).unwrap();
    assert!(
        speedscope["$schema"]
            .as_str()
            .unwrap()
            .contains("speedscope")
    );
    assert!(!speedscope["profiles"].as_array().unwrap().is_empty());
    let firefox: Value = serde_json::from_slice(&exported("firefox")).unwrap();
    assert!(!firefox["threads"].as_array().unwrap().is_empty());
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_a_file_of_one_table_or_a_folder_of_all() {
    for table in TABLES {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out.parquet");
        let exported = export(&recording().path, "parquet", &out, &["--table", table]);
        assert_eq!(exported.code, 0);
        let bytes = std::fs::read(&out).unwrap();
        assert!(
            bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"),
            "{table}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("data");
    let mut options = vec!["--to", "parquet", "-o", out.to_str().unwrap()];
    options.extend(["--partition", "host", "--host", "web-17"]);
    assert_eq!(run("export", &recording().path, &options).code, 0);
    for table in TABLES {
        let files = std::fs::read_dir(out.join(table).join("host=web-17")).unwrap();
        assert_eq!(files.count(), 1, "{table}");
    }
    options[1] = "csv";
    let refused = run("export", &recording().path, &options);
    assert!(
        refused.refusal().contains("need --to parquet"),
        "{refused:?}"
    );
    options[1] = "parquet";
    options[5] = "planet";
    let refused = run("export", &recording().path, &options);
    assert!(refused.refusal().contains("`planet`"), "{refused:?}");
}

/// A text of a column is in the file as it is, at least among the column's statistics.
#[cfg(feature = "parquet")]
#[test]
fn the_version_of_the_program_is_in_every_table() {
    const VERSION: &str = "of-version-9.8.7";
    let has_version = |path: &std::path::Path| {
        let bytes = std::fs::read(path).unwrap();
        let version = VERSION.as_bytes();
        bytes.windows(version.len()).any(|part| part == version)
    };
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.parquet");
    for table in TABLES {
        let mut options = vec!["--to", "parquet", "--table", table];
        options.extend(["-o", out.to_str().unwrap()]);
        assert_eq!(run("export", &recording().path, &options).code, 0);
        assert!(!has_version(&out), "{table}");
        options.extend(["--program-version", VERSION]);
        assert_eq!(run("export", &recording().path, &options).code, 0);
        assert!(has_version(&out), "{table}");
    }
    // It is not taken for the host.
    let out = folder.path().join("data");
    let mut options = vec!["--to", "parquet", "-o", out.to_str().unwrap()];
    options.extend(["--partition", "host", "--host", "web-17"]);
    options.extend(["--program-version", VERSION]);
    assert_eq!(run("export", &recording().path, &options).code, 0);
    for table in TABLES {
        let files = std::fs::read_dir(out.join(table).join("host=web-17")).unwrap();
        for file in files {
            assert!(has_version(&file.unwrap().path()), "{table}");
        }
    }
    let options = ["--to", "csv", "--program-version", VERSION];
    let refused = run("export", &recording().path, &options);
    assert!(
        refused.refusal().contains("need --to parquet"),
        "{refused:?}"
    );
}

#[cfg(feature = "parquet")]
#[test]
fn only_tables_of_spans_need_spans() {
    let folder = tempfile::tempdir().unwrap();
    let (path, out) = (v2("metrics_only.vor"), folder.path().join("out.parquet"));
    for table in ["spans", "sketches"] {
        let refused = export(&path, "parquet", &out, &["--table", table]);
        assert!(
            refused.refusal().contains("no spans in 60 frames"),
            "{table}: {refused:?}"
        );
        assert!(!out.exists());
    }
    let metrics = export(&path, "parquet", &out, &["--table", "metrics"]);
    assert_eq!((metrics.code, metrics.stderr.as_str()), (0, ""));
    let data = folder.path().join("data");
    let all = export(&path, "parquet", &data, &["--partition", "date"]);
    assert_eq!((all.code, all.stderr.as_str()), (0, ""));
    assert_eq!(names(&data), ["metrics"]);
}

/// Returns the names in a folder.
#[cfg(feature = "parquet")]
fn names(folder: &std::path::Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[cfg(feature = "parquet")]
#[test]
fn rows_name_their_machine() {
    use vor_capture::model::catalog::Catalog;

    let folder = tempfile::tempdir().unwrap();
    let path = drafts::put(folder.path(), "run.vor", &drafts::write_shop().close());
    let mut draft = drafts::Draft::new(vor_capture::filled!(Catalog {
        machine: std::sync::Arc::default(),
        ..drafts::shop()
    }));
    draft.batch(vec![drafts::thread(0, &[(1_000, 500, 2)])]);
    let unknown = drafts::put(folder.path(), "unknown.vor", &draft.close());
    let out = folder.path().join("out.parquet");
    let hosts = |path, options: &[&str]| {
        let exported = export(path, "parquet", &out, options);
        assert_eq!(exported.code, 0, "{exported:?}");
        let bytes = std::fs::read(&out).unwrap();
        let has = |host: &&str| {
            let host = host.as_bytes();
            bytes.windows(host.len()).any(|part| part == host)
        };
        let hosts = ["web-1", "another host", "unknown"].into_iter();
        hosts.filter(has).collect::<Vec<_>>()
    };
    let version = ["--program-version", "1.2"];
    let named = ["--host", "another host", "--program-version", "1.2"];
    assert_eq!(hosts(&path, &version), ["web-1"]);
    assert_eq!(hosts(&path, &named), ["another host"]);
    assert_eq!(hosts(&unknown, &version), ["unknown"]);
}

#[cfg(feature = "parquet")]
#[test]
fn a_data_set_takes_a_capture_again_and_is_in_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = drafts::put(folder.path(), "run.vor", &drafts::write_shop().close());
    let data = folder.path().join("data");
    let options = ["--partition", "host,date", "-o", data.to_str().unwrap()];
    for _ in 0..2 {
        let exported = run("export", &path, &options);
        assert_eq!((exported.code, exported.stderr.as_str()), (0, ""));
        assert_eq!(names(&data), ["metrics", "sketches", "spans"]);
        for table in TABLES {
            let files = data.join(table).join("host=web-1/date=2023-11-14");
            assert_eq!(names(&files), ["run-4711-1700000000000.parquet"]);
        }
    }
    let empty = run(
        "export",
        &path,
        &["--partition", " ,", options[2], options[3]],
    );
    assert_eq!(
        empty.refusal(),
        "vor: --partition is empty; choose `host`, `date` or both"
    );
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let refused = run(
        "export",
        &path,
        &["--partition", "date", "-o", file.to_str().unwrap()],
    );
    assert_eq!(
        refused.refusal(),
        format!(
            "vor: {}: a file; name a folder for the tables",
            file.display()
        )
    );
}
