//! A thread in a trace: its track, and the two sequences of packets whose events stand on it.
//!
//! Most events are written as they come, on the first sequence. Begins that are [held
//! back](super::held) come on the second one when they are released, which has a clock of its own:
//! so the times of either go on in small steps.

use std::io;

use super::held::{Events, Held, each_event};
use super::names::Name;
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
    held: Held,
    /// The nanosecond of the last group that is held, while nothing later came.
    held_ns: Option<u64>,
    /// How many scopes are open at this place of a block.
    depth: usize,
    /// The events of a late begin's nanosecond, and those of the one within it.
    events: Events,
    inner: Events,
}

/// A begin: when it is, and what it says.
pub(super) struct Begin<'a, F> {
    pub(super) ticks: u64,
    pub(super) ns: u64,
    /// The number of its name, and the name.
    pub(super) name: (usize, &'a Name),
    /// Appends its arguments, where it has any.
    pub(super) args: Option<F>,
}

impl<F: Fn(&mut Vec<u8>)> Begin<'_, F> {
    /// Hands the `track_event` to `take`, with its key and length.
    fn event(&self, take: impl FnOnce(&[u8])) {
        let name = self.name.1;
        match &self.args {
            None if name.body_bytes > 0 => take(&name.body[..name.body_bytes]),
            args => {
                let mut event = Vec::new();
                put_message(&mut event, packet::TRACK_EVENT, |out| {
                    name.put_begin(out);
                    if let Some(args) = args {
                        args(out);
                    }
                });
                take(&event);
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
            held: Held::default(),
            held_ns: None,
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

    /// Says which thread of which process it is, and what it is called.
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
        self.held.bound(spill)
    }

    /// Begins a block of edges that are in order among themselves. Returns when the last begin was
    /// that is held: begins that are not later belong around it.
    pub(super) fn begin_block(&mut self, spill: &mut Spill) -> io::Result<Option<u64>> {
        self.held_ns = None;
        self.depth = 0;
        self.inner.clear();
        self.held.last_start_ticks(spill)
    }

    /// Takes a begin that is around what is held. Those of a block come the innermost first, before
    /// all else of it; the last of them is `is_outermost`.
    pub(super) fn put_late_begin(
        &mut self,
        out: &mut Vec<u8>,
        spill: &mut Spill,
        begin: &Begin<'_, impl Fn(&mut Vec<u8>)>,
        is_outermost: bool,
    ) -> io::Result<()> {
        let Self {
            late,
            held,
            events,
            inner,
            ..
        } = self;
        late.learn(out, begin.name.0, begin.name.1);
        events.clear();
        begin.event(|event| events.push(true, event));
        let mut release = |ns: u64, events: &[u8]| {
            each_event(events, |refers, event| {
                late.put_event(out, ns, refers, event)
            });
        };
        held.take_children(spill, (begin.ticks, begin.ns), events, &mut release)?;
        match self.held_ns {
            Some(ns) if ns == begin.ns => events.append(inner),
            Some(ns) => release(ns, inner.bytes()),
            None => {}
        }
        self.held_ns = Some(begin.ns);
        self.depth += 1;
        if is_outermost {
            held.begin(begin.ticks, begin.ns);
            held.append(events);
        } else {
            std::mem::swap(events, inner);
        }
        Ok(())
    }

    /// Takes a begin in its turn.
    #[inline]
    pub(super) fn put_span_begin(
        &mut self,
        out: &mut Vec<u8>,
        begin: &Begin<'_, impl Fn(&mut Vec<u8>)>,
    ) {
        let (index, name) = begin.name;
        if self.depth == 0 {
            self.held.begin(begin.ticks, begin.ns);
            self.held_ns = Some(begin.ns);
        }
        self.depth += 1;
        if self.held_ns == Some(begin.ns) {
            self.late.learn(out, index, name);
            begin.event(|event| self.held.push(true, event));
            return;
        }
        self.held_ns = None;
        self.spans.learn(out, index, name);
        match &begin.args {
            None if name.body_bytes > 0 => self.spans.put_span_begin(out, name, begin.ns),
            _ => begin.event(|event| self.spans.put_event(out, begin.ns, true, event)),
        }
    }

    /// Takes the end of the innermost span that is open at that time.
    #[inline]
    pub(super) fn put_span_end(&mut self, out: &mut Vec<u8>, ns: u64) {
        self.depth = self.depth.saturating_sub(1);
        if self.held_ns == Some(ns) {
            return self.held.push(false, &END_BODY);
        }
        self.held_ns = None;
        self.spans.put_span_end(out, ns);
    }

    /// Takes an event that is no span's edge, and refers to no text; `fields` appends what it says.
    /// It comes behind the edges of its nanosecond.
    pub(super) fn put_point(
        &mut self,
        out: &mut Vec<u8>,
        ns: u64,
        fields: impl FnOnce(&mut Vec<u8>),
    ) {
        let mut event = Vec::new();
        put_message(&mut event, packet::TRACK_EVENT, fields);
        if !self.held.insert(ns, &event) {
            self.spans.put_point(out, ns, &event);
        }
    }

    /// Writes the begins that are held although nothing that is open can be around them in their
    /// nanosecond. `open` are the starts of open scopes in ticks and their times.
    pub(super) fn settle(&mut self, out: &mut Vec<u8>, as_of_ticks: u64, open: &[(u64, u64)]) {
        let late = &mut self.late;
        self.held.settle(as_of_ticks, open, |ns, events| {
            each_event(events, |refers, event| {
                late.put_event(out, ns, refers, event)
            });
        });
    }

    /// Writes all that is held.
    pub(super) fn put_held(
        &mut self,
        spill: &mut Spill,
        mut put: impl FnMut(&mut Sequence, u64, bool, &[u8]),
    ) -> io::Result<()> {
        let late = &mut self.late;
        self.held.release_all(spill, |ns, events| {
            each_event(events, |refers, event| put(late, ns, refers, event));
        })
    }
}
