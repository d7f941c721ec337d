//! Reads captures: the module `reader` of `vor-capture`, and a [`Reader`] that makes puffin's
//! frames with the feature `puffin`.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, MetricColumn};
use vor_capture::reader::{self, Damage, Event, Frame, Recovered};

/// Reads a capture from its beginning, frame by frame, even while it is still being written.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::bridges::reader::Reader; }
/// let mut reader = vor::Reader::open("run.vor")?;
/// while let Some(frame) = reader.next_frame()? {
///     println!("{:?}", frame.user);
/// }
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Reader<R: Read>(reader::Reader<R>);

impl Reader<BufReader<File>> {
    /// Opens a capture.
    ///
    /// # Errors
    ///
    /// The file cannot be opened or read, or it does not begin with the header of a capture; the
    /// text names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        reader::Reader::open(path).map(with_flames)
    }
}

impl<R: Read> Reader<R> {
    /// Creates a reader and reads the header. In a capture of version 3, it also reads the
    /// declarations after the header.
    ///
    /// # Errors
    ///
    /// `inner` fails, or does not begin with the header of a capture that this build can read.
    pub fn new(inner: R) -> io::Result<Self> {
        reader::Reader::new(inner).map(with_flames)
    }

    /// Returns the system columns; every frame has their values. In a capture of version 3, columns
    /// may be added as frames are read.
    pub fn columns(&self) -> &[MetricColumn] {
        self.0.columns()
    }

    /// Returns the user columns declared so far; more may follow as frames are read.
    pub fn user_columns(&self) -> &[MetricColumn] {
        self.0.user_columns()
    }

    /// Returns whether frames may have flames; a frame need not have one. A capture of version 3
    /// records whether it keeps spans; without the feature `puffin` they do not become flames.
    pub const fn flame_enabled(&self) -> bool {
        self.0.flame_enabled()
    }

    /// Returns the version of the file's format.
    pub const fn version(&self) -> u16 {
        self.0.version()
    }

    /// Returns the names behind the ids and ticks of a capture of version 3, as far as it was read.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.0.catalog()
    }

    /// Returns the damage found so far.
    pub const fn damage(&self) -> &Damage {
        self.0.damage()
    }

    /// Returns the next frame, or `None` at the end or at an unfinished record. Call it again when
    /// more was written.
    ///
    /// # Errors
    ///
    /// The input fails. Damage is not an error: it is skipped and reported by
    /// [`damage`](Self::damage).
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        self.0.next_frame()
    }

    /// Returns the next frame of the main set with its span trees, and whether it is complete. See
    /// [`next_frame`](Self::next_frame).
    ///
    /// # Errors
    ///
    /// The input fails, or the capture is of version 2; `Capture` makes trees from that version.
    pub fn next_recovered(&mut self) -> io::Result<Option<Recovered>> {
        self.0.next_recovered()
    }

    /// Returns the next event of a capture of version 3, batch by batch. Memory use is bounded by
    /// one record, however long the frames.
    ///
    /// Batches that this returns are missing from the trees of a frame that is read later.
    ///
    /// # Errors
    ///
    /// The input fails, or the capture is of version 2.
    pub fn next_event(&mut self) -> io::Result<Option<Event>> {
        self.0.next_event()
    }
}

fn with_flames<R: Read>(reader: reader::Reader<R>) -> Reader<R> {
    #[cfg(all(feature = "puffin", not(target_arch = "wasm32")))]
    let reader = reader.with_flames(crate::sinks::puffin::frame_bytes);
    // In wasm, puffin reads frames but does not write them.
    #[cfg(all(feature = "puffin", target_arch = "wasm32"))]
    let reader = reader.with_flames(|_| None);
    Reader(reader)
}
