//! Arbitrary arguments: every command accepts them, or refuses them in words. The values are those
//! that people mistype: ranges, names with wildcards, numbers, labels and file names.

use proptest::prelude::*;
use proptest::sample::select;
use vor_fixtures::captures;
use vor_fixtures::mutation::mutate_any;
use vor_fixtures::random::Random;

use crate::command::{v2, vor};

/// Each command with its number of captures, and its options. `tail` waits for a capture that
/// grows, and `view` starts another program.
const COMMANDS: [(&str, usize, &[&str]); 10] = [
    ("info", 1, &[]),
    (
        "stats",
        1,
        &["--sort", "--frames", "--corrected", "--thread", "--name"],
    ),
    ("frames", 1, &["--slowest", "--frame-set"]),
    ("check", 1, &[]),
    (
        "export",
        1,
        &[
            "--to",
            "--output",
            "--frames",
            "--slowest",
            "--thread",
            "--name",
            "--min-us",
            "--label",
            "--table",
            "--partition",
            "--host",
            "--program-version",
        ],
    ),
    ("merge", 2, &["--output"]),
    (
        "diff",
        2,
        &[
            "--metric",
            "--fail-above",
            "--format",
            "--sort",
            "--limit",
            "--frames",
            "--name",
        ],
    ),
    ("locks", 1, &["--limit"]),
    ("waits", 1, &["--limit", "--name"]),
    ("heap", 1, &["--from", "--to", "--top", "--output"]),
];

/// Options without a value, and one that no command has.
const SWITCHES: [&str; 3] = ["--json", "--help", "--nope"];

/// The captures in the folder of the test, of which `lost.vor` does not exist.
const CAPTURES: [&str; 6] = [
    "marked.vor",
    "unmarked.vor",
    "kinds.vor",
    "damaged.vor",
    "old.vor",
    "lost.vor",
];

fn number() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<u64>().prop_map(|number| number.to_string()),
        any::<f64>().prop_map(|number| number.to_string()),
        (0_u64..40).prop_map(|number| number.to_string()),
        Just(u64::MAX.to_string()),
    ]
}

fn value() -> impl Strategy<Value = String> {
    let range = (number(), select(vec!["..", "..=", "…", ":"]), number());
    let words = select(vec![
        "*",
        "?*",
        "main",
        "work",
        "key=value",
        "=",
        "chrome",
        "perfetto",
        "csv",
        "json",
        "table",
        "out.json",
        "out.vor",
        "spans",
        "total",
        "name",
        "host=a",
        "0..",
        "..",
        "1..3",
        "",
    ]);
    prop_oneof![
        2 => number(),
        2 => range.prop_map(|(from, dots, to)| format!("{from}{dots}{to}")),
        6 => words.prop_map(str::to_owned),
        // Paths stay in the folder of the test.
        1 => any::<String>().prop_map(|text| text.replace(['/', '\\', '\0'], "_")),
    ]
}

/// A command with captures and up to two options, the last of which may lack its value.
fn arguments() -> impl Strategy<Value = Vec<String>> {
    let of_command = |(command, captures, options): (&'static str, usize, &[&'static str])| {
        let captures = proptest::collection::vec(select(CAPTURES.to_vec()), captures);
        let mut names = SWITCHES.to_vec();
        names.extend(options.iter().chain(options).chain(options));
        let options = proptest::collection::vec((select(names), value()), 0..3);
        (Just(command), captures, options, 0..8)
    };
    let parts = select(COMMANDS.to_vec()).prop_flat_map(of_command);
    parts.prop_map(|(command, captures, options, dice)| {
        let mut arguments = vec![command.to_owned()];
        arguments.extend(captures.into_iter().map(str::to_owned));
        for (option, value) in options {
            arguments.push(option.to_owned());
            if !SWITCHES.contains(&option) {
                arguments.push(value);
            }
        }
        if dice == 0 {
            arguments.pop();
        }
        arguments
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_arguments_are_accepted_or_refused_in_words(
        arguments in arguments(),
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let write = |name, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        let marked = captures::make(3, 20, 6, true);
        let kinds = captures::every_kind(7, true);
        let damaged = mutate_any(&mut Random(seed), &marked.bytes, &marked.records, &kinds);
        write("marked.vor", &marked.bytes);
        write("damaged.vor", &damaged.bytes);
        write("unmarked.vor", &captures::make_without_marks(5, 4, 6, false).bytes);
        write("kinds.vor", &kinds);
        write("old.vor", &std::fs::read(v2("flame.vor")).unwrap());
        let output = vor()
            .current_dir(folder.path())
            .args(&arguments)
            .stdin(std::process::Stdio::null())
            .output()
            .unwrap();
        // What a format writes to stdout may be binary; what is said to people never is.
        let stderr = String::from_utf8(output.stderr).unwrap();
        prop_assert!(output.status.code().is_some(), "{:?}: {}", output.status, stderr);
        let code = output.status.code().unwrap();
        prop_assert!((0..=3).contains(&code), "{}: {}", code, stderr);
        prop_assert!(!stderr.contains("panicked at"), "{}", stderr);
        if code == 2 {
            let line = stderr.lines().next().unwrap_or_default();
            prop_assert!(line.starts_with("vor: ") && line.len() > "vor: ".len(), "{}", stderr);
        }
    }
}
