//! Snapshots of the heap as profiles: who allocated what is still in use, and what has come between
//! two of them.

use std::io::{self, Write};

use vor_capture::model::heap::{HeapMode, HeapScope, HeapSnapshot};

use super::{Frame, ProfileBuilder, SampleType};

/// Heap snapshots as profiles of pprof.
pub trait HeapPprof {
    /// Writes the snapshot as a gzipped profile of pprof, with `inuse_objects` and `inuse_bytes` of
    /// every stack of scopes. `go tool pprof -base` subtracts an earlier one.
    ///
    /// # Errors
    ///
    /// Fails where the writer does.
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

    /// Writes what has come and gone since an earlier snapshot as a gzipped profile of pprof; what
    /// is gone is negative.
    ///
    /// # Errors
    ///
    /// Fails where the writer does.
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
            integer(stack.inuse_objects),
            integer(stack.inuse_bytes),
        )
    });
    profile(snapshot.mode, rows)
}

/// What the values of a heap are.
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
            "the program's allocator does not keep what is in use, so nothing is known of it",
        );
    }
    for (scopes, objects, bytes) in rows {
        let frames = scopes.iter().map(|scope| Frame {
            name: &scope.info.name,
            file: &scope.info.file,
            line: scope.info.line,
        });
        // What no scope was open for is of the program as a whole.
        let outside = Frame {
            name: "(outside of scopes)",
            ..Frame::default()
        };
        let outside = scopes.is_empty().then_some(outside);
        profile.add(outside.into_iter().chain(frames), &[bytes, objects], []);
    }
    profile
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
