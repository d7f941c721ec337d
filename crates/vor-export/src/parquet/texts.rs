//! Columns of texts that many rows share, and the columns of a call site.

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, SiteId};

use super::coded::{Dictionary, NULL};
use super::table::Column;

/// A column of texts: each text once, and a code per row.
#[derive(Debug)]
pub(super) struct TextColumn<'a> {
    texts: Vec<&'a str>,
    codes: Vec<u32>,
}

impl<'a> TextColumn<'a> {
    /// Makes a column whose row `i` has the text `values[rows[i]]`.
    pub(super) fn new(values: impl Iterator<Item = &'a str>, rows: &[u32]) -> Self {
        let mut known = FxHashMap::default();
        let mut texts = Vec::new();
        let by_value: Vec<u32> = values
            .map(|text| {
                *known.entry(text).or_insert_with(|| {
                    texts.push(text);
                    texts.len() as u32 - 1
                })
            })
            .collect();
        Self {
            texts,
            codes: rows.iter().map(|&row| by_value[row as usize]).collect(),
        }
    }

    pub(super) fn column(&self) -> Column<'_> {
        Column::Coded(&self.codes, Dictionary::Texts(self.texts.clone()))
    }
}

/// The columns `name`, `file` and `line` of call sites.
#[derive(Debug)]
pub(super) struct SiteColumns<'a> {
    names: TextColumn<'a>,
    files: TextColumn<'a>,
    lines: Vec<i64>,
    line_codes: Vec<u32>,
}

impl<'a> SiteColumns<'a> {
    /// Makes the columns of rows whose row `i` belongs to `sites[rows[i]]`.
    pub(super) fn new(catalog: &'a Catalog, sites: &[SiteId], rows: &[u32]) -> Self {
        let file = |&id: &SiteId| catalog.site(id).map_or("", |site| &*site.file);
        let mut codes = FxHashMap::default();
        let mut lines = Vec::new();
        let by_site: Vec<u32> = sites
            .iter()
            .map(|&id| match catalog.site(id) {
                Some(site) if site.line > 0 => *codes.entry(site.line).or_insert_with(|| {
                    lines.push(i64::from(site.line));
                    lines.len() as u32 - 1
                }),
                _ => NULL,
            })
            .collect();
        Self {
            names: TextColumn::new(sites.iter().map(|&id| catalog.site_name(id)), rows),
            files: TextColumn::new(sites.iter().map(file), rows),
            line_codes: rows.iter().map(|&site| by_site[site as usize]).collect(),
            lines,
        }
    }

    pub(super) fn push<'b>(&'b self, columns: &mut Vec<Column<'b>>) {
        columns.push(self.names.column());
        columns.push(self.files.column());
        let lines = Dictionary::Ints(self.lines.clone());
        columns.push(Column::Coded(&self.line_codes, lines));
    }
}
