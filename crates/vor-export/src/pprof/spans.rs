//! Spans to samples: what each weighs, which labels it has, and the stacks that they make.
//!
//! A label belongs to the span whose argument it is, and to what runs inside. A span comes before
//! those around it, so its labels are not known yet when it is merged: a frame is therefore a call
//! site *with* the labels of its own, and the sample of a stack has those of all its frames, the
//! innermost first.

use std::convert::Infallible;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, OpenStarts, SpanBatch};
use vor_capture::model::catalog::ThreadId;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::measures::{Measured, Measures};

use super::builder::{Frame, ProfileBuilder, SampleType, integer};
use super::tasks::Tasks;
use crate::merged::Merged;
use crate::merged::{OpenSpan, OpenSpans};
use crate::stacks::Weight;
use crate::thread_label;

/// How many things a span may weigh.
const TYPE_COUNT: usize = 7;

/// The parts of `wall`, in a program with tasks.
pub const TASK_TYPES: [SampleType; 2] = [SampleType::WALL_BUSY, SampleType::WALL_IDLE];

/// What a span may weigh, in the order of the values of a sample.
pub const SPAN_TYPES: [SampleType; TYPE_COUNT] = [
    SampleType::WALL,
    SampleType::CPU,
    SampleType::CPU_USER,
    SampleType::CPU_SYS,
    SampleType::OFF_CPU,
    SampleType::ALLOC_OBJECTS,
    SampleType::ALLOC_BYTES,
];

/// Where the time on the clock stands among them.
const WALL: usize = 0;

/// The label of a sample's thread.
const THREAD: &str = "thread";

/// Distinct sets of labels that are told apart; spans with further ones have none.
const MOST_LABEL_SETS: usize = 4_096;

/// Nodes of the merged stacks beyond which a running program's spans are counted and not merged,
/// until the next cut.
const MOST_NODES: usize = 1 << 19;

#[derive(Clone, Copy, Debug, Default)]
struct Values([u64; TYPE_COUNT]);

impl Weight for Values {
    fn each(self, other: Self, mut with: impl FnMut(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|at| with(self.0[at], other.0[at])))
    }

    fn is_zero(self) -> bool {
        self.0 == [0; TYPE_COUNT]
    }
}

impl Values {
    /// Returns what a span of a site weighs. What is not measured there is 0, and what is measured
    /// inside passes through it.
    fn of(measures: Measures, wall_ns: u64, measured: &Measured) -> Self {
        let (user, sys) = (measured.cpu_user_ns, measured.cpu_sys_ns);
        let off_cpu_ns = measured.off_cpu_ns.min(wall_ns);
        let (cpu_ns, off_cpu_ns) = if measures.has(Measures::CPU) {
            (wall_ns - off_cpu_ns, off_cpu_ns)
        } else {
            (user.saturating_add(sys), 0)
        };
        Self([
            wall_ns,
            cpu_ns,
            user,
            sys,
            off_cpu_ns,
            measured.alloc_objects,
            measured.alloc_bytes,
        ])
    }
}

/// Returns which of [`SPAN_TYPES`] are measured.
fn are_measured(measures: Measures) -> [bool; TYPE_COUNT] {
    let cpu = measures.has(Measures::CPU);
    let split = measures.has(Measures::CPU_SPLIT);
    let alloc = measures.has(Measures::ALLOC);
    [true, cpu || split, split, split, cpu, alloc, alloc]
}

/// The samples of a program, while its spans come.
#[derive(Debug, Default)]
pub struct SpanProfile {
    merged: Merged<Values>,
    frames: Frames,
    tasks: Tasks,
    /// Spans that were not merged, because there were too many stacks.
    uncounted_spans: u64,
    /// Counts the batches, so that one who looks twice knows whether one came in between.
    batches: u64,
}

