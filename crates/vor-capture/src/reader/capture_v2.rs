//! A version-2 capture with access to any frame.
//!
//! Such a file has no index, so it is scanned once. Its frames have their duration and, where there
//! is a flame, the times of their spans; boundaries follow from both: a frame ends its duration
//! after the previous one, but not before the last of its spans. The flames' nanoseconds since 1970
//! are the ticks.

use crate::sort::sort_by;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::capture::{Info, Source};
use super::sparse::Sparse;
use super::{Loss, Recovered};
use crate::Error;
use crate::format::v2::flame::{Flame, FlameScope, FlameThread};
use crate::format::v2::{Decoder, Event, Frame, Header};
use crate::model::batch::ArgValue;
use crate::model::catalog::{Catalog, Column, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo};
use crate::model::frame::{FrameSnapshot, MetricValue, Span, ThreadTree};
use crate::model::timeline::{ClockSync, RATE_BITS};

/// The state that is needed to read a frame.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    offset: u64,
    /// User columns that are declared before.
    declared: usize,
    /// Where the previous frame ended, relative to the origin.
    end_ns: i64,
    /// Number of the last puffin frame; a flame with the same number is a repetition.
    flame_index: Option<u64>,
}

#[derive(Debug)]
pub(super) struct CaptureV2 {
    source: Source,
    decoder: Decoder,
    catalog: Arc<Catalog>,
    frame_ms: Option<usize>,
    system_columns: usize,
    sites: FxHashMap<FlameScope, SiteId>,
    threads: FxHashMap<(Option<i64>, String), ThreadId>,
    places: Sparse<Place>,
    /// When the first frame began.
    origin_ns: i64,
    /// The next frame of the decoder, and the state before it.
    at: Option<(u64, Place)>,
    /// Where the scan of the file ended, and the state before it.
    scanned: (u64, Place),
    /// Length of the file from which it is scanned again. Its end is then read once more, so it
    /// must have become a record, or twice as long: a file that grows by small pieces would
    /// otherwise be read over and over.
    rescan_bytes: u64,
    /// Whether `origin_ns` is known.
    anchored: bool,
    info: Info,
}

impl CaptureV2 {
    /// Opens a capture, and scans it unless `is_lazy`; then `extend` does that.
    pub(super) fn new(mut source: Source, header: Header, is_lazy: bool) -> Result<Self, Error> {
        let file_bytes = if is_lazy {
            header.len as u64
        } else {
            source.len()?
        };
        source.seek(header.len as u64)?;
        let mut columns = Vec::new();
        for metric in &header.columns {
            columns.push(Column {
                metric: metric.clone(),
                system: true,
            });
        }
        let catalog = Catalog {
            process: Arc::new(ProcessInfo {
                recorder: "0.2".into(),
                ..ProcessInfo::default()
            }),
            columns: Arc::new(columns),
            frame_sets: Arc::new(vec![String::new()]),
            ..Catalog::default()
        };
        let mut capture = Self {
            source,
            decoder: Decoder::new(&header),
            catalog: Arc::new(catalog),
            frame_ms: header
                .columns
                .iter()
                .position(|column| column.name == "frame_ms"),
            system_columns: header.columns.len(),
            sites: FxHashMap::default(),
            threads: FxHashMap::default(),
            places: Sparse::default(),
            origin_ns: 0,
            at: None,
            scanned: (header.len as u64, Place::default()),
            rescan_bytes: 0,
            anchored: false,
            info: Info {
                version: 2,
                file_bytes,
                ..Info::default()
            },
        };
        if !is_lazy {
            capture.scan()?;
        }
        Ok(capture)
    }

    pub(super) fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    pub(super) fn frame_count(&self) -> u64 {
        self.places.count()
    }

    pub(super) fn info(&self) -> Info {
        self.info.clone()
    }

