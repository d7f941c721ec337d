//! `cargo vor` with a program in the place of cargo, which stores its arguments and writes the
//! capture that the recorder of a built program would write.
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::command::Run;
use crate::command::made::{capture, scope};

/// A folder with a capture and a program in place of cargo that runs `script`.
struct Place {
    folder: TempDir,
    cargo: PathBuf,
}

impl Place {
    fn new(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scopes = [scope("request", 10, 1_000), scope("parse", 20, 5_000)];
        capture(&folder.path().join("made.vor"), &scopes, 1, 20, 3);
        let cargo = folder.path().join("cargo");
        let given = r#"printf '%s\n' "$@" > arguments; env > environment"#;
        fs::write(&cargo, format!("#!/bin/sh\n{given}\n{script}\n")).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        Self { folder, cargo }
    }

    /// Runs `cargo vor`, with arguments separated by spaces.
    fn run(&self, arguments: &str) -> Run {
        self.run_with(arguments, &[])
    }

    fn run_with(&self, arguments: &str, variables: &[(&str, &str)]) -> Run {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-vor"));
        command
            .arg("vor")
            .args(arguments.split_whitespace())
            .current_dir(self.folder.path())
            .env("CARGO", &self.cargo)
            .env_remove("VOR_RECORD")
            .env_remove("VOR_RECORD_SPANS")
            .envs(variables.iter().copied());
        Run::from(command.output().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        // On macOS, temporary folders are behind a link.
        self.folder.path().canonicalize().unwrap().join(name)
    }

    /// What cargo was given.
    fn arguments(&self) -> String {
        fs::read_to_string(self.path("arguments"))
            .unwrap()
            .trim()
            .replace('\n', " ")
    }

    fn variable(&self, name: &str) -> String {
        let all = fs::read_to_string(self.path("environment")).unwrap();
        let value = all
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        value.unwrap().to_owned()
    }
}

const RECORDS: &str = r#"cp made.vor "$VOR_RECORD""#;

#[test]
fn the_options_of_cargo_reach_it() {
    let place = Place::new(RECORDS);
    for (given, expected) in [
        ("run", "run --profile release --"),
        (
            "run --bin b -- x --y",
            "run --bin b --profile release -- x --y",
        ),
        (
            "run --example e -p pack -F a,b --all-features --no-default-features",
            "run --example e --package pack --profile release --features a,b --all-features \
             --no-default-features --",
        ),
        (
            "run --test t --profile dev",
            "test --test t --profile dev --",
        ),
        ("run --bench n", "bench --bench n --"),
        (
            "bench n --manifest-path m/Cargo.toml",
            "bench --bench n --manifest-path m/Cargo.toml --",
        ),
    ] {
        let run = place.run(given);
        assert_eq!(run.code, 0, "{given}: {run:?}");
        assert_eq!(place.arguments(), expected, "{given}");
    }
}

#[test]
fn the_slowest_scopes_are_printed_and_the_capture_is_named() {
    let place = Place::new(RECORDS);
    let run = place.run("run --example e -n 1");
    assert_eq!(run.code, 0, "{run:?}");
    assert!(
        run.stdout.contains("parse") && !run.stdout.contains("\nrequest"),
        "{run:?}"
    );
    assert_eq!(
        run.stderr,
        "vor: the capture is e.vor; `vor view e.vor` shows it\n"
    );
    assert_eq!(
        Path::new(&place.variable("VOR_RECORD")),
        place.path("e.vor")
    );
    assert_eq!(place.variable("VOR_RECORD_SPANS"), "1");

    // Options and variables name other files, and the user's variables stay.
    let run = place.run_with("run -o other.vor", &[("VOR_RECORD_SPANS", "0")]);
    assert!(
        run.stderr.contains("other.vor") && place.path("other.vor").exists(),
        "{run:?}"
    );
    assert_eq!(place.variable("VOR_RECORD_SPANS"), "0");
    let run = place.run_with("run", &[("VOR_RECORD", "third.vor")]);
    assert!(
        run.stderr.contains("third.vor") && place.path("third.vor").exists(),
        "{run:?}"
    );
}

#[test]
fn a_program_that_fails_has_its_scopes_and_its_code() {
    let run = Place::new(&format!("{RECORDS}; exit 7")).run("run");
    assert_eq!(run.code, 7, "{run:?}");
    assert!(run.stdout.contains("parse"), "{run:?}");
    // A signal has no code.
    let run = Place::new(&format!("{RECORDS}; kill -9 $$")).run("run");
    assert_eq!(run.code, 2, "{run:?}");
    assert!(run.stdout.contains("parse"), "{run:?}");
    // A build that fails has neither. Cargo has said why.
    let run = Place::new("exit 101").run("run");
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (101, "", ""));
}

#[test]
fn a_program_that_records_nothing_is_told_how() {
    let place = Place::new("");
    // A capture of an earlier run is not taken for one of this run.
    fs::copy(place.path("made.vor"), place.path("run.vor")).unwrap();
    let run = place.run("run");
    let line = run.refusal();
    assert!(line.contains("run.vor was not written"), "{line}");
    assert!(line.contains("`vor::enable()`"), "{line}");
}

#[test]
fn other_commands_are_those_of_vor() {
    let place = Place::new("");
    let run = place.run("info made.vor");
    assert!(run.code == 0 && run.stdout.contains("made.vor"), "{run:?}");
    let run = place.run("rn");
    assert!(run.refusal().contains("unknown command `rn`"), "{run:?}");
    let run = place.run("run --exampl e");
    assert!(
        run.refusal().contains("did you mean `--example`?"),
        "{run:?}"
    );
}

#[test]
fn the_program_may_be_started_without_cargo_which_must_be_there() {
    let place = Place::new(RECORDS);
    let run = |cargo: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cargo-vor"));
        command.arg("run").current_dir(place.folder.path());
        Run::from(
            command
                .env("CARGO", cargo)
                .env_remove("VOR_RECORD")
                .output()
                .unwrap(),
        )
    };
    let recorded = run(&place.cargo);
    assert_eq!(recorded.code, 0, "{recorded:?}");
    assert_eq!(place.arguments(), "run --profile release --");
    let missing = run(Path::new("/nowhere/cargo"));
    assert_eq!(
        missing.refusal(),
        "vor: cannot start cargo: No such file or directory (os error 2)"
    );
}
