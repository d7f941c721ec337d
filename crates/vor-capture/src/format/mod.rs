//! The capture format, version 3: from bytes to records and from records to bytes. No input or
//! output happens here.
//!
//! `FORMAT.md` beside this file is the normative description. In short, a capture is
//!
//! ```text
//! header | record | record | … | index record | end record
//! record = len u32 | crc u32 | seq u32 | kind u8 | codec u8 | check u16 | payload
//! ```
//!
//! Every record is compressed and checksummed on its own, has a sequence number, and can be decoded
//! without the ones before it; ids refer to declarations, which are written twice in a row and once
//! more at a clean close.
//!
//! [`Encoder`] turns records into bytes and keeps the sequence numbers and the index. [`Decoder`]
//! takes bytes in pieces of any size and returns [`Event`]s: whole records, and what is damaged or
//! missing. [`PayloadDecoder`] decodes the contents of a record. [`RecordHead`], [`decode_payload`]
//! and [`parse_end`] serve a reader that seeks.

mod batches;
#[cfg(feature = "reader")]
mod damage;
#[cfg(feature = "reader")]
mod decoder;
mod declared;
mod encoder;
mod events;
mod head;
mod heap;
mod index;
mod lanes;
mod note;
mod pack;
#[cfg(feature = "reader")]
mod payload;
mod records;
mod scheduler;
#[cfg(feature = "reader")]
mod search;
#[cfg(feature = "reader")]
mod seq_set;
mod spans;
#[cfg(feature = "reader")]
pub mod v2;
mod wire;

use std::sync::Arc;

#[cfg(feature = "reader")]
pub use damage::{Damage, DamageReason};
pub use declared::Declared;
#[cfg(feature = "reader")]
pub use decoder::{Checkpoint, Decoder, Event, RawRecord};
pub use encoder::{Compression, Encoder};
pub use head::{Header, RecordHead, parse_end};
pub use note::NoteWriter;
#[cfg(feature = "reader")]
pub use payload::{PayloadDecoder, decode_payload};
#[cfg(feature = "reader")]
pub(crate) use search::{Candidate, Search};
#[cfg(feature = "reader")]
pub(crate) use seq_set::SeqSet;

use crate::model::batch::{SpanBatch, ThreadBatch};
use crate::model::catalog::{
    Catalog, Column, DumpInfo, MachineInfo, ProcessInfo, SegmentInfo, SiteId, SiteInfo, ThreadId,
    ThreadInfo,
};
use crate::model::frame::{FrameSnapshot, MetricValue};
use crate::model::heap::HeapSnapshot;
pub use crate::model::open_scopes::OpenScopes;
use crate::model::scheduler::SchedulerBatch;
use crate::model::scope_modes::{ScopeModeChange, ScopeModes};
use crate::model::timeline::ClockSync;

/// First bytes of every capture, of this version and of the predecessor's.
pub const MAGIC: [u8; 4] = *b"VOR1";
/// The version that this module reads and writes.
pub const VERSION: u16 = 3;
/// Bytes of the header as this version writes it. A later one may be longer and says so.
pub const HEADER_BYTES: usize = 44;
/// Bytes of a record before its payload, the length field included.
pub const RECORD_HEAD_BYTES: usize = 16;
/// Bytes of the end record, with which a cleanly closed capture ends.
pub const END_RECORD_BYTES: usize = RECORD_HEAD_BYTES + 16;
/// Most bytes that a payload may have, compressed or not.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;
/// Most spans in one record; a larger batch becomes several.
pub const MAX_RECORD_SPANS: usize = 1 << 18;
/// Most bytes of a text (a name, a message, an argument); longer ones are cut at a character
/// boundary when written.
pub const MAX_TEXT_BYTES: usize = 1 << 16;
/// Ids of declared sites and threads stay below this; later ones are not declared, and are shown as
/// unknown.
///
/// A reader's tables are dense, so a record of a few bytes that declares the last id makes it fill
/// a whole table. This cap and those of columns and frame sets bound all four tables together, each
/// briefly in two copies, to less than 64 MiB: 16 MiB for sites and for threads.
pub const MAX_DECLARED_ID: u32 = 1 << 21;
/// Ids of declared columns stay below this: far above what a recorder with `MAX_METRICS` metrics of
/// three columns needs.
pub const MAX_COLUMNS: u32 = 1 << 16;
/// Ids of frame sets stay below this. A recorder makes no more; readers skip frames of later ones.
pub const MAX_FRAME_SETS: u32 = 1 << 12;

