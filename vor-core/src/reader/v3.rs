//! Version 3 from a stream: records to catalog, batches and frames.

use std::io::{self, Read};
use std::sync::Arc;

use super::assemble::{Assembler, snapshot};
use super::walk::{Step, Walker};
use super::{CHUNK_BYTES, Damage, Event, Frame, Loss, Recovered, read_some};
use crate::alloc::HeapSnapshot;
use crate::batch::{SpanBatch, ThreadBatch};
use crate::catalog::{Catalog, MetricColumn};
use crate::format::{FrameRecord, Header, OpenScopes, Record, RecordDecoder};
use crate::frame::FrameSnapshot;

/// What a version-3 stream says next, declarations apart.
#[derive(Debug)]
pub(super) enum Item {
    Batch {
        seq: u64,
        again: bool,
        threads: Vec<ThreadBatch>,
    },
    Frame(u64, FrameRecord),
    OpenScopes(OpenScopes),
    Heap(HeapSnapshot),
    Loss(Loss),
}

#[derive(Debug)]
pub(super) struct StreamV3 {
    walker: Walker,
    records: RecordDecoder,
    assembler: Assembler,
    catalog: Arc<Catalog>,
    /// An item that was read ahead, to have the columns that are declared before it.
    ahead: Option<Item>,
    columns: Vec<MetricColumn>,
    user_columns: Vec<MetricColumn>,
    closed: bool,
    chunk: Vec<u8>,
}

impl StreamV3 {
    pub(super) fn new(header: Header, header_len: usize, rest: &[u8], max_spans: usize) -> Self {
        let mut walker = Walker::new(header, header_len as u64);
        walker.push(rest);
        Self {
            walker,
            records: RecordDecoder::new(),
            assembler: Assembler::new(max_spans),
            catalog: Arc::default(),
            ahead: None,
            columns: Vec::new(),
            user_columns: Vec::new(),
            closed: false,
            chunk: vec![0; CHUNK_BYTES],
        }
    }

    /// Reads the declarations that the file begins with.
    pub(super) fn read_ahead(&mut self, input: &mut impl Read, damage: &mut Damage) -> io::Result<()> {
        self.ahead = self.item(input, damage)?;
        Ok(())
    }

