//! Captures, read back: the module `reader` of `vor-capture`, and a [`Reader`] that makes puffin's
//! frames with the feature `puffin`.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, MetricColumn};
use vor_capture::reader::{self, Damage, Event, Frame, Recovered};

/// Reads a capture from its beginning, frame by frame; also one that is still being written.
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
    /// The file cannot be opened or read, or what it begins with is not the header of a capture;
    /// the text names the path.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        reader::Reader::open(path).map(with_flames)
    }
}

impl<R: Read> Reader<R> {
    /// Makes a reader and reads the header, and of a capture of version 3 the declarations behind
    /// it.
    ///
    /// # Errors
    ///
    /// `inner` fails, or what it begins with is not the header of a capture that this build can
    /// read.
    pub fn new(inner: R) -> io::Result<Self> {
        reader::Reader::new(inner).map(with_flames)
    }

    /// Returns the system columns, whose values every frame has. In a capture of version 3 a column
    /// may be added as frames are read.
    pub fn columns(&self) -> &[MetricColumn] {
        self.0.columns()
    }

    /// Returns the user columns declared so far; they grow as frames are read.
    pub fn user_columns(&self) -> &[MetricColumn] {
        self.0.user_columns()
    }

    /// Returns whether frames may have flames; no frame need have one. A capture of version 3 says
    /// whether it keeps spans; without the feature `puffin` no flame is made of them.
    pub const fn flame_enabled(&self) -> bool {
        self.0.flame_enabled()
    }

    /// Returns the version of the file's format.
    pub const fn version(&self) -> u16 {
        self.0.version()
    }

    /// Returns what the ids and ticks of a capture of version 3 refer to, as far as it was read.
    pub fn catalog(&self) -> Option<&Arc<Catalog>> {
        self.0.catalog()
    }

    /// Returns what could not be read so far.
    pub const fn damage(&self) -> &Damage {
        self.0.damage()
    }

    /// Returns the next frame, or `None` at the end or at an unfinished record; it may be called
    /// again when more was written.
    ///
    /// # Errors
    ///
    /// The input fails. Damage is no error: it is skipped and reported by [`damage`](Self::damage).
    pub fn next_frame(&mut self) -> io::Result<Option<Frame>> {
        self.0.next_frame()
    }

    /// Returns the next frame of the main set with its span trees, and says whether all of it is
    /// there. See [`next_frame`](Self::next_frame).
    ///
    /// # Errors
    ///
    /// The input fails, or the capture is of version 2, of which
    /// `Capture` makes trees.
    pub fn next_recovered(&mut self) -> io::Result<Option<Recovered>> {
        self.0.next_recovered()
    }

    /// Returns what a capture of version 3 says next, batch by batch: in the memory of one record,
    /// however long its frames.
    ///
    /// Batches returned here are missing from the trees of a frame that is read afterwards.
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
    // On the web puffin reads frames and writes none.
    #[cfg(all(feature = "puffin", target_arch = "wasm32"))]
    let reader = reader.with_flames(|_| None);
    Reader(reader)
}
