//! Records of a crashing process: uncompressed, with one entry each, in buffers that are large
//! enough beforehand, so that nothing is allocated.

use super::head::{CODEC_RAW, kind, put_record};
use super::records::{put_site, put_thread};
use super::wire::{put_varint, zigzag};
use crate::model::catalog::{SiteId, SiteInfo, ThreadId, ThreadInfo};

/// Most bytes of all texts of a declaration; larger ones are not declared.
const MAX_NOTE_TEXT_BYTES: usize = 16 << 10;
/// Bytes of the payload's buffer: the texts, their lengths, and the rest.
const PAYLOAD_BYTES: usize = MAX_NOTE_TEXT_BYTES + (8 << 10);

/// Encodes the records that a crashing process appends to its capture. It allocates the memory for
/// the largest of them when it is made, and none later.
#[derive(Debug)]
pub struct NoteWriter {
    payload: Vec<u8>,
    record: Vec<u8>,
}

impl Default for NoteWriter {
    fn default() -> Self {
        Self {
            payload: Vec::with_capacity(PAYLOAD_BYTES),
            record: Vec::with_capacity(PAYLOAD_BYTES + 64),
        }
    }
}

impl NoteWriter {
    /// Makes the record of the open scopes of a thread, at most `MAX_OPEN` of them.
    pub fn open_scopes(
        &mut self,
        (seed, seq): (u32, u32),
        ticks: u64,
        thread: ThreadId,
        open: &[(SiteId, u64)],
    ) -> &[u8] {
        self.payload.clear();
        put_varint(&mut self.payload, ticks);
        put_varint(&mut self.payload, 1);
        put_varint(&mut self.payload, u64::from(thread.0));
        put_varint(&mut self.payload, open.len() as u64);
        for (site, start_ticks) in open {
            put_varint(&mut self.payload, u64::from(site.0));
            put_varint(
                &mut self.payload,
                zigzag(ticks.wrapping_sub(*start_ticks) as i64),
            );
        }
        self.end(seed, seq, kind::OPEN_SCOPES)
    }

    /// Makes the declaration of a site, unless it is too large.
    pub fn site(&mut self, (seed, seq): (u32, u32), id: SiteId, site: &SiteInfo) -> Option<&[u8]> {
        let args: usize = site.arg_names.iter().map(|name| name.len() + 10).sum();
        let texts =
            site.name.len() + site.module_path.len() + site.file.len() + site.category.len();
        if texts + args > MAX_NOTE_TEXT_BYTES {
            return None;
        }
        self.payload.clear();
        put_varint(&mut self.payload, u64::from(id.0));
        put_varint(&mut self.payload, 1);
        put_site(&mut self.payload, site);
        Some(self.end(seed, seq, kind::SITES))
    }

    /// Makes the declaration of a thread, unless it is too large.
    pub fn thread(
        &mut self,
        (seed, seq): (u32, u32),
        id: ThreadId,
        thread: &ThreadInfo,
    ) -> Option<&[u8]> {
        if thread.name.len() > MAX_NOTE_TEXT_BYTES {
            return None;
        }
        self.payload.clear();
        put_varint(&mut self.payload, u64::from(id.0));
        put_varint(&mut self.payload, 1);
        put_thread(&mut self.payload, thread);
        Some(self.end(seed, seq, kind::THREADS))
    }

    fn end(&mut self, seed: u32, seq: u32, kind: u8) -> &[u8] {
        self.record.clear();
        put_record(&mut self.record, seed, seq, kind, CODEC_RAW, &self.payload);
        &self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::RECORD_HEAD_BYTES;

    #[test]
    fn the_largest_notes_need_no_more_memory_than_is_there() {
        let mut notes = NoteWriter::default();
        let buffers = |notes: &NoteWriter| {
            let (payload, record) = (&notes.payload, &notes.record);
            (
                payload.as_ptr(),
                record.as_ptr(),
                payload.capacity(),
                record.capacity(),
            )
        };
        let before = buffers(&notes);
        // As large as the texts, their lengths, and the head of a record.
        assert!(
            before.2 >= MAX_NOTE_TEXT_BYTES + 8192 && before.2 < 1 << 16,
            "{before:?}"
        );
        assert!(
            before.3 >= before.2 + RECORD_HEAD_BYTES && before.3 < 1 << 16,
            "{before:?}"
        );
        let text = |bytes: usize| "x".repeat(bytes);
        let largest = SiteInfo {
            name: text(MAX_NOTE_TEXT_BYTES - 200 * 15).into(),
            arg_names: vec![text(5).into(); 200],
            line: u32::MAX,
            ..SiteInfo::default()
        };
        assert!(
            notes
                .site((1, u32::MAX), SiteId(u32::MAX), &largest)
                .is_some()
        );
        let largest = ThreadInfo {
            os_id: u64::MAX,
            name: text(MAX_NOTE_TEXT_BYTES),
        };
        assert!(
            notes
                .thread((1, u32::MAX), ThreadId(u32::MAX), &largest)
                .is_some()
        );
        // Numbers of five bytes and ten.
        let open = [(SiteId(u32::MAX), u64::MAX / 2); 1600];
        notes.open_scopes((1, u32::MAX), 0, ThreadId(u32::MAX), &open);
        assert_eq!(buffers(&notes), before);
    }
}
