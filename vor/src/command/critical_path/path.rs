//! The critical path of a thread: for each moment of an interval, the thread that it depended on.
//!
//! A moment belongs to the innermost scope that the thread has open. If that is a wait, and a flow
//! ends in it, the thread at the begin of the flow ended the wait. So the time from the begin of
//! the wait to the begin of the flow belongs to that thread, whose moments are divided in the same
//! way. The rest of the wait is the time until the woken thread went on.
//!
//! ```text
//! main      │ work │ wait: cache                  │ work │
//! worker-3  │ idle │ evict           ├─ unlock ─▶ ┘
//! path      │ main │ worker-3: evict │ main: woken │ main │
//! ```

use std::cmp::Reverse;
use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use vor_capture::model::batch::{FlowPoint, FlowStage};
use vor_capture::model::catalog::{SiteId, ThreadId};

use crate::command::wait_spans::Cause;

/// Waits inside waits that are followed. Beyond that, a wait belongs to the thread that waits.
const MAX_DEPTH: usize = 64;

/// A span that overlaps the interval. Times are in ticks.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) site: SiteId,
    /// The cause of the wait, if the span is one.
    pub(super) cause: Option<Arc<Cause>>,
    /// Times off the CPU and in the run queue, if they were measured, of the span without those
    /// inside it once [`Program::new`] has seen it. In nanoseconds.
    pub(super) measured: Option<OffCpu>,
}

/// Time in which a thread did not run, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct OffCpu {
    pub(super) all_ns: u64,
    pub(super) queued_ns: u64,
}

impl OffCpu {
    fn without(self, other: Self) -> Self {
        Self {
            all_ns: self.all_ns.saturating_sub(other.all_ns),
            queued_ns: self.queued_ns.saturating_sub(other.queued_ns),
        }
    }
}

/// The spans and flows of a thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) spans: Vec<Span>,
    pub(super) flows: Vec<FlowPoint>,
}

/// The state of a thread in a part of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum State {
    /// It is in its innermost scope, or outside of all scopes.
    Working,
    /// Its wait is over, and it has not gone on yet.
    Woken,
    /// It waits, and the capture does not say for which thread.
    Waiting,
}

/// A part of the path.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) ticks: Range<u64>,
    pub(super) thread: ThreadId,
    /// The innermost scope; `None` outside of all scopes.
    pub(super) span: Option<Place>,
    pub(super) state: State,
    /// The waits that lead from the first thread to this one.
    pub(super) causes: Vec<Arc<Cause>>,
}

/// The number of a span in its thread.
pub(super) type Place = usize;

/// A part of a thread's time, with its innermost span.
type Innermost = (Range<u64>, Option<Place>);

/// All threads in an interval.
#[derive(Debug)]
pub(super) struct Program {
    threads: HashMap<ThreadId, Timeline>,
    /// The points from which flows go on, ascending by time.
    origins: HashMap<u64, Vec<(u64, ThreadId)>>,
}

/// A thread in an interval.
#[derive(Debug)]
struct Timeline {
    spans: Vec<Span>,
    /// Duration of each span without those inside it, in ticks.
    own_ticks: Vec<u64>,
    /// Ascending from tick 0 to the end of the last span, without gaps.
    innermost: Vec<Innermost>,
    /// The points at which flows arrive, ascending by time.
    arrivals: Vec<(u64, u64)>,
}

impl Program {
    /// Takes the spans and flows of all threads.
    pub(super) fn new(threads: HashMap<ThreadId, Thread>) -> Self {
        let mut origins: HashMap<u64, Vec<(u64, ThreadId)>> = HashMap::new();
        let mut timelines = HashMap::new();
        for (id, thread) in threads {
            for point in &thread.flows {
                if point.stage != FlowStage::End {
                    origins
                        .entry(point.flow)
                        .or_default()
                        .push((point.ticks, id));
                }
            }
            timelines.insert(id, Timeline::new(thread));
        }
        origins
            .values_mut()
            .for_each(|points| points.sort_unstable());
        Self {
            threads: timelines,
            origins,
        }
    }

    /// Returns a span of a thread.
    pub(super) fn span(&self, thread: ThreadId, place: Place) -> Option<&Span> {
        self.threads.get(&thread)?.spans.get(place)
    }

