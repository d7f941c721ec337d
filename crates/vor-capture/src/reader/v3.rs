//! A version-3 capture as a stream: from records to catalog, batches and frames.

use crate::sort::sort_by;
use std::io::{self, Read};
use std::sync::Arc;

use super::assemble::{Assembler, snapshot};
use super::records::{Entry, Item, Records};
use super::unmarked::UnmarkedFrame;
use super::{Damage, Event, FlameEncoder, Frame, Recovered};
use crate::format::{Checkpoint, Header, Record, SeqSet};
use crate::model::batch::SpanBatch;
use crate::model::catalog::{Catalog, MetricColumn};
use crate::model::frame::FrameSnapshot;

#[derive(Debug)]
pub(super) struct StreamV3 {
    records: Records,
    assembler: Assembler,
    /// Records behind the last frame of the main set, for the frames among events.
    section: SeqSet,
    catalog: Arc<Catalog>,
    /// An item that was read early, for the columns that are declared before it.
    ahead: Option<Item>,
    columns: Vec<MetricColumn>,
    user_columns: Vec<MetricColumn>,
    closed: bool,
    /// The one frame, if no mark comes.
    unmarked: UnmarkedFrame,
    flames: Option<FlameEncoder>,
}

impl StreamV3 {
    pub(super) fn new(header: Header, header_len: usize, rest: &[u8], max_spans: usize) -> Self {
        let mut records = Records::new(header, Checkpoint::first(header_len as u64));
        records.push(rest);
        Self {
            records,
            assembler: Assembler::new(max_spans),
            section: SeqSet::default(),
            catalog: Arc::default(),
            ahead: None,
            columns: Vec::new(),
            user_columns: Vec::new(),
            closed: false,
            unmarked: UnmarkedFrame::default(),
            flames: None,
        }
    }

    pub(super) fn set_flames(&mut self, encoder: FlameEncoder) {
        self.flames = Some(encoder);
    }

    pub(super) const fn has_flames(&self) -> bool {
        self.flames.is_some()
    }

    /// Reads the declarations that the file begins with.
    pub(super) fn read_ahead(
        &mut self,
        input: &mut impl Read,
        damage: &mut Damage,
    ) -> io::Result<()> {
        while let Some(item) = self.item(input, damage)? {
            match item {
                Item::Entry(entry) if !is_event(&entry) => {
                    self.section.insert(entry.seq);
                    self.assembler.take(entry, &self.catalog);
                }
                item => {
                    self.ahead = Some(item);
                    break;
                }
            }
        }
        Ok(())
    }

    pub(super) const fn header(&self) -> &Header {
        self.records.decoder().header()
    }

    pub(super) fn columns(&self) -> &[MetricColumn] {
        &self.columns
    }