    pub(super) const fn header(&self) -> &Header {
        self.walker.header()
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

    /// Returns what comes next, without looking for trees.
    pub(super) fn next_event(
        &mut self,
        input: &mut impl Read,
        damage: &mut Damage,
    ) -> io::Result<Option<Event>> {
        let item = loop {
            match self.item(input, damage)? {
                None => return Ok(None),
                Some(Item::Batch { again: true, .. }) => {}
                Some(item) => break item,
            }
        };
        Ok(Some(match item {
            Item::Batch { threads, .. } => Event::Batch(SpanBatch {
                catalog: Arc::clone(&self.catalog),
                threads,
            }),
            Item::Frame(seq, record) => {
                let lost_records = self.walker.seen().missing(u64::from(record.first_seq), seq);
                Event::Frame(Recovered {
                    frame: Arc::new(snapshot(record, &self.catalog)),
                    lost_records,
                })
            }
            Item::OpenScopes(open) => Event::OpenScopes(open),
            Item::Heap(mut snapshot) => {
                snapshot.name_by(&self.catalog);
                Event::Heap(snapshot)
            }
            Item::Loss(loss) => Event::Loss(loss),
        }))
    }

    /// Returns the next frame of the main set, with its trees.
    pub(super) fn next_recovered(
        &mut self,
        input: &mut impl Read,
        damage: &mut Damage,
    ) -> io::Result<Option<Recovered>> {
        while let Some(item) = self.item(input, damage)? {
            match item {
                Item::Batch { seq, threads, .. } => self.assembler.batch(seq, threads),
                Item::Loss(_) => self.assembler.loss(),
                Item::Frame(seq, record) if record.frame_set == 0 => {
                    let recovered = self.assembler.frame(seq, record, &self.catalog);
                    return Ok(Some(recovered));
                }
                Item::Frame(seq, _) => self.assembler.pass(seq),
                Item::OpenScopes(_) | Item::Heap(_) => {}
            }
        }
        Ok(None)
    }

    /// Returns a frame as the predecessor's reader gives it.
    pub(super) fn plain(&self, recovered: &Recovered) -> Frame {
        let frame = &recovered.frame;
        let mut system = vec![f64::NAN; self.columns.len()];
        let mut user = Vec::new();
        // Where among the columns of its kind each column stands.
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
        user.sort_by(|a, b| a.0.cmp(&b.0));
        Frame {
            system,
            user,
            // Half of a flame would look like a whole one.
            flame: recovered.has_all_spans().then(|| flame(frame)).flatten(),
        }
    }

    /// Returns the next record that is no declaration; applies those that are.
    fn item(&mut self, input: &mut impl Read, damage: &mut Damage) -> io::Result<Option<Item>> {
        if let Some(item) = self.ahead.take() {
            return Ok(Some(item));
        }
        let mut at_end = false;
        loop {
            match self.walker.step(at_end) {
                Step::Record(found) => {
                    damage.tail = None;
                    if !found.head.is_batch() {
                        if found.again {
                            continue;
                        }
                        // A frame of the main set passes once it is put together.
                        if !found.head.is_frame() {
                            self.assembler.pass(found.seq());
                        }
                    }
                    let payload = self.walker.payload(&found);
                    let record = match self.records.decode(self.walker.header(), &found.head, payload) {
                        Ok(Some(record)) => record,
                        // A kind of a later version: nothing that this one could miss.
                        Ok(None) => continue,
                        Err(error) => {
                            let loss = Loss {
                                offset: found.offset,
                                bytes: found.head.record_bytes() as u64,
                                reason: error.to_string(),
                            };
                            damage.add(loss.clone());
                            return Ok(Some(Item::Loss(loss)));
                        }
                    };
                    match record {
                        Record::Batch(threads) => {
                            return Ok(Some(Item::Batch {
                                seq: found.seq(),
                                again: found.again,
                                threads,
                            }));
                        }
                        Record::Frame(frame) => return Ok(Some(Item::Frame(found.seq(), frame))),
                        Record::OpenScopes(open) => return Ok(Some(Item::OpenScopes(open))),
                        Record::Heap(snapshot) => return Ok(Some(Item::Heap(snapshot))),
                        Record::Index(_) => {}
                        Record::End { .. } => self.closed = true,
                        declaration => self.declare(&declaration),
                    }
                }
                Step::Loss(loss) => {
                    damage.add(loss.clone());
                    return Ok(Some(Item::Loss(loss)));
                }
                Step::Need if at_end => {
                    damage.tail = self.tail();
                    return Ok(None);
                }
                Step::Need => {
                    let n = read_some(input, &mut self.chunk)?;
                    self.walker.push(&self.chunk[..n]);
                    at_end = n == 0;
                }
            }
        }
    }

    fn tail(&self) -> Option<Loss> {
        let open = || Loss {
            offset: self.walker.offset(),
            bytes: 0,
            reason: "the end record of a closed capture was expected, found the end of the file".into(),
        };
        self.walker.pending().or_else(|| (!self.closed).then(open))
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

#[cfg(all(feature = "puffin", not(target_arch = "wasm32")))]
fn flame(frame: &FrameSnapshot) -> Option<Vec<u8>> {
    if frame.threads.iter().all(|tree| tree.spans.is_empty()) {
        return None;
    }
    crate::sink::puffin::frame_bytes(frame)
}

/// On the web puffin reads frames and writes none.
#[cfg(not(all(feature = "puffin", not(target_arch = "wasm32"))))]
fn flame(_: &FrameSnapshot) -> Option<Vec<u8>> {
    None
}
