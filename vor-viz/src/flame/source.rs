//! The source around the line of a call site, where its file can be found.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use egui::{Label, RichText, Ui};
use rustc_hash::FxHashMap;
use vor_capture::model::catalog::SiteInfo;

use crate::theme::{Theme, space, text};

/// Lines before and after that of the call site.
const BEFORE: usize = 2;
const AFTER: usize = 4;

/// Largest file that is read.
const MAX_FILE_BYTES: u64 = 8 << 20;

/// Longest shown line, in characters.
const MAX_LINE_CHARS: usize = 400;

/// Finds the lines of call sites.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// Where files with relative names are looked for, the first one first.
    folders: Vec<PathBuf>,
    /// The results of searches, by file and line.
    known: FxHashMap<(String, u32), Option<Excerpt>>,
}

/// Lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    path: PathBuf,
    /// The number of the first line, from 1.
    first: usize,
    lines: Vec<String>,
}

impl SourceFiles {
    pub(super) fn set_folders(&mut self, folders: Vec<PathBuf>) {
        *self = Self {
            folders,
            ..Self::default()
        };
    }

    /// Shows the lines around a call site, if its file is found.
    pub(super) fn show(&mut self, ui: &mut Ui, theme: &Theme, site: &SiteInfo) {
        if self.folders.is_empty() || site.file.is_empty() || site.line == 0 {
            return;
        }
        let folders = &self.folders;
        let key = (site.file.to_string(), site.line);
        let found = self.known.entry(key);
        let found = found.or_insert_with(|| find(folders, &site.file, site.line as usize));
        let Some(excerpt) = found else {
            return;
        };
        ui.add_space(space::TEXT);
        ui.spacing_mut().item_spacing.y = 0.0;
        for (number, line) in (excerpt.first..).zip(&excerpt.lines) {
            let is_it = number == site.line as usize;
            let text = RichText::new(format!("{number:>4} {line}"))
                .monospace()
                .size(text::SMALL)
                .color(if is_it { theme.text } else { theme.weak_text });
            let whole = format!("{}:{number}\n{}", excerpt.path.display(), line.trim());
            ui.add(Label::new(text).truncate()).on_hover_text(whole);
        }
    }
}

/// Returns the lines around one of a file.
fn find(folders: &[PathBuf], name: &str, line: usize) -> Option<Excerpt> {
    // An absolute name replaces the folder.
    folders
        .iter()
        .map(|folder| folder.join(name))
        .find_map(|path| read(&path, line))
}

fn read(path: &Path, line: usize) -> Option<Excerpt> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return None;
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).ok()?;
    let first = line.saturating_sub(BEFORE).max(1);
    let lines: Vec<String> = text
        .lines()
        .skip(first - 1)
        .take(line - first + 1 + AFTER)
        .map(|line| {
            line.replace('\t', "    ")
                .chars()
                .take(MAX_LINE_CHARS)
                .collect()
        })
        .collect();
    // A file that ends before the line is another one.
    (lines.len() > line - first).then(|| Excerpt {
        path: path.to_owned(),
        first,
        lines,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn lines_are_found_in_the_first_folder_that_has_the_file() {
        let (one, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let folders = [one.path().to_owned(), other.path().to_owned()];
        let text: String = (1..=20).map(|line| format!("\tline {line}\n")).collect();
        std::fs::create_dir(other.path().join("src")).unwrap();
        std::fs::write(other.path().join("src/main.rs"), text).unwrap();
        let excerpt = find(&folders, "src/main.rs", 10).unwrap();
        assert_eq!((excerpt.first, excerpt.lines.len()), (8, 7));
        assert_eq!(excerpt.lines[2], "    line 10");
        let begin = find(&folders, "src/main.rs", 1).unwrap();
        assert_eq!((begin.first, begin.lines.len()), (1, 5));
        assert_eq!(find(&folders, "src/main.rs", 20).unwrap().lines.len(), 3);
        // Neither a file that is too short, nor a folder, nor nothing.
        for (name, line) in [("src/main.rs", 21), ("src", 1), ("src/lib.rs", 1)] {
            assert_eq!(find(&folders, name, line), None, "{name}:{line}");
        }
    }
}
