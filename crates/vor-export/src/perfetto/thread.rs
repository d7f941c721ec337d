//! A thread in a trace: its track, and the two sequences of packets with its events.
//!
//! The first sequence has most events, in order of arrival. The second one has the
//! [pending](super::pending) begins, in order of release. Each sequence has its own clock, so the
//! times of both advance in small steps.

use std::io;

use super::names::Name;
use super::pending::{Events, PendingGroups, each_event};
use super::schema::{PACKET, packet, track};
use super::sequence::{END_BODY, Sequence};
use crate::proto::{put_i64, put_message, put_str, put_u64};
use crate::spill::Spill;

/// A thread in the trace.
#[derive(Debug)]
pub(super) struct Thread {
    pub(super) track_uuid: u64,
    pub(super) label: String,
    pub(super) tid: u64,
    spans: Sequence,
    late: Sequence,
    pending: PendingGroups,
    /// The nanosecond of the last pending group, until a later event arrives.
    pending_ns: Option<u64>,
    /// The number of open scopes at the current position of a block.
    depth: usize,
    /// The events of a late begin's nanosecond, and those of the late begin within it.
    events: Events,
    inner: Events,
}

/// The begin of a span.
pub(super) struct Begin<'a, F> {
    pub(super) ticks: u64,
    pub(super) ns: u64,
    /// The index of its name, and the name.
    pub(super) name: (usize, &'a Name),
    /// Appends its arguments; `None` without arguments.
    pub(super) args: Option<F>,
}

impl<F: Fn(&mut Vec<u8>)> Begin<'_, F> {
    /// Calls `write` with the `track_event`, which includes its key and length.
    fn event(&self, write: impl FnOnce(&[u8])) {
        let name = self.name.1;
        match &self.args {
            None => write(&name.body[..name.body_bytes]),
            Some(args) => {
                let mut event = Vec::new();
                put_message(&mut event, packet::TRACK_EVENT, |out| {
                    name.put_begin(out);
                    args(out);
                });
                write(&event);
            }
        }
    }
}

impl Thread {
    /// Makes a thread whose sequences have the number `sequence` and the next one.
    pub(super) fn new(sequence: u32, track_uuid: u64, tid: u64) -> Self {
        Self {
            track_uuid,
            label: String::new(),
            tid,
            spans: Sequence::new(sequence),
            late: Sequence::new(sequence + 1),
            pending: PendingGroups::default(),
            pending_ns: None,
            depth: 0,
            events: Events::default(),
            inner: Events::default(),
        }
    }

    /// Begins the sequences.
    pub(super) fn put_begin(&mut self, out: &mut Vec<u8>, now_ns: u64) {
        self.spans.put_begin(out, self.track_uuid, now_ns);
        self.late.put_begin(out, self.track_uuid, now_ns);
    }

    /// Writes the thread's process, number and name.
    pub(super) fn put_descriptor(&self, out: &mut Vec<u8>, process_uuid: u64, pid: u32) {
        put_message(out, PACKET, |out| {
            put_u64(out, packet::SEQUENCE_ID, u64::from(self.spans.id));
            put_message(out, packet::TRACK_DESCRIPTOR, |out| {
                put_u64(out, track::UUID, self.track_uuid);
                put_u64(out, track::PARENT_UUID, process_uuid);
                put_message(out, track::THREAD, |out| {
                    put_i64(out, track::THREAD_PID, i64::from(pid));
                    put_u64(out, track::THREAD_TID, self.tid);
                    put_str(out, track::THREAD_NAME, &self.label);
                });
            });
        });
    }

    /// Begins a batch.
    pub(super) fn begin_batch(&mut self, spill: &mut Spill) -> io::Result<()> {
        self.pending.bound(spill)
    }

    /// Begins a block of sorted edges. Returns the start of the last pending begin: begins that are
    /// not later enclose it.
    pub(super) fn begin_block(&mut self, spill: &mut Spill) -> io::Result<Option<u64>> {
        self.pending_ns = None;
        self.depth = 0;
        self.inner.clear();
        self.pending.last_start_ticks(spill)
    }

    /// Adds a begin that encloses pending begins. In a block such begins come before all other
    /// edges, the innermost first; the last one is `is_outermost`.
    pub(super) fn put_late_begin(
        &mut self,
        out: &mut Vec<u8>,
        spill: &mut Spill,
        begin: &Begin<'_, impl Fn(&mut Vec<u8>)>,
        is_outermost: bool,
    ) -> io::Result<()> {
        let Self {
            late,
            pending,
            events,
            inner,
            ..
        } = self;
        late.define(out, begin.name.0, begin.name.1);
        events.clear();
        begin.event(|event| events.push(true, event));
        let mut release = |ns: u64, events: &[u8]| {
            each_event(events, |refers, event| {
                late.put_event(out, ns, refers, event)
            });
        };
        pending.take_children(spill, (begin.ticks, begin.ns), events, &mut release)?;
        match self.pending_ns {
            Some(ns) if ns == begin.ns => events.append(inner),
            Some(ns) => release(ns, inner.bytes()),
            None => {}
        }
        self.pending_ns = Some(begin.ns);
        self.depth += 1;
        if is_outermost {
            pending.begin(begin.ticks, begin.ns);
            pending.append(events);
        } else {
            std::mem::swap(events, inner);
        }
        Ok(())
    }