impl SpanProfile {
    /// Makes labels of the arguments of these names.
    pub fn new(labels: impl IntoIterator<Item = String>) -> Self {
        let mut this = Self::default();
        this.frames.label_names = labels
            .into_iter()
            .filter(|name| !is_measure(name) && name != THREAD)
            .collect();
        this
    }

    /// Returns how many spans were lost because a ring was full.
    pub fn dropped_spans(&self) -> u64 {
        self.merged.dropped_spans
    }

    /// Adds the spans of a batch.
    ///
    /// # Errors
    ///
    /// Fails where spans that wait for their parents do not fit into a temporary file.
    pub fn accept(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.batches += 1;
        let Self {
            merged,
            frames,
            tasks,
            ..
        } = self;
        frames.declare_sites(&batch.catalog);
        tasks.accept(batch);
        let accepted = merged.accept(batch, |site, args, ns| frames.of(site, args, ns));
        accepted.map_err(no_room)
    }

    /// Merges what no scope that is open can tell apart.
    pub fn settle(&mut self, open: &OpenStarts) {
        self.merged.settle(open);
    }

    /// Ends the profile; it reaches from the begin of the first span to the end of the last.
    ///
    /// # Errors
    ///
    /// Fails where spans that wait for their parents cannot be read back from their temporary file.
    pub fn finish(&mut self) -> Result<ProfileBuilder, Error> {
        let roots = self
            .merged
            .take(|catalog, thread| thread_label(catalog, thread).into_owned())
            .map_err(no_room)?;
        let mut profile = self.profile(&roots);
        if let Some((first, last)) = self.merged.reach_ticks {
            let timeline = &self.merged.catalog.timeline;
            profile.set_time(
                timeline.unix_ns(first),
                timeline.duration_ns(first, last - first),
            );
        }
        Ok(profile)
    }

    fn profile(&self, roots: &[(String, u32)]) -> ProfileBuilder {
        let is_measured = are_measured(self.frames.measures);
        let columns: Vec<usize> = (0..TYPE_COUNT).filter(|&at| is_measured[at]).collect();
        let mut types: Vec<SampleType> = columns.iter().map(|&at| SPAN_TYPES[at].clone()).collect();
        let has_tasks = self.tasks.has_any();
        if has_tasks {
            types.extend(TASK_TYPES);
        }
        let catalog = &self.merged.catalog;
        let mut profile = ProfileBuilder::new(&types);
        profile.set_program(&catalog.process.name);
        // Nothing is sampled: each nanosecond was counted.
        profile.set_period(&SampleType::WALL, 1);
        if self.merged.dropped_spans > 0 {
            profile.add_comment(&format!(
                "{} spans are missing: the ring of their thread was full",
                self.merged.dropped_spans
            ));
        }
        if self.uncounted_spans > 0 {
            profile.add_comment(&format!(
                "{} spans are missing: there were too many distinct stacks",
                self.uncounted_spans
            ));
        }
        for (thread, root) in roots {
            let added: Result<(), Infallible> = self.merged.each(*root, |path, values| {
                let stack = path.iter().map(|&frame| self.frames.frame(catalog, frame));
                let wall = integer(values.0[WALL]);
                let mut values: Vec<i64> =
                    columns.iter().map(|&at| integer(values.0[at])).collect();
                if has_tasks {
                    values.extend([wall, 0]);
                }
                let labels = self.frames.labels(path);
                profile.add(stack, &values, labels.chain([(THREAD, thread.as_str())]));
                Ok(())
            });
            let Ok(()) = added;
        }
        for (site, ns) in self.tasks.idle_ns() {
            // A task moves between threads, so it waits on none.
            let idle = integer(ns);
            let mut values = vec![0; types.len()];
            values[WALL] = idle;
            if let Some(last) = values.last_mut() {
                *last = idle;
            }
            profile.add(
                [self.frames.frame(catalog, self.frames.plain(site))],
                &values,
                [],
            );
        }
        profile
    }
}

