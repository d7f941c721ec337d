//! Bad input gets one line on stderr that names the thing and says what is wrong, and exit code 2.

use std::path::{Path, PathBuf};

use crate::command::recording::recording;
use crate::command::{Run, made, run, v2, vor};

const COMMANDS: [(&str, &[&str]); 8] = [
    ("info", &[]),
    ("stats", &[]),
    ("frames", &[]),
    ("tail", &["--once"]),
    ("check", &[]),
    ("export", &["--to", "chrome"]),
    ("locks", &[]),
    ("waits", &[]),
];

/// Writes a file and asserts that every command refuses it.
fn assert_refused(name: &str, bytes: &[u8], found: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    for (command, options) in COMMANDS {
        let run = run(command, &path, options);
        let line = run.refusal();
        assert!(line.contains(name), "{command}: {line}");
        assert!(line.contains(found), "{command}: {line}");
    }
    let whole = &recording().path;
    for pair in [[&path, whole], [whole, &path]] {
        let run = Run::from(vor().arg("diff").args(pair).output().unwrap());
        let line = run.refusal();
        assert!(line.contains(name) && line.contains(found), "diff: {line}");
    }
}

#[test]
fn files_that_are_not_captures() {
    assert_refused(
        "text.vor",
        b"name,value\n1,2\n",
        "not a vor capture: it starts with \"name\"",
    );
    assert_refused("empty.vor", b"", "not a vor capture: the file is empty");
    assert_refused(
        "short.vor",
        b"VOR1\x03\x00\x2c",
        "the capture ends after 7 bytes, within its header",
    );
    let mut newer = recording().bytes.clone();
    newer[4] = 9;
    assert_refused("newer.vor", &newer, "the capture has version 9");
    let mut header = recording().bytes.clone();
    header[12] ^= 1;
    assert_refused("header.vor", &header, "checksum");
}

#[test]
fn missing_files() {
    let folder = tempfile::tempdir().unwrap();
    for (command, options) in COMMANDS {
        let missing: PathBuf = folder.path().join("missing.vor");
        let run_missing = run(command, &missing, options);
        assert!(run_missing.refusal().contains("missing.vor"), "{command}");
        let run_folder = run(command, folder.path(), options);
        assert!(
            run_folder.refusal().contains("no capture (*.vor) is there"),
            "{command}: {run_folder:?}"
        );
    }
}

#[test]
fn captures_without_frames() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("begun.vor");
    // A header alone: the program has only just started.
    std::fs::write(&path, &recording().bytes[..44]).unwrap();
    let info = run("info", &path, &["--json"]).json();
    assert_eq!(
        (&info["frames"], &info["closed"]),
        (&0.into(), &false.into())
    );
    assert_eq!(run("check", &path, &[]).code, 0);
    let csv: (&str, &[&str]) = ("export", &["--to", "csv"]);
    let metrics: (&str, &[&str]) = ("export", &["--to", "metrics-csv"]);
    for (command, options) in [COMMANDS[1], COMMANDS[2], COMMANDS[3], COMMANDS[5], metrics] {
        let run = run(command, &path, options);
        assert!(run.refusal().contains("no frames"), "{command}: {run:?}");
    }
    for (command, options) in [COMMANDS[1], csv] {
        let metrics_only = run(command, &v2("metrics_only.vor"), options);
        let line = metrics_only.refusal();
        assert!(line.contains("no spans in 60 frames"), "{line}");
    }
}

#[test]
fn exports_of_captures_without_spans_report_it_where_only_spans_would_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let begun = folder.path().join("begun.vor");
    std::fs::write(&begun, &recording().bytes[..44]).unwrap();
    let frames = folder.path().join("frames.vor");
    made::capture(&frames, &[made::scope("request", 1, 1)], 60, 0, 1);
    let out = folder.path().join("out");
    for to in ["collapsed", "pprof", "speedscope", "csv"] {
        let cases: [(&Path, &[&str], &str); 4] = [
            (&v2("metrics_only.vor"), &[], "no spans in 60 frames: "),
            (&frames, &[], "no spans in 60 frames: "),
            (&frames, &["--frames", "3..5"], "no spans in 2 frames: "),
            (&begun, &[], "no spans: "),
        ];
        for (path, options, found) in cases {
            let options = [&["--to", to, "-o", out.to_str().unwrap()], options].concat();
            let run = run("export", path, &options);
            let line = run.refusal();
            assert!(line.contains(found), "{to}: {line}");
            assert!(line.contains("VOR_RECORD_SPANS=1"), "{to}: {line}");
            assert!(!out.exists(), "{to}: {options:?}");
        }
    }
    for to in ["chrome", "perfetto", "firefox", "metrics-csv"] {
        let path = v2("metrics_only.vor");
        let run = run("export", &path, &["--to", to, "-o", out.to_str().unwrap()]);
        assert_eq!(run.code, 0, "{to}: {run:?}");
        let bytes = std::fs::read(&out).unwrap();
        assert!(bytes.len() > 1_000, "{to}: the metrics are there");
        std::fs::remove_file(&out).unwrap();
    }
}