/// The contents of a record of a capture.
#[derive(Clone, Debug, PartialEq)]
pub enum Record {
    /// The program that made the capture.
    Process(ProcessInfo),
    /// The machine on which it ran.
    Machine(MachineInfo),
    /// The place of the capture among those of its run.
    Segment(SegmentInfo),
    /// Why the capture was written.
    Dump(DumpInfo),
    /// Changes of the modes of call sites.
    ScopeModes(Vec<ScopeModeChange>),
    /// Call sites with consecutive ids.
    Sites {
        /// Id of the first one.
        first: SiteId,
        /// The sites.
        sites: Vec<SiteInfo>,
    },
    /// Threads with consecutive ids.
    Threads {
        /// Id of the first one.
        first: ThreadId,
        /// The threads.
        threads: Vec<ThreadInfo>,
    },
    /// Metrics with consecutive ids.
    Columns {
        /// Index of the first one in [`Catalog::columns`].
        first: u32,
        /// The metrics.
        columns: Vec<Column>,
    },
    /// Names of frame sets with consecutive ids.
    FrameSets {
        /// Index of the first one in [`Catalog::frame_sets`].
        first: u32,
        /// The names.
        names: Vec<String>,
    },
    /// A point of the clock's calibration.
    Clock(ClockSync),
    /// Spans, messages and the rest of a batch; one of the recorder may come as several of these. A
    /// thread may occur more than once.
    Batch(Vec<ThreadBatch>),
    /// A finished frame, without its spans: those are in the batches before it.
    Frame(FrameRecord),
    /// The scopes that were open when the recorder wrote this, at a close or a crash.
    OpenScopes(OpenScopes),
    /// Live memory at a moment. Its scopes have no names yet: [`HeapSnapshot::name_by`] fills them
    /// in.
    Heap(HeapSnapshot),
    /// Events of the operating system's scheduler.
    Scheduler(SchedulerBatch),
    /// Where the frames are, and totals.
    Index(Index),
    /// The last record of a cleanly closed capture.
    End {
        /// Offset of the index record in the file.
        index_offset: u64,
    },
}

