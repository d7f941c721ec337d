//! Snapshots of the heap as profiles: live allocations by stack, and the difference of two
//! snapshots.

use std::io::{self, Write};

use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot};

use super::{Frame, ProfileBuilder, SampleType};
use crate::saturated;

/// Heap snapshots as profiles of pprof.
pub trait HeapPprof {
    /// Writes the snapshot as a gzipped profile of pprof, with `inuse_objects` and `inuse_bytes` of
    /// every stack of scopes. `go tool pprof -base` subtracts an earlier one.
    ///
    /// # Errors
    ///
    /// The writer fails.
    ///
    /// # Examples
    ///
    /// ```
    /// use vor_capture::model::heap::HeapSnapshot;
    /// use vor_export::pprof::HeapPprof;
    ///
    /// let mut file = Vec::new();
    /// HeapSnapshot::default().write_pprof(&mut file)?;
    /// assert_eq!(file[..2], [0x1f, 0x8b]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    fn write_pprof(&self, writer: impl Write) -> io::Result<()>;

    /// Writes the difference from an earlier snapshot as a gzipped profile of pprof; a decrease is
    /// negative.
    ///
    /// # Errors
    ///
    /// The writer fails.
    fn write_pprof_since(&self, earlier: &Self, writer: impl Write) -> io::Result<()>;
}

impl HeapPprof for HeapSnapshot {
    fn write_pprof(&self, writer: impl Write) -> io::Result<()> {
        snapshot_profile(self).write_gzipped(writer)
    }

    fn write_pprof_since(&self, earlier: &Self, writer: impl Write) -> io::Result<()> {
        let changes = self.difference(earlier);
        let rows = changes
            .iter()
            .map(|change| (&*change.scopes, change.inuse_objects, change.inuse_bytes));
        profile(self.mode, rows).write_gzipped(writer)
    }
}

/// Makes the profile of a snapshot.
#[must_use]
pub fn snapshot_profile(snapshot: &HeapSnapshot) -> ProfileBuilder {
    let stacks = snapshot.stacks.iter();
    let rows = stacks.map(|stack| {
        (
            &*stack.scopes,
            saturated(stack.inuse_objects),
            saturated(stack.inuse_bytes),
        )
    });
    profile(snapshot.mode, rows)
}

/// The values of a heap profile.
pub const HEAP_TYPES: [SampleType; 2] = [SampleType::INUSE_BYTES, SampleType::INUSE_OBJECTS];

fn profile<'a>(
    mode: HeapMode,
    rows: impl Iterator<Item = (&'a [HeapScope], i64, i64)>,
) -> ProfileBuilder {
    let mut profile = ProfileBuilder::new(&HEAP_TYPES);
    let period = match mode {
        HeapMode::Sampled { interval_bytes } => interval_bytes,
        _ => 1,
    };
    profile.set_period(&SampleType::new("space", "bytes"), period);
    if mode == HeapMode::Off {
        profile.add_comment(
            "the program's allocator does not track live allocations, so the heap is unknown",
        );
    }
    for (scopes, objects, bytes) in rows {
        let frames = scopes.iter().map(|scope| Frame {
            name: &scope.info.name,
            file: &scope.info.file,
            line: scope.info.line,
        });
        // Allocations without an open scope belong to the program as a whole.
        let outside = Frame {
            name: "(outside of scopes)",
            ..Frame::default()
        };
        let outside = scopes.is_empty().then_some(outside);
        profile.add(outside.into_iter().chain(frames), &[bytes, objects], []);
    }
    profile
}
