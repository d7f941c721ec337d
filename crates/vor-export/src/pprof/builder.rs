//! A profile as it is written: samples, each a stack with values, and tables of what they refer to.
//!
//! In the message `Profile` of `profile.proto` everything refers to everything by number: a sample
//! to locations, a location to a function, a function to texts. Each is encoded when it is first
//! met, so that in memory a profile is little more than its bytes.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;

use crate::proto::{put_i64, put_message, put_str, put_u64};

/// Fields of `Profile`.
mod profile {
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING_TABLE: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const PERIOD_TYPE: u32 = 11;
    pub(super) const PERIOD: u32 = 12;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// Fields of `ValueType`.
mod value_type {
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;
}

/// Fields of `Sample`, and of its `Label`.
mod sample {
    pub(super) const LOCATION_ID: u32 = 1;
    pub(super) const VALUE: u32 = 2;
    pub(super) const LABEL: u32 = 3;
    pub(super) const LABEL_KEY: u32 = 1;
    pub(super) const LABEL_STR: u32 = 2;
}

/// Fields of `Mapping`.
mod mapping {
    pub(super) const ID: u32 = 1;
    pub(super) const FILENAME: u32 = 5;
    pub(super) const HAS_FUNCTIONS: u32 = 7;
    pub(super) const HAS_FILENAMES: u32 = 8;
    pub(super) const HAS_LINE_NUMBERS: u32 = 9;
}

/// Fields of `Location`, and of its `Line`.
mod location {
    pub(super) const ID: u32 = 1;
    pub(super) const MAPPING_ID: u32 = 2;
    pub(super) const LINE: u32 = 4;
    pub(super) const LINE_FUNCTION_ID: u32 = 1;
    pub(super) const LINE_LINE: u32 = 2;
}

/// Fields of `Function`.
mod function {
    pub(super) const ID: u32 = 1;
    pub(super) const NAME: u32 = 2;
    pub(super) const SYSTEM_NAME: u32 = 3;
    pub(super) const FILENAME: u32 = 4;
}

/// The program, as the only thing that is mapped.
const PROGRAM: u64 = 1;

/// What one of a sample's values is, and its unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampleType {
    /// Its name, by which viewers choose it.
    pub name: Cow<'static, str>,
    /// Its unit: `nanoseconds`, `bytes` and `count` are known to viewers.
    pub unit: Cow<'static, str>,
}

impl SampleType {
    /// Time on the clock, in nanoseconds.
    pub const WALL: Self = Self::new("wall", "nanoseconds");
    /// Of [`WALL`](Self::WALL) what a scope ran, in nanoseconds: of a task, while it was polled.
    pub const WALL_BUSY: Self = Self::new("wall_busy", "nanoseconds");
    /// Of [`WALL`](Self::WALL) what a task waited, in nanoseconds, while nobody polled it.
    pub const WALL_IDLE: Self = Self::new("wall_idle", "nanoseconds");
    /// Processor time, in nanoseconds.
    pub const CPU: Self = Self::new("cpu", "nanoseconds");
    /// Processor time in the program, in nanoseconds.
    pub const CPU_USER: Self = Self::new("cpu_user", "nanoseconds");
    /// Processor time in the kernel, in nanoseconds.
    pub const CPU_SYS: Self = Self::new("cpu_sys", "nanoseconds");
    /// Time in which the thread did not run, in nanoseconds.
    pub const OFF_CPU: Self = Self::new("off_cpu", "nanoseconds");
    /// Number of allocations.
    pub const ALLOC_OBJECTS: Self = Self::new("alloc_objects", "count");
    /// Bytes allocated.
    pub const ALLOC_BYTES: Self = Self::new("alloc_bytes", "bytes");
    /// Number of allocations that are not given back yet.
    pub const INUSE_OBJECTS: Self = Self::new("inuse_objects", "count");
    /// Bytes of them.
    pub const INUSE_BYTES: Self = Self::new("inuse_bytes", "bytes");

    /// Makes a type of one's own.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            unit: Cow::Borrowed(unit),
        }
    }
}

/// A frame of a stack. File and line may be unknown: empty and 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The function, as viewers call it.
    pub name: &'a str,
    /// Its source file.
    pub file: &'a str,
    /// Its line there, 1-based.
    pub line: u32,
}

/// Makes a profile of stacks and values, such as that of a heap.
///
/// # Examples
///
/// ```
/// use vor_export::pprof::{Frame, ProfileBuilder, SampleType};
///
/// let mut heap = ProfileBuilder::new(&[SampleType::INUSE_OBJECTS, SampleType::INUSE_BYTES]);
/// heap.set_period(&SampleType::new("space", "bytes"), 512 * 1024);
/// let main = Frame { name: "main", file: "src/main.rs", line: 3 };
/// let load = Frame { name: "load", file: "src/main.rs", line: 17 };
/// heap.add([main, load], &[12, 768 * 1024], [("thread", "main")]);
/// let mut file = Vec::new();
/// heap.write_gzipped(&mut file)?;
/// # assert_eq!(file[..2], [0x1f, 0x8b]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ProfileBuilder {
    /// Everything but what is still asked for below, encoded.
    out: Vec<u8>,
    values: usize,
    texts: FxHashMap<Box<str>, u64>,
    functions: FxHashMap<(u64, u64), u64>,
    locations: FxHashMap<(u64, u32), u64>,
    samples: u64,
    program: u64,
    start_unix_ns: i64,
    duration_ns: u64,
    /// The location of each frame of a sample.
    path: Vec<u64>,
}