/// A record to be written, borrowed from the recorder.
#[derive(Clone, Copy, Debug)]
pub enum RecordRef<'a> {
    /// The program that makes the capture. Written twice.
    Process(&'a ProcessInfo),
    /// The machine on which it runs. Written twice.
    Machine(&'a MachineInfo),
    /// The place of the capture among those of its run. Written twice.
    Segment(SegmentInfo),
    /// Why the capture is written. Written twice.
    Dump(&'a DumpInfo),
    /// Changes of the modes of call sites, after a tick or all. Written twice.
    ScopeModes(&'a ScopeModes, Option<u64>),
    /// Call sites with consecutive ids; a `None` is not declared. Written twice.
    Sites {
        /// Id of the first one.
        first: SiteId,
        /// A slice of [`Catalog::sites`].
        sites: &'a [Option<Arc<SiteInfo>>],
    },
    /// Threads with consecutive ids; a `None` is not declared. Written twice.
    Threads {
        /// Id of the first one.
        first: ThreadId,
        /// A slice of [`Catalog::threads`].
        threads: &'a [Option<Arc<ThreadInfo>>],
    },
    /// Metrics with consecutive ids. Written twice.
    Columns {
        /// Index of the first one in [`Catalog::columns`].
        first: u32,
        /// A slice of [`Catalog::columns`].
        columns: &'a [Column],
    },
    /// Frame sets with consecutive ids. Written twice.
    FrameSets {
        /// Index of the first one in [`Catalog::frame_sets`].
        first: u32,
        /// A slice of [`Catalog::frame_sets`].
        names: &'a [String],
    },
    /// A point of the clock's calibration. Written twice.
    Clock(&'a ClockSync),
    /// Spans and messages. Becomes several records when it is large.
    Batch(&'a SpanBatch),
    /// A finished frame; its trees are not written.
    Frame(&'a FrameSnapshot),
    /// The scopes that are open now.
    OpenScopes(&'a OpenScopes),
    /// The memory that is live now; without a tracked heap nothing is written.
    Heap(&'a HeapSnapshot),
    /// Events of the operating system's scheduler. Becomes several records when it is large.
    Scheduler(&'a SchedulerBatch),
}

/// A finished frame as a capture holds it.
///
/// The frame is whole when every record from `first_seq` up to this one was read (see
/// [`RawRecord::seq`]) and their spans add up to `span_count`, in whatever order damage brought the
/// records.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FrameRecord {
    /// Number of the frame within its set, from 0.
    pub index: u64,
    /// Index into [`Catalog::frame_sets`].
    pub frame_set: u32,
    /// The mark that began the frame, in ticks.
    pub start_ticks: u64,
    /// The mark that ended the frame, in ticks.
    pub end_ticks: u64,
    /// Values of the frame, ascending by column.
    pub metrics: Vec<MetricValue>,
    /// Spans lost in this frame because a ring was full.
    pub dropped_spans: u64,
    /// Marks that were merged into this frame.
    pub merged_marks: u64,
    /// Spans that ended in the frame.
    pub span_count: u64,
    /// Sequence number of the first record after the previous frame of the main set: the frame's
    /// batches begin there. In a secondary frame set, the record's own number.
    pub first_seq: u32,
}

/// The places of frames and tables in a cleanly closed capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Offset of a second copy of all declarations, which ends at the index itself.
    pub tables_offset: u64,
    /// Frames per frame set, by index into [`Catalog::frame_sets`].
    pub frames: Vec<u64>,
    /// Spans in all batches.
    pub spans: u64,
    /// Dropped spans, as counted by the frames of the main set and by the batches behind the last
    /// of them.
    pub dropped_spans: u64,
    /// Messages in all batches.
    pub messages: u64,
    /// Tasks in all batches.
    pub async_spans: u64,
    /// Records before the index.
    pub records: u64,
    /// First tick of the main set's first frame; 0 without one.
    pub start_ticks: u64,
    /// Last tick of the main set's last frame; 0 without one.
    pub end_ticks: u64,
    /// Where to start reading, ascending; always has the first and the last frame of the main set.
    pub seeks: Vec<Seek>,
}

/// A place in a capture at which the records of a frame of the main set begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seek {
    /// How many frames of the main set come before it in the file.
    pub ordinal: u64,
    /// [`FrameRecord::index`] of the frame.
    pub index: u64,
    /// Offset of the first record after the previous frame of the main set.
    pub offset: u64,
    /// [`FrameRecord::start_ticks`] of the frame.
    pub start_ticks: u64,
}

impl FrameRecord {
    /// Returns the whole number of the record at [`first_seq`](Self::first_seq), which wraps at
    /// 2^32, where this record's is `seq`. In a frame that contradicts itself it is above `seq`.
    pub(crate) fn first_whole_seq(&self, seq: u64) -> u64 {
        let records = (seq as u32).wrapping_sub(self.first_seq);
        // Before the first wrap nothing is below 0.
        let first = seq.checked_sub(u64::from(records));
        first.unwrap_or_else(|| u64::from(self.first_seq))
    }
}

impl Record {
    /// Adds a declaration to `catalog`, and returns whether the record is one. Applying it twice
    /// changes nothing.
    pub fn declare_into(&self, catalog: &mut Catalog) -> bool {
        index::declare_into(self, catalog)
    }
}
