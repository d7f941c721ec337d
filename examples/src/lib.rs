//! What the examples share: where captures go, how a table of scopes looks, and random numbers that are the same in every run.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Returns where an example records: `$VOR_RECORD`, or `vor-<example>.vor` in the temporary folder.
///
/// vor never overwrites a capture; it keeps the earlier one under another name. The temporary folder is no place to collect them, so what an
/// earlier run of the example left there is removed, unless it is being written: then this run takes a name with its process id.
#[must_use]
pub fn capture_path(example: &str) -> PathBuf {
    match std::env::var_os("VOR_RECORD") {
        Some(path) if !path.is_empty() => path.into(),
        _ => fresh(&std::env::temp_dir(), example),
    }
}

fn fresh(folder: &Path, example: &str) -> PathBuf {
    let path = folder.join(format!("vor-{example}.vor"));
    // A recorder locks its capture for as long as it writes.
    let in_use = File::open(&path).is_ok_and(|file| file.try_lock().is_err());
    if in_use || (std::fs::remove_file(&path).is_err() && path.exists()) {
        return folder.join(format!("vor-{example}-{}.vor", std::process::id()));
    }
    path
}

/// Says how the capture at `path` is opened.
pub fn print_how_to_open(path: &Path) {
    let path = quoted(path);
    println!("\nThe capture is {path}. Ask it:");
    for question in ["stats", "frames --slowest 5", "export --to chrome -o trace.json"] {
        println!("  cargo run -q --release -p vor --features cli -- {question} {path}");
    }
}

/// Returns a path as a shell takes it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/\\:._-+~".contains(c);
    if text.chars().all(plain) {
        text
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Prints the `most` scopes with the largest self time, slowest first.
pub fn print_slowest(mut scopes: Vec<vor::ScopeStats>, most: usize) {
    scopes.sort_by_key(|scope| std::cmp::Reverse(scope.self_ns));
    let width = scopes
        .iter()
        .take(most)
        .map(|scope| scope.name.chars().count())
        .max()
        .unwrap_or(0)
        .max(5);
    println!(
        "{:<width$} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}",
        "scope", "count", "self", "total", "mean", "p99", "max"
    );
    for scope in scopes.iter().take(most) {
        println!(
            "{:<width$} {:>8} {:>10} {:>10} {:>10} {:>10} {:>10}",
            scope.name,
            scope.count,
            duration(scope.self_ns),
            duration(scope.total_ns),
            duration(scope.mean_ns as u64),
            duration(scope.p99_ns),
            duration(scope.max_ns),
        );
    }
}

/// Returns a length in three or four digits and its unit.
#[must_use]
pub fn duration(ns: u64) -> String {
    format!("{:.1?}", Duration::from_nanos(ns))
}

/// Ends the program as a mistake of its user: one line on stderr, exit code 2.
pub fn exit_with(error: &dyn std::fmt::Display) -> ! {
    let example = std::env::args_os()
        .next()
        .unwrap_or_else(|| OsString::from("example"));
    let name = Path::new(&example)
        .file_stem()
        .unwrap_or(&example)
        .to_string_lossy()
        .into_owned();
    eprintln!("{name}: {error}");
    std::process::exit(2);
}

/// Random numbers from a seed: SplitMix64.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// Starts from a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from -1 to 1, 1 not included.
    pub fn signed_unit(&mut self) -> f32 {
        // 24 bits are what an f32 holds exactly.
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }
}

/// The code in the README compiles, and runs where it may.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_capture_goes_and_one_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = fresh(folder.path(), "x");
        std::fs::write(&path, "left behind").unwrap();
        assert_eq!(fresh(folder.path(), "x"), path);
        assert!(!path.exists());

        let in_use = File::create(&path).unwrap();
        in_use.lock().unwrap();
        assert_ne!(fresh(folder.path(), "x"), path);
        assert!(path.exists());
    }

    #[test]
    fn random_numbers_repeat_and_fill_their_range() {
        let draw = |seed| {
            let mut generator = Generator::new(seed);
            (0..1000).map(|_| generator.signed_unit()).collect::<Vec<_>>()
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        let (low, high) = draw(7)
            .iter()
            .fold((0.0_f32, 0.0_f32), |(l, h), v| (l.min(*v), h.max(*v)));
        assert!(
            (-1.0..-0.9).contains(&low) && (0.9..1.0).contains(&high),
            "{low} {high}"
        );
    }

    #[test]
    fn paths_survive_a_shell() {
        assert_eq!(quoted(Path::new("/tmp/run.vor")), "/tmp/run.vor");
        assert_eq!(
            quoted(Path::new("/tmp/it's a run.vor")),
            r"'/tmp/it'\''s a run.vor'"
        );
    }
}