    pub(super) fn recovered(&mut self, i: u64) -> Result<Recovered, Error> {
        let Some((first, &place)) = self.places.before(i) else {
            return Err(Error::corrupt("the capture has no frame"));
        };
        let (mut ordinal, mut before) = match self.at {
            Some((next, before)) if (first..=i).contains(&next) => (next, before),
            _ => {
                self.decoder.resume_at(place.offset, place.declared);
                self.source.seek(place.offset)?;
                (first, place)
            }
        };
        loop {
            let frame = match self.next_event()? {
                Some(Event::Frame(frame)) => frame,
                Some(_) => continue,
                None => {
                    self.at = None;
                    return Err(Error::corrupt(format!(
                        "there is no frame {i}: the file ends before it"
                    )));
                }
            };
            let after = self.after(&before, &frame);
            self.at = Some((ordinal + 1, after));
            if ordinal == i {
                return Ok(Recovered {
                    frame: Arc::new(self.snapshot(i, &before, &after, frame)),
                    lost_records: 0,
                });
            }
            ordinal += 1;
            before = after;
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, Error> {
        let mut at_end = false;
        loop {
            if let Some(event) = self.decoder.next_event(at_end) {
                return Ok(Some(event));
            }
            if at_end {
                return Ok(None);
            }
            let bytes = self.source.read()?;
            at_end = bytes.is_empty();
            self.decoder.push(bytes);
        }
    }

    /// Reads the part of the file that was written since it was opened; returns the number of
    /// frames.
    pub(super) fn extend(&mut self) -> Result<u64, Error> {
        let file_bytes = self.source.len()?;
        if file_bytes < self.info.file_bytes {
            return Err(Error::corrupt(format!(
                "the capture has shrunk from {} to {file_bytes} bytes while it was read",
                self.info.file_bytes
            )));
        }
        self.info.file_bytes = file_bytes;
        if file_bytes >= self.rescan_bytes {
            self.at = None;
            let declared = self.decoder.user_columns().len();
            self.decoder.resume_at(self.scanned.0, declared);
            self.source.seek(self.scanned.0)?;
            self.scan()?;
        }
        Ok(self.frame_count())
    }

    /// Reads names, places, totals and damage of the part that was not scanned before.
    fn scan(&mut self) -> Result<(), Error> {
        let mut damage = std::mem::take(&mut self.info.damage);
        let mut tables = Catalog::clone(&self.catalog);
        let mut before = self.scanned.1;
        while let Some(event) = self.next_event()? {
            match event {
                Event::Column(index) => Arc::make_mut(&mut tables.columns).push(Column {
                    metric: self.decoder.user_columns()[index].clone(),
                    system: false,
                }),
                Event::Damage(found) => damage.add(Loss::from(found)),
                Event::Frame(frame) => {
                    if let Some(flame) = new_flame(&before, &frame) {
                        if !self.anchored && !flame.threads.is_empty() {
                            self.anchored = true;
                            let end_ns = before.end_ns.saturating_add(self.duration_ns(&frame));
                            self.origin_ns = flame.range_ns.1.saturating_sub(end_ns);
                        }
                        self.intern(&mut tables, flame);
                        let spans = flame.threads.iter().map(|thread| thread.spans.len() as u64);
                        self.info.spans += spans.sum::<u64>();
                    }
                    let after = self.after(&before, &frame);
                    let offset = frame.offset;
                    let declared = self.decoder.declared();
                    self.places.push(|| Place {
                        offset,
                        declared,
                        ..before
                    });
                    before = after;
                }
            }
        }
        damage.tail = self.decoder.pending().map(Loss::from);
        // Damage whose end was not found is read again, so that it is counted with its end.
        let next = damage.tail.as_ref().map(|tail| tail.offset);
        self.scanned = (next.unwrap_or(self.decoder.offset()), before);
        let pending = self.info.file_bytes.saturating_sub(self.scanned.0);
        let twice = self.scanned.0.saturating_add(2 * pending.max(1));
        let whole = self.decoder.unfinished_to();
        self.rescan_bytes = whole.map_or(twice, |whole| whole.min(twice));
        self.info.closed = damage.tail.is_none();
        self.info.damage = damage;
        self.info.frames = self.places.count();
        self.info.threads = tables.threads.len() as u64;
        self.info.duration_ns = u64::try_from(before.end_ns).unwrap_or(0);
        if let Ok(ticks @ 1..) = u64::try_from(self.origin_ns)
            && tables.timeline.syncs().is_empty()
        {
            // Exporters count from the first point of the timeline, and viewers cannot hold
            // nanoseconds since 1970.
            Arc::make_mut(&mut tables.timeline).push(ClockSync {
                ticks,
                unix_ns: self.origin_ns,
                rate: 1 << RATE_BITS,
                wall_ns: self.origin_ns,
            });
        }
        self.catalog = Arc::new(tables);
        Ok(())
    }

    /// Gives every scope and thread of a flame an id.
    fn intern(&mut self, tables: &mut Catalog, flame: &Flame) {
        for scope in &flame.scopes {
            if self.sites.contains_key(scope) {
                continue;
            }
            let sites = Arc::make_mut(&mut tables.sites);
            sites.push(Some(Arc::new(SiteInfo {
                name: scope.name().to_owned().into(),
                module_path: match &scope.scope_name {
                    Some(_) => scope.function_name.clone().into(),
                    None => "".into(),
                },
                file: scope.file_path.clone().into(),
                line: scope.line,
                ..SiteInfo::default()
            })));
            let id = SiteId(u32::try_from(sites.len()).unwrap_or(0));
            self.sites.insert(scope.clone(), id);
        }
        for thread in &flame.threads {
            let key = (thread.start_time_ns, thread.name.clone());
            if self.threads.contains_key(&key) {
                continue;
            }
            let threads = Arc::make_mut(&mut tables.threads);
            let id = ThreadId(u32::try_from(threads.len()).unwrap_or(u32::MAX));
            threads.push(Some(Arc::new(ThreadInfo {
                os_id: 0,
                name: thread.name.clone(),
            })));
            self.threads.insert(key, id);
        }
    }

    fn duration_ns(&self, frame: &Frame) -> i64 {
        let ms = self
            .frame_ms
            .and_then(|index| frame.system.get(index).copied());
        // A conversion from float to integer is bounded and takes NaN for 0; a year is longer than
        // any frame.
        (ms.unwrap_or(0.0) * 1e6).clamp(0.0, 3.2e16) as i64
    }

    fn after(&self, before: &Place, frame: &Frame) -> Place {
        let mut end_ns = before.end_ns.saturating_add(self.duration_ns(frame));
        if let Some(flame) = new_flame(before, frame)
            && !flame.threads.is_empty()
        {
            end_ns = end_ns.max(flame.range_ns.1.saturating_sub(self.origin_ns));
        }
        Place {
            offset: frame.offset,
            declared: self.decoder.declared(),
            end_ns,
            flame_index: match &frame.parsed {
                Some(flame) => Some(flame.frame_index),
                None => before.flame_index,
            },
        }
    }

    fn snapshot(&self, index: u64, before: &Place, after: &Place, frame: Frame) -> FrameSnapshot {
        let mut threads = Vec::new();
        if let Some(flame) = new_flame(before, &frame) {
            let mut sites = FxHashMap::default();
            for scope in &flame.scopes {
                if let (Some(id), Some(&site)) = (scope.id, self.sites.get(scope)) {
                    sites.insert(id, site);
                }
            }
            for thread in &flame.threads {
                threads.push(self.tree(thread, &sites));
            }
            sort_by(&mut threads, |a, b| a.thread.cmp(&b.thread));
        }
        let ticks = |ns: i64| u64::try_from(self.origin_ns.saturating_add(ns)).unwrap_or(0);
        let system = frame.system.iter().enumerate();
        let user = frame.user.iter();
        let mut metrics: Vec<MetricValue> = system
            .map(|(column, &value)| (column, value))
            .chain(user.map(|&(column, value)| (self.system_columns + column, value)))
            .map(|(column, value)| MetricValue {
                column: u32::try_from(column).unwrap_or(u32::MAX),
                value,
            })
            .collect();
        sort_by(&mut metrics, |a, b| a.column.cmp(&b.column));
        metrics.dedup_by_key(|value| value.column);
        FrameSnapshot {
            catalog: Arc::clone(&self.catalog),
            index,
            start_ticks: ticks(before.end_ns),
            end_ticks: ticks(after.end_ns),
            metrics,
            span_count: threads.iter().map(|tree| tree.spans.len() as u64).sum(),
            threads,
            ..FrameSnapshot::default()
        }
    }

    fn tree(&self, thread: &FlameThread, sites: &FxHashMap<u32, SiteId>) -> ThreadTree {
        let key = (thread.start_time_ns, thread.name.clone());
        let mut tree = ThreadTree {
            thread: self.threads.get(&key).copied().unwrap_or_default(),
            ..ThreadTree::default()
        };
        for span in &thread.spans {
            let args_begin = tree.arg_values.len() as u32;
            if !span.data.is_empty() {
                tree.arg_values
                    .push(ArgValue::Str(span.data.as_str().into()));
            }
            let start_ticks = u64::try_from(span.start_ns).unwrap_or(0);
            tree.spans.push(Span {
                start_ticks,
                duration_ticks: u64::try_from(span.end_ns)
                    .unwrap_or(0)
                    .saturating_sub(start_ticks),
                site: sites.get(&span.scope_id).copied().unwrap_or_default(),
                depth: span.depth,
                subtree_len: span.subtree_len,
                args: (args_begin, tree.arg_values.len() as u32),
            });
        }
        tree
    }
}

/// Returns the frame's flame unless it repeats the one before it, as the recorder did when no
/// outermost scope had closed.
fn new_flame<'a>(before: &Place, frame: &'a Frame) -> Option<&'a Flame> {
    let flame = frame.parsed.as_ref()?;
    (before.flame_index != Some(flame.frame_index)).then_some(flame)
}
