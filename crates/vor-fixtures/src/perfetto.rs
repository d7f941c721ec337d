//! A reader of Perfetto traces: of the wire format, and of the schema's sequences.

use std::collections::HashMap;

use crate::wire::{Field, fields};

/// A message, by the numbers of its fields.
#[derive(Clone, Debug)]
pub struct Message<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Message<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(fields(bytes))
    }

    pub fn all(&self, number: u64) -> impl Iterator<Item = &Field<'a>> {
        self.0
            .iter()
            .filter(move |(n, _)| *n == number)
            .map(|(_, field)| field)
    }

    pub fn number(&self, number: u64) -> Option<u64> {
        self.all(number).next().map(|field| match field {
            Field::Varint(value) | Field::Fixed(value) => *value,
            Field::Bytes(_) => panic!("field {number} is no number"),
        })
    }

    pub fn text(&self, number: u64) -> Option<String> {
        self.all(number).next().map(|field| match field {
            Field::Bytes(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
            _ => panic!("field {number} is no text"),
        })
    }

    pub fn messages(&self, number: u64) -> Vec<Message<'a>> {
        let message = |field: &Field<'a>| match field {
            Field::Bytes(bytes) => Message::new(bytes),
            _ => panic!("field {number} is no message"),
        };
        self.all(number).map(message).collect()
    }

    pub fn message(&self, number: u64) -> Option<Message<'a>> {
        self.messages(number).into_iter().next()
    }
}

#[derive(Default)]
struct Sequence {
    names: HashMap<u64, String>,
    arg_names: HashMap<u64, String>,
    clock_ns: u64,
    track: u64,
}

/// A slice, as a viewer displays it.
#[derive(Clone, Debug, PartialEq)]
pub struct Slice {
    pub track: u64,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub depth: usize,
    pub args: Vec<(String, String)>,
}

#[derive(Default)]
pub struct Trace {
    pub slices: Vec<Slice>,
    /// Thread number and name, by track.
    pub threads: HashMap<u64, (u64, String)>,
    /// Names of the other tracks.
    pub tracks: HashMap<u64, String>,
    /// Unit, unit's name, multiplier, and whether it is incremental.
    pub counters: HashMap<String, (Option<u64>, Option<String>, u64, bool)>,
    pub values: Vec<(String, f64)>,
}

fn value(annotation: &Message<'_>) -> String {
    for (number, field) in &annotation.0 {
        match (number, field) {
            (2, Field::Varint(value)) => return (*value == 1).to_string(),
            (3, Field::Varint(value)) => return value.to_string(),
            (4, Field::Varint(value)) => return (*value as i64).to_string(),
            (5, Field::Fixed(bits)) => return format!("{:?}", f64::from_bits(*bits)),
            (6, Field::Bytes(text)) => return String::from_utf8(text.to_vec()).unwrap(),
            _ => {}
        }
    }
    panic!("an annotation without a value: {annotation:?}")
}

/// Reads a trace as the schema's comments describe.
pub fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace::default();
    let mut sequences: HashMap<u64, Sequence> = HashMap::new();
    let mut events = Vec::new();
    for packet in Message::new(bytes).messages(1) {
        let sequence = sequences
            .entry(packet.number(10).expect("a sequence"))
            .or_default();
        if let Some(defaults) = packet.message(59) {
            assert_eq!(defaults.number(58), Some(64));
            sequence.track = defaults.message(11).unwrap().number(11).unwrap();
        }
        if let Some(snapshot) = packet.message(6) {
            let clocks = snapshot.messages(1);
            let clock = |id| clocks.iter().find(|clock| clock.number(1) == Some(id));
            if let Some(own) = clock(64) {
                assert_eq!((own.number(2), own.number(3)), (Some(0), Some(1)));
                sequence.clock_ns = clock(6).unwrap().number(2).unwrap();
            }
        }
        if let Some(descriptor) = packet.message(60) {
            let uuid = descriptor.number(1).unwrap();
            if let Some(thread) = descriptor.message(4) {
                trace
                    .threads
                    .insert(uuid, (thread.number(2).unwrap(), thread.text(5).unwrap()));
            }
            let name = descriptor.text(2).unwrap_or_default();
            if let Some(counter) = descriptor.message(8) {
                let multiplier = counter.number(4).unwrap_or(1);
                let about = (
                    counter.number(3),
                    counter.text(6),
                    multiplier,
                    counter.number(5) == Some(1),
                );
                trace.counters.insert(name.clone(), about);
            }
            assert!(!trace.tracks.contains_key(&uuid) || trace.threads.contains_key(&uuid));
            trace.tracks.insert(uuid, name);
        }
        if let Some(interned) = packet.message(12) {
            assert_eq!(packet.number(13), Some(2));
            for entry in interned.messages(2) {
                sequence
                    .names
                    .insert(entry.number(1).unwrap(), entry.text(2).unwrap());
            }
            for entry in interned.messages(3) {
                sequence
                    .arg_names
                    .insert(entry.number(1).unwrap(), entry.text(2).unwrap());
            }
        }
        let Some(event) = packet.message(11) else {
            continue;
        };
        let ns = match (packet.number(58), sequence.track) {
            (None, track) if track != 0 => {
                sequence.clock_ns += packet.number(8).unwrap();
                sequence.clock_ns
            }
            _ => packet.number(8).unwrap(),
        };
        let track = event.number(11).unwrap_or(sequence.track);
        assert!(
            trace.tracks.contains_key(&track),
            "a track that was not declared"
        );
        let name = match event.number(10) {
            Some(iid) => sequence.names[&iid].clone(),
            None => event.text(23).unwrap_or_default(),
        };
        let args = event.messages(4);
        let args = args.iter().map(|arg| {
            let name = match arg.number(1) {
                Some(iid) => sequence.arg_names[&iid].clone(),
                None => arg.text(10).unwrap(),
            };
            (name, value(arg))
        });
        let args: Vec<_> = args.collect();
        events.push((ns, track, event.number(9), name, args, event.number(44)));
    }
    events.sort_by_key(|event| event.0);
    let mut open: HashMap<u64, Vec<Slice>> = HashMap::new();
    for (ns, track, kind, name, args, number) in events {
        let open = open.entry(track).or_default();
        match kind {
            Some(1) => open.push(Slice {
                track,
                name,
                start_ns: ns,
                end_ns: 0,
                depth: open.len(),
                args,
            }),
            Some(2) => {
                let slice = open.pop().expect("an end ends something");
                trace.slices.push(Slice {
                    end_ns: ns,
                    ..slice
                });
            }
            Some(3) => trace.slices.push(Slice {
                track,
                name,
                start_ns: ns,
                end_ns: ns,
                depth: open.len(),
                args,
            }),
            Some(4) => {
                let name = trace.tracks[&track].clone();
                trace.values.push((name, f64::from_bits(number.unwrap())));
            }
            kind => panic!("an event of type {kind:?}"),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    trace
}
