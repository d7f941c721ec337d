//! The log of the tests' NVTX tool, read back.

use std::collections::BTreeMap;
use std::path::Path;

/// A range as the tool received it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub name: String,
    pub depth: usize,
    /// The name of its category, empty for none.
    pub category: String,
    pub color_argb: Option<u32>,
    /// Type and value, as in `nvToolsExt.h`.
    pub payload: Option<(i32, u64)>,
}

/// The calls of one thread.
#[derive(Clone, Debug, Default)]
pub struct Thread {
    /// The name that the program gave the tool for this thread.
    pub name: String,
    /// Its ranges in the order in which they were pushed.
    pub ranges: Vec<Range>,
    /// Numbers of ranges, in the order in which they were popped.
    pub popped: Vec<usize>,
    open: Vec<usize>,
}

impl Thread {
    /// Returns the number of ranges left open.
    pub fn left_open(&self) -> usize {
        self.open.len()
    }
}

/// Reads a log and checks every call: the domain, the version and the sizes, that strings are
/// registered, and that every popped range was pushed.
pub fn read(path: &Path) -> BTreeMap<u64, Thread> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut threads: BTreeMap<u64, Thread> = BTreeMap::new();
    let mut strings: BTreeMap<u64, String> = BTreeMap::new();
    let mut categories: BTreeMap<u64, String> = BTreeMap::from([(0, String::new())]);
    let mut domains = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().unwrap();
        let tid = number(0);
        match words[1] {
            "domain" => domains.push(unhex(words[2])),
            "string" => {
                assert_eq!(number(2), 0xd0);
                let known = strings.insert(number(3), unhex(words[4]));
                assert!(known.is_none_or(|known| known == unhex(words[4])));
            }
            "category" => {
                let known = categories.insert(number(3), unhex(words[4]));
                assert!(
                    known.is_none_or(|known| known == unhex(words[4])),
                    "one number for two categories"
                );
            }
            "thread" => {
                assert_eq!(number(2), tid, "a thread names itself");
                threads.entry(tid).or_default().name = unhex(words[3]);
            }
            "push" => {
                assert_eq!((number(2), number(3), number(4)), (0xd0, 3, 48));
                assert_eq!(number(10), 3, "the message is a registered string");
                let thread = threads.entry(tid).or_default();
                thread.open.push(thread.ranges.len());
                thread.ranges.push(Range {
                    name: strings[&number(11)].clone(),
                    depth: number(12) as usize,
                    category: categories[&number(5)].clone(),
                    color_argb: (number(6) == 1).then_some(number(7) as u32),
                    payload: (number(8) != 0).then_some((number(8) as i32, number(9))),
                });
            }
            "pop" => {
                assert_eq!(number(2), 0xd0);
                let thread = threads.get_mut(&tid).expect("a range was pushed");
                thread
                    .popped
                    .push(thread.open.pop().expect("a range is open"));
                assert_eq!(number(3) as usize, thread.open.len());
            }
            other => panic!("unknown call {other}"),
        }
    }
    assert_eq!(domains, ["vor"], "the domain is created once");
    threads
}

fn unhex(digits: &str) -> String {
    let digits = digits.strip_prefix('x').unwrap();
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
    String::from_utf8((0..digits.len()).step_by(2).map(byte).collect()).unwrap()
}
