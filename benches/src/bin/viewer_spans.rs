//! Writes the same spans for viewers: `viewer_spans COUNT FRAME OUT.vor OUT.puffin`.
//!
//! The spans are of one thread, in trees at most six deep. A frame has at least FRAME of them, and
//! the files have as many whole frames as hold COUNT. `vor export` makes all other formats of
//! `OUT.vor`; frames in puffin's format are read from it here.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::{env, process};

use vor_benches::captures;
use vor_benches::spans::Shape;
use vor_capture::reader::Reader;
use vor_recorder::sinks::puffin::frame_bytes;

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
    let batch = Shape::Trees.batch(frame.parse()?, 1_000_000);
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