impl ProfileBuilder {
    /// Begins a profile whose samples have a value of each type. Viewers show the first at first.
    #[must_use]
    pub fn new(types: &[SampleType]) -> Self {
        let mut this = Self {
            out: Vec::new(),
            values: types.len(),
            texts: FxHashMap::default(),
            functions: FxHashMap::default(),
            locations: FxHashMap::default(),
            samples: 0,
            program: 0,
            start_unix_ns: 0,
            duration_ns: 0,
            path: Vec::new(),
        };
        // The first text of a profile is the empty one.
        this.text("");
        for of in types {
            this.put_type(profile::SAMPLE_TYPE, of);
        }
        if let Some(first) = types.first() {
            let first = this.text(&first.name);
            put_u64(&mut this.out, profile::DEFAULT_SAMPLE_TYPE, first);
        }
        this
    }

    /// Says how many of something a sample stands for, such as the mean distance of sampled
    /// allocations.
    pub fn set_period(&mut self, of: &SampleType, period: u64) {
        self.put_type(profile::PERIOD_TYPE, of);
        put_i64(&mut self.out, profile::PERIOD, integer(period));
    }

    /// Says when the profile begins, in nanoseconds since 1970, and how long it is.
    pub fn set_time(&mut self, start_unix_ns: i64, duration_ns: u64) {
        self.start_unix_ns = start_unix_ns;
        self.duration_ns = duration_ns;
    }

    /// Says which program it is of.
    pub fn set_program(&mut self, name: &str) {
        self.program = self.text(name);
    }

    /// Adds a line for people, which `pprof -comments` shows.
    pub fn add_comment(&mut self, line: &str) {
        let line = self.text(line);
        put_u64(&mut self.out, profile::COMMENT, line);
    }

    /// Adds a sample: a stack from the outermost frame to the innermost, a value per type of the
    /// profile, and labels. Missing values are 0.
    pub fn add<'a>(
        &mut self,
        stack: impl IntoIterator<Item = Frame<'a>>,
        values: &[i64],
        labels: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) {
        self.path.clear();
        for frame in stack {
            let location = self.location(frame);
            self.path.push(location);
        }
        let labels = labels
            .into_iter()
            .map(|(key, value)| (self.text(key), self.text(value)))
            .collect::<Vec<_>>();
        let Self { out, path, .. } = self;
        put_message(out, profile::SAMPLE, |out| {
            for &location in path.iter().rev() {
                put_u64(out, sample::LOCATION_ID, location);
            }
            let values = values.iter().copied().chain(std::iter::repeat(0));
            for value in values.take(self.values) {
                put_i64(out, sample::VALUE, value);
            }
            for (key, value) in labels {
                put_message(out, sample::LABEL, |out| {
                    put_u64(out, sample::LABEL_KEY, key);
                    put_u64(out, sample::LABEL_STR, value);
                });
            }
        });
        self.samples += 1;
    }

    /// Returns whether the profile has no sample.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.samples == 0
    }

    /// Returns the message `Profile`.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        let out = &mut self.out;
        put_message(out, profile::MAPPING, |out| {
            put_u64(out, mapping::ID, PROGRAM);
            put_u64(out, mapping::FILENAME, self.program);
            // Whoever reads it shall not look for symbols anywhere.
            for has in [
                mapping::HAS_FUNCTIONS,
                mapping::HAS_FILENAMES,
                mapping::HAS_LINE_NUMBERS,
            ] {
                put_u64(out, has, 1);
            }
        });
        put_i64(out, profile::TIME_NANOS, self.start_unix_ns);
        put_i64(out, profile::DURATION_NANOS, integer(self.duration_ns));
        self.out
    }

    /// Writes the profile as pprof's files are: gzipped.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_gzipped(self, writer: impl Write) -> io::Result<()> {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        encoder.write_all(&self.into_bytes())?;
        encoder.finish()?.flush()
    }

    fn put_type(&mut self, field: u32, of: &SampleType) {
        let (name, unit) = (self.text(&of.name), self.text(&of.unit));
        put_message(&mut self.out, field, |out| {
            put_u64(out, value_type::TYPE, name);
            put_u64(out, value_type::UNIT, unit);
        });
    }

    /// Returns the number of a text.
    fn text(&mut self, text: &str) -> u64 {
        if let Some(&number) = self.texts.get(text) {
            return number;
        }
        let number = self.texts.len() as u64;
        self.texts.insert(text.into(), number);
        put_str(&mut self.out, profile::STRING_TABLE, text);
        number
    }

    fn function(&mut self, name: u64, file: u64) -> u64 {
        let next = self.functions.len() as u64 + 1;
        let id = *self.functions.entry((name, file)).or_insert(next);
        if id == next {
            put_message(&mut self.out, profile::FUNCTION, |out| {
                put_u64(out, function::ID, id);
                put_u64(out, function::NAME, name);
                put_u64(out, function::SYSTEM_NAME, name);
                put_u64(out, function::FILENAME, file);
            });
        }
        id
    }

    fn location(&mut self, frame: Frame<'_>) -> u64 {
        let (name, file) = (self.text(frame.name), self.text(frame.file));
        let function = self.function(name, file);
        let next = self.locations.len() as u64 + 1;
        let id = *self.locations.entry((function, frame.line)).or_insert(next);
        if id == next {
            put_message(&mut self.out, profile::LOCATION, |out| {
                put_u64(out, location::ID, id);
                put_u64(out, location::MAPPING_ID, PROGRAM);
                put_message(out, location::LINE, |out| {
                    put_u64(out, location::LINE_FUNCTION_ID, function);
                    put_u64(out, location::LINE_LINE, u64::from(frame.line));
                });
            });
        }
        id
    }
}

/// Returns a number as a profile holds it: all of them are signed.
pub(super) fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
