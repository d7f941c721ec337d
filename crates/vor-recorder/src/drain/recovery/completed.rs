//! The capture that a killed process was writing, up to where its rings go on.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::Arc;

use vor_capture::Error;
use vor_capture::format::{Checkpoint, Decoder, Encoder, Event, Header, PayloadDecoder, Record};
use vor_capture::model::catalog::Catalog;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that hold every header.
const FIRST_BYTES: u64 = 4096;

/// A capture to which records are added.
pub(super) struct Completed {
    file: File,
    name: String,
    header: Header,
    /// The bytes of the header.
    head: Vec<u8>,
    /// How many bytes were copied, and how many are to be.
    at: u64,
    end: u64,
    decoder: Decoder,
    payloads: PayloadDecoder,
    catalog: Catalog,
    spans: u64,
}

impl Completed {
    /// Opens the capture, which must be the one that the process wrote.
    pub(super) fn open(path: &Path, expected: Option<(u64, u64)>) -> Result<Self, Error> {
        let name = path.display().to_string();
        let cannot = |error| Error::io(format!("cannot read {name}"), error);
        let Some((file_id, end)) = expected else {
            return Err(Error::config(format!(
                "{name}: the process was writing no capture with all spans; leave out --capture"
            )));
        };
        let mut head = Vec::new();
        let file = File::open(path).map_err(cannot)?;
        file.take(FIRST_BYTES)
            .read_to_end(&mut head)
            .map_err(cannot)?;
        let header = Header::decode(&head)?;
        let Some((header, header_bytes)) = header.filter(|(header, _)| header.file_id == file_id)
        else {
            return Err(Error::config(format!(
                "{name} is not the capture that the process was writing; leave out --capture"
            )));
        };
        head.truncate(header_bytes);
        Ok(Self {
            file: File::open(path).map_err(cannot)?,
            name,
            header,
            decoder: Decoder::new(header, Checkpoint::first(header_bytes as u64)),
            head,
            at: 0,
            end,
            payloads: PayloadDecoder::new(),
            catalog: Catalog::default(),
            spans: 0,
        })
    }

    /// Returns an encoder that continues behind what is copied.
    pub(super) fn begin(&self) -> Result<Encoder, Error> {
        let mut encoder = Encoder::new(self.header);
        let mut head = Vec::new();
        encoder.header(&mut head);
        match head == self.head {
            true => Ok(encoder),
            false => Err(self.unusable()),
        }
    }

    /// Copies the capture to `out`, up to the length that belongs to the positions of the rings, or
    /// to the one with which it was opened.
    pub(super) fn advance(
        &mut self,
        to: Option<(u64, u64)>,
        encoder: &mut Encoder,
        out: &mut dyn Write,
    ) -> Result<(), Error> {
        if let Some((file_id, end)) = to {
            if file_id != self.header.file_id || end < self.at {
                return Err(self.unusable());
            }
            self.end = end;
        }
        let mut piece = vec![0; PIECE_BYTES];
        while self.at < self.end {
            let most = (self.end - self.at).min(PIECE_BYTES as u64) as usize;
            let read = self.file.read(&mut piece[..most]);
            let read =
                read.map_err(|error| Error::io(format!("cannot read {}", self.name), error))?;
            if read == 0 {
                return Err(Error::config(format!(
                    "{} has {} bytes, and the process had written {}; leave out --capture for \
                    what the rings hold",
                    self.name, self.at, self.end
                )));
            }
            out.write_all(&piece[..read])
                .map_err(|error| Error::io("the recovered capture cannot be written", error))?;
            let skipped = self.head.len().saturating_sub(self.at as usize).min(read);
            self.decoder.push(&piece[skipped..read]);
            self.at += read as u64;
            self.decode(encoder)?;
        }
        // The process writes whole records.
        match encoder.offset() == self.end {
            true => Ok(()),
            false => Err(self.unusable()),
        }
    }

    fn decode(&mut self, encoder: &mut Encoder) -> Result<(), Error> {
        while let Some(event) = self.decoder.next_event() {
            let Event::Record(raw) = event else {
                return Err(self.unusable());
            };
            let record = raw.decode(&mut self.payloads)?;
            encoder.pass(record.as_ref(), raw.head.record_bytes() as u64);
            match &record {
                Some(Record::Batch(threads)) => {
                    self.spans += threads.iter().map(|batch| batch.len() as u64).sum::<u64>();
                }
                Some(record) => _ = record.declare_into(&mut self.catalog),
                None => {}
            }
        }
        Ok(())
    }

    /// Adds what only the capture declares to the catalog of the process: metrics, frames, and the
    /// clock from the beginning. Returns the number of spans that were copied.
    pub(super) fn add_to(&self, catalog: &mut Catalog) -> u64 {
        catalog.columns = Arc::clone(&self.catalog.columns);
        catalog.frame_sets = Arc::clone(&self.catalog.frame_sets);
        catalog.scope_modes = Arc::clone(&self.catalog.scope_modes);
        catalog.segment = self.catalog.segment;
        let mut timeline = (*self.catalog.timeline).clone();
        for sync in catalog.timeline.syncs() {
            timeline.push(*sync);
        }
        catalog.timeline = Arc::new(timeline);
        self.spans
    }

    fn unusable(&self) -> Error {
        Error::config(format!(
            "{} is damaged; leave out --capture for what the rings hold, and read the capture by \
            itself",
            self.name
        ))
    }
}
