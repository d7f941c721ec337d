//! Writes the same spans for viewers: `viewer_spans COUNT FRAME OUT.vor OUT.puffin`.
//!
//! The spans are of one thread, in trees at most six deep. They come in bursts with a millisecond
//! between two, so that a picture of them has edges. A frame has as many whole bursts as hold FRAME
//! spans, and the files have as many whole frames as hold COUNT. `vor export` makes all other
//! formats of `OUT.vor`; frames in puffin's format are read from it here.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::{env, process};

use vor_benches::captures;
use vor_benches::spans::Shape;
use vor_capture::model::batch::SpanBatch;
use vor_capture::reader::Reader;
use vor_recorder::sinks::puffin::frame_bytes;

/// Spans of a burst, at least.
const BURST: usize = 1 << 14;
/// Ticks before the first burst, and between two.
const PAUSE: u64 = 1_000_000;
/// The first bytes of puffin's files.
const PUFFIN: &[u8] = b"PUF0";

fn main() {
    if let Err(error) = run() {
        eprintln!("viewer_spans: {error}");
        process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [count, frame, capture, puffin] = args.as_slice() else {
        return Err("the arguments are COUNT FRAME OUT.vor OUT.puffin".into());
    };
    let batch = bursts(frame.parse()?);
    let spans = batch.span_count() as u64;
    let wanted = count.parse::<u64>()?.div_ceil(spans);
    let path = Path::new(capture);
    let frames = captures::write(path, batch, |frames| Ok(frames == wanted))?;

    let mut out = BufWriter::new(File::create(puffin)?);
    out.write_all(PUFFIN)?;
    let mut reader = Reader::open(path)?.with_flames(frame_bytes);
    let mut copied = 0;
    while let Some(frame) = reader.next_frame()? {
        let bytes = frame.flame.ok_or("a frame has no spans")?;
        out.write_all(&bytes)?;
        copied += 1;
    }
    out.flush()?;
    if copied != frames {
        return Err(format!("{copied} of {frames} frames are in {puffin}").into());
    }
    println!("{} spans in {frames} frames", spans * frames);
    Ok(())
}

/// Generates a batch of whole bursts with at least `count` spans.
fn bursts(count: usize) -> SpanBatch {
    let mut batch = Shape::Trees.batch(BURST, PAUSE);
    for share in &mut batch.threads {
        let burst = share.clone();
        // The last span of trees in post-order ends last.
        let length_ticks = burst.end_ticks(burst.len() - 1);
        for i in 1..count.div_ceil(burst.len()) as u64 {
            let starts = burst
                .start_ticks
                .iter()
                .map(|start| start + i * length_ticks);
            share.start_ticks.extend(starts);
            share.duration_ticks.extend(&burst.duration_ticks);
            share.sites.extend(&burst.sites);
        }
    }
    batch
}
