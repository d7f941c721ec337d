//! A reporter that counts spans by name, where others would send them to a collector.

use std::collections::BTreeMap;
use std::sync::Mutex;

use fastrace::collector::{Reporter, SpanRecord};

static CALLS: Mutex<BTreeMap<String, u64>> = Mutex::new(BTreeMap::new());

pub struct Counter;

impl Reporter for Counter {
    fn report(&mut self, spans: Vec<SpanRecord>) {
        let mut calls = CALLS.lock().expect("no panic so far");
        for span in spans {
            *calls.entry(span.name.into_owned()).or_default() += 1;
        }
    }
}

/// Prints a line `NAME<tab>COUNT` for each name.
pub fn print() {
    for (name, calls) in &*CALLS.lock().expect("no panic so far") {
        println!("{name}\t{calls}");
    }
}
