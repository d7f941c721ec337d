//! Converts frames to puffin's format.
//!
//! A puffin frame is one byte stream per thread and the details of the scopes that the streams name
//! by id. In a stream a scope is
//!
//! ```text
//! '('  id u32  start_ns i64  length u8  data  size_of_children u64   children …   ')'  end_ns i64
//! ```
//!
//! in little-endian order, so pre-order trees become streams in one pass with a stack of open
//! scopes. Only puffin assigns scope ids, and it has one scope per *name*. Two call sites with one
//! name must not share file and line. So each id is drawn from a temporary profiler. Ids are unique
//! in the process, including those of puffin's own macros.
//!
//! Times are the catalog's wall-clock nanoseconds. A frame's range begins and ends with the marks
//! of vor's frame. Puffin has neither messages nor metrics.

#[cfg(not(target_arch = "wasm32"))]
mod packed;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use crate::sync::lock;
use puffin::{GlobalProfiler, ScopeDetails, ScopeId, StreamInfoRef, ThreadInfo};
use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::catalog::{Catalog, SiteId, ThreadId};
use vor_capture::model::frame::{FrameSnapshot, ThreadTree};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::{origin_ns, push_args_text, thread_label};

/// Feeds [`puffin::GlobalProfiler`], so that every viewer of puffin frames shows vor's frames. Each
/// main frame becomes one puffin frame.
///
/// Scopes of puffin's own macros that were reported during the frame appear in it.
///
/// A program needs this sink only if puffin's own macros must stay off: otherwise puffin is fed
/// without it, see [`Config::puffin`](crate::setup::Config::puffin). With both, each frame still
/// reaches puffin once.
///
/// ```
/// # mod vor {
/// #     pub use vor_recorder::drain::add_sink;
/// #     pub mod puffin { pub use vor_recorder::sinks::puffin::PuffinSink; }
/// # }
/// let handle = vor::add_sink("puffin", vor::puffin::PuffinSink::new());
/// // … the program, with a viewer of puffin
/// drop(handle);
/// ```
#[derive(Debug)]
pub struct PuffinSink {
    frames: Frames,
}

/// Feeds puffin automatically, as `enable()` of vor 0.2.1 did.
///
/// It switches puffin's scopes on once puffin has a consumer. It then feeds puffin while the scopes
/// are on and there is no [`PuffinSink`].
#[derive(Debug)]
pub(crate) struct PuffinFeed {
    frames: Frames,
    /// Whether to look for consumers at the next call, at most once a pass.
    may_check: Cell<bool>,
    sees_consumers: Cell<bool>,
}

/// The consumers of puffin's frames, as far as they are known.
///
/// Puffin does not report consumers, but it numbers its sinks. A twin of its profiler gets a sink
/// whenever the profiler does. The two numbers are equal until other code adds a sink to the
/// profiler.
enum Consumers {
    NoneSeen { twin: Box<GlobalProfiler> },
    Seen,
}

impl Consumers {
    /// Returns whether a sink was ever added to puffin's profiler.
    fn are_there(&mut self) -> bool {
        if let Self::NoneSeen { twin } = self {
            let mut profiler = GlobalProfiler::lock();
            let [theirs, ours] = [&mut *profiler, &mut **twin].map(|profiler| {
                let id = profiler.add_sink(Box::new(|_| ()));
                profiler.remove_sink(id);
                id
            });
            if theirs != ours {
                *self = Self::Seen;
            }
        }
        matches!(self, Self::Seen)
    }
}

/// How many [`PuffinSink`]s there are. Written by them, read by the [`PuffinFeed`] at the beginning
/// and end of a frame.
static SINKS: AtomicUsize = AtomicUsize::new(0);
/// Whether the program allows the [`PuffinFeed`]. Written by `Config::enable`, read by the feed.
static FEED_ALLOWED: AtomicBool = AtomicBool::new(true);
/// Whether the feed switches puffin's scopes on when it sees a consumer. Set when recording is
/// switched on. Cleared by the feed, and when recording is switched off.
static SWITCHES_SCOPES_ON: AtomicBool = AtomicBool::new(false);
/// Written and read by the feed, with the engine locked. A child of a fork continues with it, as
/// with puffin's numbers.
static CONSUMERS: LazyLock<Mutex<Consumers>> = LazyLock::new(|| {
    Mutex::new(Consumers::NoneSeen {
        twin: Box::default(),
    })
});

/// Converts frames to puffin's and reports them.
#[derive(Debug, Default)]
struct Frames {
    scopes: Scopes,
    bytes: Vec<u8>,
    encoded: Vec<Encoded>,
}