    /// Adds a begin in order of time.
    #[inline]
    pub(super) fn put_span_begin(
        &mut self,
        out: &mut Vec<u8>,
        begin: &Begin<'_, impl Fn(&mut Vec<u8>)>,
    ) {
        let (index, name) = begin.name;
        if self.depth == 0 {
            self.pending.begin(begin.ticks, begin.ns);
            self.pending_ns = Some(begin.ns);
        }
        self.depth += 1;
        if self.pending_ns == Some(begin.ns) {
            self.late.define(out, index, name);
            begin.event(|event| self.pending.push(true, event));
            return;
        }
        self.pending_ns = None;
        self.spans.define(out, index, name);
        match &begin.args {
            None => self.spans.put_span_begin(out, name, begin.ns),
            Some(_) => begin.event(|event| self.spans.put_event(out, begin.ns, true, event)),
        }
    }

    /// Adds the end of the innermost open span.
    #[inline]
    pub(super) fn put_span_end(&mut self, out: &mut Vec<u8>, ns: u64) {
        self.depth = self.depth.saturating_sub(1);
        if self.pending_ns == Some(ns) {
            return self.pending.push(false, &END_BODY);
        }
        self.pending_ns = None;
        self.spans.put_span_end(out, ns);
    }

    /// Adds an event that is not a span's edge and refers to no text. `fields` appends its fields.
    /// It follows the edges of its nanosecond.
    pub(super) fn put_point(
        &mut self,
        out: &mut Vec<u8>,
        ns: u64,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut event = Vec::new();
        put_message(&mut event, packet::TRACK_EVENT, fields);
        if !self.pending.insert(ns, &event) {
            self.spans.put_point(out, ns, &event);
        }
    }

    /// Writes the pending begins that no open scope can enclose in their nanosecond. `open` has the
    /// starts of open scopes in ticks, and their times.
    pub(super) fn settle(&mut self, out: &mut Vec<u8>, as_of_ticks: u64, open: &[(u64, u64)]) {
        let late = &mut self.late;
        self.pending.settle(as_of_ticks, open, |ns, events| {
            each_event(events, |refers, event| {
                late.put_event(out, ns, refers, event)
            });
        });
    }

    /// Writes all pending begins.
    pub(super) fn put_pending(
        &mut self,
        spill: &mut Spill,
        mut put: impl FnMut(&mut Sequence, u64, bool, &[u8]),
    ) -> io::Result<()> {
        let late = &mut self.late;
        self.pending.release_all(spill, |ns, events| {
            each_event(events, |refers, event| put(late, ns, refers, event));
        })
    }
}

#[cfg(test)]
mod tests {
    use vor_capture::model::catalog::{Catalog, SiteId};

    use super::*;
    use crate::perfetto::names::Names;
    use crate::perfetto::pending::MAX_BYTES;

    type NoArgs = fn(&mut Vec<u8>);

    fn begin(names: &Names, ticks: u64) -> Begin<'_, NoArgs> {
        Begin {
            ticks,
            ns: ticks,
            name: (0, names.get(0)),
            args: None,
        }
    }

    fn names() -> Names {
        let mut names = Names::default();
        assert_eq!(names.index(&Catalog::default(), SiteId(1)), 0);
        names
    }

    #[test]
    fn pending_begins_are_bounded_before_each_batch() {
        let (names, mut spill, mut out) = (names(), Spill::default(), Vec::new());
        let mut thread = Thread::new(1, 9, 9);
        let mut most = 0;
        for batch in 0..100 {
            thread.begin_batch(&mut spill).unwrap();
            let (_, bytes) = thread.pending.in_memory();
            assert!(bytes <= MAX_BYTES);
            thread.begin_block(&mut spill).unwrap();
            for span in 0..10 {
                let ticks = batch * 1_000 + span * 10;
                thread.put_span_begin(&mut out, &begin(&names, ticks));
                thread.put_span_end(&mut out, ticks + 5);
            }
            most = most.max(bytes);
        }
        assert!(most > MAX_BYTES / 2, "many begins are pending");
    }

    #[test]
    fn only_the_outermost_begin_is_pending_even_if_it_came_late() {
        let (names, mut spill, mut out) = (names(), Spill::default(), Vec::new());
        let mut thread = Thread::new(1, 9, 9);
        thread.begin_block(&mut spill).unwrap();
        thread.put_span_begin(&mut out, &begin(&names, 500));
        thread.put_span_end(&mut out, 510);
        assert_eq!(thread.pending.in_memory().0, 1);
        // Two scopes around it end in a later block, in which the inner one has another child.
        thread.begin_block(&mut spill).unwrap();
        for (ticks, is_outermost) in [(400, false), (300, true)] {
            let begin = begin(&names, ticks);
            thread
                .put_late_begin(&mut out, &mut spill, &begin, is_outermost)
                .unwrap();
        }
        assert_eq!(thread.pending.in_memory().0, 1);
        thread.put_span_begin(&mut out, &begin(&names, 600));
        thread.put_span_end(&mut out, 610);
        thread.put_span_end(&mut out, 700);
        thread.put_span_end(&mut out, 800);
        assert_eq!(thread.pending.in_memory().0, 1);
        thread.put_span_begin(&mut out, &begin(&names, 900));
        assert_eq!(thread.pending.in_memory().0, 2, "the next outermost one");
    }
}