impl SpanProfile {
    /// Returns the name of the program whose batches came, empty before the first.
    pub fn program(&self) -> &str {
        &self.merged.catalog.process.name
    }

    /// Returns how many batches came.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Adds the spans of a batch, as long as the stacks take a bounded amount of memory.
    ///
    /// # Errors
    ///
    /// Fails where spans that wait for their parents do not fit into a temporary file.
    pub fn accept_bounded(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.merged.nodes() < MOST_NODES {
            return self.accept(batch);
        }
        self.batches += 1;
        self.uncounted_spans += batch.span_count() as u64;
        Ok(())
    }

    /// Takes the profile of what ran up to now, and begins the next.
    ///
    /// Everything that ended by `now_ticks` must have been accepted, and `open` is what was open
    /// after the last batch. `measured` returns what an open span of a thread has measured by a
    /// tick. `catalog` resolves the ids of `open`; without one, the catalog of the last batch does.
    ///
    /// # Errors
    ///
    /// Fails where spans that wait for their parents cannot be read back from their temporary file.
    pub fn cut(
        &mut self,
        now_ticks: u64,
        open: &[OpenSpans],
        mut measured: impl FnMut(ThreadId, OpenSpan, u64) -> (Measures, Measured),
        catalog: Option<Arc<Catalog>>,
    ) -> Result<ProfileBuilder, Error> {
        if let Some(catalog) = catalog {
            self.frames.declare_sites(&catalog);
            self.merged.catalog = catalog;
        }
        let Self { merged, frames, .. } = self;
        let timeline = Arc::clone(&merged.catalog.timeline);
        let roots = merged.cut(
            now_ticks,
            open,
            |catalog, thread| thread_label(catalog, thread).into_owned(),
            |thread, scope, until_ticks| {
                let ticks = until_ticks.saturating_sub(scope.start_ticks);
                let (measures, measured) = measured(thread, scope, until_ticks);
                frames.measures = frames.measures.and(measures);
                let ns = timeline.duration_ns(scope.start_ticks, ticks);
                (
                    frames.plain(scope.site),
                    Values::of(measures, ns, &measured),
                )
            },
        );
        let roots = roots.map_err(|error| {
            // What could not be read back is lost, and what it belonged to begins anew.
            *merged = Merged::default();
            no_room(error)
        })?;
        self.tasks.cut(&self.merged.catalog.timeline, now_ticks);
        let profile = self.profile(&roots);
        self.tasks.clear();
        self.merged.clear();
        self.frames.labelled.clear();
        self.frames.numbers.clear();
        self.uncounted_spans = 0;
        Ok(profile)
    }
}

fn no_room(error: std::io::Error) -> Error {
    Error::io("cannot keep the stacks in a temporary file", error)
}

fn is_measure(name: &str) -> bool {
    let all = Measures::CPU.and(Measures::CPU_SPLIT).and(Measures::ALLOC);
    all.arg_names().any(|measure| measure == name)
}

/// A label: which of the chosen names, and its value.
type Label = (usize, Box<str>);

/// What the numbers of frames in the merged stacks mean. Number `n` is call site `n`, and those
/// from `FIRST_LABELLED` on are sites with labels.
#[derive(Debug, Default)]
struct Frames {
    label_names: Vec<String>,
    /// By `SiteId`.
    sites: Vec<Site>,
    declared: Option<Arc<Vec<Option<Arc<SiteInfo>>>>>,
    labelled: Vec<(SiteId, Arc<[Label]>)>,
    numbers: FxHashMap<(SiteId, Arc<[Label]>), u32>,
    /// What any of the sites measures.
    measures: Measures,
}

#[derive(Clone, Debug, Default)]
struct Site {
    info: Option<Arc<SiteInfo>>,
    measures: Measures,
    /// Positions of arguments that are labels, and which.
    labels: Box<[(usize, usize)]>,
}

const FIRST_LABELLED: u32 = 1 << 31;

