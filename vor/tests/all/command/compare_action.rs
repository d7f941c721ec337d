//! The action that compares the two sides of a pull request: its scripts in a local repository.

#![cfg(unix)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::command::made::{ScopeSpec, capture, scope};

const BEFORE: [ScopeSpec; 2] = [scope("request", 10, 500), scope("decode", 30, 5_000)];
const AFTER: [ScopeSpec; 2] = [scope("request", 11, 500), scope("decode", 31, 7_000)];

/// A repository whose program "records" a capture that was made before: the fast one in the first
/// commit, and the slow one in the second.
struct Repository {
    folder: tempfile::TempDir,
}

fn script(name: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    repository.join(".github/actions/compare").join(name)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Repository {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        capture(&folder.path().join("fast.vor"), &BEFORE, 60, 40, 1);
        capture(&folder.path().join("slow.vor"), &AFTER, 60, 40, 2);
        let this = Self { folder };
        fs::create_dir(this.tree()).unwrap();
        this.git(&["init", "-q"]);
        this.commit("fast.vor");
        this.commit("slow.vor");
        this
    }

    fn tree(&self) -> PathBuf {
        self.folder.path().join("tree")
    }

    fn git(&self, args: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let mut git = Command::new("git");
        let output = git.args(identity).args(args).current_dir(self.tree());
        let output = output.output().expect("git is installed");
        assert!(output.status.success(), "{output:?}");
    }

    fn commit(&self, name: &str) {
        let from = self.folder.path().join(name);
        let program = format!("cp '{}' \"$VOR_RECORD\"\n", from.display());
        fs::write(self.tree().join("program"), program).unwrap();
        self.git(&["add", "program"]);
        self.git(&["commit", "-q", "-m", name]);
    }

    fn compare(&self, options: &[&str]) -> Output {
        let mut command = Command::new(script("compare"));
        command
            .args(["--vor", env!("CARGO_BIN_EXE_vor")])
            .args(options);
        command.current_dir(self.tree()).output().unwrap()
    }
}

#[test]
fn a_slower_scope_is_in_the_comment_and_fails() {
    let repository = Repository::new();
    let same = ["--base", "HEAD^", "--command", "sh program"];
    let output = repository.compare(&[&same[..], &["--fail-above", "10"]].concat());
    let comment = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        comment.starts_with("<!-- vor compare -->\nAgainst `"),
        "{comment}"
    );
    assert!(comment.contains("fast.vor: a scope is slower by more than 10 %."));
    assert!(comment.contains("| **decode** | +"), "{comment}");
    let kept = repository.tree().join("vor-compare");
    assert_eq!(
        fs::read_to_string(kept.join("comment.md")).unwrap(),
        comment
    );
    assert!(kept.join("base.vor").exists() && kept.join("head.vor").exists());
    // The work tree of the base is gone.
    let trees = Command::new("git")
        .args(["worktree", "list"])
        .current_dir(repository.tree())
        .output()
        .unwrap();
    assert_eq!(text(&trees.stdout).lines().count(), 1);
    let lenient = repository.compare(&[&same[..], &["--fail-above", "90"]].concat());
    assert_eq!(lenient.status.code(), Some(0), "{lenient:?}");
    assert!(text(&lenient.stdout).contains("no scope is slower by more than 90 %."));
}

#[test]
fn mistakes_get_one_line() {
    let repository = Repository::new();
    for (options, said) in [
        (&["--command", "true"][..], "--base is missing"),
        (&["--base", "HEAD^"], "--command is missing"),
        (
            &["--base", "no-such", "--command", "true"],
            "no commit `no-such`",
        ),
        (
            &["--base", "HEAD^", "--command", "exit 7"],
            "ends with status 7",
        ),
        (
            &["--base", "HEAD^", "--command", "true"],
            "leaves no capture",
        ),
        (&["--colour", "red"], "unknown option `--colour`"),
        (&["--base"], "--base needs a value"),
    ] {
        let output = repository.compare(options);
        let line = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {output:?}");
        assert!(
            line.contains(said) && line.lines().count() == 1,
            "{options:?}: {line}"
        );
    }
}

/// A `gh` that keeps its comments in files.
const GH: &str = r#"#!/bin/sh
printf '%s\n' "$*" >>"$FOLDER/calls"
case "$*" in
*--jq*) [ ! -e "$FOLDER/comment" ] || echo 71 ;;
*) for word; do case $word in body=@*) cp "${word#body=@}" "$FOLDER/comment" ;; esac; done ;;
esac
"#;

#[test]
fn the_comment_is_made_once_and_then_updated() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("gh"), GH).unwrap();
    fs::set_permissions(path("gh"), fs::Permissions::from_mode(0o755)).unwrap();
    let search = std::env::var("PATH").unwrap();
    for text in ["first", "second"] {
        fs::write(path("body"), text).unwrap();
        let output = Command::new(script("comment"))
            .args(["owner/program", "12"])
            .arg(path("body"))
            .env("PATH", format!("{}:{search}", folder.path().display()))
            .env("FOLDER", folder.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(fs::read_to_string(path("comment")).unwrap(), text);
    }
    let calls = fs::read_to_string(path("calls")).unwrap();
    let made: Vec<&str> = calls.lines().filter(|call| call.contains("-X")).collect();
    assert_eq!(made.len(), 2);
    assert!(made[0].contains("-X POST repos/owner/program/issues/12/comments"));
    assert!(made[1].contains("-X PATCH repos/owner/program/issues/comments/71"));
}
