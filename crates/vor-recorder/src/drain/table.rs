//! The table of counted scopes that a program prints on stderr.

use std::fmt::Write as _;
use vor_capture::sort::sort_by;

use vor_capture::stats::ScopeStats;
use vor_capture::units;

/// Most columns of a line.
const WIDTH: usize = 100;

/// Fewest columns for names.
const MIN_NAME: usize = 16;

/// Most rows that are printed; the rest is summarized in one line.
const MAX_ROWS: usize = 100;

/// Returns the rows as text, ordered by self time, longest first.
pub(crate) fn table(rows: &[ScopeStats]) -> String {
    let mut rows: Vec<&ScopeStats> = rows.iter().collect();
    sort_by(&mut rows, |a, b| {
        (b.self_ns, a.site).cmp(&(a.self_ns, b.site))
    });
    let (shown, more) = rows.split_at(rows.len().min(MAX_ROWS));
    let heads = ["count", "total", "self", "mean", "p50", "p99", "max"];
    let cells: Vec<[String; 7]> = shown
        .iter()
        .map(|row| {
            [
                units::count(row.count),
                units::duration(row.total_ns as f64),
                units::duration(row.self_ns as f64),
                units::duration(row.mean_ns),
                units::duration(row.p50_ns as f64),
                units::duration(row.p99_ns as f64),
                units::duration(row.max_ns as f64),
            ]
        })
        .collect();
    let widths = std::array::from_fn(|i| {
        let widest = cells
            .iter()
            .map(|row| row[i].chars().count())
            .max()
            .unwrap_or(0);
        widest.max(heads[i].len())
    });
    let numbers: usize = widths.iter().map(|width| width + 2).sum();
    let room = WIDTH.saturating_sub(numbers).max(MIN_NAME);
    let names: Vec<String> = shown.iter().map(|row| name(&row.name, room)).collect();
    let name_width = names
        .iter()
        .map(|name| name.chars().count())
        .max()
        .unwrap_or(0);
    let name_width = name_width.max("scope".len());
    let mut text = String::new();
    line(
        &mut text,
        "scope",
        name_width,
        &heads.map(str::to_owned),
        &widths,
    );
    for (name, cells) in names.iter().zip(&cells) {
        line(&mut text, name, name_width, cells, &widths);
    }
    if !more.is_empty() {
        let self_ns: u64 = more
            .iter()
            .map(|row| row.self_ns)
            .fold(0, u64::saturating_add);
        // Writing into a string cannot fail.
        let _ = writeln!(
            text,
            "and {} scopes more, self {}",
            units::count(more.len() as u64),
            units::duration(self_ns as f64)
        );
    }
    text
}

fn line(
    text: &mut String,
    name: &str,
    name_width: usize,
    cells: &[String; 7],
    widths: &[usize; 7],
) {
    let _ = write!(text, "{name:name_width$}");
    for (cell, width) in cells.iter().zip(widths) {
        let _ = write!(text, "  {cell:>width$}");
    }
    text.push('\n');
}

/// Returns a name in at most `room` columns, with control characters escaped. A longer name is cut
/// in its middle, because both ends identify it.
fn name(name: &str, room: usize) -> String {
    let mut all = Vec::with_capacity(name.len());
    for character in name.chars() {
        if character.is_control() {
            all.extend(character.escape_default());
        } else {
            all.push(character);
        }
    }
    if all.len() <= room {
        return all.into_iter().collect();
    }
    let kept = room - 2;
    let (first, last) = (kept.div_ceil(2), kept / 2);
    let first = all[..first].iter();
    first
        .chain(&['.', '.'])
        .chain(&all[all.len() - last..])
        .collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use vor_capture::model::catalog::SiteId;

    fn row(site: u32, name: &str, self_ns: u64) -> ScopeStats {
        let mut row = ScopeStats::default();
        row.site = SiteId(site);
        row.name = name.to_owned();
        row.count = u64::MAX;
        row.total_ns = self_ns;
        row.self_ns = self_ns;
        row.mean_ns = 1.5;
        row.p50_ns = 999;
        row.p99_ns = 1_000;
        row.max_ns = u64::MAX;
        row
    }

    #[test]
    fn rows_fit_and_are_ordered_by_self_time() {
        let long = "a".repeat(80) + "\n" + &"b".repeat(80);
        let mut rows = vec![
            row(1, "short", 12_345),
            row(2, &long, 99_999_999),
            row(3, "none", 0),
        ];
        let text = table(&rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 4, "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() <= WIDTH),
            "{text}"
        );
        assert!(
            lines[1].starts_with("aaa") && lines[1].contains("bb "),
            "{text}"
        );
        assert!(lines[1].contains(".."), "{text}");
        for cell in [
            "short",
            "12.3 µs",
            "2 ns",
            "999 ns",
            "1.00 µs",
            "5\u{202f}124\u{202f}095 h",
        ] {
            assert!(lines[2].contains(cell), "{cell}: {text}");
        }
        assert!(
            lines[3].starts_with("none") && lines[3].contains(" 0 ns"),
            "{text}"
        );
        rows.extend((4..204).map(|site| row(site, "more", 1_000)));
        let text = table(&rows);
        assert_eq!(text.lines().count(), MAX_ROWS + 2);
        assert!(
            text.ends_with("and 103 scopes more, self 102 µs\n"),
            "{text}"
        );
    }
}
