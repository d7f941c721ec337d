//! Tables that fit the terminal.
//!
//! The width of a table is that of the terminal, or else the variable `COLUMNS`. In a file or a
//! pipe without that variable it is unlimited. A table that is too wide first drops columns, those
//! of the highest rank first, and then cuts texts in their middle, since both ends of a name are
//! useful.

use std::io::{self, Write};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::command::failure::Failure;

/// Spaces between two columns.
const GAP: usize = 2;

/// Minimum width to which a text is cut.
const MIN_TEXT: usize = 14;

/// The alignment of a column, and whether its cells may be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Right-aligned, never cut.
    Number,
    /// Left-aligned, cut if there is too little room.
    Text,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) kind: Kind,
    /// A column of rank 0 is always shown; others are dropped, the highest rank first.
    pub(crate) rank: u8,
    /// Minimum width if there is room, for rows that are not known yet.
    min_width: usize,
    /// Width to which a text is cut only after all columns of a rank above 0 are dropped.
    cut_width: usize,
}

impl Column {
    pub(crate) fn new(head: impl Into<String>, kind: Kind, rank: u8) -> Self {
        Self {
            head: head.into(),
            kind,
            rank,
            min_width: 0,
            cut_width: MIN_TEXT,
        }
    }

    pub(crate) fn at_least(mut self, width: usize) -> Self {
        self.min_width = width;
        self
    }

    pub(crate) fn shrinking_to(mut self, width: usize) -> Self {
        self.cut_width = width.max(MIN_TEXT);
        self
    }
}

/// The columns that are shown, and their widths.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Index into the columns, kind and width.
    shown: Vec<(usize, Kind, usize)>,
    heads: Vec<String>,
}

impl Layout {
    /// Lays out columns such that the given rows fit into `room`.
    pub(crate) fn new(columns: &[Column], rows: &[Vec<String>], room: Option<usize>) -> Self {
        let mut shown: Vec<(usize, Kind, usize)> = Vec::new();
        for (i, column) in columns.iter().enumerate() {
            let cells = rows
                .iter()
                .filter_map(|row| row.get(i))
                .map(|cell| cell.width());
            let width = cells.max().unwrap_or(0);
            shown.push((
                i,
                column.kind,
                width.max(column.min_width).max(column.head.width()),
            ));
        }
        if let Some(room) = room {
            let min_text = |i: usize, width: usize| width.min(columns[i].cut_width);
            let min_width = |&(i, kind, width): &(usize, Kind, usize)| match kind {
                Kind::Number => width + GAP,
                Kind::Text => min_text(i, width) + GAP,
            };
            while shown.iter().map(min_width).sum::<usize>() > room + GAP {
                let rank = |&(i, ..): &(usize, Kind, usize)| columns[i].rank;
                let Some(highest) = shown.iter().map(rank).max().filter(|&rank| rank > 0) else {
                    break;
                };
                // Among columns of the same rank, the last is dropped first.
                if let Some(at) = shown.iter().rposition(|column| rank(column) == highest) {
                    shown.remove(at);
                }
            }
            let all: usize = shown.iter().map(|&(_, _, width)| width + GAP).sum();
            let mut excess = all.saturating_sub(room + GAP);
            for (i, kind, width) in &mut shown {
                if *kind == Kind::Text {
                    let cut = excess.min(*width - min_text(*i, *width));
                    *width -= cut;
                    excess -= cut;
                }
            }
        }
        Self {
            shown,
            heads: columns.iter().map(|column| column.head.clone()).collect(),
        }
    }

    /// Writes the names of the columns.
    pub(crate) fn write_heads(&self, out: &mut impl Write) -> Result<(), Failure> {
        self.write_row(out, &self.heads)
    }

    /// Writes a row of cells, one per column, shown or not.
    pub(crate) fn write_row(&self, out: &mut impl Write, cells: &[String]) -> Result<(), Failure> {
        let mut line = String::new();
        for (n, &(i, kind, width)) in self.shown.iter().enumerate() {
            if n > 0 {
                line.push_str("  ");
            }
            let cell = cells.get(i).map_or("", String::as_str);
            match kind {
                Kind::Number => {
                    line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
                    line.push_str(cell);
                }
                Kind::Text => {
                    let cell = cut(cell, width);
                    line.push_str(&cell);
                    line.extend(std::iter::repeat_n(' ', width.saturating_sub(cell.width())));
                }
            }
        }
        writeln!(out, "{}", line.trim_end()).map_err(Failure::output)
    }
}

