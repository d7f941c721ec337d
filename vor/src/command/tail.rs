//! `vor tail`: the frames of a capture that is still being written, or of a running program.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use vor_capture::filled;
use vor_capture::format::{OpenScopes, v2};
use vor_capture::model::catalog::{Catalog, Column, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, MetricValue};
use vor_capture::reader::{Capture, Event, Reader, Recovered, SegmentedCapture};
use vor_capture::units;
use vor_export::thread_label;
use vor_recorder::sinks::live::{Address, Choice};

use crate::command::Outcome;
use crate::command::failure::{Failure, warn};
use crate::command::frame_rows::{FrameJson, FrameTable};
use crate::command::json;
use crate::command::live;
use crate::command::newest::{has_header, next_segments};
use crate::command::quiet::Quiet;
use crate::command::table::printable;
use crate::writer::{self, Writer};

/// How often to look for more; the recorder writes about as often.
const POLL: Duration = Duration::from_millis(50);

/// How often the frames of a running program are passed on.
const FLUSH_EVERY: Duration = Duration::from_millis(5);

/// How long a new segment may stay without a header.
const NO_HEADER: Duration = Duration::from_secs(10);

/// Follows a growing capture, the newest of its segments, or a running program, a line per frame.
///
/// The command ends when the recorder closes the file or ends. A recorder that ended without
/// closing the file is noticed on Linux, on the machine where it ran. A capture of version 2 never
/// reports that it is closed; press Ctrl-C.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The capture; or the program: its process number, `unix:PATH` or `tcp://HOST:PORT`.
    #[arg(value_name = "FILE|ADDRESS")]
    path: PathBuf,
    /// Starts with the last N frames that are already in the file.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 10, value_parser = whole_number)]
    lines: usize,
    /// Prints the frames that are in the file, and does not wait for more.
    #[arg(long)]
    once: bool,
    /// Waits for more even after the process that wrote the capture has ended, for example while
    /// the file is still being copied.
    #[arg(long, conflicts_with = "once")]
    wait: bool,
    /// Prints JSON, one object per frame and line.
    #[arg(long)]
    json: bool,
}

fn whole_number(text: &str) -> Result<usize, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a whole number"))
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    if let Some(address) = live::address_of(args.path.as_os_str())? {
        return run_live(&address, args, out);
    }
    let mut path = args.path.clone();
    // Of several segments, the newest is followed, and then the next one.
    let is_one = match SegmentedCapture::list(&args.path)? {
        Some(paths) => {
            // The newest one may have been created just now.
            let newest = paths.iter().rfind(|path| has_header(path));
            path = newest.or(paths.last()).cloned().unwrap_or(path);
            false
        }
        None => true,
    };
    let mut follower = Follower::open(&path)?;
    let mut printer = Printer {
        json: args.json,
        table: None,
        columns: 0,
        origin_ns: None,
    };
    // The last frames of those that were already in the file; `None` once they are printed.
    let mut backlog = Some(VecDeque::new());
    let (mut file_bytes, mut quiet) = (0, Quiet::begin(Instant::now()));
    let mut created = None;
    loop {
        let next = follower.next();
        match next.map_err(|error| Failure::in_file(&path, error))? {
            Some(Step::Frame(recovered)) => {
                printer.note_origin(&recovered);
                match &mut backlog {
                    Some(backlog) => {
                        backlog.push_back(recovered);
                        if backlog.len() > args.lines {
                            backlog.pop_front();
                        }
                    }
                    None => printer.print(out, &recovered)?,
                }
            }
            Some(Step::Loss(reason)) => warn(&format!("{}: damaged: {reason}", path.display())),
            Some(Step::Open(open, catalog)) => {
                for recovered in backlog.iter_mut().flat_map(|backlog| backlog.drain(..)) {
                    printer.print(out, &recovered)?;
                }
                if !args.json {
                    print_open(out, &open, &catalog)?;
                }
            }
            None => {
                for recovered in backlog.take().into_iter().flatten() {
                    printer.print(out, &recovered)?;
                }
                out.flush().map_err(Failure::output)?;
                let is_closed = follower.is_closed();
                if is_closed
                    && !is_one
                    && !args.once
                    && let Some(next) = next_segments(&args.path, &path)?.into_iter().next()
                {
                    let seen = *created.get_or_insert_with(Instant::now);
                    if may_begin(has_header(&next), seen.elapsed()) {
                        thread::sleep(POLL);
                        continue;
                    }
                    created = None;
                    path = next;
                    follower = Follower::open(&path)?;
                    (file_bytes, quiet) = (0, Quiet::begin(Instant::now()));
                    continue;
                }
                // The next segment is in the folder before the end of this one is written.
                if args.once || is_closed {
                    return match printer.has_frames(out, &path)? {
                        true => Ok(Outcome::Success),
                        false => Err(Failure::in_file(&path, "no frames")),
                    };
                }
                let new_bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
                let has_grown = std::mem::replace(&mut file_bytes, new_bytes) != new_bytes;
                if quiet.look(has_grown, Instant::now())
                    && !args.wait
                    && let Writer::Gone(who) = follower.writer(&path)
                {
                    let problem = format!("{who} ended without closing it; --wait goes on");
                    if !printer.has_frames(out, &path)? {
                        return Err(Failure::in_file(&path, &problem));
                    }
                    warn(&format!("{}: {problem}", path.display()));
                    return Ok(Outcome::Success);
                }
                thread::sleep(POLL);
            }
        }
    }
}

