//! The newest segment of a run, and those after it, as they grow: added to one file.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::join::OneCapture;
use super::mapping::{self, Mapping};
use super::pieces::mapped;
use super::{SegmentedCapture, add_damage};
use crate::Error;
use crate::model::catalog::Catalog;
use crate::reader::{Damage, Reader};

/// Captures that are written as one while the newest of them grows. Made by
/// [`SegmentedCapture::follow_as_one`].
#[derive(Debug)]
pub struct SegmentFollower {
    one: OneCapture,
    newest: Newest,
    /// The damage of the segments before the newest.
    damage: Damage,
}

/// The segment that grows.
#[derive(Debug)]
struct Newest {
    path: PathBuf,
    reader: Reader<File>,
    mapping: Option<Mapping>,
    /// The catalog of the segment, as far as it is declared in the one file.
    declared: Option<Arc<Catalog>>,
}

impl SegmentedCapture {
    /// Writes everything but the newest segment as one capture, which [`SegmentFollower`] goes on
    /// with. `progress` gets the bytes that were read, and how many there are.
    ///
    /// # Errors
    ///
    /// The newest segment cannot be read, or `out` cannot be written.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_capture::Error; pub use vor_capture::reader as capture; }
    /// let segments = vor::capture::SegmentedCapture::open("captures/")?;
    /// let mut file = std::fs::File::create("all.vor").unwrap();
    /// let mut follower = segments.follow_as_one(&mut file, |_, _| {})?;
    /// follower.write_more(&mut file)?;
    /// while !follower.is_closed() {
    ///     std::thread::sleep(std::time::Duration::from_millis(50));
    ///     follower.write_more(&mut file)?;
    /// }
    /// follower.close(&mut file)?;
    /// # Ok::<(), vor::Error>(())
    /// ```
    pub fn follow_as_one(
        mut self,
        out: &mut impl Write,
        progress: impl FnMut(u64, u64),
    ) -> Result<SegmentFollower, Error> {
        let mut one = OneCapture::begin(&self);
        let before = self.segments.len().saturating_sub(1);
        let damage = one.put_all(&mut self, before, out, progress)?;
        let Some(last) = self.segments.pop() else {
            return Err(Error::config("there is no segment"));
        };
        Ok(SegmentFollower {
            one,
            newest: Newest {
                reader: open(&last.path)?,
                path: last.path,
                mapping: last.mapping.map(Arc::unwrap_or_clone),
                declared: None,
            },
            damage,
        })
    }
}

impl SegmentFollower {
    /// Writes what the newest segment has by now. Returns whether there was anything.
    ///
    /// # Errors
    ///
    /// The segment cannot be read, or `out` cannot be written.
    pub fn write_more(&mut self, out: &mut impl Write) -> Result<bool, Error> {
        let (one, newest) = (&mut self.one, &mut self.newest);
        let mut is_more = false;
        while let Some(event) = newest
            .reader
            .next_event()
            .map_err(|error| failed(&newest.path, error))?
        {
            is_more = true;
            newest.declare(one);
            if let Some(piece) = mapped(event, newest.mapping.as_ref(), one.catalog()) {
                one.put(&piece, out)?;
            }
        }
        newest.declare(one);
        one.write(out)?;
        Ok(is_more)
    }

    /// Goes on with the segment at `path`, if it continues the same run, and returns whether it
    /// does; `None` if the segment does not say so yet. Everything of the newest one must be
    /// written.
    ///
    /// # Errors
    ///
    /// The segment cannot be read.
    pub fn go_on(&mut self, path: &Path) -> Result<Option<bool>, Error> {
        let reader = open(path)?;
        let run = |reader: &Reader<File>| Some(reader.catalog()?.segment?.run);
        if run(&reader).is_none() {
            return Ok(None);
        }
        if run(&reader) != run(&self.newest.reader) {
            return Ok(Some(false));
        }
        add_damage(
            &mut self.damage,
            &self.newest.path,
            self.newest.reader.damage(),
        );
        self.newest.path = path.to_owned();
        self.newest.reader = reader;
        self.newest.declared = None;
        Ok(Some(true))
    }

    /// Returns the newest segment.
    #[must_use]
    pub fn newest(&self) -> &Path {
        &self.newest.path
    }

    /// Returns the catalog of the newest segment.
    #[must_use]
    pub fn newest_catalog(&self) -> Option<&Arc<Catalog>> {
        self.newest.reader.catalog()
    }

    /// Returns whether the newest segment is complete. The last
    /// [`write_more`](Self::write_more) has found that out.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.newest.reader.damage().tail.is_none()
    }

    /// Ends the one capture, and returns the damage of all segments.
    ///
    /// # Errors
    ///
    /// `out` cannot be written.
    pub fn close(mut self, out: &mut impl Write) -> Result<Damage, Error> {
        self.one.close(out)?;
        add_damage(
            &mut self.damage,
            &self.newest.path,
            self.newest.reader.damage(),
        );
        Ok(self.damage)
    }
}

impl Newest {
    /// Declares what the segment has declared since.
    fn declare(&mut self, one: &mut OneCapture) {
        let Some(run) = self.reader.catalog() else {
            return;
        };
        if self
            .declared
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, run))
        {
            return;
        }
        one.declare(|all| match &mut self.mapping {
            Some(mapping) => mapping.extend(all, run),
            None => mapping::join(all, run),
        });
        self.declared = Some(Arc::clone(run));
    }
}

fn open(path: &Path) -> Result<Reader<File>, Error> {
    let file = File::open(path).map_err(|error| failed(path, error))?;
    Reader::new(file).map_err(|error| failed(path, error))
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    Error::io(path.display().to_string(), error)
}
