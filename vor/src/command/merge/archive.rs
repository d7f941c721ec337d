//! Captures as an archive of traces, with a manifest by which Perfetto merges them.
//!
//! The manifest (<https://perfetto.dev/docs/reference/perfetto-manifest>) names the machine of each
//! trace. Traces of one machine share its clock. Traces of different machines are aligned by the
//! wall clock, of which each trace has a reading.

use std::io::{Seek, SeekFrom, Write};

use serde_json::json;

use super::{Merge, Part, host};
use crate::command::failure::Failure;
use crate::command::source::Source;

/// Writes an archive. The size of a member precedes it, so each trace is written to a temporary
/// file first.
pub(super) fn write(
    merge: &mut Merge<'_>,
    writer: impl Write + Send,
    sources: &mut [Source],
    parts: Vec<Part>,
) -> Result<(), Failure> {
    let names: Vec<String> = (1..)
        .zip(&parts)
        .map(|(number, part)| {
            format!(
                "{number}-{}-{}.pftrace",
                file_name(&part.process.name),
                part.process.pid
            )
        })
        .collect();
    let files: Vec<_> = names
        .iter()
        .zip(&*sources)
        .map(|(name, source)| json!({ "path": name, "machine": { "name": host(source) } }))
        .collect();
    let manifest = format!(
        "{:#}\n",
        json!({ "perfetto_manifest": { "version": 1, "files": files } })
    );
    let mut archive = tar::Builder::new(writer);
    append(
        &mut archive,
        "perfetto_manifest.json",
        manifest.len() as u64,
        manifest.as_bytes(),
    )
    .map_err(|error| merge.failed(error.into()))?;
    // The traces of one machine must not share sequence numbers, because each sequence has a clock
    // of its own.
    let mut sequence = 1;
    for ((source, mut part), name) in sources.iter_mut().zip(parts).zip(&names) {
        let failed = |error: std::io::Error| Failure::export(Some(merge.path), error.into());
        // Each trace keeps the clocks of its machine, and Perfetto aligns them.
        part.axis = part.axis.filter(|axis| !axis.is_wall());
        let mut file = tempfile::tempfile().map_err(failed)?;
        sequence = merge.trace(std::io::BufWriter::new(&file), sequence, source, part)?;
        let failed = |error: std::io::Error| Failure::export(Some(merge.path), error.into());
        let bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
        file.rewind().map_err(failed)?;
        append(&mut archive, name, bytes, file).map_err(failed)?;
    }
    let ended = archive.into_inner().and_then(|mut writer| writer.flush());
    ended.map_err(|error| merge.failed(error.into()))
}

fn append(
    archive: &mut tar::Builder<impl Write>,
    name: &str,
    bytes: u64,
    content: impl std::io::Read,
) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(bytes);
    header.set_mode(0o644);
    archive.append_data(&mut header, name, content)
}

/// Returns the name of a process with only the characters that are safe in a file name.
fn file_name(name: &str) -> String {
    let fits = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '_'
        }
    };
    name.chars().take(60).map(fits).collect()
}