/// Writes a whole table.
pub(crate) fn write_table(
    out: &mut impl Write,
    columns: &[Column],
    rows: &[Vec<String>],
) -> Result<(), Failure> {
    let layout = Layout::new(columns, rows, room());
    layout.write_heads(out)?;
    rows.iter().try_for_each(|row| layout.write_row(out, row))
}

/// Returns the maximum width of a line; `None` if there is no limit.
pub(crate) fn room() -> Option<usize> {
    if let Some((terminal_size::Width(width), _)) = terminal_size::terminal_size_of(io::stdout()) {
        return Some(usize::from(width).max(20));
    }
    let columns = std::env::var("COLUMNS").ok()?;
    columns.trim().parse().ok().filter(|&width| width >= 20)
}

/// Escapes control characters of a text, so that they have no effect on the terminal.
pub(crate) fn printable(text: &str) -> String {
    if text.is_empty() {
        return "(no name)".into();
    }
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') {
            clean.extend(c.escape_default());
        } else {
            clean.push(c);
        }
    }
    clean
}

/// Breaks a text at ASCII blanks into lines of at most `width`; a longer word is cut.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_ascii_whitespace() {
        let word = cut(word, width);
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Cuts the middle out of a text that is wider than `width`.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.into();
    }
    let room = width.saturating_sub(1);
    let (front_room, back_room) = (room - room / 2, room / 2);
    let front = fitting(text.chars(), front_room);
    let back: Vec<char> = fitting(text.chars().rev(), back_room).chars().collect();
    let back: String = back.into_iter().rev().collect();
    format!("{front}…{back}")
}

