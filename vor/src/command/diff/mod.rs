//! `vor diff`: scopes that became slower or faster from one capture to another, with confidence
//! intervals.
//!
//! Both captures are read at the same time, batch by batch, into statistics per call site
//! ([`gather`]). Scopes are matched by name ([`pairs`]). For each match, the change of one measure
//! is computed with an interval ([`interval`]). The output ([`show`]) lists them by their
//! contribution.

mod gather;
mod interval;
mod pairs;
mod show;

use std::cmp::Ordering;
use std::io::Write;
use std::path::PathBuf;
use std::thread;

use clap::ValueEnum;
use vor_capture::model::catalog::Catalog;
use vor_capture::stats::ScopeStats;
use vor_capture::units;

use gather::{Side, gather};
use interval::{Change, Measure, change};
use pairs::{Pair, pair};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::modes::Modes;
use crate::command::patterns::{Pattern, is_selected, listed};
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::table::printable;

/// Compares two captures: slower and faster scopes, with 95 % intervals.
///
/// The interval contains the change with 95 % confidence, judged by the scatter within the two
/// recordings. It does not know how one run of a program differs from the next, for example by
/// other work of the machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture to compare with.
    #[arg(value_name = "BEFORE")]
    before: PathBuf,
    /// The capture to judge.
    #[arg(value_name = "AFTER")]
    after: PathBuf,
    /// The measure to compare: the mean, the median or the 99th percentile of the durations, or the
    /// mean of the self times.
    #[arg(long, value_name = "METRIC", default_value = "mean")]
    metric: Metric,
    /// Exits with code 1 if a scope became slower by more than this many percent and its interval
    /// lies above 0.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
    /// The format of the output.
    #[arg(long, value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// Sorts the rows: the largest first, names from a to z. `change` is the change of the sum of
    /// self times, up or down.
    #[arg(long, value_name = "COLUMN", default_value = "change")]
    sort: Sort,
    /// Only the first N rows; --fail-above judges all scopes nevertheless.
    #[arg(short = 'n', long, value_name = "N")]
    limit: Option<usize>,
    /// Only spans that ended in these frames of both captures: 10..20 (without 20), 10..=20, 10..,
    /// ..20, or one number.
    #[arg(long, value_name = "A..B")]
    frames: Option<FrameRange>,
    /// Only scopes with this name, in which * stands for any text and ? for any character; may be
    /// repeated.
    #[arg(long, value_name = "GLOB")]
    name: Vec<Pattern>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Metric {
    Mean,
    P50,
    P99,
    #[value(name = "self")]
    Own,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// For a pull request.
    Markdown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Sort {
    Change,
    Percent,
    #[value(name = "self")]
    Own,
    Total,
    Mean,
    P50,
    P99,
    Count,
    Name,
}

/// Parses a percentage, with or without `%`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text
        .strip_suffix('%')
        .unwrap_or(text)
        .trim_end()
        .parse()
        .ok();
    let usable = number.filter(|number: &f64| number.is_finite() && *number >= 0.0);
    usable.ok_or_else(|| format!("`{text}` is not a percentage; write one like 5%"))
}

/// A scope of either capture.
#[derive(Debug)]
struct Row {
    pair: Pair,
    /// Change of the measure; `None` if the scope is new or gone, or the measure was 0 before.
    change: Option<Change>,
    /// Change of the sum of its self times, per frame or per recording.
    self_change_ns: f64,
    /// Whether it exceeds `--fail-above`.
    is_slower: bool,
}

/// Both captures, and the rows that compare them.
#[derive(Debug)]
struct Comparison {
    before: Side,
    after: Side,
    rows: Vec<Row>,
    /// Whether both have frames, so that sums are per frame.
    is_per_frame: bool,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut comparison = compare(args)?;
    let sides = [&comparison.before, &comparison.after];
    sides.iter().for_each(|side| side.warn_of_damage());
    let is_incomplete = sides.iter().any(|side| side.is_incomplete());
    comparison.rows.sort_by(|a, b| order(args.sort, a, b));
    let offenders = comparison.rows.iter().filter(|row| row.is_slower);
    let lines: Vec<String> = offenders
        .map(|row| offence(args, &comparison, row))
        .collect();
    show::show(args, &comparison, out)?;
    // On a terminal, the rows come before the warnings.
    out.flush().map_err(Failure::output)?;
    lines.iter().for_each(|line| warn(line));
    Ok(if !lines.is_empty() {
        Outcome::CheckFailed
    } else if is_incomplete {
        Outcome::Incomplete
    } else {
        Outcome::Success
    })
}

