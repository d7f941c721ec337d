//! The events of a page of the kernel's ring buffer.
//!
//! A page begins with the time of its first event and the length of its data. Each event has a
//! header of 32 bits: a length or a type in the low five, and the time since the event before it in
//! the others. The layout is the kernel's (`Documentation/trace/ring-buffer-map.rst`, and
//! `events/header_event` beside the buffers).

/// Types of events that hold no data of a tracepoint; a type below these is the length of the data
/// in words of four bytes.
const TYPE_PADDING: u32 = 29;
const TYPE_TIME_EXTEND: u32 = 30;
const TYPE_TIME_STAMP: u32 = 31;

/// Bits of a header that are the type, and of a time that the header holds.
const TYPE_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
/// The highest bits of a time, which an absolute time stamp has no room for.
const TOP_BITS: u64 = 0xf800_0000_0000_0000;

/// Bits of the length: the length itself, whether events before the page were lost, and whether
/// their number follows the data.
const LENGTH: u64 = 0xf_ffff;
const LOST: u64 = 1 << 31;
const LOST_COUNTED: u64 = 1 << 30;

/// The offsets of the parts of a page, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageHeader {
    pub(super) commit_at: usize,
    pub(super) data_at: usize,
}

/// An event of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageEvent<'a> {
    pub(super) ticks: u64,
    pub(super) data: &'a [u8],
}

/// A page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Page<'a> {
    ticks: u64,
    data: &'a [u8],
    lost_events: u64,
}

impl<'a> Page<'a> {
    /// Finds the parts of a page; one that is too short has no events.
    pub(super) fn new(bytes: &'a [u8], header: PageHeader) -> Self {
        let rest = bytes.get(header.data_at..).unwrap_or_default();
        let commit = u64_at(bytes, header.commit_at).unwrap_or(0);
        let length = (commit & LENGTH) as usize;
        let counted = u64_at(rest, length).filter(|_| commit & LOST_COUNTED != 0);
        Self {
            ticks: u64_at(bytes, 0).unwrap_or(0),
            data: &rest[..length.min(rest.len())],
            lost_events: counted.unwrap_or(u64::from(commit & LOST != 0)),
        }
    }

    /// Returns how many events the kernel dropped before this page: at least 1 if it cannot say.
    pub(super) fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// Returns the events.
    pub(super) fn events(&self) -> PageEvents<'a> {
        PageEvents {
            ticks: self.ticks,
            rest: self.data,
        }
    }
}

/// The events of a page, in their order. Damaged data ends them.
#[derive(Clone, Debug)]
pub(super) struct PageEvents<'a> {
    ticks: u64,
    rest: &'a [u8],
}

impl<'a> PageEvents<'a> {
    fn word(&mut self) -> Option<u32> {
        let (word, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_ne_bytes(*word))
    }

    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(bytes)
    }
}

impl<'a> Iterator for PageEvents<'a> {
    type Item = PageEvent<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let header = self.word()?;
            let (of_type, delta) = (
                header & ((1 << TYPE_BITS) - 1),
                u64::from(header >> TYPE_BITS),
            );
            match of_type {
                TYPE_PADDING if delta == 0 => return None,
                TYPE_PADDING => {
                    // An event that was discarded; its length includes the word that holds it.
                    let length = (self.word()? as usize).checked_sub(4)?;
                    self.ticks = self.ticks.wrapping_add(delta);
                    self.bytes(length)?;
                }
                TYPE_TIME_EXTEND => {
                    let high = u64::from(self.word()?) << DELTA_BITS;
                    self.ticks = self.ticks.wrapping_add(high + delta);
                }
                TYPE_TIME_STAMP => {
                    let high = u64::from(self.word()?) << DELTA_BITS;
                    self.ticks = (self.ticks & TOP_BITS) | (high + delta);
                }
                _ => {
                    let length = match of_type {
                        0 => (self.word()? as usize).checked_sub(4)?,
                        words => words as usize * 4,
                    };
                    self.ticks = self.ticks.wrapping_add(delta);
                    let data = self.bytes(length)?;
                    let ticks = self.ticks;
                    return Some(PageEvent { ticks, data });
                }
            }
        }
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u64::from_ne_bytes(*bytes))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: PageHeader = PageHeader {
        commit_at: 8,
        data_at: 16,
    };

    /// Builds pages as the kernel lays them out.
    struct Builder(Vec<u8>);

    impl Builder {
        fn event(mut self, of_type: u32, delta: u32, words: &[u32]) -> Self {
            let header = (delta << TYPE_BITS) | of_type;
            let words = [&[header], words].concat();
            self.0
                .extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            self
        }

        fn page(self, ticks: u64, flags: u64) -> Vec<u8> {
            let commit = self.0.len() as u64 | flags;
            let head = [ticks.to_ne_bytes(), commit.to_ne_bytes()].concat();
            [head, self.0].concat()
        }
    }

    fn found(page: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let events = Page::new(page, HEADER).events();
        events
            .map(|event| (event.ticks, event.data.to_vec()))
            .collect()
    }

    #[test]
    fn every_type_of_event_moves_the_time() {
        let page = Builder(Vec::new())
            .event(1, 5, &[7])
            .event(0, 10, &[12, 8, 9])
            .event(TYPE_TIME_EXTEND, 3, &[2])
            .event(1, 1, &[10])
            .event(TYPE_PADDING, 100, &[8, 0])
            .event(1, 0, &[11])
            .event(TYPE_TIME_STAMP, 4, &[1])
            .event(1, 1, &[12])
            .event(TYPE_PADDING, 0, &[])
            .event(1, 1, &[13])
            .page(TOP_BITS | 1000, 0);
        let extended = TOP_BITS + 1015 + (2 << DELTA_BITS) + 3;
        let word = |word: u32| word.to_ne_bytes().to_vec();
        let expected = [
            (TOP_BITS + 1005, word(7)),
            (TOP_BITS + 1015, [word(8), word(9)].concat()),
            (extended + 1, word(10)),
            (extended + 101, word(11)),
            (TOP_BITS | ((1 << DELTA_BITS) + 4 + 1), word(12)),
        ];
        assert_eq!(found(&page), expected);
    }

    #[test]
    fn lost_events_are_counted_where_the_kernel_has_room_to_say() {
        let event = || Builder(Vec::new()).event(1, 5, &[7]);
        let lost = |page: &[u8]| Page::new(page, HEADER).lost_events();
        assert_eq!(lost(&event().page(0, 0)), 0);
        assert_eq!(lost(&event().page(0, LOST)), 1);
        let counted = [
            event().page(0, LOST | LOST_COUNTED),
            300_u64.to_ne_bytes().to_vec(),
        ];
        assert_eq!(lost(&counted.concat()), 300);
        assert_eq!(found(&counted.concat()).len(), 1);
    }

    proptest! {
        #[test]
        fn random_bytes_end_the_events_and_never_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let page = Page::new(&bytes, HEADER);
            let events = page.events().map(|event| event.data.len() + 4);
            prop_assert!(events.sum::<usize>() <= bytes.len());
        }
    }
}