/// Returns a frame as one whole puffin frame, in puffin's file format, or `None` when it has no
/// spans.
///
/// A call site has the same puffin id in all frames of a run or capture.
/// `puffin::FrameData::read_next`, in puffin's feature `serialization`, reads the bytes.
#[cfg(not(target_arch = "wasm32"))]
#[must_use]
pub fn frame_bytes(frame: &FrameSnapshot) -> Option<Vec<u8>> {
    let catalog = &frame.catalog;
    let mut scopes = Scopes {
        pooled: true,
        ..Scopes::default()
    };
    let mut streams = Vec::new();
    for tree in &frame.threads {
        if tree.spans.is_empty() {
            continue;
        }
        let mut bytes = Vec::new();
        let shape = encode(tree, catalog, &mut scopes, &mut bytes);
        let stream = packed::ThreadStream {
            bytes,
            num_scopes: tree.spans.len(),
            depth: shape.depth,
            range_ns: shape.range_within(frame),
        };
        streams.push((thread_info(catalog, tree.thread), stream));
    }
    packed::frame(frame.index, streams, &scopes.new)
}

/// Position of a thread's stream in [`Frames::bytes`].
#[derive(Debug)]
struct Encoded {
    info: ThreadInfo,
    range: std::ops::Range<usize>,
    num_scopes: usize,
    shape: Shape,
}

/// Description of a stream that puffin needs besides its bytes.
#[derive(Clone, Copy, Debug)]
struct Shape {
    depth: usize,
    range_ns: (i64, i64),
}

impl Shape {
    /// Returns the range of the stream, widened to that of its frame.
    fn range_within(self, frame: &FrameSnapshot) -> (i64, i64) {
        let (begin, end) = self.range_ns;
        (
            begin.min(frame.catalog.unix_ns(frame.start_ticks)),
            end.max(frame.catalog.unix_ns(frame.end_ticks)),
        )
    }
}

impl PuffinSink {
    /// Creates a sink; puffin's own macros stay on or off as they are.
    #[must_use]
    pub fn new() -> Self {
        SINKS.fetch_add(1, Ordering::Relaxed);
        Self {
            frames: Frames::default(),
        }
    }
}

impl Default for PuffinSink {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for PuffinSink {
    fn drop(&mut self) {
        SINKS.fetch_sub(1, Ordering::Relaxed);
    }
}

impl FrameSink for PuffinSink {
    fn reads_metrics(&self) -> bool {
        false
    }

    fn interest(&self) -> Interest {
        Interest::FRAMES
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.frames.report(frame);
        Ok(())
    }
}

impl Default for PuffinFeed {
    fn default() -> Self {
        Self {
            frames: Frames::default(),
            may_check: Cell::new(true),
            sees_consumers: Cell::new(false),
        }
    }
}

impl PuffinFeed {
    /// Sets whether puffin may be fed.
    pub(crate) fn allow(allowed: bool) {
        FEED_ALLOWED.store(allowed, Ordering::Relaxed);
    }

    /// Records that recording was switched on or off.
    pub(crate) fn recording_is(on: bool) {
        SWITCHES_SCOPES_ON.store(on, Ordering::Relaxed);
    }

    fn is_allowed() -> bool {
        FEED_ALLOWED.load(Ordering::Relaxed) && SINKS.load(Ordering::Relaxed) == 0
    }

    /// Looks for consumers, and switches puffin's scopes on for them if that is still pending.
    fn check_consumers(&self) {
        if !self.may_check.replace(false) {
            return;
        }
        if !Self::is_allowed() {
            // The program then decides whether puffin's scopes are on.
            SWITCHES_SCOPES_ON.store(false, Ordering::Relaxed);
            return;
        }
        let are_there = self.sees_consumers.get() || lock(&CONSUMERS).are_there();
        self.sees_consumers.set(are_there);
        if are_there && SWITCHES_SCOPES_ON.swap(false, Ordering::Relaxed) {
            puffin::set_scopes_on(true);
        }
    }
}

impl FrameSink for PuffinFeed {
    fn reads_metrics(&self) -> bool {
        false
    }

    fn interest(&self) -> Interest {
        self.check_consumers();
        if self.takes_frames() && self.sees_consumers.get() {
            Interest::FRAMES
        } else {
            Interest::METRICS
        }
    }

