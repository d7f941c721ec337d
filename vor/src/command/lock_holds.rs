//! How long locks were held, by lock: the second table of `vor locks`.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use vor_capture::model::batch::ThreadBatch;
use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::model::waits::held_lock;
use vor_capture::units;

use crate::command::failure::Failure;
use crate::command::locks::Sums;
use crate::command::table::{Column, Kind, printable, write_table};

/// The holds of all locks that record them.
#[derive(Debug, Default)]
pub(super) struct Holds(BTreeMap<String, Sums>);

#[derive(Debug, Serialize)]
pub(super) struct HoldJson<'a> {
    lock: &'a str,
    holds: u64,
    total_ns: u64,
    mean_ns: f64,
    max_ns: u64,
}

impl Holds {
    /// Adds the holds that ended on a thread.
    pub(super) fn add_thread(&mut self, catalog: &Catalog, thread: &ThreadBatch) {
        for span in &thread.async_spans {
            let Some(lock) = lock_of(catalog, span.site) else {
                continue;
            };
            let ns = (catalog.timeline).duration_ns(span.start_ticks, span.duration_ticks);
            match self.0.get_mut(lock) {
                Some(sums) => sums.add(Sums::of(ns)),
                None => _ = self.0.insert(lock.to_owned(), Sums::of(ns)),
            }
        }
    }

    /// Returns the rows, those with the longest time first.
    fn rows(&self) -> Vec<(&str, Sums)> {
        let rows = self.0.iter().map(|(lock, sums)| (lock.as_str(), *sums));
        let mut rows: Vec<_> = rows.collect();
        rows.sort_by_key(|(lock, sums)| (std::cmp::Reverse(sums.total_ns), *lock));
        rows
    }

    pub(super) fn json(&self) -> Vec<HoldJson<'_>> {
        let rows = self.rows().into_iter();
        let json = rows.map(|(lock, sums)| HoldJson {
            lock,
            holds: sums.count,
            total_ns: sums.total_ns,
            mean_ns: sums.mean_ns(),
            max_ns: sums.max_ns,
        });
        json.collect()
    }

    /// Writes the table, if there is a lock that records its holds.
    pub(super) fn print(&self, limit: usize, out: &mut impl Write) -> Result<(), Failure> {
        let rows = self.rows();
        if rows.is_empty() {
            return Ok(());
        }
        writeln!(out).map_err(Failure::output)?;
        let columns = [
            Column::new("lock", Kind::Text, 0),
            Column::new("holds", Kind::Number, 1),
            Column::new("held", Kind::Number, 0),
            Column::new("mean", Kind::Number, 2),
            Column::new("max", Kind::Number, 3),
        ];
        let cells = |(lock, sums): &(&str, Sums)| {
            vec![
                printable(lock),
                units::count(sums.count),
                units::duration(sums.total_ns as f64),
                units::duration(sums.mean_ns()),
                units::duration(sums.max_ns as f64),
            ]
        };
        let shown: Vec<Vec<String>> = rows.iter().take(limit).map(cells).collect();
        write_table(out, &columns, &shown)?;
        let more = rows.len().saturating_sub(limit);
        if more > 0 {
            let more = units::counted(more as u64, "more lock");
            writeln!(out, "and {more}; -n shows them").map_err(Failure::output)?;
        }
        Ok(())
    }
}

fn lock_of(catalog: &Catalog, site: SiteId) -> Option<&str> {
    held_lock(catalog.site(site)?)
}
