//! A real program: the `syn` parser over its own sources, in three versions. The first is
//! unchanged. The second has a scope in every function above single tokens that takes a
//! `ParseStream`. The third has two bare clock reads and a store in the same places.
//!
//! This repository contains none of its code. The bench copies the sources that cargo already has
//! three times into the target folder. Two copies get instrumentation, and a small driver that uses
//! all three is built and run.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use vor_benches::spans::totals;

use crate::Options;
use crate::child::values_of;
use crate::table::{Table, Target};

/// Measures the parser with a capture on, against itself without scopes.
pub fn measure(options: &Options, table: &mut Table) {
    if let Err(error) = try_measure(options, table) {
        table.not_measured("the syn parser over its own sources", error);
    }
}

fn try_measure(options: &Options, table: &mut Table) -> Result<(), Box<dyn Error>> {
    let executable = std::env::current_exe()?;
    // target/release/deps/budget-…
    let target = executable
        .ancestors()
        .nth(3)
        .ok_or("expected a program in a target folder")?;
    let folder = target.join("real-program");
    let syn = find_syn()?;
    let scopes = prepare(&folder, &syn)?;
    let driver = build(&folder)?;
    let sources = rust_files(&syn.join("src"))?;
    let capture = tempfile::tempdir()?;
    let path = capture.path().join("run.vor");
    let said = run(&driver, options.seconds, &path, &sources)?;
    let told = |key: &str| {
        said.get(key)
            .copied()
            .ok_or_else(|| format!("the driver did not report {key}"))
    };
    let totals = totals(&path)?;
    let spans = (totals.spans + totals.dropped_spans) as f64 / told("rounds")?;
    let bare_ns = told("bare_ns")?;
    let note = format!(
        "{scopes} call sites, {spans:.0} spans a round, \
         one per {:.0} ns of the bare run of {:.1} ms",
        bare_ns / spans,
        bare_ns / 1e6
    );
    let question = "syn over its own sources, capture on / bare";
    table.add_noted(
        question,
        Target::AtMost(1.12),
        told("ratio")?,
        "x CPU",
        note,
    );
    table.add(
        "the same with two clock reads and a store / bare (the floor)",
        Target::None,
        told("clock_ratio")?,
        "x CPU",
    );
    table.add(
        format!("{question}, wall time"),
        Target::None,
        told("wall_ratio")?,
        "x",
    );
    let dropped = totals.dropped_spans as f64;
    table.add(
        "syn over its own sources: dropped spans",
        Target::AtMost(0.0),
        dropped,
        "spans",
    );
    Ok(())
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Returns the folder of the `syn` that this workspace builds with.
fn find_syn() -> Result<PathBuf, Box<dyn Error>> {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let output = cargo()
        .args([
            "metadata",
            "--format-version",
            "1",
            "--offline",
            "--manifest-path",
        ])
        .arg(manifest)
        .output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        let why = why.lines().next().unwrap_or("no output");
        return Err(format!("cargo metadata: {why}; `cargo fetch` may help").into());
    }
    let text = String::from_utf8(output.stdout)?;
    // The metadata has the manifest of every package; the newest `syn` comes last in the order of
    // the package IDs.
    let paths = text
        .split("\"manifest_path\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next());
    let of_syn = |path: &&str| {
        let folder = Path::new(path)
            .parent()
            .and_then(Path::file_name)
            .map(|name| name.to_string_lossy());
        folder.is_some_and(|name| {
            name.starts_with("syn-") && name[4..].starts_with(|c: char| c.is_ascii_digit())
        })
    };
    let manifest = paths
        .filter(of_syn)
        .last()
        .ok_or("no package `syn` in the metadata")?;
    Ok(Path::new(manifest).with_file_name(""))
}

/// Writes the workspace of the driver and the parsers. Returns the number of scopes in an
/// instrumented copy.
fn prepare(folder: &Path, syn: &Path) -> Result<usize, Box<dyn Error>> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut scopes = 0;
    let scope = |name: &str| format!("::vor::profile_scope!(\"{name}\");\n");
    let clock = |_: &str| "let _clock = ::vor_benches::clock::TwoReads::new();\n".to_owned();
    type Line<'a> = &'a dyn Fn(&str) -> String;
    let copies: [(&str, Option<Line<'_>>); 3] = [
        ("syn-bare", None),
        ("syn-clock", Some(&clock)),
        ("syn-scoped", Some(&scope)),
    ];
    for (name, line) in copies {
        // Each instrumented copy gets the same number of lines.
        scopes = 0;
        let copy = folder.join(name);
        for file in rust_files(&syn.join("src"))? {
            let mut text = fs::read_to_string(&file)?;
            if let Some(line) = line
                && !is_token_level(&file)
            {
                scopes += insert(&mut text, line);
            }
            write_if_new(&copy.join(file.strip_prefix(syn)?), &text)?;
        }
        let vor = ours.with_file_name("vor");
        write_if_new(
            &copy.join("Cargo.toml"),
            &format!(
                "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\n\
             [features]\nfull = []\nderive = []\nparsing = []\nclone-impls = []\n\
             printing = []\nextra-traits = []\n\
             visit = []\nvisit-mut = []\nfold = []\ntest = []\nproc-macro = []\n\n\
             [dependencies]\nproc-macro2 = {{ version = \"1\", default-features = false }}\n\
             unicode-ident = \"1\"\n\
             vor = {{ path = {vor:?} }}\nvor-benches = {{ path = {ours:?} }}\n"
            ),
        )?;
    }
    write_if_new(
        &folder.join("Cargo.toml"),
        &format!(
            "[package]\nname = \"driver\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n\
         [[bin]]\nname = \"driver\"\npath = \"driver.rs\"\n\n\
         [dependencies]\n\
         syn-bare = {{ path = \"syn-bare\", features = [\"full\", \"derive\", \"parsing\"] }}\n\
         syn-clock = {{ path = \"syn-clock\", features = [\"full\", \"derive\", \"parsing\"] }}\n\
         syn-scoped = {{ path = \"syn-scoped\", features = [\"full\", \"derive\", \"parsing\"] }}\n\
         vor = {{ path = {:?} }}\nvor-benches = {{ path = {ours:?} }}\n\n\
         [profile.release]\ncodegen-units = 1\n\n[workspace]\n",
            ours.with_file_name("vor")
        ),
    )?;
    write_if_new(&folder.join("driver.rs"), include_str!("real/driver.rs"))?;
    // The lock file of this workspace has the same versions, so cargo downloads nothing.
    fs::copy(ours.with_file_name("Cargo.lock"), folder.join("Cargo.lock"))?;
    Ok(scopes)
}

/// Returns whether a file parses single tokens and their surroundings: with all of these
/// instrumented, there is a scope every 66 ns.
fn is_token_level(file: &Path) -> bool {
    let stem = file
        .file_stem()
        .map(|stem| stem.to_string_lossy())
        .unwrap_or_default();
    [
        "attr",
        "ident",
        "lifetime",
        "lookahead",
        "op",
        "parse",
        "restriction",
        "token",
    ]
    .contains(&stem.as_ref())
}

/// Inserts a line at the beginning of each function whose signature is one line and takes a
/// `ParseStream`. Returns the number of insertions.
fn insert(text: &mut String, line_for: &dyn Fn(&str) -> String) -> usize {
    let mut inserted = 0;
    let mut out = String::with_capacity(text.len() * 11 / 10);
    for line in text.lines() {
        out.push_str(line);
        out.push('\n');
        let code = line.trim_start();
        let function = ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn "]
            .iter()
            .find_map(|start| code.strip_prefix(start));
        if let (Some(rest), true, true) =
            (function, code.contains("ParseStream"), code.ends_with('{'))
        {
            let name: String = rest
                .chars()
                .take_while(|c| c.is_alphanumeric() || *c == '_')
                .collect();
            out.push_str(&line_for(&name));
            inserted += 1;
        }
    }
    *text = out;
    inserted
}

/// Writes a file unless it already has that content, so that cargo builds only changed files.
fn write_if_new(path: &Path, text: &str) -> Result<(), Box<dyn Error>> {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    Ok(fs::write(path, text)?)
}

fn rust_files(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files.append(&mut rust_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn build(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let target = folder.join("target");
    let status = cargo()
        .args(["build", "--release", "--quiet", "--offline"])
        .current_dir(folder)
        .env("CARGO_TARGET_DIR", &target)
        .env("RUSTFLAGS", "--cap-lints allow")
        .status()?;
    if status.success() {
        Ok(target.join("release").join("driver"))
    } else {
        Err("the driver does not build".into())
    }
}

fn run(
    driver: &Path,
    seconds: f64,
    capture: &Path,
    sources: &[PathBuf],
) -> Result<HashMap<String, f64>, Box<dyn Error>> {
    let output = Command::new(driver)
        .arg(seconds.to_string())
        .arg(capture)
        .args(sources)
        .output()?;
    if !output.status.success() {
        return Err(format!(
            "the driver ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr)
        )
        .into());
    }
    values_of(&output.stdout)
}
