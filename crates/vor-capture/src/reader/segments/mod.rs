//! Several captures as one: the segments of a run, and those of the runs after it.
//!
//! [`SegmentedCapture`] has one file open at a time. Of the others it keeps the totals, so a folder
//! of ten thousand segments takes neither as many files nor as much memory.
//!
//! Segments are in the order of their runs, and within a run in the order of their numbers. Within
//! a run, ids of sites, threads, columns and frame sets, ticks and numbers of frames mean the same
//! in all segments. Later runs are mapped to the ids of the first: their call sites are found by
//! their names and places, their threads are further threads, their frames are numbered on, and
//! their time continues by the wall clock.

mod follow;
mod frames;
mod join;
mod mapping;
mod pieces;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Capture, DEFAULT_MAX_SPANS, Damage, FrameScan, FrameSummary, Info, Loss};
use crate::Error;
use crate::model::catalog::{Catalog, SegmentInfo};
use crate::sort::sort_by;
pub use follow::SegmentFollower;
use mapping::Mapping;
pub use pieces::SegmentPieces;

/// One or several captures, read as one.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_capture::Error; pub use vor_capture::reader as capture; }
/// let mut segments = vor::capture::SegmentedCapture::open("captures/")?;
/// for problem in segments.problems() {
///     eprintln!("{problem}");
/// }
/// println!("{} frames, {} spans", segments.frame_count(), segments.info().spans);
/// # Ok::<(), vor::Error>(())
/// ```
#[derive(Debug)]
pub struct SegmentedCapture {
    segments: Vec<Segment>,
    /// The open capture, and which segment it is.
    open: Option<(usize, Capture)>,
    catalog: Arc<Catalog>,
    info: Info,
    problems: Vec<String>,
    /// Files that cannot be read, each of which is a problem.
    unreadable: Vec<PathBuf>,
    /// The first and the last tick of the frames, and of captures without marks.
    marked_ticks: Option<(u64, u64)>,
    unmarked_ticks: Option<(u64, u64)>,
    frame_set: u32,
    max_spans: usize,
    /// Whether the capture is the file of its path.
    is_file: bool,
    runs: usize,
}

/// A segment that can be read.
#[derive(Debug)]
struct Segment {
    path: PathBuf,
    info: Info,
    /// Frames of the selected set.
    frames: u64,
    /// The run's ids in the common catalog; `None` where they are the same.
    mapping: Option<Arc<Mapping>>,
}

/// A segment whose place is not known yet.
struct Found {
    path: PathBuf,
    info: Info,
    catalog: Arc<Catalog>,
    /// The first and the last frame of the main set.
    ends: Option<(FrameSummary, FrameSummary)>,
}

impl Found {
    fn start_ns(&self) -> i64 {
        let first = self.catalog.timeline.syncs().first();
        first.map_or(i64::MIN, |sync| sync.unix_ns)
    }

    fn segment(&self) -> Option<SegmentInfo> {
        self.catalog.segment
    }

    /// Returns whether the segment has more than its header.
    fn has_begun(&self) -> bool {
        !self.catalog.timeline.syncs().is_empty() || self.info.spans > 0 || self.info.frames > 0
    }
}

