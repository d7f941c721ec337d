//! A reader of gzipped `profile.proto`. It follows the published message definition, and is
//! independent of the exporter.

use std::collections::{BTreeMap, HashMap};
use std::io::Read as _;

use crate::wire::{fields, one};

/// A profile with all references resolved.
#[derive(Debug, Default)]
pub struct Profile {
    /// Name and unit of each value.
    pub types: Vec<(String, String)>,
    pub samples: Vec<Sample>,
    pub period: (String, String, i64),
    pub time_nanos: i64,
    pub duration_nanos: i64,
    pub default_type: String,
    pub comments: Vec<String>,
    pub program: String,
}

#[derive(Debug, Default)]
pub struct Sample {
    /// Name, file and line of each frame, outermost first.
    pub stack: Vec<(String, String, i64)>,
    pub values: Vec<i64>,
    pub labels: BTreeMap<String, String>,
}

impl Sample {
    pub fn names(&self) -> Vec<&str> {
        self.stack.iter().map(|(name, ..)| name.as_str()).collect()
    }
}

impl Profile {
    pub fn type_names(&self) -> Vec<&str> {
        self.types.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Sums a value by the names of the stacks.
    pub fn sums(&self, of: &str) -> BTreeMap<Vec<String>, i64> {
        let at = self
            .types
            .iter()
            .position(|(name, _)| name == of)
            .expect(of);
        let mut sums = BTreeMap::new();
        for sample in &self.samples {
            let names = sample.names().into_iter().map(str::to_owned).collect();
            *sums.entry(names).or_default() += sample.values[at];
        }
        sums
    }
}

/// Reads a profile, and asserts that every reference in it resolves.
pub fn read(gzipped: &[u8]) -> Profile {
    let mut bytes = Vec::new();
    let mut decoder = flate2::read::MultiGzDecoder::new(gzipped);
    decoder.read_to_end(&mut bytes).expect("gzip");
    let all = fields(&bytes);
    let of = |number: u64| {
        all.iter()
            .filter(move |(field, _)| *field == number)
            .map(|(_, field)| field)
    };
    let texts: Vec<String> = of(6)
        .map(|text| String::from_utf8(text.bytes().to_vec()).expect("UTF-8"))
        .collect();
    assert_eq!(texts[0], "", "the first text is the empty one");
    let text = |number: u64| texts[number as usize].clone();
    let value_type = |bytes: &[u8]| {
        let fields = fields(bytes);
        (text(one(&fields, 1)), text(one(&fields, 2)))
    };
    let mappings: HashMap<u64, String> = of(3)
        .map(|mapping| fields(mapping.bytes()))
        .map(|mapping| (one(&mapping, 1), text(one(&mapping, 5))))
        .collect();
    let functions: HashMap<u64, (String, String)> = of(5)
        .map(|function| fields(function.bytes()))
        .map(|function| {
            (
                one(&function, 1),
                (text(one(&function, 2)), text(one(&function, 4))),
            )
        })
        .collect();
    let locations: HashMap<u64, (String, String, i64)> = of(4)
        .map(|location| fields(location.bytes()))
        .map(|location| {
            assert!(mappings.contains_key(&one(&location, 2)));
            let line = location
                .iter()
                .find(|(field, _)| *field == 4)
                .expect("a line");
            let line = fields(line.1.bytes());
            let (name, file) = functions[&one(&line, 1)].clone();
            (one(&location, 1), (name, file, one(&line, 2) as i64))
        })
        .collect();
    assert!(
        !functions.contains_key(&0) && !locations.contains_key(&0),
        "0 is no id"
    );
    let mut profile = Profile {
        types: of(1).map(|of| value_type(of.bytes())).collect(),
        time_nanos: one(&all, 9) as i64,
        duration_nanos: one(&all, 10) as i64,
        default_type: text(one(&all, 14)),
        comments: of(13).map(|comment| text(comment.number())).collect(),
        program: mappings.values().next().expect("a mapping").clone(),
        ..Profile::default()
    };
    let (name, unit) = of(11)
        .next()
        .map(|of| value_type(of.bytes()))
        .expect("a period type");
    profile.period = (name, unit, one(&all, 12) as i64);
    for sample in of(2) {
        let mut read = Sample::default();
        for (field, value) in fields(sample.bytes()) {
            match field {
                1 => read.stack.insert(0, locations[&value.number()].clone()),
                2 => read.values.push(value.number() as i64),
                3 => {
                    let label = fields(value.bytes());
                    let (key, value) = (one(&label, 1), one(&label, 2));
                    assert!(key > 0 && value > 0);
                    assert_eq!(
                        read.labels.insert(text(key), text(value)),
                        None,
                        "a label twice"
                    );
                }
                _ => panic!("field {field} of a sample"),
            }
        }
        assert_eq!(read.values.len(), profile.types.len());
        profile.samples.push(read);
    }
    profile
}
