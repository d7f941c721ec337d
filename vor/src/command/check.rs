//! `vor check`: verifies every checksum and decodes every record of a capture, and lists damage.

use std::io::Write;
use std::ops::ControlFlow;
use std::path::PathBuf;

use serde::Serialize;

use vor_capture::reader::Piece;
use vor_capture::units;

use crate::command::Outcome;
use crate::command::failure::Failure;
use crate::command::json::{self, DamageJson};
use crate::command::progress::Progress;
use crate::command::source::Source;

/// Verifies every checksum of a capture and lists the damage.
///
/// The exit code is 1 if there is damage. A capture that was not closed (the program still records,
/// or was killed) is not damaged as long as its last record is complete.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture: a file, a folder of segments, or a pattern such as 'run-*.vor'.
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct CheckJson {
    file: String,
    version: u16,
    ok: bool,
    closed: bool,
    frames: u64,
    incomplete_frames: u64,
    spans: u64,
    dropped_spans: u64,
    damage: DamageJson,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let mut source = Source::open(&args.path)?;
    let mut progress = Progress::new("checking", false);
    let (mut frames, mut incomplete_frames, mut spans, mut dropped_spans) = (0, 0, 0, 0);
    let walked = source.walk(&mut progress, |piece| {
        match piece {
            Piece::Batch(batch) => spans += batch.span_count() as u64,
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                frames += 1;
                incomplete_frames += u64::from(recovered.lost_records > 0);
                // The numbers of a damaged capture may be anything.
                dropped_spans = u64::saturating_add(dropped_spans, recovered.frame.dropped_spans);
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    drop(progress);
    let mut damage = walked.damage;
    // `closed` reports a missing end record, which costs no data.
    damage.tail = damage.tail.filter(|tail| tail.bytes > 0);
    let is_complete = source.capture.problems().is_empty();
    let ok = damage.is_none() && incomplete_frames == 0 && is_complete;
    if args.json {
        let check = CheckJson {
            file: args.path.display().to_string(),
            version: source.info.version,
            ok,
            closed: source.info.closed,
            frames,
            incomplete_frames,
            spans,
            dropped_spans,
            damage: DamageJson::new(&damage),
        };
        json::write_pretty(out, &check)?;
    } else {
        let path = args.path.display();
        let state = if ok { "ok" } else { "DAMAGED" };
        let mut text = format!(
            "{path}: {state}, {}, {}",
            units::counted(frames, "frame"),
            units::counted(spans, "span")
        );
        if !source.info.closed && damage.tail.is_none() {
            text.push_str("; not closed: the program still records, or it was killed");
        }
        text.push('\n');
        if incomplete_frames > 0 {
            let frames = units::counted(incomplete_frames, "frame");
            text = format!("{text}  {frames} with lost records\n");
        }
        for loss in damage.losses.iter().chain(&damage.tail) {
            let (offset, bytes) = (loss.offset, units::bytes(loss.bytes));
            text = format!("{text}  at byte {offset}, {bytes}: {}\n", loss.reason);
        }
        let unlisted = damage.count - damage.losses.len() as u64;
        if unlisted > 0 {
            text = format!("{text}  and {}\n", units::counted(unlisted, "more place"));
        }
        if source.is_v2() {
            text.push_str(
                "  version 2 has no checksums: wrong values that can be decoded are not found\n",
            );
        }
        out.write_all(text.as_bytes()).map_err(Failure::output)?;
    }
    Ok(if ok {
        Outcome::Success
    } else {
        Outcome::CheckFailed
    })
}
