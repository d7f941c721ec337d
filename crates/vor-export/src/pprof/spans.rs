//! Converts spans to samples: the values, labels and stack of each.
//!
//! A label belongs to the span that has the argument, and to all spans inside. A span arrives
//! before the spans around it, so it is merged before all its labels are known. A frame is
//! therefore a call site *with* its own labels. The sample of a stack has the labels of all its
//! frames; the innermost one wins.

use std::convert::Infallible;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::batch::{ArgValue, OpenStarts, SpanBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_capture::model::measures::{Measured, Measures};

use super::builder::{Frame, ProfileBuilder, SampleType};
use super::tasks::Tasks;
use crate::merged::{Merged, OpenSpan, OpenSpans};
use crate::per_site::PerSite;
use crate::stacks::Weight;
use crate::{saturated, thread_label};

/// Number of values of a span.
const TYPE_COUNT: usize = 9;

/// The parts of `wall` in a program with tasks.
pub const TASK_TYPES: [SampleType; 2] = [SampleType::WALL_BUSY, SampleType::WALL_IDLE];

/// The values of a span, in the order of a sample's values.
pub const SPAN_TYPES: [SampleType; TYPE_COUNT] = [
    SampleType::WALL,
    SampleType::CPU,
    SampleType::CPU_USER,
    SampleType::CPU_SYS,
    SampleType::OFF_CPU,
    SampleType::WALL_RUNQUEUE,
    SampleType::WALL_BLOCKED,
    SampleType::ALLOC_OBJECTS,
    SampleType::ALLOC_BYTES,
];

/// The position of wall-clock time in `SPAN_TYPES`.
const WALL: usize = 0;

/// The label of a sample's thread.
const THREAD: &str = "thread";

/// Most distinct sets of labels; spans with further sets have no labels.
const MAX_LABEL_SETS: usize = 4_096;

/// Nodes of the merged stacks above which a running program's spans are only counted, until the
/// next cut.
const MAX_NODES: usize = if cfg!(test) { 1 << 8 } else { 1 << 19 };

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
    /// Returns the values of a span. A value that its site does not measure is 0, and the
    /// children's value passes through it.
    fn of(measures: Measures, wall_ns: u64, measured: &Measured) -> Self {
        let (user, sys) = (measured.cpu_user_ns, measured.cpu_sys_ns);
        let off_cpu_ns = measured.off_cpu_ns.min(wall_ns);
        let (cpu_ns, off_cpu_ns) = if measures.has(Measures::CPU) {
            (wall_ns - off_cpu_ns, off_cpu_ns)
        } else {
            (user.saturating_add(sys), 0)
        };
        let [queued_ns, blocked_ns] = match measures.has(Measures::WAIT) {
            true => measured.queued_and_blocked_ns(off_cpu_ns),
            false => [0, 0],
        };
        Self([
            wall_ns,
            cpu_ns,
            user,
            sys,
            off_cpu_ns,
            queued_ns,
            blocked_ns,
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
    let wait = measures.has(Measures::WAIT);
    [
        true,
        cpu || split,
        split,
        split,
        cpu,
        wait,
        wait,
        alloc,
        alloc,
    ]
}

/// The samples of a program, made as its spans arrive.
#[derive(Debug, Default)]
pub struct SpanProfile {
    merged: Merged<Values>,
    frames: Frames,
    tasks: Tasks,
    /// Number of spans that were not merged because there were too many stacks.
    unmerged_spans: u64,
    /// Number of batches.
    batches: u64,
}

impl SpanProfile {
    /// Makes a profile without samples. Arguments with these names become labels.
    pub fn new(labels: impl IntoIterator<Item = String>) -> Self {
        let mut this = Self::default();
        this.frames.label_names = labels
            .into_iter()
            .filter(|name| !is_measure(name) && name != THREAD)
            .collect();
        this
    }

    /// Returns the number of spans that were lost because a ring was full.
    pub fn dropped_spans(&self) -> u64 {
        self.merged.dropped_spans
    }

    /// Adds the spans of a batch.
    ///
    /// # Errors
    ///
    /// Spans that wait for their parents cannot be written to a temporary file.
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
        let accepted = merged.accept(batch, |site, args, ns| frames.weigh(site, args, ns));
        accepted.map_err(no_room)
    }

    /// Merges spans that no open scope separates.
    pub fn settle(&mut self, open: &OpenStarts) {
        self.merged.settle(open);
    }

    /// Ends the profile, which extends from the begin of the first span to the end of the last.
    ///
    /// # Errors
    ///
    /// Spans that wait for their parents cannot be read from their temporary file.
    pub fn finish(&mut self) -> Result<ProfileBuilder, Error> {
        let roots = self
            .merged
            .take(|catalog, thread| thread_label(catalog, thread).into_owned())
            .map_err(no_room)?;
        let mut profile = self.profile(&roots);
        if let Some((first, last)) = self.merged.range_ticks {
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
        let has_tasks = self.tasks.has_polls();
        if has_tasks {
            types.extend(TASK_TYPES);
        }
        let catalog = &self.merged.catalog;
        let mut profile = ProfileBuilder::new(&types);
        profile.set_program(&catalog.process.name);
        // Nothing is sampled: every nanosecond counts.
        profile.set_period(&SampleType::WALL, 1);
        if self.merged.dropped_spans > 0 {
            profile.add_comment(&format!(
                "{} spans are missing: the ring of their thread was full",
                self.merged.dropped_spans
            ));
        }
        if self.unmerged_spans > 0 {
            profile.add_comment(&format!(
                "{} spans are missing: there were too many distinct stacks",
                self.unmerged_spans
            ));
        }
        for (thread, root) in roots {
            let added: Result<(), Infallible> = self.merged.each(*root, |path, values| {
                let stack = path.iter().map(|&frame| self.frames.frame(catalog, frame));
                let wall = saturated(values.0[WALL]);
                let mut values: Vec<i64> =
                    columns.iter().map(|&at| saturated(values.0[at])).collect();
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
            // A task moves between threads, so its idle time belongs to none of them.
            let idle = saturated(ns);
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
    /// Returns the name of the program, which is empty before the first batch.
    pub fn program(&self) -> &str {
        &self.merged.catalog.process.name
    }

    /// Returns the number of batches that were added.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Adds the spans of a batch. Beyond a bounded amount of memory it only counts them.
    ///
    /// # Errors
    ///
    /// Spans that wait for their parents cannot be written to a temporary file.
    pub fn accept_bounded(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        if self.merged.nodes() < MAX_NODES {
            return self.accept(batch);
        }
        self.batches += 1;
        self.unmerged_spans += batch.span_count() as u64;
        Ok(())
    }

    /// Takes the profile up to now, and begins the next.
    ///
    /// All spans that ended by `now_ticks` must have been accepted, and `open` has the spans that
    /// were open after the last batch. `measured` returns the measures of an open span of a thread
    /// up to a tick. `catalog` resolves the ids of `open`; without it, the catalog of the last
    /// batch does.
    ///
    /// # Errors
    ///
    /// Spans that wait for their parents cannot be read from their temporary file.
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
                frames.measures = frames.measures.union(measures);
                let ns = timeline.duration_ns(scope.start_ticks, ticks);
                (
                    frames.plain(scope.site),
                    Values::of(measures, ns, &measured),
                )
            },
        );
        let roots = roots.map_err(|error| {
            // Spans that cannot be read are lost, and the sums restart.
            *merged = Merged::default();
            no_room(error)
        })?;
        self.tasks.cut(&self.merged.catalog.timeline, now_ticks);
        let profile = self.profile(&roots);
        self.tasks.clear();
        self.merged.clear();
        self.frames.labelled.clear();
        self.frames.numbers.clear();
        self.unmerged_spans = 0;
        Ok(profile)
    }
}

fn no_room(error: std::io::Error) -> Error {
    Error::io("cannot write the stacks to a temporary file", error)
}

fn is_measure(name: &str) -> bool {
    let all = Measures::CPU
        .union(Measures::CPU_SPLIT)
        .union(Measures::ALLOC)
        .union(Measures::WAITS);
    all.arg_names().any(|measure| measure == name)
}

/// A label: the position of its name among the chosen ones, and its value.
type Label = (usize, Box<str>);

/// The frames of the merged stacks by number. Number `n` is call site `n`; numbers from
/// `FIRST_LABELLED` are sites with labels.
#[derive(Debug, Default)]
struct Frames {
    label_names: Vec<String>,
    sites: PerSite<Site>,
    labelled: Vec<(SiteId, Arc<[Label]>)>,
    numbers: FxHashMap<(SiteId, Arc<[Label]>), u32>,
    /// The union of the measures of all sites.
    measures: Measures,
}

#[derive(Debug)]
struct Site {
    info: Arc<SiteInfo>,
    measures: Measures,
    /// Positions of the arguments that are labels, and of their names in `label_names`.
    labels: Box<[(usize, usize)]>,
}

const FIRST_LABELLED: u32 = 1 << 31;

impl Frames {
    fn declare_sites(&mut self, catalog: &Catalog) {
        let label_names = &self.label_names;
        self.sites.update(catalog, |info| {
            let labels = info.arg_names.iter().enumerate();
            let labels = labels.filter_map(|(position, name)| {
                let label = label_names.iter().position(|label| label == name)?;
                Some((position, label))
            });
            Site {
                info: Arc::clone(info),
                measures: Measures::of(info),
                labels: labels.collect(),
            }
        });
    }

    /// Returns the frame of a site without labels.
    fn plain(&self, site: SiteId) -> u32 {
        let is_known = site.0 as usize <= self.sites.len() && site.0 < FIRST_LABELLED;
        if is_known { site.0 } else { 0 }
    }

    /// Returns the frame and the values of a span.
    fn weigh(&mut self, id: SiteId, args: &[ArgValue], ns: u64) -> (u32, Values) {
        let frame = self.plain(id);
        let Some(Site {
            info,
            measures,
            labels,
        }) = self.sites.get(SiteId(frame))
        else {
            return (frame, Values::of(Measures::NONE, ns, &Measured::default()));
        };
        let measures = *measures;
        self.measures = self.measures.union(measures);
        let measured = if measures.is_none() || args.is_empty() {
            Measured::default()
        } else {
            Measured::of(info, args)
        };
        let values = Values::of(measures, ns, &measured);
        let labels: Vec<Label> = labels
            .iter()
            .filter_map(|&(position, label)| Some((label, args.get(position)?.to_string().into())))
            // For pprof, an empty text means no label.
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
        if self.labelled.len() >= MAX_LABEL_SETS {
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

    /// Returns the labels of a stack, in the order of the chosen names; the innermost value wins.
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

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use vor_capture::filled;
    use vor_capture::model::batch::ThreadBatch;
    use vor_capture::model::catalog::ProcessInfo;

    use super::*;

    /// A scope around spans of other call sites, 1 ns each: a stack for each span.
    fn batch(begin: u64, stacks: usize) -> SpanBatch {
        let site = Some(Arc::new(filled!(SiteInfo {
            name: "step".into()
        })));
        let catalog = filled!(Catalog {
            sites: Arc::new(vec![site; MAX_NODES])
        });
        let children = stacks as u64 - 1;
        let mut starts: Vec<u64> = (begin + 1..=begin + children).collect();
        starts.push(begin);
        let mut durations = vec![1; stacks - 1];
        durations.push(children + 1);
        let thread = filled!(ThreadBatch {
            start_ticks: starts,
            duration_ticks: durations,
            sites: (1..=stacks as u32).map(SiteId).collect()
        });
        filled!(SpanBatch {
            catalog: Arc::new(catalog),
            threads: vec![thread],
        })
    }

    fn cut(profile: &mut SpanProfile, now_ticks: u64) -> vor_fixtures::pprof::Profile {
        let measured = |_, _, _| Default::default();
        let cut = profile.cut(now_ticks, &[], measured, None).unwrap();
        let mut bytes = Vec::new();
        cut.write_gzipped(&mut bytes).unwrap();
        vor_fixtures::pprof::read(&bytes)
    }

    #[test]
    fn the_program_is_that_of_the_last_batch() {
        let mut profile = SpanProfile::default();
        assert_eq!((profile.program(), profile.batches()), ("", 0));
        let mut batch = batch(0, 1);
        let mut catalog = Catalog::clone(&batch.catalog);
        catalog.process = Arc::new(filled!(ProcessInfo {
            name: "server".into()
        }));
        batch.catalog = Arc::new(catalog);
        profile.accept(&batch).unwrap();
        assert_eq!((profile.program(), profile.batches()), ("server", 1));
    }

    #[test]
    fn spans_beyond_the_bound_are_counted_until_the_next_cut() {
        let mut profile = SpanProfile::default();
        let mut begin = 0;
        // The first two are as many stacks as allowed.
        for stacks in [MAX_NODES - 1, 1, 3, 4] {
            profile.accept_bounded(&batch(begin, stacks)).unwrap();
            begin += 2 * stacks as u64;
        }
        assert_eq!(profile.batches(), 4);
        let wall = |taken: &vor_fixtures::pprof::Profile| -> i64 {
            taken.samples.iter().map(|sample| sample.values[0]).sum()
        };
        let taken = cut(&mut profile, begin);
        assert_eq!(wall(&taken), MAX_NODES as i64);
        let comment = "7 spans are missing: there were too many distinct stacks";
        assert_eq!(taken.comments, [comment]);
        profile.accept_bounded(&batch(begin, 5)).unwrap();
        let next = cut(&mut profile, begin + 10);
        assert_eq!(wall(&next), 5);
        assert_eq!(next.comments, [""; 0]);
        assert_eq!(profile.batches(), 5);
    }
}