fn compare(args: &Args) -> Result<Comparison, Failure> {
    let (before, after) = read_both(args)?;
    for pattern in &args.name {
        if !before.has_match(pattern) && !after.has_match(pattern) {
            return Err(unknown(&before, &after, pattern));
        }
    }
    let is_per_frame = before.frames_with_spans > 0 && after.frames_with_spans > 0;
    let per = |side: &Side| {
        if is_per_frame {
            side.frames_with_spans as f64
        } else {
            1.0
        }
    };
    let own_ns = |stats: Option<&ScopeStats>| stats.map_or(0.0, |stats| stats.self_ns as f64);
    let stats = |side: &Side| -> Vec<ScopeStats> {
        let mut rows = side.stats.scope_stats(&side.catalog);
        rows.retain(|row| is_selected(&args.name, &row.name));
        rows
    };
    let pairs = pair(
        (&before.catalog, stats(&before)),
        (&after.catalog, stats(&after)),
    );
    if pairs.is_empty() {
        return Err(after.failure("neither capture has spans of the chosen names"));
    }
    let changes = changes(args.metric.measure(), &pairs, &before, &after);
    let rows = pairs.into_iter().zip(changes).map(|(pair, change)| Row {
        self_change_ns: own_ns(pair.after()) / per(&after) - own_ns(pair.before()) / per(&before),
        is_slower: args
            .fail_above
            .is_some_and(|limit| is_slower(change, limit)),
        pair,
        change,
    });
    Ok(Comparison {
        rows: rows.collect(),
        before,
        after,
        is_per_frame,
    })
}

/// Reads both captures in parallel.
fn read_both(args: &Args) -> Result<(Side, Side), Failure> {
    let keeps_histograms = matches!(args.metric, Metric::P50 | Metric::P99);
    let mut progress = Progress::new("reading", false);
    let mut progress_after = progress.add_part();
    let (before, after) = thread::scope(|scope| {
        let after = scope.spawn(|| {
            gather(
                &args.after,
                args.frames,
                keeps_histograms,
                &mut progress_after,
            )
        });
        let before = gather(&args.before, args.frames, keeps_histograms, &mut progress);
        (before, after.join())
    });
    let after = after.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    Ok((before?, after?))
}