    /// Returns the duration of a span without those inside it, in ticks.
    pub(super) fn own_ticks(&self, thread: ThreadId, place: Place) -> u64 {
        let timeline = self.threads.get(&thread);
        let own = timeline.and_then(|timeline| timeline.own_ticks.get(place));
        own.copied().unwrap_or(0)
    }

    /// Returns the thread that is in scopes, but in no wait, for the most of an interval.
    pub(super) fn busiest(&self, ticks: &Range<u64>) -> Option<ThreadId> {
        let busy = |timeline: &Timeline| -> u64 {
            let parts = timeline.within(ticks);
            let in_scopes = parts.filter(|(_, place)| {
                let span = place.and_then(|place| timeline.spans.get(place));
                span.is_some_and(|span| span.cause.is_none())
            });
            in_scopes.map(|(part, _)| part.end - part.start).sum()
        };
        let threads = self.threads.iter();
        let by_time = threads.map(|(id, timeline)| (busy(timeline), Reverse(id.0)));
        let (ticks, Reverse(id)) = by_time.max()?;
        (ticks > 0).then_some(ThreadId(id))
    }

    /// Returns the path of a thread in an interval. Its parts are ascending and leave nothing out.
    pub(super) fn path(&self, thread: ThreadId, ticks: Range<u64>) -> Vec<Part> {
        let mut parts = Vec::new();
        self.follow(thread, ticks, &mut Vec::new(), &mut parts);
        parts
    }

    fn follow(
        &self,
        thread: ThreadId,
        ticks: Range<u64>,
        causes: &mut Vec<Arc<Cause>>,
        parts: &mut Vec<Part>,
    ) {
        let part = |ticks, span, state, causes: &[_]| Part {
            ticks,
            thread,
            span,
            state,
            causes: causes.to_vec(),
        };
        let Some(timeline) = self.threads.get(&thread) else {
            parts.push(part(ticks, None, State::Working, causes));
            return;
        };
        for (ticks, place) in timeline.within(&ticks) {
            let span = place.and_then(|place| timeline.spans.get(place));
            let Some((span, cause)) = span.and_then(|span| Some((span, span.cause.as_ref()?)))
            else {
                parts.push(part(ticks, place, State::Working, causes));
                continue;
            };
            let origin = match causes.len() {
                MAX_DEPTH.. => None,
                _ => self.origin(thread, timeline, span),
            };
            let Some((woken_at, other)) = origin else {
                parts.push(part(ticks, place, State::Waiting, causes));
                continue;
            };
            let woken_at = woken_at.clamp(ticks.start, ticks.end);
            if ticks.start < woken_at {
                causes.push(Arc::clone(cause));
                self.follow(other, ticks.start..woken_at, causes, parts);
                causes.pop();
            }
            if woken_at < ticks.end {
                parts.push(part(woken_at..ticks.end, place, State::Woken, causes));
            }
        }
    }

    /// Returns the thread and its innermost scope at the begin of the last flow that arrived on a
    /// thread in an interval.
    pub(super) fn sender(
        &self,
        thread: ThreadId,
        ticks: RangeInclusive<u64>,
    ) -> Option<(ThreadId, Option<SiteId>)> {
        let arrivals = &self.threads.get(&thread)?.arrivals;
        let until = arrivals.partition_point(|(at, _)| at <= ticks.end());
        let last = arrivals[..until].last();
        let (arrived, flow) = last.filter(|(at, _)| at >= ticks.start())?;
        let (begin, sender) = *self
            .origins
            .get(flow)?
            .first()
            .filter(|(at, _)| at < arrived)?;
        let innermost = self
            .threads
            .get(&sender)?
            .within(&(begin..begin + 1))
            .next();
        let place = innermost.and_then(|(_, place)| place);
        let span = place.and_then(|place| self.span(sender, place));
        Some((sender, span.map(|span| span.site)))
    }

    /// Returns when which other thread ended a wait.
    fn origin(
        &self,
        thread: ThreadId,
        timeline: &Timeline,
        wait: &Span,
    ) -> Option<(u64, ThreadId)> {
        let end = timeline
            .arrivals
            .partition_point(|(ticks, _)| *ticks <= wait.end);
        let arrivals = timeline.arrivals[..end].iter().rev();
        let inside = arrivals.take_while(|(ticks, _)| *ticks >= wait.begin);
        let mut found = inside.filter_map(|(ticks, flow)| {
            let points = self.origins.get(flow)?;
            let earlier = &points[..points.partition_point(|(at, _)| at <= ticks)];
            let is_other = |(_, from): &&(u64, ThreadId)| *from != thread;
            earlier.iter().rev().find(is_other).copied()
        });
        found.next()
    }
}