#[test]
fn names_and_ranges_that_do_not_exist() {
    let path = &recording().path;
    let cases: [(&[&str], &str); 8] = [
        (&["--name", "nothing of the kind"], "`step`"),
        (&["--thread", "nobody"], "`worker-1`"),
        (
            &["--frames", "60..70"],
            "no frame in 60..70: the capture has frames 0..60",
        ),
        (&["--frames", "9..3"], "`9..3` contains no frame"),
        (&["--frames", "first"], "`first` is not a range of frames"),
        (&["--sort", "colour"], "choose one of self, total, mean"),
        (&["--corrected=much"], "`much` is neither"),
        (&["--colour"], "--colour"),
    ];
    for (options, found) in cases {
        let run = run("stats", path, options);
        assert!(run.refusal().contains(found), "{options:?}: {run:?}");
    }
    let range = run("export", path, &["--to", "csv", "--frames", "1000.."]);
    assert!(
        range
            .refusal()
            .contains("no frame in 1000..: the capture has"),
        "{range:?}"
    );
    let format = run("export", path, &["--to", "svg"]);
    assert!(format.refusal().contains("chrome"), "{format:?}");
}

#[test]
fn arguments_that_make_no_sense() {
    let cases: [(&[&str], &str); 9] = [
        (
            &["statistics"],
            "unknown command `statistics`; did you mean `stats`? There are info, ",
        ),
        (&["stats"], "<FILE> is missing"),
        (&["stats", "a.vor", "b.vor"], "unexpected argument `b.vor`"),
        (&["stats", "--colour", "a.vor"], "unknown option `--colour`"),
        (
            &["stats", "a.vor", "--sort"],
            "--sort <COLUMN> needs a value",
        ),
        (&["export", "a.vor"], "--to or -o is missing"),
        (
            &["export", "--to", "svg", "a.vor"],
            "--to <FORMAT>: unknown value `svg`; choose one of chrome, perfetto, firefox, \
            speedscope, collapsed, pprof, csv, metrics-csv",
        ),
        (
            &["frames", "--slowest", "0", "a.vor"],
            "`0` is not a number from 1 to 100000",
        ),
        (
            &["tail", "-n", "few", "a.vor"],
            "`few` is not a whole number",
        ),
    ];
    for (arguments, said) in cases {
        let run = Run::from(vor().args(arguments).output().unwrap());
        let line = run.refusal();
        assert!(line.contains(said), "{arguments:?}: {line}");
    }
}

#[test]
fn other_mistakes_have_the_first_sentence_of_the_parser() {
    let run = Run::from(
        vor()
            .args(["tail", "--once", "--wait", "a.vor"])
            .output()
            .unwrap(),
    );
    assert_eq!(
        run.refusal(),
        "vor: the argument '--once' cannot be used with '--wait'"
    );
    // Without a command, there is help instead.
    let help = Run::from(vor().output().unwrap());
    assert_eq!((help.code, help.stdout.as_str()), (2, ""));
    assert!(help.stderr.contains("Usage: vor <COMMAND>"), "{help:?}");
    for option in ["--help", "--version"] {
        let shown = Run::from(vor().arg(option).output().unwrap());
        assert_eq!((shown.code, shown.stderr.as_str()), (0, ""), "{option}");
        assert!(shown.stdout.contains("vor"), "{shown:?}");
    }
}

/// Opening it would wait for a writer, and there is none.
#[cfg(unix)]
#[test]
fn a_pipe_is_refused_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .unwrap();
    assert!(made.success());
    for (command, options) in COMMANDS
        .into_iter()
        .filter(|(command, _)| *command != "tail")
    {
        let run = run(command, &path, options);
        assert!(
            run.refusal().contains("it is a pipe or a device"),
            "{command}: {run:?}"
        );
    }
}

#[test]
fn an_unknown_command_gets_the_list_of_commands() {
    let said = Run::from(vor().arg("foo").output().unwrap());
    let line = said.refusal();
    let help = Run::from(vor().arg("--help").output().unwrap()).stdout;
    let commands = help.split_once("Commands:").unwrap().1;
    let commands = commands.split("Options:").next().unwrap();
    let names = commands.lines().filter_map(|line| line.strip_prefix("  "));
    let names: Vec<&str> = names
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"heap") && names.len() > 8, "{names:?}");
    for name in names {
        assert!(line.contains(name), "`{name}` is missing in: {line}");
    }
}

#[test]
fn a_label_that_no_scope_has_is_refused() {
    let path = &recording().path;
    let line = run("export", path, &["--to", "pprof", "--label", "nope"])
        .refusal()
        .to_owned();
    assert!(
        line.contains("--label: no argument is called `nope`"),
        "{line}"
    );
    assert!(line.contains("`frame`"), "{line}");
    let fine = run(
        "export",
        path,
        &["--to", "pprof", "-o", "/dev/null", "--label", "frame"],
    );
    assert_eq!((fine.code, fine.stderr.as_str()), (0, ""));
}

#[test]
fn an_optional_value_does_not_take_the_name_of_the_file() {
    let path = &recording().path;
    let output = vor()
        .args(["stats", "--corrected"])
        .arg(path)
        .output()
        .unwrap();
    let said = Run::from(output);
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.stdout.contains("corrected for"), "{said:?}");
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let path = &recording().path;
    for (options, word) in [
        (&["--to", "metrics-csv", "--min-us", "5"][..], "--min-us"),
        (&["--to", "metrics-csv", "--name", "step"], "--name"),
        (&["--to", "metrics-csv", "--thread", "driver"], "--thread"),
        (&["--to", "chrome", "--label", "frame"], "--label"),
        #[cfg(feature = "parquet")]
        (&["--to", "chrome", "--table", "spans"], "--table"),
    ] {
        let line = run("export", path, options).refusal().to_owned();
        assert!(line.contains(word), "{options:?}: {line}");
    }
}

/// Damage may have taken the declaration of every frame set.
#[test]
fn a_frame_set_of_a_capture_that_declares_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("header.vor");
    std::fs::write(&path, &recording().bytes[..44]).unwrap();
    let run = run("frames", &path, &["--frame-set", "physics"]);
    assert!(run.refusal().contains("no frame set"), "{run:?}");
}