    fn takes_frames(&self) -> bool {
        puffin::are_scopes_on() && Self::is_allowed()
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if frame.frame_set != 0 || !self.takes_frames() {
            return Ok(());
        }
        // A frame with spans but without trees began before puffin had a consumer, or before
        // puffin's scopes were switched on.
        let is_whole = !frame.threads.is_empty() || frame.span_count == 0;
        if !self.sees_consumers.get() {
            // Nobody consumes the reports of puffin's own macros, and they would only accumulate.
            GlobalProfiler::lock().new_frame();
        } else if is_whole {
            self.frames.report(frame);
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<(), Error> {
        self.may_check.set(true);
        Ok(())
    }
}

impl Frames {
    fn report(&mut self, frame: &FrameSnapshot) {
        if frame.frame_set != 0 {
            return;
        }
        self.bytes.clear();
        self.encoded.clear();
        for tree in frame.threads.iter().filter(|tree| !tree.spans.is_empty()) {
            let begin = self.bytes.len();
            let shape = encode(tree, &frame.catalog, &mut self.scopes, &mut self.bytes);
            self.encoded.push(Encoded {
                info: thread_info(&frame.catalog, tree.thread),
                range: begin..self.bytes.len(),
                num_scopes: tree.spans.len(),
                shape,
            });
        }
        let new_scopes = self.scopes.new.drain(..).map(|(_, details)| details);
        let mut new_scopes: Vec<ScopeDetails> = new_scopes.collect();
        let mut profiler = GlobalProfiler::lock();
        for encoded in self.encoded.drain(..) {
            let stream = StreamInfoRef {
                stream: &self.bytes[encoded.range],
                num_scopes: encoded.num_scopes,
                depth: encoded.shape.depth,
                range_ns: encoded.shape.range_within(frame),
            };
            profiler.report(encoded.info, &new_scopes, &stream);
            new_scopes.clear();
        }
        profiler.new_frame();
    }
}

/// Puffin's ids for call sites.
#[derive(Debug, Default)]
struct Scopes {
    ids: FxHashMap<SiteId, ScopeId>,
    /// The id of call sites whose declaration is lost.
    unknown: Option<ScopeId>,
    /// Scopes that no frame has named yet.
    new: Vec<(ScopeId, ScopeDetails)>,
    /// Whether a site's id comes from its position in the process-wide pool, rather than being
    /// drawn for this table. Used for frames that are encoded separately.
    pooled: bool,
    /// The last answer; neighbouring spans often share their call site.
    last: Option<(SiteId, ScopeId)>,
}

impl Scopes {
    #[inline]
    fn id(&mut self, catalog: &Catalog, site: SiteId) -> ScopeId {
        match self.last {
            Some((last, id)) if last == site => id,
            _ => {
                let id = self.look_up(catalog, site);
                self.last = Some((site, id));
                id
            }
        }
    }

    fn look_up(&mut self, catalog: &Catalog, site: SiteId) -> ScopeId {
        if let Some(&id) = self.ids.get(&site) {
            return id;
        }
        let Some(info) = catalog.site(site) else {
            return match self.unknown {
                Some(id) => id,
                None => {
                    let id = self.add(0, "?", "", "", 0);
                    *self.unknown.insert(id)
                }
            };
        };
        let place = site.0 as usize;
        let id = self.add(place, &info.name, &info.module_path, &info.file, info.line);
        self.ids.insert(site, id);
        id
    }

    fn add(&mut self, place: usize, name: &str, module: &str, file: &str, line: u32) -> ScopeId {
        let (id, mut details) = if self.pooled {
            pooled_scope(place)
        } else {
            draw_scope()
        };
        details.scope_name = Some(name.to_owned().into());
        details.function_name = module.to_owned().into();
        details.file_path = file.to_owned().into();
        details.line_nr = line;
        self.new.push((id, details));
        id
    }
}

/// Draws an id that no other scope of the process has. Returns it with details that contain it; the
/// caller fills in their other fields.
fn draw_scope() -> (ScopeId, ScopeDetails) {
    let drawn: Arc<Mutex<Option<ScopeDetails>>> = Arc::default();
    let taker = Arc::clone(&drawn);
    let mut profiler = GlobalProfiler::default();
    profiler.add_sink(Box::new(move |frame| {
        *lock(&taker) = frame.scope_delta.first().map(|details| (**details).clone());
    }));
    let ids = profiler.register_user_scopes(&[ScopeDetails::from_scope_name("?")]);
    // A frame without a scope still reaches the sinks if its range is not empty.
    let nothing = StreamInfoRef {
        stream: &[],
        num_scopes: 0,
        depth: 0,
        range_ns: (0, 0),
    };
    let nobody = ThreadInfo {
        start_time_ns: None,
        name: String::new(),
    };
    profiler.report_user_scopes(nobody, &nothing);
    profiler.new_frame();
    let details = lock(&drawn).take();
    #[expect(
        clippy::expect_used,
        reason = "one scope was registered, so one id came back and the frame, delivered within \
            `new_frame`, carries one scope"
    )]
    let drawn = ids
        .first()
        .copied()
        .zip(details)
        .expect("puffin returns the scope it registered");
    drawn
}

/// Returns the scope at a position of the process-wide pool, which grows as needed.
///
/// Positions are those of declared call sites, so the pool is never larger than a table of call
/// sites that is in memory.
fn pooled_scope(place: usize) -> (ScopeId, ScopeDetails) {
    static POOL: Mutex<Vec<(ScopeId, ScopeDetails)>> = Mutex::new(Vec::new());
    let mut pool = lock(&POOL);
    while pool.len() <= place {
        pool.push(draw_scope());
    }
    pool[place].clone()
}

/// Returns what identifies a thread to puffin.
///
/// Puffin distinguishes threads by name and start, and orders them by start. Names repeat, and vor
/// does not record a thread's start. So the start is that of the recording plus one nanosecond per
/// thread before it: the same in every frame, different for every thread.
fn thread_info(catalog: &Catalog, thread: ThreadId) -> ThreadInfo {
    ThreadInfo {
        start_time_ns: Some(origin_ns(catalog).saturating_add(i64::from(thread.0))),
        name: thread_label(catalog, thread).into_owned(),
    }
}

/// A scope whose end is not yet written.
struct Open {
    /// Start of its children; their size field is just before.
    children: usize,
    end_ns: i64,
}

/// Bytes of a scope before its data.
const HEAD_BYTES: usize = 14;
/// Bytes of the size field before the children.
const SIZE_BYTES: usize = 8;
/// Bytes of a scope after its children.
const TAIL_BYTES: usize = 9;
/// Longest data string that the format holds.
const MAX_DATA_BYTES: usize = 127;

/// Appends a thread's stream.
fn encode(tree: &ThreadTree, catalog: &Catalog, scopes: &mut Scopes, out: &mut Vec<u8>) -> Shape {
    let timeline = &*catalog.timeline;
    let mut open: Vec<Open> = Vec::new();
    let mut data = Vec::new();
    let mut depth = 0;
    let mut range_ns = (i64::MAX, i64::MIN);
    out.reserve(tree.spans.len() * (HEAD_BYTES + SIZE_BYTES + TAIL_BYTES));
    for span in &tree.spans {
        while open.len() > span.depth as usize {
            close(&mut open, out);
        }
        let start_ns = timeline.unix_ns(span.start_ticks);
        // Puffin refuses a scope that ends before it starts.
        let end_ns = timeline.unix_ns(span.end_ticks()).max(start_ns);
        range_ns = (range_ns.0.min(start_ns), range_ns.1.max(end_ns));

        let mut head = [0; HEAD_BYTES + SIZE_BYTES];
        head[0] = b'(';
        head[1..5].copy_from_slice(&scopes.id(catalog, span.site).0.get().to_le_bytes());
        head[5..13].copy_from_slice(&start_ns.to_le_bytes());
        let values = tree.args(span);
        if values.is_empty() {
            out.extend_from_slice(&head);
        } else {
            data.clear();
            push_args_text(&mut data, catalog.site(span.site), values);
            cut_text(&mut data);
            head[HEAD_BYTES - 1] = data.len() as u8;
            out.extend_from_slice(&head[..HEAD_BYTES]);
            out.extend_from_slice(&data);
            out.extend_from_slice(&[0; SIZE_BYTES]);
        }
        open.push(Open {
            children: out.len(),
            end_ns,
        });
        depth = depth.max(open.len());
    }
    while !open.is_empty() {
        close(&mut open, out);
    }
    Shape { depth, range_ns }
}

/// Writes the size and the end of the innermost open scope.
#[inline]
fn close(open: &mut Vec<Open>, out: &mut Vec<u8>) {
    let Some(Open { children, end_ns }) = open.pop() else {
        return;
    };
    let size = (out.len() - children) as u64;
    out[children - SIZE_BYTES..children].copy_from_slice(&size.to_le_bytes());
    let mut tail = [0; TAIL_BYTES];
    tail[0] = b')';
    tail[1..].copy_from_slice(&end_ns.to_le_bytes());
    out.extend_from_slice(&tail);
}

/// Shortens text to what the format holds, without splitting a character.
fn cut_text(text: &mut Vec<u8>) {
    if text.len() > MAX_DATA_BYTES {
        let mut end = MAX_DATA_BYTES;
        // A byte of the form 10xxxxxx continues the character before it.
        while text[end] & 0xC0 == 0x80 {
            end -= 1;
        }
        text.truncate(end);
    }
}