impl Timeline {
    fn new(thread: Thread) -> Self {
        let Thread { mut spans, flows } = thread;
        spans.sort_by_key(|span| (span.begin, Reverse(span.end)));
        let arrivals = flows
            .iter()
            .filter(|point| point.stage != FlowStage::Begin)
            .map(|point| (point.ticks, point.flow));
        let mut arrivals: Vec<(u64, u64)> = arrivals.collect();
        arrivals.sort_unstable();
        let mut own_ticks: Vec<u64> = spans.iter().map(|span| span.end - span.begin).collect();
        let mut inside = vec![OffCpu::default(); spans.len()];
        let mut innermost: Vec<Innermost> = Vec::new();
        let mut open: Vec<Place> = Vec::new();
        let mut at = 0;
        let mut advance = |to: u64, place: Option<Place>| {
            if to <= at {
                return;
            }
            match innermost.last_mut() {
                Some((ticks, last)) if *last == place => ticks.end = to,
                _ => innermost.push((at..to, place)),
            }
            at = to;
        };
        for (place, span) in spans.iter().enumerate() {
            while let Some(&top) = open.last().filter(|&&top| spans[top].end <= span.begin) {
                advance(spans[top].end, Some(top));
                open.pop();
            }
            advance(span.begin, open.last().copied());
            if let Some(&around) = open.last() {
                own_ticks[around] = own_ticks[around].saturating_sub(span.end - span.begin);
                let measured = span.measured.unwrap_or_default();
                let sum = &mut inside[around];
                sum.all_ns = sum.all_ns.saturating_add(measured.all_ns);
                sum.queued_ns = sum.queued_ns.saturating_add(measured.queued_ns);
            }
            open.push(place);
        }
        while let Some(top) = open.pop() {
            advance(spans[top].end, Some(top));
        }
        for (span, inside) in spans.iter_mut().zip(inside) {
            span.measured = span.measured.map(|measured| measured.without(inside));
        }
        Self {
            spans,
            own_ticks,
            innermost,
            arrivals,
        }
    }