impl SegmentedCapture {
    /// Opens the capture at `path`: a file, a folder with all its files `*.vor`, or all files of a
    /// folder that match a pattern in the last part of `path`, where `*` stands for any text and
    /// `?` for a character.
    ///
    /// # Errors
    ///
    /// There is no file that can be read. One that cannot be read among others is a
    /// [problem](Self::problems).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        match Self::list(path)? {
            Some(paths) => Self::open_several(paths, path),
            None => Self::open_one(path),
        }
    }

    /// Returns the files that [`open`](Self::open) reads, by name; `None` if `path` is a file.
    ///
    /// # Errors
    ///
    /// The folder cannot be read, or has no such file.
    pub fn list(path: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
        listed(path)
    }

    /// Opens several files as one capture, in any order.
    ///
    /// # Errors
    ///
    /// None of them can be read.
    pub fn of_files(paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, Error> {
        let paths: Vec<PathBuf> = paths.into_iter().collect();
        match &*paths {
            [path] => Self::open_one(path),
            _ => Self::open_several(paths, Path::new("the captures")),
        }
    }

    fn open_one(path: &Path) -> Result<Self, Error> {
        let capture = Capture::open(path)?;
        let info = capture.info();
        Ok(Self {
            segments: vec![Segment {
                path: path.to_owned(),
                frames: capture.frame_count(),
                info: info.clone(),
                mapping: None,
            }],
            catalog: Arc::clone(capture.catalog()),
            info,
            open: Some((0, capture)),
            problems: Vec::new(),
            unreadable: Vec::new(),
            marked_ticks: None,
            unmarked_ticks: None,
            frame_set: 0,
            max_spans: DEFAULT_MAX_SPANS,
            is_file: true,
            runs: 1,
        })
    }

    fn open_several(paths: Vec<PathBuf>, whole: &Path) -> Result<Self, Error> {
        let (mut problems, mut unreadable) = (Vec::new(), Vec::new());
        let mut found = Vec::new();
        for path in paths {
            match find(&path) {
                Ok(segment) => found.push(segment),
                Err(error) => {
                    problems.push(error.to_string());
                    unreadable.push(path);
                }
            }
        }
        if found.is_empty() {
            let reason = problems.first().map_or("there is none", |problem| problem);
            return Err(Error::corrupt(format!(
                "{}: no capture can be read: {reason}",
                whole.display()
            )));
        }
        // A segment that has just begun says neither when nor of which run it is.
        if found.iter().any(Found::has_begun) {
            found.retain(Found::has_begun);
        }
        if let [only] = &*found {
            let one = Self::open_one(&only.path)?;
            return Ok(Self {
                problems,
                is_file: false,
                ..one
            });
        }
        let mut segments = Self {
            segments: Vec::new(),
            open: None,
            catalog: Arc::default(),
            info: Info::default(),
            problems,
            unreadable,
            marked_ticks: None,
            unmarked_ticks: None,
            frame_set: 0,
            max_spans: DEFAULT_MAX_SPANS,
            is_file: false,
            runs: 0,
        };
        segments.add_runs(found);
        Ok(segments)
    }

    /// Puts the segments in order, run by run.
    fn add_runs(&mut self, found: Vec<Found>) {
        let mut runs: Vec<Vec<Found>> = Vec::new();
        for segment in found {
            let run = segment.segment().map(|segment| segment.run);
            let is_of = |others: &&mut Vec<Found>| {
                let other = others.first().and_then(Found::segment);
                run.is_some() && other.map(|other| other.run) == run
            };
            match runs.iter_mut().find(is_of) {
                Some(others) => others.push(segment),
                None => runs.push(vec![segment]),
            }
        }
        for run in &mut runs {
            sort_by(run, |a, b| {
                let key = |found: &Found| found.segment().map(|segment| segment.number);
                key(a).cmp(&key(b)).then_with(|| a.path.cmp(&b.path))
            });
        }
        let start_ns = |run: &Vec<Found>| run.iter().map(Found::start_ns).min();
        sort_by(&mut runs, |a, b| start_ns(a).cmp(&start_ns(b)));
        self.runs = runs.len();
        let (mut catalog, mut next_index) = (Catalog::default(), 0);
        for (number, run) in (0..).zip(runs) {
            self.add_run(run, number, &mut catalog, &mut next_index);
        }
        self.info.threads = catalog.threads.len() as u64;
        self.catalog = Arc::new(catalog);
        for segment in &mut self.segments {
            // A capture without marks is no frame of its own.
            segment.frames = if segment.info.marked {
                segment.info.frames
            } else {
                0
            };
        }
        self.info.frames = self.segments.iter().map(|segment| segment.frames).sum();
        let ends = if self.info.marked {
            self.marked_ticks
        } else {
            self.unmarked_ticks
        };
        if let Some((start, end)) = ends {
            let ns =
                i128::from(self.catalog.unix_ns(end)) - i128::from(self.catalog.unix_ns(start));
            self.info.duration_ns = u64::try_from(ns).unwrap_or(0);
            self.info.frames = self.info.frames.max(1);
        }
    }

    /// Adds the totals of a segment to those of the whole.
    fn add_totals(&mut self, found: &Found, mapping: Option<&Mapping>) {
        let (all, info) = (&mut self.info, &found.info);
        let is_first = self.segments.is_empty();
        all.version = info.version;
        all.file_bytes += info.file_bytes;
        all.marked |= info.marked;
        all.spans = all.spans.saturating_add(info.spans);
        all.dropped_spans = all.dropped_spans.saturating_add(info.dropped_spans);
        all.closed = info.closed && (is_first || all.closed);
        all.indexed = info.indexed && (is_first || all.indexed);
        add_damage(&mut all.damage, &found.path, &info.damage);
        if let Some((first, last)) = found.ends {
            let at = |ticks| mapping.map_or(ticks, |mapping| mapping.at(ticks));
            let (start, end) = (at(first.start_ticks), at(last.end_ticks));
            let known = match info.marked {
                true => &mut self.marked_ticks,
                false => &mut self.unmarked_ticks,
            };
            let (known_start, known_end) = known.get_or_insert((start, end));
            *known_start = start.min(*known_start);
            *known_end = end.max(*known_end);
        }
    }

    /// Adds the segments of one run. `next_index` is the number of the next frame.
    fn add_run(
        &mut self,
        mut run: Vec<Found>,
        number: u64,
        catalog: &mut Catalog,
        next_index: &mut u64,
    ) {
        self.drop_copies(&mut run);
        self.report_missing(&run);
        let mut own = Catalog::default();
        for found in &run {
            if own.sites.is_empty() && own.timeline.syncs().is_empty() {
                own = (*found.catalog).clone();
            } else {
                mapping::join(&mut own, &found.catalog);
            }
        }
        let mut mapping = None;
        if self.segments.is_empty() {
            *catalog = own;
            catalog.segment = None;
        } else {
            let Some(made) = Mapping::new(catalog, &own, number) else {
                if let Some(first) = run.first() {
                    self.problems.push(format!(
                        "{}: skipped: its time overlaps that of the captures before it, and it was \
                         recorded with another clock; `vor merge` can show both",
                        first.path.display()
                    ));
                }
                return;
            };
            mapping = Some(made);
        }
        if let Some(mapping) = &mut mapping {
            // The first frame of a run is number 0, if it has one by now.
            mapping.frames = *next_index;
        }
        let mut ends = run.iter().filter_map(|found| {
            let (first, last) = found.ends?;
            found.info.marked.then_some((first.index, last.index))
        });
        if let Some((first, last)) = ends.next() {
            let last = ends.next_back().map_or(last, |(_, last)| last);
            if let Some(mapping) = &mut mapping {
                mapping.frames = next_index.wrapping_sub(first);
            }
            let shift = mapping.as_ref().map_or(0, |mapping| mapping.frames);
            *next_index = last.wrapping_add(shift).wrapping_add(1);
        }
        let mapping = mapping.map(Arc::new);
        for found in run {
            self.add_totals(&found, mapping.as_deref());
            self.segments.push(Segment {
                path: found.path,
                frames: 0,
                info: found.info,
                mapping: mapping.clone(),
            });
        }
    }

    /// Removes segments that are there twice.
    fn drop_copies(&mut self, run: &mut Vec<Found>) {
        let mut before: Option<(SegmentInfo, PathBuf)> = None;
        run.retain(|found| {
            let Some(segment) = found.segment() else {
                return true;
            };
            if let Some((known, path)) = &before
                && *known == segment
            {
                self.problems.push(format!(
                    "{}: skipped: it is a copy of {}",
                    found.path.display(),
                    path.display()
                ));
                return false;
            }
            before = Some((segment, found.path.clone()));
            true
        });
    }

    fn report_missing(&mut self, run: &[Found]) {
        for pair in run.windows(2) {
            if let (Some(before), Some(after)) = (pair[0].segment(), pair[1].segment()) {
                let missing = after.number.saturating_sub(before.number).saturating_sub(1);
                // Names are in the order of time. An unreadable file is reported already.
                let between = |path: &&PathBuf| pair[0].path < **path && **path < pair[1].path;
                let unreadable = self.unreadable.iter().filter(between).count() as u64;
                let missing = missing.saturating_sub(unreadable);
                if missing > 0 {
                    let segments = match missing {
                        1 => "1 segment is".to_owned(),
                        missing => format!("{missing} segments are"),
                    };
                    self.problems.push(format!(
                        "{segments} missing between {} and {}",
                        pair[0].path.display(),
                        pair[1].path.display()
                    ));
                }
            }
        }
    }
}