/// Returns the first characters that fit a width.
fn fitting(chars: impl Iterator<Item = char>, width: usize) -> String {
    let mut used = 0;
    chars
        .take_while(|c| {
            used += c.width().unwrap_or(0);
            used <= width
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(columns: &[Column], rows: &[Vec<String>], room: Option<usize>) -> Vec<String> {
        let layout = Layout::new(columns, rows, room);
        let mut out = Vec::new();
        layout.write_heads(&mut out).unwrap();
        for row in rows {
            layout.write_row(&mut out, row).unwrap();
        }
        let text = String::from_utf8(out).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn sample() -> (Vec<Column>, Vec<Vec<String>>) {
        let columns = vec![
            Column::new("scope", Kind::Text, 0),
            Column::new("count", Kind::Number, 0),
            Column::new("mean", Kind::Number, 1),
            Column::new("place", Kind::Text, 2),
        ];
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        let rows = vec![
            row(["decode", "12", "1.00 µs", "src/decode.rs:10"]),
            row([
                "a_rather_long_name_of_a_scope",
                "1\u{202f}200",
                "5 ns",
                "src/lib.rs:7",
            ]),
        ];
        (columns, rows)
    }

    #[test]
    fn without_a_limit_everything_is_shown() {
        let (columns, rows) = sample();
        assert_eq!(
            lines(&columns, &rows, None),
            [
                "scope                          count     mean  place",
                "decode                            12  1.00 µs  src/decode.rs:10",
                "a_rather_long_name_of_a_scope  1\u{202f}200     5 ns  src/lib.rs:7",
            ]
        );
    }

    #[test]
    fn columns_are_dropped_by_rank_and_texts_are_cut_in_the_middle() {
        let (columns, rows) = sample();
        assert_eq!(
            lines(&columns, &rows, Some(32)),
            [
                "scope             count     mean",
                "decode               12  1.00 µs",
                "a_rather…a_scope  1\u{202f}200     5 ns",
            ]
        );
    }

    #[test]
    fn columns_are_dropped_only_where_cut_texts_do_not_fit() {
        let (columns, rows) = sample();
        // Both texts are cut to 14 characters, which takes all of the room.
        assert_eq!(
            lines(&columns, &rows, Some(46)),
            [
                "scope           count     mean  place",
                "decode             12  1.00 µs  src/dec….rs:10",
                "a_rathe…_scope  1\u{202f}200     5 ns  src/lib.rs:7",
            ]
        );
        // The first text is cut as far as it may be, and the other one by the rest.
        assert_eq!(
            lines(&columns, &rows, Some(47))[1..],
            [
                "decode             12  1.00 µs  src/dec…e.rs:10",
                "a_rathe…_scope  1\u{202f}200     5 ns  src/lib.rs:7",
            ]
        );
        assert_eq!(
            lines(&columns, &rows, Some(45)),
            [
                "scope                          count     mean",
                "decode                            12  1.00 µs",
                "a_rather_long_name_of_a_scope  1\u{202f}200     5 ns",
            ]
        );
        assert_eq!(
            lines(&columns, &rows, Some(44))[2],
            "a_rather_long_…me_of_a_scope  1\u{202f}200     5 ns"
        );
        // Columns of rank 0 stay where nothing fits.
        assert_eq!(
            lines(&columns, &rows, Some(5)),
            [
                "scope           count",
                "decode             12",
                "a_rathe…_scope  1\u{202f}200",
            ]
        );
    }

    #[test]
    fn columns_have_a_least_width_and_texts_a_width_to_which_they_are_cut_first() {
        let columns = [
            Column::new("name", Kind::Text, 0).shrinking_to(16),
            Column::new("a", Kind::Number, 1).at_least(4),
            Column::new("b", Kind::Number, 1),
        ];
        let rows = [["abcdefghijklmnopqrstu", "1", "23"]
            .map(str::to_owned)
            .to_vec()];
        let cut = |room| lines(&columns, &rows, Some(room));
        assert_eq!(
            cut(31),
            [
                "name                      a   b",
                "abcdefghijklmnopqrstu     1  23",
            ]
        );
        assert_eq!(
            cut(26),
            ["name                 a   b", "abcdefgh…opqrstu     1  23",]
        );
        // The last of two columns of a rank is dropped first.
        assert_eq!(
            cut(25),
            ["name                    a", "abcdefghi…mnopqrstu     1",]
        );
        // A text is never cut to less than 14 characters.
        let short = [Column::new("name", Kind::Text, 0).shrinking_to(3)];
        assert_eq!(lines(&short, &rows, Some(2))[1], "abcdefg…pqrstu");
    }

    #[test]
    fn no_line_is_wider_than_the_room() {
        let (columns, rows) = sample();
        for room in 21..90 {
            for line in lines(&columns, &rows, Some(room)) {
                assert!(
                    line.width() <= room,
                    "{} columns for {room}: {line}",
                    line.width()
                );
            }
        }
    }

    #[test]
    fn texts_are_wrapped_at_blanks() {
        assert_eq!(
            wrap("version 3, 1.2 MB, closed", 12),
            ["version 3,", "1.2 MB,", "closed"]
        );
        assert_eq!(wrap("a /very/long/path", 9), ["a", "/ver…path"]);
        assert_eq!(wrap("short", 80), ["short"]);
        assert_eq!(wrap("ab cd", 5), ["ab cd"]);
        assert_eq!(wrap("ab cd", 4), ["ab", "cd"]);
        assert_eq!(wrap("1\u{202f}200 spans", 6), ["1\u{202f}200", "spans"]);
    }

    #[test]
    fn wide_characters_and_control_characters_keep_the_columns_straight() {
        assert_eq!(cut("名前の長いスコープ", 9), "名前…ープ");
        assert_eq!(
            (cut("abcd", 4), cut("abcde", 4)),
            ("abcd".into(), "ab…e".into())
        );
        assert_eq!((cut("abc", 1), cut("abc", 0)), ("…".into(), "…".into()));
        assert_eq!(printable("a\u{1b}[31mb\n"), "a\\u{1b}[31mb\\n");
        assert_eq!(printable(""), "(no name)");
        let turned = "a\u{202e}b\u{2066}c";
        assert_eq!(
            printable(turned),
            "a\\u{202e}b\\u{2066}c",
            "the order of reading stays"
        );
    }
}
