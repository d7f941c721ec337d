//! The capture that a killed process was writing, up to where its rings go on.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use vor_capture::Error;
use vor_capture::format::{Checkpoint, Decoder, Encoder, Event, Header, PayloadDecoder, Record};
use vor_capture::model::catalog::Catalog;

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;
/// Bytes that hold every header.
const FIRST_BYTES: usize = 4096;

/// A capture to which records are added.
pub(super) struct Completed {
    file: File,
    name: String,
    header: Header,
    /// The bytes of the header.
    first: Vec<u8>,
    /// The length up to which the outputs had it when the rings were settled.
    bytes: u64,
}

impl Completed {
    /// Opens the capture, which must be the one that the process wrote, and have the length that
    /// the process knew of.
    pub(super) fn open(path: &Path, expected: Option<(u64, u64)>) -> Result<Self, Error> {
        let name = path.display().to_string();
        let cannot = |error| Error::io(format!("cannot read {name}"), error);
        let Some((file_id, bytes)) = expected else {
            return Err(Error::config(format!(
                "{name}: the process was writing no capture with all spans; leave out --capture"
            )));
        };
        let mut file = File::open(path).map_err(cannot)?;
        let mut first = Vec::new();
        let limit = bytes.min(FIRST_BYTES as u64);
        (&mut file)
            .take(limit)
            .read_to_end(&mut first)
            .map_err(cannot)?;
        let header = Header::decode(&first)?;
        let Some((header, header_bytes)) = header.filter(|(header, _)| header.file_id == file_id)
        else {
            return Err(Error::config(format!(
                "{name} is not the capture that the process was writing; leave out --capture"
            )));
        };
        let length = file.metadata().map_err(cannot)?.len();
        if length < bytes {
            return Err(Error::config(format!(
                "{name} has {length} bytes, and the process had written {bytes}; leave out \
                --capture for what the rings hold"
            )));
        }
        first.truncate(header_bytes);
        Ok(Self {
            file: File::open(path).map_err(cannot)?,
            name,
            header,
            first,
            bytes,
        })
    }

    pub(super) fn header(&self) -> Header {
        self.header
    }

    /// Copies it to `out`. `encoder` continues behind it, and `catalog` gets what it declares.
    /// Returns the number of its spans.
    pub(super) fn copy(
        mut self,
        catalog: &mut Catalog,
        encoder: &mut Encoder,
        out: &mut dyn Write,
    ) -> Result<u64, Error> {
        let mut head = Vec::new();
        encoder.header(&mut head);
        if head != self.first {
            return Err(self.unusable());
        }
        // The process declared the same as in its file of shared memory, and more: metrics, frames.
        let mut declared = Catalog::default();
        let mut decoder = Decoder::new(self.header, Checkpoint::first(head.len() as u64));
        let mut payloads = PayloadDecoder::new();
        let (mut at, mut spans) = (0, 0);
        let mut piece = vec![0; PIECE_BYTES];
        while at < self.bytes {
            let most = (self.bytes - at).min(PIECE_BYTES as u64) as usize;
            let read = self.file.read(&mut piece[..most]);
            let read =
                read.map_err(|error| Error::io(format!("cannot read {}", self.name), error))?;
            if read == 0 {
                return Err(self.unusable());
            }
            out.write_all(&piece[..read])
                .map_err(|error| Error::io("the recovered capture cannot be written", error))?;
            let skipped = head.len().saturating_sub(at as usize).min(read);
            decoder.push(&piece[skipped..read]);
            at += read as u64;
            while let Some(event) = decoder.next_event() {
                let Event::Record(raw) = event else {
                    return Err(self.unusable());
                };
                let record = raw.decode(&mut payloads)?;
                encoder.pass(record.as_ref(), raw.head.record_bytes() as u64);
                match &record {
                    Some(Record::Batch(threads)) => {
                        spans += threads.iter().map(|batch| batch.len() as u64).sum::<u64>();
                    }
                    Some(record) => _ = record.declare_into(&mut declared),
                    None => {}
                }
            }
        }
        if encoder.offset() != self.bytes {
            return Err(self.unusable());
        }
        catalog.columns = declared.columns;
        catalog.frame_sets = declared.frame_sets;
        catalog.scope_modes = declared.scope_modes;
        catalog.segment = declared.segment;
        let mut timeline = declared.timeline;
        for sync in catalog.timeline.syncs() {
            std::sync::Arc::make_mut(&mut timeline).push(*sync);
        }
        catalog.timeline = timeline;
        Ok(spans)
    }

    fn unusable(&self) -> Error {
        Error::config(format!(
            "{} is damaged; leave out --capture for what the rings hold, and read the capture by \
            itself",
            self.name
        ))
    }
}
