//! Prints the calls of each scope in a capture, read by vor 0.2.1.

use puffin::FrameData;
use puffin_counts::Counts;

fn main() {
    let path = std::env::args().nth(1).expect("the path of a capture");
    let mut reader = vor::Reader::open(path).expect("a capture of vor 0.2.1");
    let mut counts = Counts::default();
    while let Some(frame) = reader.next_frame().expect("a readable frame") {
        let flame = frame.flame.expect("VOR_RECORD_FLAME is set");
        let scopes = FrameData::read_next(&mut flame.as_slice()).expect("a frame of puffin");
        counts.add(&scopes.expect("one frame"));
    }
    counts.print();
}
