//! Contestants that run in processes of their own, in turn, and print values as lines `KEY VALUE`.

use std::collections::HashMap;
use std::env;
use std::process::{Command, Stdio};

use crate::rounds::median;

type Failure = Box<dyn std::error::Error>;

/// The values of each round, by contestant and key.
#[derive(Debug, Default)]
pub struct Found(HashMap<(String, String), Vec<f64>>);

impl Found {
    /// Returns the median of a value over the rounds; NaN if no round has it.
    #[must_use]
    pub fn median(&self, contestant: &str, key: &str) -> f64 {
        let values = self.0.get(&(contestant.to_owned(), key.to_owned()));
        values.map_or(f64::NAN, |values| median(values.clone()))
    }
}

/// Runs the contestants in turn, another one first in each round. A child is this program with the
/// contestant's name in the variable `child`, `--folder` and an empty folder, and `--seconds`.
///
/// # Errors
///
/// A child cannot be started, or fails.
pub fn rounds(
    child: &str,
    contestants: &[&str],
    seconds: u64,
    rounds: u64,
) -> Result<Found, Failure> {
    let mut found = Found::default();
    for round in 0..rounds as usize {
        for turn in 0..contestants.len() {
            let contestant = contestants[(round + turn) % contestants.len()];
            for (key, value) in run(child, contestant, seconds)? {
                let values = found.0.entry((contestant.to_owned(), key)).or_default();
                values.push(value);
            }
        }
    }
    Ok(found)
}

fn run(child: &str, contestant: &str, seconds: u64) -> Result<HashMap<String, f64>, Failure> {
    let folder = env::temp_dir().join(format!("{child}-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let output = Command::new(env::current_exe()?)
        .env(child, contestant)
        .args(["--folder".as_ref(), folder.as_os_str()])
        .args(["--seconds", &seconds.to_string()])
        .stderr(Stdio::inherit())
        .output();
    std::fs::remove_dir_all(&folder)?;
    let output = output?;
    if !output.status.success() {
        return Err(format!("`{contestant}` ended with {}", output.status).into());
    }
    let text = String::from_utf8(output.stdout)?;
    let values = text.lines().filter_map(|line| line.split_once(' '));
    let values = values.filter_map(|(key, value)| Some((key.to_owned(), value.parse().ok()?)));
    Ok(values.collect())
}