/// Returns whether a segment that was seen so long ago is still to get its header.
fn may_begin(has_header: bool, seen: Duration) -> bool {
    !has_header && seen < NO_HEADER
}

/// Returns whether frames are passed on that were printed at most so long ago.
fn is_flush_due(elapsed: Duration) -> bool {
    elapsed >= FLUSH_EVERY
}

/// Prints the frames of a running program from now on.
fn run_live(address: &Address, args: &Args, out: &mut impl Write) -> Result<Outcome, Failure> {
    let failed = |error: io::Error| Failure::Message(format!("{address}: {error}"));
    // Spans are not printed, only counted.
    let stream = live::open(address, Choice::All)?;
    let mut reader = Reader::new(stream).map_err(failed)?;
    let mut printer = Printer {
        json: args.json,
        table: None,
        columns: 0,
        origin_ns: None,
    };
    let mut flushed = Instant::now();
    loop {
        match reader.next_event().map_err(failed)? {
            Some(Event::Frame(recovered)) if recovered.frame.frame_set == 0 => {
                printer.note_origin(&recovered);
                printer.print(out, &recovered)?;
                // The next read may wait.
                if is_flush_due(flushed.elapsed()) {
                    out.flush().map_err(Failure::output)?;
                    flushed = Instant::now();
                }
            }
            Some(Event::Loss(loss)) => warn(&format!("{address}: damaged: {}", loss.reason)),
            Some(Event::OpenScopes(open)) if !args.json => {
                let catalog = reader.catalog().cloned().unwrap_or_default();
                print_open(out, &open, &catalog)?;
            }
            Some(_) => {}
            None => {
                out.flush().map_err(Failure::output)?;
                if reader.get_ref().has_ended || args.once {
                    return Ok(Outcome::Success);
                }
            }
        }
    }
}

struct Printer {
    json: bool,
    table: Option<FrameTable>,
    /// Number of metrics when the table was made.
    columns: usize,
    /// Start of the first frame, printed or not.
    origin_ns: Option<i64>,
}

impl Printer {
    fn note_origin(&mut self, recovered: &Recovered) {
        let frame = &recovered.frame;
        self.origin_ns
            .get_or_insert_with(|| frame.catalog.unix_ns(frame.start_ticks));
    }

    /// Returns whether there were frames. A capture without marks is one frame, which is printed
    /// here: the stream has it only if the recorder closed the file.
    fn has_frames(&mut self, out: &mut impl Write, path: &Path) -> Result<bool, Failure> {
        if self.origin_ns.is_none() {
            let failed = |error: vor_capture::Error| Failure::Message(error.to_string());
            let mut capture = Capture::open(path).map_err(failed)?;
            if capture.frame_count() == 1 {
                let recovered = capture.recovered(0).map_err(failed)?;
                self.note_origin(&recovered);
                self.print(out, &recovered)?;
            }
        }
        Ok(self.origin_ns.is_some())
    }

