//! The shortest line that a person may type, and a line with a typing mistake.

use crate::command::recording::recording;
use crate::command::{Run, run, vor};

#[test]
fn the_ending_of_the_output_chooses_the_format() {
    let folder = tempfile::tempdir().unwrap();
    let path = &recording().path;
    for (name, format) in [
        ("trace.json", "chrome"),
        ("trace.pftrace", "perfetto"),
        ("trace.perfetto-trace", "perfetto"),
        ("Profile.Firefox.JSON", "firefox"),
        ("profile.speedscope.json", "speedscope"),
        ("profile.folded", "collapsed"),
        ("profile.pb.gz", "pprof"),
        ("spans.csv", "csv"),
        ("frames.metrics.csv", "metrics-csv"),
        #[cfg(feature = "parquet")]
        ("spans.parquet", "parquet"),
    ] {
        let written = |name: &str, options: &[&str]| {
            let out = folder.path().join(name);
            let options = [options, &["-o", out.to_str().unwrap()]].concat();
            let run = run("export", path, &options);
            assert_eq!(run.code, 0, "{name}: {run:?}");
            std::fs::read(out).unwrap()
        };
        let expected = written("expected", &["--to", format]);
        assert!(written(name, &[]) == expected, "{name}");
    }
}

#[test]
fn an_ending_without_a_format_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = &recording().path;
    let out = folder.path().join("spans.xlsx");
    let refused = run("export", path, &["-o", out.to_str().unwrap()]);
    let line = refused.refusal();
    assert!(line.contains("spans.xlsx") && line.contains("--to") && line.contains(".pftrace"));
    assert!(!out.exists());
    assert!(run("export", path, &[]).refusal().contains("--to or -o"));
}

#[cfg(not(feature = "parquet"))]
#[test]
fn a_command_without_parquet_says_how_to_get_it() {
    let path = &recording().path;
    for options in [&["--to", "parquet"][..], &["-o", "spans.parquet"]] {
        let refused = run("export", path, options);
        assert!(refused.refusal().contains("--features cli,parquet"));
    }
}

#[test]
fn a_file_alone_is_described() {
    let path = &recording().path;
    let alone = Run::from(vor().arg(path).output().unwrap());
    let info = run("info", path, &[]);
    assert_eq!((alone.code, &alone.stdout), (0, &info.stdout));
    assert!(alone.stderr.contains("vor stats"), "{alone:?}");
    let json = Run::from(vor().arg(path).arg("--json").output().unwrap());
    assert_eq!(json.stderr, "");
    assert_eq!(json.json()["frames"], 60);
    let missing = Run::from(vor().arg("missing.vor").output().unwrap());
    assert!(missing.refusal().contains("missing.vor"));
}

#[test]
fn a_typing_mistake_gets_the_name_that_was_meant() {
    let path = &recording().path;
    for (command, options, meant) in [
        ("stat", &[][..], "did you mean `stats`?"),
        ("stats", &["--jsn"], "did you mean `--json`?"),
        ("stats", &["--name", "decoed"], "did you mean `decode`?"),
        (
            "stats",
            &["--thread", "Worker-2"],
            "did you mean `worker-2`?",
        ),
        (
            "export",
            &["--to", "csv", "--name", "stp"],
            "did you mean `step`?",
        ),
        (
            "export",
            &["--to", "pprof", "--label", "fram"],
            "did you mean `frame`?",
        ),
        (
            "frames",
            &["--frame-set", "physic"],
            "did you mean `physics`?",
        ),
        ("man", &[], "no command is called"),
    ] {
        let refused = run(command, path, options);
        let line = refused.refusal();
        assert!(line.contains(meant), "{command} {options:?}: {line}");
    }
}

#[test]
fn every_list_has_a_limit() {
    let path = &recording().path;
    let stats = run("stats", path, &["--json", "-n", "2"]).json();
    let all = run("stats", path, &["--json"]).json();
    let (first, all) = (stats["scopes"].as_array(), all["scopes"].as_array());
    let (first, all) = (first.unwrap(), all.unwrap());
    assert!(all.len() > 2);
    assert_eq!(first[..], all[..2]);
    let frames = run("frames", path, &["--json", "--limit", "7"]).json();
    let all = run("frames", path, &["--json"]).json();
    assert_eq!(frames["frames"].as_array().unwrap().len(), 7);
    assert_eq!(frames["frames"][6], all["frames"][6]);
    assert_eq!(run("frames", path, &["-n", "0"]).code, 2);
}

#[test]
fn stats_select_scopes_and_threads_by_several_globs() {
    let path = &recording().path;
    let names = |options: &[&str]| -> Vec<String> {
        let json = run("stats", path, &[&["--json"], options].concat()).json();
        let scopes = json["scopes"].as_array().unwrap().iter();
        let mut names: Vec<String> = scopes
            .map(|scope| scope["name"].as_str().unwrap().to_owned())
            .collect();
        names.sort_unstable();
        names
    };
    let all = names(&[]);
    let chosen = names(&["--name", "deco*", "--name", "st?p"]);
    let expected: Vec<String> = all
        .iter()
        .filter(|name| name.starts_with("deco") || *name == "step")
        .cloned()
        .collect();
    assert_eq!(chosen, expected);
    let spans = |options: &[&str]| {
        run("stats", path, &[&["--json"], options].concat()).json()["spans"].as_u64()
    };
    let (one, two) = (
        spans(&["--thread", "worker-1"]),
        spans(&["--thread", "worker-2"]),
    );
    let both = spans(&["--thread", "worker-1", "--thread", "worker-2"]);
    assert_eq!(both, Some(one.unwrap() + two.unwrap()));
    assert!(spans(&["--thread", "worker-*"]) >= both);
}

#[test]
fn shells_and_man_get_every_command() {
    let run = |args: &[&str]| Run::from(vor().args(args).output().unwrap());
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let completions = run(&["completions", shell]);
        assert_eq!((completions.code, completions.stderr.as_str()), (0, ""));
        for word in ["stats", "export", "--slowest", "--frame-set"] {
            let word = match shell {
                "fish" => word.trim_start_matches('-'),
                _ => word,
            };
            assert!(completions.stdout.contains(word), "{shell}: {word}");
        }
    }
    assert!(run(&["man"]).stdout.contains("stats"));
    let page = run(&["man", "stats"]).stdout;
    assert!(
        page.starts_with(".ie") && page.contains("vor\\-stats"),
        "{page}"
    );
    assert!(page.contains("corrected"));
}