    pub(super) fn user_columns(&self) -> &[MetricColumn] {
        &self.user_columns
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the next part, without trees.
    pub(super) fn next_event(
        &mut self,
        input: &mut impl Read,
        damage: &mut Damage,
    ) -> io::Result<Option<Event>> {
        loop {
            let entry = match self.item(input, damage)? {
                None => return Ok(None),
                Some(Item::Loss(loss)) => return Ok(Some(Event::Loss(loss))),
                Some(Item::Entry(entry)) => entry,
            };
            self.section.insert(entry.seq);
            if entry.is_repeated {
                continue;
            }
            let ends_section = entry.ends_section();
            let event = match entry.record {
                Some(Record::Batch(threads)) => Event::Batch(SpanBatch {
                    catalog: Arc::clone(&self.catalog),
                    threads,
                }),
                Some(Record::Frame(record)) => {
                    let lost_records = self
                        .section
                        .missing(record.first_whole_seq(entry.seq), entry.seq);
                    if ends_section {
                        self.section.clear();
                        self.assembler.begin(Some(entry.seq + 1));
                    }
                    Event::Frame(Recovered {
                        frame: Arc::new(snapshot(record, &self.catalog)),
                        lost_records,
                    })
                }
                Some(Record::OpenScopes(open)) => Event::OpenScopes(open),
                Some(Record::Heap(mut snapshot)) => {
                    snapshot.name_by(&self.catalog);
                    Event::Heap(snapshot)
                }
                Some(Record::Scheduler(batch)) => Event::Scheduler(batch),
                _ => continue,
            };
            return Ok(Some(event));
        }
    }

    /// Returns the next frame of the main set, with its trees.
    pub(super) fn next_recovered(
        &mut self,
        input: &mut impl Read,
        damage: &mut Damage,
    ) -> io::Result<Option<Recovered>> {
        while let Some(item) = self.item(input, damage)? {
            let Item::Entry(entry) = item else {
                continue;
            };
            self.section.insert(entry.seq);
            if let Some(recovered) = self.assembler.take(entry, &self.catalog) {
                self.section.clear();
                return Ok(Some(recovered));
            }
        }
        Ok(None)
    }

    /// Returns a frame in the shape of the predecessor's reader.
    pub(super) fn plain(&self, recovered: &Recovered) -> Frame {
        let frame = &recovered.frame;
        let mut system = vec![f64::NAN; self.columns.len()];
        let mut user = Vec::new();
        // The place of each column among those of its kind.
        let (mut system_at, mut value) = (0, frame.metrics.iter().peekable());
        for (id, column) in self.catalog.columns.iter().enumerate() {
            let found = value.next_if(|value| value.column as usize == id);
            if column.system {
                if let Some(found) = found {
                    system[system_at] = found.value;
                }
                system_at += 1;
            } else if let Some(found) = found {
                user.push((column.metric.name.clone(), found.value));
            }
        }
        sort_by(&mut user, |a, b| a.0.cmp(&b.0));
        Frame {
            system,
            user,
            // A partial flame would look like a whole one.
            flame: recovered
                .has_all_spans()
                .then(|| self.flame(frame))
                .flatten(),
        }
    }

    fn flame(&self, frame: &FrameSnapshot) -> Option<Vec<u8>> {
        let encode = self.flames?;
        let has_spans = frame.threads.iter().any(|tree| !tree.spans.is_empty());
        has_spans.then(|| encode(frame)).flatten()
    }

    /// Returns the next item, and applies it if it is a declaration.
    fn item(&mut self, input: &mut impl Read, damage: &mut Damage) -> io::Result<Option<Item>> {
        if let Some(item) = self.ahead.take() {
            return Ok(Some(item));
        }
        let mut item = self.records.next(input, true)?;
        match &mut item {
            None => damage.tail = self.records.tail(self.closed),
            Some(Item::Loss(loss)) => damage.add(loss.clone()),
            Some(Item::Entry(entry)) => {
                damage.tail = None;
                let Some(record) = &entry.record else {
                    return Ok(item);
                };
                let unmarked = self
                    .unmarked
                    .add_record(entry.seq, entry.is_repeated, record);
                match record {
                    Record::End { .. } => self.closed = true,
                    record if !entry.is_repeated => self.declare(record),
                    _ => {}
                }
                if let Some((seq, frame)) = unmarked {
                    // The frame takes the place of the end record.
                    (entry.seq, entry.is_repeated, entry.record) =
                        (seq, false, Some(Record::Frame(frame)));
                }
            }
        }
        Ok(item)
    }

    fn declare(&mut self, record: &Record) {
        let columns = Arc::clone(&self.catalog.columns);
        record.declare_into(Arc::make_mut(&mut self.catalog));
        if Arc::ptr_eq(&columns, &self.catalog.columns) {
            return;
        }
        let of_kind = |system: bool| {
            let columns = self.catalog.columns.iter();
            columns
                .filter(move |column| column.system == system)
                .map(|column| column.metric.clone())
                .collect()
        };
        self.columns = of_kind(true);
        self.user_columns = of_kind(false);
    }
}

/// Returns whether a record becomes an event.
fn is_event(entry: &Entry) -> bool {
    matches!(
        entry.record,
        Some(
            Record::Batch(_)
                | Record::Frame(_)
                | Record::OpenScopes(_)
                | Record::Heap(_)
                | Record::Scheduler(_)
        )
    )
}
