//! Counts of scopes in frames of puffin, for the programs whose scopes reach puffin.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use puffin::{FrameData, GlobalProfiler, Reader, ScopeCollection, Stream};

/// The calls of each scope, and the names of the scopes seen so far.
#[derive(Default)]
pub struct Counts {
    names: ScopeCollection,
    calls: BTreeMap<String, u64>,
}

impl Counts {
    /// Adds the scopes of a frame. A name comes with the first frame that has it.
    pub fn add(&mut self, frame: &FrameData) {
        for details in &frame.scope_delta {
            self.names.insert(details.clone());
        }
        let unpacked = frame.unpacked().expect("puffin reads its own frames");
        for thread in unpacked.thread_streams.values() {
            self.add_scopes(&thread.stream, 0);
        }
    }

    fn add_scopes(&mut self, stream: &Stream, begin: u64) {
        let reader = Reader::with_offset(stream, begin).expect("an offset of puffin");
        for scope in reader
            .read_top_scopes()
            .expect("puffin reads its own scopes")
        {
            let details = self
                .names
                .fetch_by_id(&scope.id)
                .expect("a registered scope");
            *self.calls.entry(details.name().to_string()).or_default() += 1;
            if scope.child_end_position > scope.child_begin_position {
                self.add_scopes(stream, scope.child_begin_position);
            }
        }
    }

    /// Prints a line `NAME<tab>COUNT` for each scope.
    pub fn print(&self) {
        for (name, calls) in &self.calls {
            println!("{name}\t{calls}");
        }
    }
}

/// Counts the scopes of all later frames, where a viewer would show them.
pub fn sink() -> Arc<Mutex<Counts>> {
    let counts = Arc::new(Mutex::new(Counts::default()));
    let shared = counts.clone();
    GlobalProfiler::lock().add_sink(Box::new(move |frame| {
        shared.lock().expect("no panic so far").add(&frame);
    }));
    counts
}
