//! The declarations of a catalog, each before the first record that needs it.

use super::{Encoder, RecordRef};
use crate::model::catalog::{Catalog, SiteId, ThreadId};
use crate::model::scope_modes::ScopeModeChange;

/// The part of a catalog that is in the file, or in a stream.
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
        if catalog.columns.len() > self.columns {
            let first = self.columns as u32;
            encoder.encode(
                RecordRef::Columns {
                    first,
                    columns: &catalog.columns[self.columns..],
                },
                out,
            );
            self.columns = catalog.columns.len();
        }
        if catalog.frame_sets.len() > self.frame_sets {
            let first = self.frame_sets as u32;
            encoder.encode(
                RecordRef::FrameSets {
                    first,
                    names: &catalog.frame_sets[self.frame_sets..],
                },
                out,
            );
            self.frame_sets = catalog.frame_sets.len();
        }
        if catalog.threads.len() > self.threads {
            let first = ThreadId(self.threads as u32);
            encoder.encode(
                RecordRef::Threads {
                    first,
                    threads: &catalog.threads[self.threads..],
                },
                out,
            );
            self.threads = catalog.threads.len();
        }
        if catalog.sites.len() > self.sites {
            let first = SiteId(self.sites as u32 + 1);
            encoder.encode(
                RecordRef::Sites {
                    first,
                    sites: &catalog.sites[self.sites..],
                },
                out,
            );
            self.sites = catalog.sites.len();
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
