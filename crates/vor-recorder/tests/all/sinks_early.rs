//! Sinks added before recording is first switched on, and sinks whose thread calls the recorder
//! while they end.

#![expect(clippy::unwrap_used, reason = "tests may panic")]

use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use vor_capture::Error;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::FrameSink;
use vor_fixtures::own_process;
use vor_recorder::{drain, profile_scope, setup};

/// Notes the calls that it gets.
struct Notes(Arc<Mutex<Vec<String>>>);

impl FrameSink for Notes {
    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        let note = format!("{} spans", frame.span_count);
        self.0.lock().unwrap().push(note);
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.0.lock().unwrap().push("finished".to_owned());
        Ok(())
    }
}

/// Has a thread that reads the recorder's catalog when the sink ends.
struct CatalogSink {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl CatalogSink {
    fn new(notes: Arc<Mutex<Vec<String>>>) -> Self {
        let (end, ends) = channel();
        let run = move || {
            // The other side is closed.
            assert!(ends.recv().is_err());
            let is_there = drain::catalog().is_some();
            notes.lock().unwrap().push(format!("catalog: {is_there}"));
        };
        Self {
            end: Some(end),
            thread: Some(std::thread::spawn(run)),
        }
    }
}

impl FrameSink for CatalogSink {
    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.end = None;
        Ok(())
    }
}

impl Drop for CatalogSink {
    fn drop(&mut self) {
        self.end = None;
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_sink_added_early_waits_for_the_first_start_and_ends_with_its_handle() {
    own_process!();
    let (notes, gone) = (
        Arc::<Mutex<Vec<String>>>::default(),
        Arc::<Mutex<Vec<String>>>::default(),
    );
    let handle = drain::add_sink("early", Notes(Arc::clone(&notes)));
    drop(drain::add_sink("gone", Notes(Arc::clone(&gone))));
    assert_eq!(*gone.lock().unwrap(), ["finished"]);
    assert!(notes.lock().unwrap().is_empty());

    setup::enable();
    drain::frame_mark();
    {
        profile_scope!("work");
    }
    drain::frame_mark();
    drain::flush();
    drop(handle);
    let notes = std::mem::take(&mut *notes.lock().unwrap());
    assert_eq!(notes.last().unwrap(), "finished", "{notes:?}");
    assert!(notes.contains(&"1 spans".to_owned()), "{notes:?}");
    assert_eq!(*gone.lock().unwrap(), ["finished"]);

    // The recorder can be called while a sink is dropped.
    let asked = Arc::<Mutex<Vec<String>>>::default();
    drop(drain::add_sink(
        "asks",
        CatalogSink::new(Arc::clone(&asked)),
    ));
    assert_eq!(*asked.lock().unwrap(), ["catalog: true"]);
}