impl SegmentedCapture {
    /// Returns what is wrong with the whole, a line each: files that cannot be read, segments that
    /// are missing between others. Damage within a file is in [`info`](Self::info).
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Returns how many runs of programs wrote the files.
    #[must_use]
    pub fn runs(&self) -> usize {
        self.runs
    }

    /// Returns the files that are read, in order.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.segments.iter().map(|segment| &*segment.path)
    }

    /// Returns the catalog, which resolves ids and ticks.
    #[must_use]
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// Returns the totals, and the damage known so far.
    #[must_use]
    pub fn info(&self) -> Info {
        match &self.open {
            Some((_, capture)) if self.is_one() => capture.info(),
            _ => self.info.clone(),
        }
    }

    fn is_one(&self) -> bool {
        self.segments.len() == 1
    }

    /// Selects the frame set of [`frame_count`](Self::frame_count) and [`frame`](Self::frame); see
    /// [`Capture::select_frame_set`].
    ///
    /// # Errors
    ///
    /// There is no such set, or a file cannot be read.
    pub fn select_frame_set(&mut self, frame_set: u32) -> Result<(), Error> {
        let known = self.catalog.frame_sets.len().max(1);
        if frame_set as usize >= known {
            return Err(Error::config(format!(
                "there is no frame set {frame_set}: the capture has {known}"
            )));
        }
        self.frame_set = frame_set;
        if !self.is_one() {
            self.open = None;
        }
        for at in 0..self.segments.len() {
            let is_marked = self.segments[at].info.marked;
            self.segments[at].frames = match (self.is_one(), frame_set) {
                (false, 0) if is_marked => self.segments[at].info.frames,
                (false, 0) => 0,
                _ => self.capture(at)?.map_or(0, |capture| capture.frame_count()),
            };
        }
        Ok(())
    }

    /// Sets how many spans of a frame are held at most; the rest is counted.
    pub fn set_max_spans(&mut self, max_spans: usize) {
        self.max_spans = max_spans;
        if let Some((_, capture)) = &mut self.open {
            capture.set_max_spans(max_spans);
        }
    }

    /// Returns the number of frames of the selected set. Captures without marks are one frame
    /// together, if no other has marks.
    #[must_use]
    pub fn frame_count(&self) -> u64 {
        if self.is_unmarked() {
            return 1;
        }
        self.segments.iter().map(|segment| segment.frames).sum()
    }

    /// Returns whether several captures without marks are one frame.
    fn is_unmarked(&self) -> bool {
        !self.is_one() && self.frame_set == 0 && !self.info.marked && self.unmarked_ticks.is_some()
    }

    /// Returns all batches and frames from the beginning on.
    ///
    /// # Errors
    ///
    /// The file cannot be read, if there is only one.
    pub fn pieces(&mut self) -> Result<SegmentPieces<'_>, Error> {
        self.first_pieces(self.segments.len())
    }

    /// Returns all batches and frames of the first `count` segments.
    fn first_pieces(&mut self, count: usize) -> Result<SegmentPieces<'_>, Error> {
        SegmentPieces::new(self, count)
    }

    /// Reads what was appended since, if the capture is one file that was opened by its path, and
    /// returns whether it is; see [`Capture::extend`]. Segments that are written begin and end, so
    /// a folder or a pattern is opened again instead.
    ///
    /// # Errors
    ///
    /// Those of [`Capture::extend`].
    pub fn extend(&mut self) -> Result<bool, Error> {
        match &mut self.open {
            Some((_, capture)) if self.is_file => {
                self.segments[0].frames = capture.extend()?;
                self.catalog = Arc::clone(capture.catalog());
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    /// Reads all files and checks every checksum; returns all that is damaged. A file that cannot
    /// be read any more is damage, too.
    ///
    /// # Errors
    ///
    /// The file cannot be read, if there is only one.
    pub fn verify(&mut self) -> Result<Damage, Error> {
        let mut all = Damage::default();
        for at in 0..self.segments.len() {
            let found = self
                .capture(at)
                .and_then(|capture| capture.map(Capture::verify).transpose());
            match found {
                Ok(Some(damage)) if self.is_one() => return Ok(damage),
                Err(error) if self.is_one() => return Err(error),
                Ok(damage) => {
                    add_damage(
                        &mut all,
                        &self.segments[at].path,
                        &damage.unwrap_or_default(),
                    );
                }
                Err(error) => all.add(Loss {
                    offset: 0,
                    bytes: self.segments[at].info.file_bytes,
                    reason: error.to_string(),
                }),
            }
        }
        Ok(all)
    }
}

/// Opens a file for its totals, and closes it.
fn find(path: &Path) -> Result<Found, Error> {
    let mut capture = Capture::open(path)?;
    let info = capture.info();
    if info.version == 2 {
        return Err(Error::version(format!(
            "{}: skipped: a capture of version 2 cannot be read together with others",
            path.display()
        )));
    }
    let mut summary = |i: u64| {
        let summary = capture.next_summary(&mut FrameScan::new(i))?;
        summary.ok()
    };
    let ends = match info.frames {
        0 => None,
        frames => summary(0).zip(summary(frames - 1)),
    };
    Ok(Found {
        path: path.to_owned(),
        info,
        catalog: Arc::clone(capture.catalog()),
        ends,
    })
}

/// Adds the damage of a file to that of the whole.
fn add_damage(all: &mut Damage, path: &Path, damage: &Damage) {
    // Only the end of the last file may still be written.
    if let Some(tail) = all.tail.take().filter(|tail| tail.bytes > 0) {
        all.add(tail);
    }
    let named = |loss: &Loss| Loss {
        reason: format!("{}: {}", path.display(), loss.reason),
        ..loss.clone()
    };
    let listed = damage.losses.len() as u64;
    damage.losses.iter().for_each(|loss| all.add(named(loss)));
    all.count += damage.count.saturating_sub(listed);
    all.tail = damage.tail.as_ref().map(named);
}

/// Returns the files of a folder or a pattern, sorted; `None` for a file.
fn listed(path: &Path) -> Result<Option<Vec<PathBuf>>, Error> {
    let failed = |error| Error::io(path.display().to_string(), error);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (folder, pattern) = if path.is_dir() {
        (path, "*.vor".into())
    } else if name.contains(['*', '?']) && !path.exists() {
        let folder = path.parent().unwrap_or(Path::new(""));
        let here = Path::new(".");
        let folder = if folder.as_os_str().is_empty() {
            here
        } else {
            folder
        };
        (folder, name)
    } else {
        return Ok(None);
    };
    let pattern: Vec<char> = pattern.chars().collect();
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name: Vec<char> = entry.file_name().to_string_lossy().chars().collect();
        if matches(&pattern, &name) && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    if paths.is_empty() {
        let problem = format!("{}: no capture (*.vor) is there", path.display());
        return Err(Error::config(problem));
    }
    sort_by(&mut paths, Ord::cmp);
    Ok(Some(paths))
}

/// Returns whether a name matches a pattern, in time that grows with the product of their lengths.
fn matches(pattern: &[char], name: &[char]) -> bool {
    let (mut at, mut in_name) = (0, 0);
    // The last `*`, and how much of the name it stands for.
    let mut star = None;
    while in_name < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at, in_name));
                at += 1;
            }
            Some(&letter) if letter == '?' || letter == name[in_name] => {
                at += 1;
                in_name += 1;
            }
            _ => match star {
                Some((star_at, taken)) => {
                    star = Some((star_at, taken + 1));
                    (at, in_name) = (star_at + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|letter| *letter == '*')
}