    fn print(&mut self, out: &mut impl Write, recovered: &Recovered) -> Result<(), Failure> {
        if self.json {
            json::write_line(out, &FrameJson::new(recovered))?;
            return writeln!(out).map_err(Failure::output);
        }
        let catalog = &recovered.frame.catalog;
        let table = match &mut self.table {
            Some(table) if self.columns == catalog.columns.len() => table,
            // A new metric gets a column, and the heads are printed again.
            _ => {
                self.columns = catalog.columns.len();
                let table = FrameTable::new(catalog, false, false, self.origin_ns.unwrap_or(0));
                table.write_heads(out)?;
                self.table.insert(table)
            }
        };
        table.write_frame(out, recovered, None, None)
    }
}

/// Prints the scopes that were open when the recording ended.
fn print_open(out: &mut impl Write, open: &OpenScopes, catalog: &Catalog) -> Result<(), Failure> {
    for (thread, scopes) in &open.threads {
        let of = |&(site, start_ticks): &(_, u64)| {
            let ns = catalog
                .unix_ns(open.ticks)
                .saturating_sub(catalog.unix_ns(start_ticks));
            let name = printable(catalog.site_name(site));
            format!("{name} for {}", units::duration(ns.max(0) as f64))
        };
        let names: Vec<String> = scopes.iter().map(of).collect();
        let label = printable(&thread_label(catalog, ThreadId(thread.0)));
        writeln!(out, "open at the end in {label}: {}", names.join(" > "))
            .map_err(Failure::output)?;
    }
    Ok(())
}

enum Step {
    Frame(Recovered),
    Open(OpenScopes, Arc<Catalog>),
    Loss(String),
}

#[expect(
    clippy::large_enum_variant,
    reason = "there is one, and it is not moved"
)]
enum Follower {
    V2(FollowerV2),
    V3 {
        reader: Reader<File>,
        /// Whether a batch or a frame came.
        has_begun: bool,
    },
}

/// Follows a version-2 file, whose frames have a duration and, with a flame, a number of spans.
struct FollowerV2 {
    input: File,
    decoder: v2::Decoder,
    catalog: Arc<Catalog>,
    frames: u64,
    end_ns: u64,
    flame_index: Option<u64>,
}

impl Follower {
    fn open(path: &Path) -> Result<Self, Failure> {
        let named = |error: io::Error| Failure::in_file(path, error);
        let reader = Reader::open(path).map_err(|error| Failure::Message(error.to_string()))?;
        let file = File::open(path).map_err(named)?;
        if reader.version() != 2 {
            let reader = Reader::new(file).map_err(named)?;
            return Ok(Self::V3 {
                reader,
                has_begun: false,
            });
        }
        FollowerV2::new(file)
            .map(Self::V2)
            .map_err(|error| Failure::in_file(path, error))
    }

    fn next(&mut self) -> io::Result<Option<Step>> {
        match self {
            Self::V2(follower) => follower.next(),
            Self::V3 { reader, has_begun } => {
                while let Some(event) = reader.next_event()? {
                    // A segment begins with the scopes that were open then.
                    let is_beginning = !*has_begun
                        && reader
                            .catalog()
                            .is_some_and(|catalog| catalog.segment.is_some());
                    *has_begun |= matches!(event, Event::Batch(_) | Event::Frame(_));
                    match event {
                        Event::OpenScopes(_) if is_beginning => {}
                        Event::Frame(recovered) if recovered.frame.frame_set == 0 => {
                            return Ok(Some(Step::Frame(recovered)));
                        }
                        Event::Loss(loss) => return Ok(Some(Step::Loss(loss.reason))),
                        Event::OpenScopes(open) => {
                            let catalog = reader.catalog().cloned().unwrap_or_default();
                            return Ok(Some(Step::Open(open, catalog)));
                        }
                        _ => {}
                    }
                }
                Ok(None)
            }
        }
    }

    /// Looks for the process that writes the capture.
    fn writer(&self, path: &Path) -> Writer {
        match self {
            Self::V2(_) => Writer::MayRun,
            Self::V3 { reader, .. } => reader
                .catalog()
                .map_or(Writer::MayRun, |catalog| writer::find(path, catalog)),
        }
    }