/// Computes the change of every pair, on all processors: for thousands of scopes, that takes longer
/// than reading.
fn changes(measure: Measure, pairs: &[Pair], before: &Side, after: &Side) -> Vec<Option<Change>> {
    let change_of = |pair: &Pair| {
        let old = before.blocks.get(pair.before()?.site)?;
        let new = after.blocks.get(pair.after()?.site)?;
        change(measure, old, new)
    };
    let threads = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut changes = Vec::with_capacity(pairs.len());
    thread::scope(|scope| {
        let parts = pairs.chunks(pairs.len().div_ceil(threads).max(1));
        let parts =
            parts.map(|part| scope.spawn(move || part.iter().map(change_of).collect::<Vec<_>>()));
        // Start all threads before waiting for the first.
        for part in parts.collect::<Vec<_>>() {
            match part.join() {
                Ok(part) => changes.extend(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    changes
}

fn is_slower(change: Option<Change>, limit_percent: f64) -> bool {
    change.is_some_and(|change| {
        change.change * 100.0 > limit_percent && change.interval.is_some_and(|(low, _)| low > 0.0)
    })
}

fn unknown(before: &Side, after: &Side, pattern: &Pattern) -> Failure {
    let mut known: Vec<String> = Vec::new();
    for catalog in [&before.catalog, &after.catalog] {
        known.extend(
            catalog
                .sites
                .iter()
                .flatten()
                .map(|site| site.name.to_string()),
        );
    }
    known.sort_unstable();
    known.dedup();
    after.failure(format!(
        "no scope is called `{pattern}` in either capture; there are {}",
        listed(&known)
    ))
}

/// Describes a scope that exceeds `--fail-above`.
fn offence(args: &Args, comparison: &Comparison, row: &Row) -> String {
    let limit = args.fail_above.unwrap_or_default();
    let change = row.change.map_or(0.0, |change| change.change);
    let interval = row.change.and_then(|change| change.interval);
    format!(
        "{}: {}: the {} is more than {limit} % above that of {}: {} ({})",
        comparison.after.path.display(),
        row.full_name(comparison),
        args.metric.name(),
        comparison.before.path.display(),
        show::percent(change),
        interval.map_or_else(String::new, show::interval),
    )
}

fn order(sort: Sort, a: &Row, b: &Row) -> Ordering {
    let number = |value: fn(&ScopeStats) -> f64| value(b.shown()).total_cmp(&value(a.shown()));
    let percent = |row: &Row| row.change.map_or(f64::NEG_INFINITY, |change| change.change);
    let by = match sort {
        Sort::Change => b.self_change_ns.abs().total_cmp(&a.self_change_ns.abs()),
        Sort::Percent => percent(b).total_cmp(&percent(a)),
        Sort::Own => number(|stats| stats.self_ns as f64),
        Sort::Total => number(|stats| stats.total_ns as f64),
        Sort::Mean => number(|stats| stats.mean_ns),
        Sort::P50 => number(|stats| stats.p50_ns as f64),
        Sort::P99 => number(|stats| stats.p99_ns as f64),
        Sort::Count => number(|stats| stats.count as f64),
        Sort::Name => Ordering::Equal,
    };
    let name = |row: &Row| (row.shown().name.clone(), row.shown().site);
    by.then_with(|| name(a).cmp(&name(b)))
}

impl Metric {
    fn measure(self) -> Measure {
        match self {
            Self::Mean => Measure::Mean,
            Self::P50 => Measure::Quantile(0.5),
            Self::P99 => Measure::Quantile(0.99),
            Self::Own => Measure::OwnMean,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Own => "mean self time",
        }
    }
}

impl Row {
    fn shown(&self) -> &ScopeStats {
        self.pair.shown()
    }

    /// Returns the catalog of the statistics that are shown.
    fn catalog<'a>(&self, comparison: &'a Comparison) -> &'a Catalog {
        match self.pair {
            Pair::Both { .. } | Pair::New(_) => &comparison.after.catalog,
            Pair::Gone(_) => &comparison.before.catalog,
        }
    }

    /// Returns the place of its call site in the source; `None` for names made at run time.
    fn place(&self, comparison: &Comparison) -> Option<String> {
        let site = self.catalog(comparison).site(self.shown().site);
        let site = site.filter(|site| !site.file.is_empty())?;
        Some(format!("{}:{}", printable(&site.file), site.line))
    }

    /// Returns how the scope was recorded on a side; `None` if each one was.
    fn mode(&self, comparison: &Comparison, side: &Side) -> Option<String> {
        let site = self.catalog(comparison).site(self.shown().site)?;
        let mode = Modes::of(&side.catalog).of_same(site)?.to_owned();
        Some(mode)
    }

    /// Returns whether a rule is why a side has no spans of the scope.
    fn is_unrecorded(&self, comparison: &Comparison) -> bool {
        let absent = match self.pair {
            Pair::Both { .. } => return false,
            Pair::New(_) => &comparison.before,
            Pair::Gone(_) => &comparison.after,
        };
        self.mode(comparison, absent).is_some()
    }

    fn full_name(&self, comparison: &Comparison) -> String {
        let name = printable(&self.shown().name);
        match self.place(comparison) {
            Some(place) => format!("{name} ({place})"),
            None => name,
        }
    }
}

impl Comparison {
    /// Returns a line per capture that lost spans while recording, or lacks some because of a rule.
    fn losses(&self) -> Vec<String> {
        let mut lines = self.dropped();
        for side in [&self.before, &self.after] {
            let modes = Modes::of(&side.catalog).listed();
            if !modes.is_empty() {
                let path = side.path.display();
                lines.push(format!("{path}: not each scope was recorded: {modes}"));
            }
        }
        lines
    }

    fn dropped(&self) -> Vec<String> {
        let lossy = [&self.before, &self.after].into_iter();
        let lossy = lossy.filter(|side| side.dropped_spans > 0);
        let lines = lossy.map(|side| {
            let dropped = units::counted(side.dropped_spans, "span");
            format!(
                "{}: {dropped} DROPPED while recording (a ring was full): \
                 counts and totals are too small",
                side.path.display()
            )
        });
        lines.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_is_a_number_from_0_on() {
        for (text, number) in [
            ("5", 5.0),
            ("5%", 5.0),
            ("2.5 %", 2.5),
            ("0", 0.0),
            ("1e3%", 1000.0),
        ] {
            assert_eq!(percent(text), Ok(number), "{text}");
        }
        for wrong in ["", "%", "much", "5%%", "-0.1", "-5%", "NaN", "inf", "-inf"] {
            let problem = format!("`{wrong}` is not a percentage; write one like 5%");
            assert_eq!(percent(wrong), Err(problem));
        }
    }

    #[test]
    fn a_scope_is_slower_above_the_limit_and_with_an_interval_above_0() {
        let is_above_25 = |change, interval| is_slower(Some(Change { change, interval }), 25.0);
        assert!(is_above_25(0.26, Some((0.01, 0.9))));
        assert!(!is_above_25(0.25, Some((0.01, 0.9))));
        assert!(!is_above_25(0.24, Some((0.01, 0.9))));
        assert!(!is_above_25(0.26, Some((0.0, 0.9))));
        assert!(!is_above_25(0.26, Some((-0.01, 0.9))));
        assert!(!is_above_25(0.26, None));
        assert!(!is_slower(None, 25.0));
    }
}
