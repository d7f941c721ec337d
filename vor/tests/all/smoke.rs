//! The shortest complete path: scopes are recorded into a capture, and the capture is read back.

#![cfg(not(feature = "off"))]

use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;

#[vor::profile]
fn outer(n: u64) -> u64 {
    vor::profile_scope!("inner", n = n, codec = "lz4");
    vor::message!("at {n}");
    n + 1
}

#[test]
fn scopes_reach_the_capture() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    vor::Config::new().capture(&path).enable();
    for n in 0..100 {
        outer(n);
        let _named = vor::scope("by name");
        vor::record_metric("n", n as f64);
        vor::frame_mark();
    }
    vor::flush();
    let mut reader = Reader::open(&path).unwrap();
    let (mut spans, mut frames, mut args, mut messages) = (0, 0, 0, 0);
    while let Some(event) = reader.next_event().unwrap() {
        match event {
            Event::Batch(batch) => {
                for thread in batch.threads {
                    spans += thread.len();
                    args += thread.args.len();
                    messages += thread.messages.len();
                }
            }
            Event::Frame(_) => frames += 1,
            Event::Loss(loss) => panic!("{loss:?}"),
            _ => {}
        }
    }
    // The last `by name` scope ends after its mark, but before the flush.
    assert_eq!((spans, frames, args, messages), (300, 100, 100, 100));
}
