//! An encoded profile: samples, each a stack with values, and the tables that they refer to.
//!
//! References in the message `Profile` of `profile.proto` are numbers: a sample refers to
//! locations, a location to a function, a function to texts. Each is encoded at its first use, so
//! in memory a profile is little more than its bytes.

use std::borrow::Cow;
use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use rustc_hash::FxHashMap;

use crate::proto::{put_i64, put_message, put_str, put_u64};
use crate::saturated;

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

/// The program, which is the only mapping.
const PROGRAM: u64 = 1;

/// The name and the unit of one of a sample's values.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SampleType {
    /// Its name, by which viewers select it.
    pub name: Cow<'static, str>,
    /// Its unit; viewers know `nanoseconds`, `bytes` and `count`.
    pub unit: Cow<'static, str>,
}

impl SampleType {
    /// Wall-clock time, in nanoseconds.
    pub const WALL: Self = Self::new("wall", "nanoseconds");
    /// The part of [`WALL`](Self::WALL) in which scopes ran and tasks were polled, in nanoseconds.
    pub const WALL_BUSY: Self = Self::new("wall_busy", "nanoseconds");
    /// The part of [`WALL`](Self::WALL) in which tasks waited to be polled, in nanoseconds.
    pub const WALL_IDLE: Self = Self::new("wall_idle", "nanoseconds");
    /// CPU time, in nanoseconds.
    pub const CPU: Self = Self::new("cpu", "nanoseconds");
    /// CPU time in user space, in nanoseconds.
    pub const CPU_USER: Self = Self::new("cpu_user", "nanoseconds");
    /// CPU time in the kernel, in nanoseconds.
    pub const CPU_SYS: Self = Self::new("cpu_sys", "nanoseconds");
    /// Time in which the thread was off-CPU, in nanoseconds.
    pub const OFF_CPU: Self = Self::new("off_cpu", "nanoseconds");
    /// The part of [`OFF_CPU`](Self::OFF_CPU) in which the thread was runnable and had no
    /// processor, in nanoseconds.
    pub const WALL_RUNQUEUE: Self = Self::new("wall_runqueue", "nanoseconds");
    /// The part of [`OFF_CPU`](Self::OFF_CPU) in which the thread waited for something, in
    /// nanoseconds.
    pub const WALL_BLOCKED: Self = Self::new("wall_blocked", "nanoseconds");
    /// Number of allocations.
    pub const ALLOC_OBJECTS: Self = Self::new("alloc_objects", "count");
    /// Number of allocated bytes.
    pub const ALLOC_BYTES: Self = Self::new("alloc_bytes", "bytes");
    /// Number of live allocations.
    pub const INUSE_OBJECTS: Self = Self::new("inuse_objects", "count");
    /// Number of live bytes.
    pub const INUSE_BYTES: Self = Self::new("inuse_bytes", "bytes");

    /// Makes a custom type.
    #[must_use]
    pub const fn new(name: &'static str, unit: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            unit: Cow::Borrowed(unit),
        }
    }
}

/// A frame of a stack. An unknown file is empty; an unknown line is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'a> {
    /// The name of the function.
    pub name: &'a str,
    /// Its source file.
    pub file: &'a str,
    /// Its line there, 1-based.
    pub line: u32,
}

impl<'a> Frame<'a> {
    /// Makes a frame of a function whose file and line are unknown.
    #[must_use]
    pub fn new(name: &'a str) -> Self {
        Self {
            name,
            ..Self::default()
        }
    }

    /// Sets the place of the frame.
    #[must_use]
    pub fn at(mut self, file: &'a str, line: u32) -> Self {
        (self.file, self.line) = (file, line);
        self
    }
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
/// let main = Frame::new("main").at("src/main.rs", 3);
/// let load = Frame::new("load").at("src/main.rs", 17);
/// heap.add([main, load], &[12, 768 * 1024], [("thread", "main")]);
/// let mut file = Vec::new();
/// heap.write_gzipped(&mut file)?;
/// # assert_eq!(file[..2], [0x1f, 0x8b]);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct ProfileBuilder {
    /// The encoded fields, without those that [`into_bytes`](Self::into_bytes) adds.
    out: Vec<u8>,
    values: usize,
    texts: FxHashMap<Box<str>, u64>,
    functions: FxHashMap<(u64, u64), u64>,
    locations: FxHashMap<(u64, u32), u64>,
    samples: u64,
    program: u64,
    start_unix_ns: i64,
    duration_ns: u64,
    /// The locations of the current sample.
    path: Vec<u64>,
}

impl ProfileBuilder {
    /// Makes a profile whose samples have a value of each type. Viewers show the first one
    /// initially.
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
        // The first text of a profile is empty.
        this.text("");
        for sample_type in types {
            this.put_type(profile::SAMPLE_TYPE, sample_type);
        }
        if let Some(first) = types.first() {
            let first = this.text(&first.name);
            put_u64(&mut this.out, profile::DEFAULT_SAMPLE_TYPE, first);
        }
        this
    }

    /// Sets the mean distance of samples, such as the bytes between two sampled allocations.
    pub fn set_period(&mut self, unit: &SampleType, period: u64) {
        self.put_type(profile::PERIOD_TYPE, unit);
        put_i64(&mut self.out, profile::PERIOD, saturated(period));
    }

    /// Sets the begin of the profile, in nanoseconds since 1970, and its duration.
    pub fn set_time(&mut self, start_unix_ns: i64, duration_ns: u64) {
        self.start_unix_ns = start_unix_ns;
        self.duration_ns = duration_ns;
    }

    /// Sets the name of the program.
    pub fn set_program(&mut self, name: &str) {
        self.program = self.text(name);
    }

    /// Adds a comment, which `pprof -comments` shows.
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
            // Names are final, so readers need not search symbols.
            for has in [
                mapping::HAS_FUNCTIONS,
                mapping::HAS_FILENAMES,
                mapping::HAS_LINE_NUMBERS,
            ] {
                put_u64(out, has, 1);
            }
        });
        put_i64(out, profile::TIME_NANOS, self.start_unix_ns);
        put_i64(out, profile::DURATION_NANOS, saturated(self.duration_ns));
        self.out
    }

    /// Writes the profile gzipped, like pprof's files.
    ///
    /// # Errors
    ///
    /// The writer fails.
    pub fn write_gzipped(self, writer: impl Write) -> io::Result<()> {
        let mut encoder = GzEncoder::new(writer, Compression::default());
        encoder.write_all(&self.into_bytes())?;
        encoder.finish()?.flush()
    }

    fn put_type(&mut self, field: u32, sample_type: &SampleType) {
        let (name, unit) = (self.text(&sample_type.name), self.text(&sample_type.unit));
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
