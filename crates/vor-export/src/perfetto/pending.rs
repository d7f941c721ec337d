//! Begins that wait until their parent is known.
//!
//! A viewer sorts events by time and keeps events of one nanosecond in file order. So a begin may
//! be written late, but not after the begin of a child in the same nanosecond. A span whose parent
//! has not ended could have a parent in its own nanosecond. Its begin waits as a *group*, together
//! with all events of that nanosecond within it. When the parent ends, it takes the groups of its
//! children: those of its own nanosecond follow its begin in its group, and the others are written.
//! A caller that knows the open scopes releases groups earlier ([`PendingGroups::settle`]).
//!
//! Groups are in order of their begins. If there are many, the older ones go to a [`Spill`].

use std::io;

use crate::spill::{Spill, Stack};

/// Most bytes of groups that stay in memory between batches: more than the recorder drains before
/// it reports the open scopes.
pub(super) const MAX_BYTES: usize = if cfg!(any(test, miri)) {
    1 << 12
} else {
    8 << 20
};

/// Groups that are read from the spill together.
const CHUNK_GROUPS: usize = 256;

/// Start, time and number of bytes of a group, after its events.
const TRAILER_BYTES: usize = 20;

/// Kind and number of bytes of an event, before its fields.
const EVENT_HEAD_BYTES: usize = 5;

/// A begin and all events of its nanosecond within it.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// The begin of its first span, in ticks.
    start_ticks: u64,
    /// The time of all its events.
    ns: u64,
    /// Number of bytes of its events.
    bytes: usize,
}

/// The events of a nanosecond. Each has a flag for references to texts, its number of bytes, and
/// its fields.
#[derive(Debug, Default)]
pub(super) struct Events(Vec<u8>);

impl Events {
    pub(super) fn push(&mut self, refers: bool, event: &[u8]) {
        put_event(&mut self.0, refers, event);
    }