    /// Returns whether the file is complete.
    fn is_closed(&self) -> bool {
        match self {
            Self::V2(_) => false,
            Self::V3 { reader, .. } => reader.damage().tail.is_none(),
        }
    }
}

impl FollowerV2 {
    fn new(mut input: File) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let header = loop {
            let mut chunk = [0; 4096];
            let n = input.read(&mut chunk)?;
            bytes.extend_from_slice(&chunk[..n]);
            if let Some(header) = v2::parse_header(&bytes)? {
                break header;
            }
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        };
        let mut decoder = v2::Decoder::new(&header);
        decoder.push(&bytes[header.len..]);
        let columns = header.columns.iter().map(|metric| {
            filled!(Column {
                metric: metric.clone(),
                system: true,
            })
        });
        let catalog = filled!(Catalog {
            columns: Arc::new(columns.collect())
        });
        Ok(Self {
            input,
            decoder,
            catalog: Arc::new(catalog),
            frames: 0,
            end_ns: 0,
            flame_index: None,
        })
    }

    fn next(&mut self) -> io::Result<Option<Step>> {
        let mut chunk = vec![0; 64 << 10];
        let mut at_end = false;
        loop {
            match self.decoder.next_event(at_end) {
                Some(v2::Event::Frame(frame)) => return Ok(Some(Step::Frame(self.frame(&frame)))),
                Some(v2::Event::Damage(damage)) => return Ok(Some(Step::Loss(damage.reason))),
                Some(v2::Event::Column(index)) => {
                    let catalog = Arc::make_mut(&mut self.catalog);
                    Arc::make_mut(&mut catalog.columns).push(filled!(Column {
                        metric: self.decoder.user_columns()[index].clone(),
                        system: false,
                    }));
                }
                None if at_end => return Ok(None),
                None => {
                    let n = self.input.read(&mut chunk)?;
                    self.decoder.push(&chunk[..n]);
                    at_end = n == 0;
                }
            }
        }
    }

    fn frame(&mut self, frame: &v2::Frame) -> Recovered {
        let system_columns = frame.system.len();
        let system = frame.system.iter().copied().enumerate();
        let user = frame
            .user
            .iter()
            .map(|&(index, value)| (system_columns + index, value));
        let mut metrics: Vec<MetricValue> = system
            .chain(user)
            .map(|(column, value)| {
                filled!(MetricValue {
                    column: u32::try_from(column).unwrap_or(u32::MAX),
                    value,
                })
            })
            .collect();
        metrics.sort_by_key(|value| value.column);
        let is_frame_ms = |column: &Column| column.metric.name == "frame_ms";
        let frame_ms = self.catalog.columns.iter().position(is_frame_ms);
        let ms = frame_ms
            .and_then(|index| frame.system.get(index).copied())
            .unwrap_or(0.0);
        // The conversion to an integer saturates, and NaN becomes 0.
        let duration_ns = (ms * 1e6) as u64;
        let start_ticks = self.end_ns;
        self.end_ns = self.end_ns.saturating_add(duration_ns);
        // A flame with the number of the previous one is a repetition.
        let flame = frame.parsed.as_ref();
        let fresh = flame.filter(|flame| self.flame_index != Some(flame.frame_index));
        let spans = fresh.map_or(0, |flame| {
            flame
                .threads
                .iter()
                .map(|thread| thread.spans.len() as u64)
                .sum()
        });
        self.flame_index = flame.map(|flame| flame.frame_index).or(self.flame_index);
        let index = self.frames;
        self.frames += 1;
        Recovered::whole(Arc::new(filled!(FrameSnapshot {
            catalog: Arc::clone(&self.catalog),
            index,
            start_ticks,
            end_ticks: self.end_ns,
            metrics,
            span_count: spans
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_segment_has_ten_seconds_for_its_header() {
        let almost = NO_HEADER - Duration::from_nanos(1);
        assert!(may_begin(false, Duration::ZERO) && may_begin(false, almost));
        assert!(!may_begin(false, NO_HEADER) && !may_begin(true, Duration::ZERO));
    }

    #[test]
    fn frames_are_passed_on_every_few_milliseconds() {
        let almost = FLUSH_EVERY - Duration::from_nanos(1);
        assert!(is_flush_due(FLUSH_EVERY) && !is_flush_due(almost));
    }
}