    /// Returns the parts of an interval, ascending, without gaps.
    fn within(&self, ticks: &Range<u64>) -> impl Iterator<Item = Innermost> {
        let first = self
            .innermost
            .partition_point(|(part, _)| part.end <= ticks.start);
        let parts = self.innermost[first..].iter();
        let inside = parts.take_while(|(part, _)| part.start < ticks.end);
        let mut at = ticks.start;
        let mut filled = Vec::new();
        for (part, place) in inside {
            let part = at..part.end.min(ticks.end);
            at = part.end;
            filled.push((part, *place));
        }
        if at < ticks.end {
            filled.push((at..ticks.end, None));
        }
        filled.into_iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vor_capture::filled;

    const MAIN: ThreadId = ThreadId(1);
    const WORKER: ThreadId = ThreadId(2);
    const DISK: ThreadId = ThreadId(3);

    fn span(begin: u64, end: u64, site: u32, wait: Option<&str>) -> Span {
        let cause = |name: &str| {
            Arc::new(Cause {
                name: name.into(),
                thread: "".into(),
                scope: "".into(),
            })
        };
        Span {
            begin,
            end,
            site: SiteId(site),
            cause: wait.map(cause),
            measured: None,
        }
    }

    fn point(ticks: u64, flow: u64, stage: FlowStage) -> FlowPoint {
        filled!(FlowPoint { ticks, flow, stage })
    }

    /// Returns the path as begin, thread, site and state, and the causes of each part.
    fn path(program: &Program, ticks: Range<u64>) -> Vec<(u64, ThreadId, u32, State, String)> {
        let parts = program.path(MAIN, ticks.clone());
        let mut at = ticks.start;
        for part in &parts {
            assert_eq!(part.ticks.start, at, "{parts:?}");
            at = part.ticks.end;
        }
        assert_eq!(at, ticks.end, "{parts:?}");
        let row = |part: &Part| {
            let span = part.span.and_then(|place| program.span(part.thread, place));
            let causes: Vec<&str> = part.causes.iter().map(|cause| &*cause.name).collect();
            let site = span.map_or(0, |span| span.site.0);
            (
                part.ticks.start,
                part.thread,
                site,
                part.state,
                causes.join(" "),
            )
        };
        parts.iter().map(row).collect()
    }

    fn program(threads: [(ThreadId, Vec<Span>, Vec<FlowPoint>); 3]) -> Program {
        let thread = |(id, spans, flows)| (id, Thread { spans, flows });
        Program::new(threads.into_iter().map(thread).collect())
    }

    #[test]
    fn waits_lead_to_the_threads_that_end_them() {
        use FlowStage::{Begin, End};
        use State::{Waiting, Woken, Working};
        let program = program([
            (
                MAIN,
                vec![span(0, 100, 1, None), span(20, 60, 2, Some("cache"))],
                vec![point(60, 7, End)],
            ),
            (
                WORKER,
                vec![span(10, 55, 3, None), span(30, 40, 4, Some("disk"))],
                vec![point(50, 7, Begin), point(40, 8, End)],
            ),
            (
                DISK,
                vec![span(0, 36, 5, Some("a message"))],
                vec![point(38, 8, Begin)],
            ),
        ]);
        let expected = [
            (0, MAIN, 1, Working, ""),
            (20, WORKER, 3, Working, "cache"),
            (30, DISK, 5, Waiting, "cache disk"),
            (36, DISK, 0, Working, "cache disk"),
            (38, WORKER, 4, Woken, "cache"),
            (40, WORKER, 3, Working, "cache"),
            (50, MAIN, 2, Woken, ""),
            (60, MAIN, 1, Working, ""),
            (100, MAIN, 0, Working, ""),
        ];
        let expected = expected.map(|(at, id, site, state, why)| (at, id, site, state, why.into()));
        assert_eq!(path(&program, 0..110), expected);
        // A wait that the interval cuts belongs to the same threads.
        assert_eq!(path(&program, 45..55)[0].1, WORKER);
        assert_eq!(path(&program, 45..55)[1].3, Woken);
        assert_eq!(program.busiest(&(0..110)), Some(MAIN));
        assert_eq!(program.busiest(&(21..49)), Some(WORKER));
        assert_eq!(program.busiest(&(200..300)), None);
    }

    /// A wait from 20 to 60 that the worker ends at 50, inside a call of it.
    fn one_wait() -> Program {
        program([
            (
                MAIN,
                vec![span(0, 100, 1, None), span(20, 60, 2, Some("cache"))],
                vec![point(60, 7, FlowStage::End)],
            ),
            (
                WORKER,
                vec![span(10, 70, 3, None)],
                vec![point(50, 7, FlowStage::Begin)],
            ),
            (DISK, vec![], vec![]),
        ])
    }

    #[test]
    fn no_part_is_empty_if_an_interval_begins_or_ends_with_a_part() {
        use State::{Woken, Working};
        let program = one_wait();
        let expected = |parts: &[(u64, ThreadId, u32, State, &str)]| {
            let owned = |&(at, id, site, state, why): &(u64, ThreadId, u32, State, &str)| {
                (at, id, site, state, why.to_owned())
            };
            parts.iter().map(owned).collect::<Vec<_>>()
        };
        let works = [(0, MAIN, 1, Working, "")];
        assert_eq!(path(&program, 0..20), expected(&works));
        let waits = [(30, WORKER, 3, Working, "cache")];
        assert_eq!(path(&program, 30..50), expected(&waits));
        assert_eq!(path(&program, 30..45), expected(&waits));
        let goes_on = [(50, MAIN, 2, Woken, "")];
        assert_eq!(path(&program, 50..60), expected(&goes_on));
        let goes_on = [(55, MAIN, 2, Woken, "")];
        assert_eq!(path(&program, 55..60), expected(&goes_on));
        let works = [(60, MAIN, 1, Working, "")];
        assert_eq!(path(&program, 60..100), expected(&works));
        let outside = [(100, MAIN, 0, Working, "")];
        assert_eq!(path(&program, 100..101), expected(&outside));
        assert!(path(&program, 60..60).is_empty());
        // A thread of which nothing is known.
        let parts = program.path(ThreadId(9), 30..50);
        let [part] = &parts[..] else {
            panic!("{parts:?}");
        };
        assert_eq!((&part.ticks, part.span), (&(30..50), None));
    }

    /// Returns the thread that ended a wait of the main thread from 20 to 60, and when. Points are
    /// those of one flow on the main thread and on the worker.
    fn origin(main: &[(u64, FlowStage)], worker: &[(u64, FlowStage)]) -> Option<(u64, ThreadId)> {
        let points = |points: &[(u64, FlowStage)]| -> Vec<_> {
            let point = |&(at, stage): &(u64, FlowStage)| point(at, 7, stage);
            points.iter().map(point).collect()
        };
        let wait = span(20, 60, 2, Some("cache"));
        let program = program([
            (MAIN, vec![wait.clone()], points(main)),
            (WORKER, vec![], points(worker)),
            (DISK, vec![], vec![]),
        ]);
        program.origin(MAIN, &program.threads[&MAIN], &wait)
    }

    #[test]
    fn a_flow_ends_a_wait_from_its_begin_to_its_end() {
        use FlowStage::{Begin, End, Step};
        let begin = [(15, Begin)];
        assert_eq!(origin(&[(19, End)], &begin), None);
        assert_eq!(origin(&[(20, End)], &begin), Some((15, WORKER)));
        assert_eq!(origin(&[(60, End)], &begin), Some((15, WORKER)));
        assert_eq!(origin(&[(61, End)], &begin), None);
        // The last point of another thread, up to the moment at which the flow arrives.
        let points = [(15, Begin), (30, Step), (41, Step)];
        assert_eq!(origin(&[(40, Step)], &points), Some((30, WORKER)));
        assert_eq!(origin(&[(41, Step)], &points), Some((41, WORKER)));
        // A thread does not wake itself.
        assert_eq!(
            origin(&[(35, Step), (50, End)], &points[..2]),
            Some((30, WORKER))
        );
        assert_eq!(origin(&[(25, Begin), (50, End)], &[]), None);
    }

    #[test]
    fn the_sender_of_a_flow_is_where_it_began_before_it_arrived() {
        use FlowStage::{Begin, End};
        let program = program([
            (
                MAIN,
                vec![],
                vec![
                    point(60, 7, End),
                    point(70, 8, End),
                    point(80, 9, End),
                    point(90, 10, End),
                ],
            ),
            (
                WORKER,
                vec![span(10, 70, 3, None), span(50, 58, 4, None)],
                // The first begins with the inner call, and the second when it arrives.
                vec![point(50, 7, Begin), point(70, 8, Begin)],
            ),
            (DISK, vec![], vec![point(79, 9, Begin)]),
        ]);
        let in_call = Some((WORKER, Some(SiteId(4))));
        let cases = [
            (55..=60, in_call),
            (60..=60, in_call),
            (60..=69, in_call),
            (50..=59, None),
            (61..=69, None),
            (60..=70, None),
            (60..=80, Some((DISK, None))),
            // Nobody knows where the last one began.
            (60..=90, None),
        ];
        for (ticks, expected) in cases {
            assert_eq!(program.sender(MAIN, ticks.clone()), expected, "{ticks:?}");
        }
        assert_eq!(program.sender(ThreadId(9), 55..=60), None);
    }

    #[test]
    fn the_busiest_thread_has_the_longest_sum_of_calls() {
        let program = program([
            // Late and short; the wait does not count.
            (
                MAIN,
                vec![span(90, 100, 1, None), span(100, 200, 2, Some("cache"))],
                vec![],
            ),
            (
                WORKER,
                vec![span(10, 30, 3, None), span(60, 90, 3, None)],
                vec![],
            ),
            // Early and long.
            (DISK, vec![span(2, 40, 5, None)], vec![]),
        ]);
        assert_eq!(program.busiest(&(0..200)), Some(WORKER));
        assert_eq!(program.busiest(&(0..60)), Some(DISK));
        assert_eq!(program.busiest(&(95..200)), Some(MAIN));
        assert_eq!(program.busiest(&(100..200)), None);
        // The first of equal ones.
        assert_eq!(program.busiest(&(10..30)), Some(WORKER));
    }

    #[test]
    fn a_call_has_its_time_without_the_calls_inside() {
        let measured = |all_ns, queued_ns| Some(OffCpu { all_ns, queued_ns });
        let with = |span, measured| Span { measured, ..span };
        let program = program([
            (
                MAIN,
                vec![
                    with(span(30, 50, 2, None), measured(7, 2)),
                    with(span(10, 100, 1, None), measured(40, 11)),
                    with(span(60, 75, 3, None), measured(9, 3)),
                    span(62, 70, 4, None),
                    // Its values are less than those of the call inside.
                    with(span(210, 220, 6, None), measured(5, 3)),
                    with(span(200, 240, 5, None), measured(2, 1)),
                ],
                vec![],
            ),
            (WORKER, vec![], vec![]),
            (DISK, vec![], vec![]),
        ]);
        let found = (0..6).map(|place| {
            let span = program.span(MAIN, place).unwrap();
            let own_ticks = program.own_ticks(MAIN, place);
            (span.site.0, own_ticks, span.measured)
        });
        assert_eq!(
            found.collect::<Vec<_>>(),
            [
                (1, 55, measured(24, 6)),
                (2, 20, measured(7, 2)),
                (3, 7, measured(9, 3)),
                (4, 8, None),
                (5, 30, measured(0, 0)),
                (6, 10, measured(5, 3)),
            ]
        );
        assert!(program.span(MAIN, 6).is_none() && program.span(ThreadId(9), 0).is_none());
        assert_eq!(program.own_ticks(MAIN, 6), 0);
        assert_eq!(program.own_ticks(ThreadId(9), 0), 0);
    }

    #[test]
    fn a_circle_of_waits_ends() {
        use FlowStage::{Begin, End};
        let waits = |flow_in, flow_out| {
            let flows = vec![point(90, flow_in, End), point(89, flow_out, Begin)];
            (vec![span(0, 100, 1, Some("the other"))], flows)
        };
        let (first, second) = (waits(1, 2), waits(2, 1));
        let program = program([
            (MAIN, first.0, first.1),
            (WORKER, second.0, second.1),
            (DISK, vec![], vec![]),
        ]);
        let parts = program.path(MAIN, 0..100);
        assert!(parts.len() <= 2 * MAX_DEPTH + 2, "{}", parts.len());
    }

    #[test]
    fn spans_that_do_not_nest_leave_no_gap() {
        let program = program([
            (
                MAIN,
                vec![
                    span(0, 50, 1, None),
                    span(10, 70, 2, None),
                    span(40, 45, 3, None),
                    span(60, 60, 4, None),
                ],
                vec![],
            ),
            (WORKER, vec![], vec![]),
            (DISK, vec![], vec![]),
        ]);
        let sites: Vec<_> = path(&program, 5..80)
            .iter()
            .map(|row| (row.0, row.2))
            .collect();
        assert_eq!(sites, [(5, 1), (10, 2), (40, 3), (45, 2), (70, 0)]);
        assert_eq!(program.own_ticks(MAIN, 1), 55);
    }

    #[test]
    fn any_spans_and_flows_leave_no_gap() {
        use vor_fixtures::Random;
        use vor_fixtures::random::seeds;
        let (mut followed, mut most) = (0, 0);
        for seed in seeds(4_000) {
            let mut random = Random(seed);
            let mut random_below = |end| random.below(end) as u64;
            let mut thread = |id| {
                let spans = (0..random_below(12)).map(|_| {
                    let begin = random_below(100);
                    let wait = (random_below(2) == 0).then_some("it");
                    span(
                        begin,
                        begin + random_below(60),
                        random_below(9) as u32,
                        wait,
                    )
                });
                let spans = spans.collect();
                let stages = [FlowStage::Begin, FlowStage::Step, FlowStage::End];
                let flows = (0..random_below(20)).map(|_| {
                    let stage = stages[random_below(3) as usize];
                    point(random_below(120), random_below(6), stage)
                });
                (id, spans, flows.collect())
            };
            let program = program([thread(MAIN), thread(WORKER), thread(DISK)]);
            let parts = path(&program, 10..150);
            followed += usize::from(parts.iter().any(|part| part.1 != MAIN));
            most = most.max(parts.len());
        }
        assert!(
            followed > seeds(1_000).end as usize,
            "{followed} follow a wait"
        );
        assert!(most < 2_000, "{most} parts");
    }
}