    pub(super) fn append(&mut self, other: &Self) {
        self.0.extend_from_slice(&other.0);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

fn put_event(out: &mut Vec<u8>, refers: bool, event: &[u8]) {
    let [a, b, c, d] = (event.len() as u32).to_le_bytes();
    out.extend_from_slice(&[u8::from(refers), a, b, c, d]);
    out.extend_from_slice(event);
}

/// Calls `visit` with each event: whether it refers to texts, and its fields.
pub(super) fn each_event(mut events: &[u8], mut visit: impl FnMut(bool, &[u8])) {
    while let Some((&[refers, a, b, c, d], rest)) = events.split_first_chunk::<EVENT_HEAD_BYTES>() {
        let bytes = u32::from_le_bytes([a, b, c, d]) as usize;
        let Some((event, rest)) = rest.split_at_checked(bytes) else {
            return;
        };
        visit(refers != 0, event);
        events = rest;
    }
}

/// The groups of a thread.
#[derive(Debug, Default)]
pub(super) struct PendingGroups {
    /// Groups that began before all in `groups`.
    spilled: Stack,
    /// The last spilled group without its events, which was popped for a comparison.
    last_spilled: Option<Group>,
    groups: Vec<Group>,
    /// The events of `groups`, in the same order.
    events: Vec<u8>,
}

impl PendingGroups {
    /// Begins a group after all others.
    #[inline]
    pub(super) fn begin(&mut self, start_ticks: u64, ns: u64) {
        self.groups.push(Group {
            start_ticks,
            ns,
            bytes: 0,
        });
    }

    /// Adds an event to the last group.
    #[inline]
    pub(super) fn push(&mut self, refers: bool, event: &[u8]) {
        if let Some(last) = self.groups.last_mut() {
            put_event(&mut self.events, refers, event);
            last.bytes += EVENT_HEAD_BYTES + event.len();
        }
    }

    /// Adds events to the last group.
    pub(super) fn append(&mut self, events: &Events) {
        if let Some(last) = self.groups.last_mut() {
            self.events.extend_from_slice(&events.0);
            last.bytes += events.0.len();
        }
    }

    /// Adds an event that is not a span's edge after all events of its nanosecond in memory.
    /// Returns whether there are any.
    pub(super) fn insert(&mut self, ns: u64, event: &[u8]) -> bool {
        let later = self.groups.partition_point(|group| group.ns <= ns);
        let Some(group) = later.checked_sub(1).map(|at| &mut self.groups[at]) else {
            return false;
        };
        if group.ns != ns {
            return false;
        }
        group.bytes += EVENT_HEAD_BYTES + event.len();
        let mut bytes = Vec::new();
        put_event(&mut bytes, false, event);
        let later_bytes: usize = self.groups[later..].iter().map(|group| group.bytes).sum();
        let at = self.events.len() - later_bytes;
        self.events.splice(at..at, bytes);
        true
    }

    /// Returns the begin of the last group.
    pub(super) fn last_start_ticks(&mut self, spill: &mut Spill) -> io::Result<Option<u64>> {
        if let Some(last) = self.groups.last() {
            return Ok(Some(last.start_ticks));
        }
        Ok(self.peek_spilled(spill)?.map(|group| group.start_ticks))
    }

    /// Removes the groups that began at `start_ticks` or later, for a parent that began at `ns`.
    /// Groups of its nanosecond are appended to its events, and the others are released.
    pub(super) fn take_children(
        &mut self,
        spill: &mut Spill,
        (start_ticks, ns): (u64, u64),
        events: &mut Events,
        mut release: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        let mut take = |group: Group, of_group: &[u8]| {
            if group.ns == ns {
                events.0.extend_from_slice(of_group);
            } else {
                release(group.ns, of_group);
            }
        };
        let first = self
            .groups
            .partition_point(|group| group.start_ticks < start_ticks);
        if first == 0 {
            self.take_spilled(spill, start_ticks, &mut take)?;
        }
        let bytes: usize = self.groups[first..].iter().map(|group| group.bytes).sum();
        let begin = self.events.len() - bytes;
        let mut rest = &self.events[begin..];
        for group in self.groups.drain(first..) {
            let (of_group, later) = rest.split_at(group.bytes);
            take(group, of_group);
            rest = later;
        }
        self.events.truncate(begin);
        Ok(())
    }

    /// Releases all groups.
    pub(super) fn release_all(
        &mut self,
        spill: &mut Spill,
        release: impl FnMut(u64, &[u8]),
    ) -> io::Result<()> {
        // No group has the time `u64::MAX`.
        self.take_children(spill, (0, u64::MAX), &mut Events::default(), release)
    }

    /// Releases the groups in memory whose parent did not begin in their nanosecond.
    ///
    /// `open` has the starts of the thread's open scopes in ticks, ascending, and their times, as
    /// of `as_of_ticks`. All spans that ended by then must have been added.
    pub(super) fn settle(
        &mut self,
        as_of_ticks: u64,
        open: &[(u64, u64)],
        mut release: impl FnMut(u64, &[u8]),
    ) {
        let (mut remaining_groups, mut remaining_bytes, mut at) = (0, 0, 0);
        let mut open = open.iter().copied().peekable();
        let mut parent_ns = None;
        for i in 0..self.groups.len() {
            let group = self.groups[i];
            while let Some((_, ns)) = open.next_if(|&(start, _)| start <= group.start_ticks) {
                parent_ns = Some(ns);
            }
            let events = at..at + group.bytes;
            at = events.end;
            if group.start_ticks < as_of_ticks && parent_ns != Some(group.ns) {
                release(group.ns, &self.events[events]);
                continue;
            }
            self.groups[remaining_groups] = group;
            remaining_groups += 1;
            self.events.copy_within(events, remaining_bytes);
            remaining_bytes += group.bytes;
        }
        self.groups.truncate(remaining_groups);
        self.events.truncate(remaining_bytes);
    }

    /// Spills the older groups if there are many. Called before each batch: until then, the scopes
    /// that are open after the previous one may be reported.
    pub(super) fn bound(&mut self, spill: &mut Spill) -> io::Result<()> {
        let size = |events: &[u8], groups: &[Group]| events.len() + size_of_val(groups);
        if size(&self.events, &self.groups) <= MAX_BYTES {
            return Ok(());
        }
        if let Some(last) = self.last_spilled.take() {
            self.put_trailer(spill, last)?;
        }
        let older = self.groups.len().div_ceil(2);
        let mut begin = 0;
        for i in 0..older {
            let group = self.groups[i];
            self.spilled
                .push(spill, &self.events[begin..begin + group.bytes])?;
            self.put_trailer(spill, group)?;
            begin += group.bytes;
        }
        self.groups.drain(..older);
        self.events.drain(..begin);
        Ok(())
    }

    /// Returns the number of groups in memory, and their bytes.
    #[cfg(test)]
    pub(super) fn in_memory(&self) -> (usize, usize) {
        let bytes = self.events.len() + size_of_val(&*self.groups);
        (self.groups.len(), bytes)
    }

    fn put_trailer(&mut self, spill: &mut Spill, group: Group) -> io::Result<()> {
        let mut trailer = [0; TRAILER_BYTES];
        trailer[..8].copy_from_slice(&group.start_ticks.to_le_bytes());
        trailer[8..16].copy_from_slice(&group.ns.to_le_bytes());
        trailer[16..].copy_from_slice(&(group.bytes as u32).to_le_bytes());
        self.spilled.push(spill, &trailer)
    }

    fn peek_spilled(&mut self, spill: &mut Spill) -> io::Result<Option<Group>> {
        if self.last_spilled.is_none() {
            let length = self.spilled.pop(spill)?.map(u32::from_le_bytes);
            let ns = self.spilled.pop(spill)?.map(u64::from_le_bytes);
            let start = self.spilled.pop(spill)?.map(u64::from_le_bytes);
            if let (Some(start_ticks), Some(ns), Some(bytes)) = (start, ns, length) {
                self.last_spilled = Some(Group {
                    start_ticks,
                    ns,
                    bytes: bytes as usize,
                });
            }
        }
        Ok(self.last_spilled)
    }

    /// Removes the spilled groups that began at `start_ticks` or later. They arrive the last first,
    /// so they are reversed in chunks, and a chunk never ends within a nanosecond.
    fn take_spilled(
        &mut self,
        spill: &mut Spill,
        start_ticks: u64,
        mut take: impl FnMut(Group, &[u8]),
    ) -> io::Result<()> {
        let mut groups: Vec<(Group, Vec<u8>)> = Vec::new();
        loop {
            let next = self.peek_spilled(spill)?;
            let next = next.filter(|group| group.start_ticks >= start_ticks);
            let is_full = groups.len() >= CHUNK_GROUPS
                && groups.last().map(|(group, _)| group.ns) != next.map(|group| group.ns);
            if next.is_none() || is_full {
                for (group, events) in groups.drain(..).rev() {
                    take(group, &events);
                }
            }
            let Some(group) = next else { return Ok(()) };
            let mut events = Vec::with_capacity(group.bytes);
            self.spilled.pop_into(spill, group.bytes, &mut events)?;
            self.last_spilled = None;
            groups.push((group, events));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(event: &[u8]) -> u64 {
        u64::from_le_bytes(event.try_into().unwrap())
    }

    /// Makes groups of one event each, 10 ticks apart. Every seven share a nanosecond, and most are
    /// spilled.
    fn pending(spill: &mut Spill, groups: u64) -> PendingGroups {
        let mut pending = PendingGroups::default();
        for i in 0..groups {
            pending.begin(1_000 + i * 10, 500 + i / 7);
            pending.push(i % 2 == 0, &i.to_le_bytes());
            pending.bound(spill).unwrap();
            assert!(pending.events.len() + size_of_val(&*pending.groups) <= MAX_BYTES);
        }
        assert!(!pending.spilled.is_empty());
        pending
    }

    #[test]
    fn a_parent_takes_its_children_and_those_of_its_nanosecond_follow_it() {
        let mut spill = Spill::default();
        let mut pending = pending(&mut spill, 5_000);
        // The parent begins between the groups 700 and 701, which share a nanosecond with each
        // other and with the next five.
        let mut events = Events::default();
        events.push(true, &u64::MAX.to_le_bytes());
        let mut released = Vec::new();
        let release = |ns: u64, events: &[u8]| {
            each_event(events, |refers, event| {
                released.push((ns, refers, number(event)))
            });
        };
        pending
            .take_children(&mut spill, (8_005, 600), &mut events, release)
            .unwrap();
        let mut following = Vec::new();
        each_event(events.bytes(), |_, event| following.push(number(event)));
        assert_eq!(following, [u64::MAX, 701, 702, 703, 704, 705, 706]);
        // Groups of one nanosecond are in order, at any position among the others.
        let sorted = |mut released: Vec<(u64, bool, u64)>| {
            released.sort_by_key(|released| released.0);
            released
        };
        let expected = |groups: std::ops::Range<u64>| -> Vec<_> {
            groups.map(|i| (500 + i / 7, i % 2 == 0, i)).collect()
        };
        assert_eq!(sorted(released), expected(707..5_000));
        assert_eq!(pending.last_start_ticks(&mut spill).unwrap(), Some(8_000));
        let mut rest = Vec::new();
        pending
            .release_all(&mut spill, |ns, events| {
                each_event(events, |refers, event| {
                    rest.push((ns, refers, number(event)))
                });
            })
            .unwrap();
        assert_eq!(sorted(rest), expected(0..701));
        assert_eq!(pending.last_start_ticks(&mut spill).unwrap(), None);
    }

    /// Adds a group with an event of 8 bytes and as many more as needed for `bytes` bytes in all.
    fn add(pending: &mut PendingGroups, number: u64, ns: u64, bytes: usize) {
        let mut event = number.to_le_bytes().to_vec();
        event.resize(bytes - EVENT_HEAD_BYTES - size_of::<Group>(), 0);
        pending.begin(number, ns);
        pending.push(false, &event);
    }

    /// Releases all groups, and returns their times and numbers.
    fn released(pending: &mut PendingGroups, spill: &mut Spill) -> Vec<(u64, u64)> {
        let mut released = Vec::new();
        pending
            .release_all(spill, |ns, events| {
                each_event(events, |_, event| released.push((ns, number(&event[..8]))));
            })
            .unwrap();
        released
    }

    #[test]
    fn the_older_half_is_stored_when_there_are_more_bytes_than_allowed() {
        const GROUP_BYTES: usize = 64;
        let most = MAX_BYTES / GROUP_BYTES;
        let (mut pending, mut spill) = (PendingGroups::default(), Spill::default());
        for number in 0..most as u64 {
            add(&mut pending, number, number, GROUP_BYTES);
            pending.bound(&mut spill).unwrap();
        }
        assert_eq!(pending.in_memory(), (most, MAX_BYTES));
        assert!(pending.spilled.is_empty());
        add(&mut pending, most as u64, most as u64, GROUP_BYTES);
        pending.bound(&mut spill).unwrap();
        assert_eq!(pending.in_memory(), (most / 2, MAX_BYTES / 2));
        // The stored groups are too few for a chunk, and are released like many.
        let expected: Vec<_> = (0..=most as u64).map(|number| (number, number)).collect();
        assert_eq!(released(&mut pending, &mut spill), expected);
    }

    #[test]
    fn stored_groups_of_a_nanosecond_stay_in_order_however_many_they_are() {
        let (mut pending, mut spill) = (PendingGroups::default(), Spill::default());
        let count = 5 * CHUNK_GROUPS as u64;
        for number in 0..count {
            add(&mut pending, number, 500, 40);
            pending.bound(&mut spill).unwrap();
        }
        let expected: Vec<_> = (0..count).map(|number| (500, number)).collect();
        assert_eq!(released(&mut pending, &mut spill), expected);
    }

    #[test]
    fn stored_groups_are_released_in_ascending_chunks() {
        let (mut pending, mut spill) = (PendingGroups::default(), Spill::default());
        let count = 20 * CHUNK_GROUPS;
        for number in 0..count as u64 {
            add(&mut pending, number, number, 40);
            pending.bound(&mut spill).unwrap();
        }
        let released = released(&mut pending, &mut spill);
        assert_eq!(released.len(), count);
        let is_earlier = |pair: &&[(u64, u64)]| pair[1].0 < pair[0].0;
        let descents = released.windows(2).filter(is_earlier).count();
        // The steps between events of a chunk are small.
        assert!(descents <= count / CHUNK_GROUPS, "{descents}");
    }

    #[test]
    fn settling_retains_groups_that_may_have_a_parent_in_their_nanosecond() {
        let mut pending = PendingGroups::default();
        for i in 0..9 {
            pending.begin(100 + i * 10, 30 + i / 3);
            pending.push(false, &i.to_le_bytes());
        }
        assert!(pending.insert(31, &77_u64.to_le_bytes()) && !pending.insert(33, &[0; 8]));
        // One open scope began long before all, and one between the groups 4 and 5, in their
        // nanosecond. The last group is too new.
        let mut released = Vec::new();
        pending.settle(180, &[(5, 2), (145, 31)], |_, events| {
            each_event(events, |_, event| released.push(number(event)));
        });
        assert_eq!(released, [0, 1, 2, 3, 4, 6, 7]);
        let mut rest = Vec::new();
        pending
            .release_all(&mut Spill::default(), |ns, events| {
                each_event(events, |_, event| rest.push((ns, number(event))));
            })
            .unwrap();
        assert_eq!(rest, [(31, 5), (31, 77), (32, 8)]);
    }
}
