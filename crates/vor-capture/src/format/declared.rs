//! The declarations of a catalog, each before the first record that needs it.

use super::{Encoder, RecordRef};
use crate::model::catalog::{Catalog, SiteId, ThreadId};
use crate::model::scope_modes::ScopeModeChange;

/// The part of a catalog that is in a file, or in a stream. It writes each entry once.
///
/// # Examples
///
/// ```
/// use vor_capture::format::{Declared, Encoder, Header};
/// use vor_capture::model::catalog::Catalog;
///
/// let (catalog, mut encoder) = (Catalog::default(), Encoder::new(Header::default()));
/// let (mut declared, mut bytes) = (Declared::default(), Vec::new());
/// encoder.header(&mut bytes);
/// assert!(declared.begin(&catalog, &mut encoder, &mut bytes));
/// declared.put(&catalog, &mut encoder, &mut bytes);
/// let written = bytes.len();
/// declared.put(&catalog, &mut encoder, &mut bytes);
/// assert_eq!(bytes.len(), written, "everything is declared");
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Declared {
    process: bool,
    sites: usize,
    threads: usize,
    columns: usize,
    frame_sets: usize,
    /// Tick of the last clock record.
    sync_ticks: Option<u64>,
    /// Tick of the last change of a mode.
    mode_ticks: Option<u64>,
}

impl Declared {
    /// Writes which program and machine it is, at the first call. Returns whether this is that
    /// call.
    pub fn begin(&mut self, catalog: &Catalog, encoder: &mut Encoder, out: &mut Vec<u8>) -> bool {
        if std::mem::replace(&mut self.process, true) {
            return false;
        }
        encoder.encode(RecordRef::Process(&catalog.process), out);
        encoder.encode(RecordRef::Machine(&catalog.machine), out);
        true
    }

    /// Writes the other entries of `catalog` that are not written yet.
    pub fn put(&mut self, catalog: &Catalog, encoder: &mut Encoder, out: &mut Vec<u8>) {
        let syncs = catalog.timeline.syncs();
        let new = syncs.partition_point(|sync| Some(sync.ticks) <= self.sync_ticks);
        for sync in &syncs[new..] {
            encoder.encode(RecordRef::Clock(sync), out);
            self.sync_ticks = Some(sync.ticks);
        }
        if let Some((first, columns)) = rest(&catalog.columns, &mut self.columns) {
            encoder.encode(RecordRef::Columns { first, columns }, out);
        }
        if let Some((first, names)) = rest(&catalog.frame_sets, &mut self.frame_sets) {
            encoder.encode(RecordRef::FrameSets { first, names }, out);
        }
        if let Some((first, threads)) = rest(&catalog.threads, &mut self.threads) {
            let first = ThreadId(first);
            encoder.encode(RecordRef::Threads { first, threads }, out);
        }
        if let Some((first, sites)) = rest(&catalog.sites, &mut self.sites) {
            // Ids of sites begin at 1.
            let first = SiteId(first + 1);
            encoder.encode(RecordRef::Sites { first, sites }, out);
        }
    }

    /// Writes the changes of scopes' modes that are not written yet, and returns them. They
    /// come behind the sites that they name.
    ///
    /// At first it writes only what still holds, because the rest may be from long before this
    /// capture, unless `is_dump`: a dump has records from before its begin.
    pub fn put_modes(
        &mut self,
        catalog: &Catalog,
        is_dump: bool,
        encoder: &mut Encoder,
        out: &mut Vec<u8>,
    ) -> Vec<ScopeModeChange> {
        let current = self.mode_ticks.is_none() && !is_dump;
        let current = current.then(|| catalog.scope_modes.current());
        let modes = current.as_ref().unwrap_or(&catalog.scope_modes);
        encoder.encode(RecordRef::ScopeModes(modes, self.mode_ticks), out);
        let written = modes.after(self.mode_ticks).collect();
        let new = catalog.scope_modes.after(self.mode_ticks);
        self.mode_ticks = new.last().map(|last| last.ticks).or(self.mode_ticks);
        written
    }
}

/// Returns the entries beyond those that are known, and the place of the first one.
fn rest<'a, T>(table: &'a [T], known: &mut usize) -> Option<(u32, &'a [T])> {
    let first = *known;
    *known = table.len().max(first);
    let entries = table.get(first..).filter(|entries| !entries.is_empty())?;
    Some((first as u32, entries))
}