impl Frames {
    fn declare_sites(&mut self, catalog: &Catalog) {
        if self
            .declared
            .as_ref()
            .is_some_and(|known| Arc::ptr_eq(known, &catalog.sites))
        {
            return;
        }
        self.declared = Some(Arc::clone(&catalog.sites));
        if self.sites.len() <= catalog.sites.len() {
            self.sites.resize(catalog.sites.len() + 1, Site::default());
        }
        for (site, info) in self.sites.iter_mut().skip(1).zip(catalog.sites.iter()) {
            if let (None, Some(info)) = (&site.info, info) {
                let positions = info
                    .arg_names
                    .iter()
                    .enumerate()
                    .filter_map(|(position, name)| {
                        let label = self.label_names.iter().position(|label| label == name)?;
                        Some((position, label))
                    });
                *site = Site {
                    info: Some(Arc::clone(info)),
                    measures: Measures::of(info),
                    labels: positions.collect(),
                };
            }
        }
    }

    /// Returns the frame of a site without labels.
    fn plain(&self, site: SiteId) -> u32 {
        let is_known = (site.0 as usize) < self.sites.len() && site.0 < FIRST_LABELLED;
        if is_known { site.0 } else { 0 }
    }

    /// Returns a span's frame, and what it weighs.
    fn of(&mut self, id: SiteId, args: &[ArgValue], ns: u64) -> (u32, Values) {
        let frame = self.plain(id);
        let Some(Site {
            info: Some(info),
            measures,
            labels,
        }) = self.sites.get(frame as usize)
        else {
            return (frame, Values::of(Measures::NONE, ns, &Measured::default()));
        };
        let measures = *measures;
        self.measures = self.measures.and(measures);
        let measured = if measures.is_none() || args.is_empty() {
            Measured::default()
        } else {
            Measured::of(info, args)
        };
        let values = Values::of(measures, ns, &measured);
        let labels: Vec<Label> = labels
            .iter()
            .filter_map(|&(position, label)| Some((label, args.get(position)?.to_string().into())))
            // An empty text is no text to pprof.
            .filter(|(_, value): &Label| !value.is_empty())
            .collect();
        if labels.is_empty() {
            return (frame, values);
        }
        (self.with_labels(id, labels.into()).unwrap_or(frame), values)
    }

    fn with_labels(&mut self, site: SiteId, labels: Arc<[Label]>) -> Option<u32> {
        let key = (site, labels);
        if let Some(&number) = self.numbers.get(&key) {
            return Some(number);
        }
        if self.labelled.len() >= MOST_LABEL_SETS {
            return None;
        }
        let number = FIRST_LABELLED + self.labelled.len() as u32;
        self.labelled.push(key.clone());
        self.numbers.insert(key, number);
        Some(number)
    }

    fn labelled(&self, number: u32) -> Option<&(SiteId, Arc<[Label]>)> {
        self.labelled
            .get(number.checked_sub(FIRST_LABELLED)? as usize)
    }

    fn frame<'a>(&self, catalog: &'a Catalog, number: u32) -> Frame<'a> {
        let site = self
            .labelled(number)
            .map_or(SiteId(number), |(site, _)| *site);
        match catalog.site(site) {
            Some(site) => Frame {
                name: &site.name,
                file: &site.file,
                line: site.line,
            },
            None => Frame {
                name: "?",
                ..Frame::default()
            },
        }
    }

    /// Returns the labels of a stack, by the names as they were chosen; of equal ones the
    /// innermost.
    fn labels<'a>(&'a self, path: &'a [u32]) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.label_names
            .iter()
            .enumerate()
            .filter_map(|(at, name)| {
                let sets = path
                    .iter()
                    .rev()
                    .filter_map(|&number| self.labelled(number));
                let mut labels = sets.flat_map(|(_, labels)| labels.iter());
                let (_, value) = labels.find(|(label, _)| *label == at)?;
                Some((name.as_str(), &**value))
            })
    }
}
