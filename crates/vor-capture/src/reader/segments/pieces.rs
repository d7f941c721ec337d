//! The batches and frames of several captures, one capture after the other.

use std::fs::File;
use std::io::BufReader;
use std::sync::Arc;

use super::mapping::Mapping;
use super::{SegmentedCapture, add_damage};
use crate::Error;
use crate::model::catalog::Catalog;
use crate::reader::unmarked::UnmarkedFrame;
use crate::reader::{Damage, Event, Loss, Piece, Pieces, Reader};

/// The batches and frames of a [`SegmentedCapture`] from the beginning on. The batches of a frame
/// come before it. A file that cannot be read any more costs itself, and is in the
/// [damage](Self::damage).
#[derive(Debug)]
pub struct SegmentPieces<'a>(Inner<'a>);

#[derive(Debug)]
enum Inner<'a> {
    One(Pieces<'a>),
    Many(Many<'a>),
}

#[derive(Debug)]
struct Many<'a> {
    segments: &'a SegmentedCapture,
    /// The segment that is read next.
    next: usize,
    /// How many segments are read.
    count: usize,
    reader: Option<Reader<BufReader<File>>>,
    /// Bytes of the segments that were read.
    read_bytes: u64,
    damage: Damage,
    /// The one frame of captures without marks, until it was returned.
    unmarked: Option<UnmarkedFrame>,
}

impl<'a> SegmentPieces<'a> {
    pub(super) fn new(segments: &'a mut SegmentedCapture, count: usize) -> Result<Self, Error> {
        if !segments.is_one() || count == 0 {
            segments.open = None;
            let unmarked = segments.is_unmarked().then(UnmarkedFrame::default);
            return Ok(Self(Inner::Many(Many {
                segments,
                next: 0,
                count,
                reader: None,
                read_bytes: 0,
                damage: Damage::default(),
                unmarked,
            })));
        }
        let path = &segments.segments[0].path;
        match &mut segments.open {
            Some((_, capture)) => Ok(Self(Inner::One(Pieces::open(path, capture)?))),
            None => Err(Error::config(format!("{} is not open", path.display()))),
        }
    }

    /// Returns the next piece; `None` at the end.
    ///
    /// # Errors
    ///
    /// Those of [`Pieces::next_piece`], if there is only one file.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        match &mut self.0 {
            Inner::One(pieces) => pieces.next_piece(),
            Inner::Many(many) => Ok(many.next_piece()),
        }
    }

    /// Returns the catalog, which resolves all ids met so far.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        match &self.0 {
            Inner::One(pieces) => pieces.catalog(),
            Inner::Many(many) => &many.segments.catalog,
        }
    }

    /// Returns the damage met so far.
    #[must_use]
    pub fn damage(&self) -> Damage {
        match &self.0 {
            Inner::One(pieces) => pieces.damage(),
            Inner::Many(many) => many.all_damage(),
        }
    }

    /// Returns how much was read and how much there was at the beginning; see
    /// [`Pieces::progress`].
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        match &self.0 {
            Inner::One(pieces) => pieces.progress(),
            Inner::Many(many) => (many.read_bytes, many.segments.info.file_bytes),
        }
    }
}

impl Many<'_> {
    fn next_piece(&mut self) -> Option<Piece> {
        loop {
            if self.reader.is_none() && !self.open_next() {
                let unmarked = self.unmarked.take()?;
                return Some(Piece::Frame(unmarked.without_trees(&self.segments.catalog)));
            }
            let reader = self.reader.as_mut()?;
            match reader.next_event() {
                Ok(Some(event)) => {
                    if let Some(piece) = self.piece(event) {
                        return Some(piece);
                    }
                }
                Ok(None) => self.end_segment(None),
                Err(error) => self.end_segment(Some(&error)),
            }
        }
    }

    /// Opens the next segment that can be opened; returns whether there is one.
    fn open_next(&mut self) -> bool {
        while let Some(segment) = self.segments.segments[..self.count].get(self.next) {
            self.next += 1;
            match Reader::open(&segment.path) {
                Ok(reader) => {
                    self.reader = Some(reader);
                    return true;
                }
                // The text names the path.
                Err(error) => self.damage.add(lost(error.to_string())),
            }
        }
        false
    }

    fn end_segment(&mut self, error: Option<&std::io::Error>) {
        self.damage = self.all_damage();
        self.reader = None;
        let segment = &self.segments.segments[self.next - 1];
        self.read_bytes += segment.info.file_bytes;
        if let Some(error) = error {
            self.damage
                .add(lost(format!("{}: {error}", segment.path.display())));
        }
    }

    /// Returns the damage of the segments that were read, and of the one that is being read.
    fn all_damage(&self) -> Damage {
        let mut damage = self.damage.clone();
        if let Some(reader) = &self.reader {
            let path = &self.segments.segments[self.next - 1].path;
            add_damage(&mut damage, path, reader.damage());
        }
        damage
    }

    fn piece(&mut self, event: Event) -> Option<Piece> {
        let segment = &self.segments.segments[self.next - 1];
        // The one frame of a capture without marks.
        if let Event::Frame(recovered) = &event
            && recovered.frame.frame_set == 0
            && !segment.info.marked
        {
            return None;
        }
        let piece = mapped(event, segment.mapping.as_deref(), &self.segments.catalog)?;
        if let (Some(unmarked), Piece::Batch(batch)) = (&mut self.unmarked, &piece) {
            unmarked.add(&batch.threads);
        }
        Some(piece)
    }
}

/// Returns an event of a segment as a piece of the whole, whose ids `catalog` resolves.
pub(super) fn mapped(
    event: Event,
    mapping: Option<&Mapping>,
    catalog: &Arc<Catalog>,
) -> Option<Piece> {
    let catalog = Arc::clone(catalog);
    match event {
        Event::Batch(mut batch) => {
            if let Some(mapping) = mapping {
                mapping.map_batch(&mut batch);
            }
            batch.catalog = catalog;
            Some(Piece::Batch(batch))
        }
        Event::Frame(mut recovered) => {
            let frame = Arc::make_mut(&mut recovered.frame);
            if let Some(mapping) = mapping {
                mapping.map_frame(frame);
            }
            frame.catalog = catalog;
            Some(Piece::Frame(recovered))
        }
        Event::Scheduler(mut batch) => {
            if let Some(mapping) = mapping {
                mapping.map_scheduler(&mut batch);
            }
            Some(Piece::Scheduler { batch, catalog })
        }
        Event::Heap(mut snapshot) => {
            if let Some(mapping) = mapping {
                mapping.map_heap(&mut snapshot);
            }
            snapshot.name_by(&catalog);
            Some(Piece::Heap { snapshot, catalog })
        }
        Event::OpenScopes(_) | Event::Loss(_) => None,
    }
}

fn lost(reason: String) -> Loss {
    Loss {
        offset: 0,
        bytes: 0,
        reason,
    }
}
