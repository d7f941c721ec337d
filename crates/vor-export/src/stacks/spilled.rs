//! Waiting subtrees outside of memory's row: as bytes, in the order in which they began.
//!
//! A subtree is its nodes, each before its children and its next sibling, then its total, then its
//! start and the number of those bytes. So it can be read from the end. A node is its frame, two
//! bits that mark children and a next sibling, and its weight.

use std::io;

use super::{NONE, Stacks, Subtrees, Weight};
use crate::proto::put_varint;
use crate::spill::Stack;

/// The waiting subtrees of a thread that are stored as bytes.
#[derive(Debug, Default)]
pub(super) struct SpilledSubtrees {
    stack: Stack,
    /// Start and number of bytes of the last one. They are already popped off the stack, for
    /// comparisons.
    last: Option<(u64, u32)>,
    /// Memory for the bytes of one subtree.
    bytes: Vec<u8>,
}

const START_BYTES: usize = 8;
const LENGTH_BYTES: usize = 4;

const HAS_BELOW: u64 = 1;
const HAS_NEXT: u64 = 2;

impl SpilledSubtrees {
    pub(super) fn is_empty(&self) -> bool {
        self.last.is_none() && self.stack.is_empty()
    }

    /// Stores subtrees that began after all stored ones, and frees their nodes. Returns the number
    /// of these nodes.
    pub(super) fn put<V: Weight>(
        &mut self,
        stacks: &mut Stacks<V>,
        subtrees: Subtrees<V>,
    ) -> io::Result<usize> {
        if let Some((start_ticks, length)) = self.last.take() {
            self.put_end(stacks, start_ticks, length)?;
        }
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        let nodes = stacks.put_list(subtrees.first, &mut bytes);
        put_weight(&mut bytes, subtrees.total);
        self.stack.push(&mut stacks.spill, &bytes)?;
        // Far fewer than 2^32: that many distinct stacks would exhaust the memory first.
        let length = bytes.len() as u32;
        self.bytes = bytes;
        self.put_end(stacks, subtrees.start_ticks, length)?;
        Ok(nodes)
    }

    fn put_end<V>(
        &mut self,
        stacks: &mut Stacks<V>,
        start_ticks: u64,
        length: u32,
    ) -> io::Result<()> {
        let spill = &mut stacks.spill;
        self.stack.push(spill, &start_ticks.to_le_bytes())?;
        self.stack.push(spill, &length.to_le_bytes())
    }

    /// Takes the last subtrees back if they began at `start_ticks` or later, with the number of
    /// their nodes.
    pub(super) fn take_from<V: Weight>(
        &mut self,
        stacks: &mut Stacks<V>,
        start_ticks: u64,
    ) -> io::Result<Option<(Subtrees<V>, usize)>> {
        if self.last.is_none() {
            let length = self.stack.pop::<LENGTH_BYTES>(&mut stacks.spill)?;
            let start = self.stack.pop::<START_BYTES>(&mut stacks.spill)?;
            let (start, length) = (
                start.map(u64::from_le_bytes),
                length.map(u32::from_le_bytes),
            );
            self.last = start.zip(length);
        }
        let Some((start, length)) = self.last.take_if(|(start, _)| *start >= start_ticks) else {
            return Ok(None);
        };
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        self.stack
            .pop_into(&mut stacks.spill, length as usize, &mut bytes)?;
        let mut rest = bytes.as_slice();
        let (first, nodes) = stacks.read_list(&mut rest);
        let subtrees = Subtrees {
            start_ticks: start,
            total: weight(&mut rest),
            first,
        };
        self.bytes = bytes;
        Ok(Some((subtrees, nodes)))
    }
}

impl<V: Weight> Stacks<V> {
    /// Appends a list of siblings with everything below them, and frees the nodes. Returns the
    /// number of these nodes.
    fn put_list(&mut self, first: u32, out: &mut Vec<u8>) -> usize {
        let mut nodes = 0;
        let mut lists = vec![first];
        put_varint(out, u64::from(first != NONE));
        while let Some(at) = lists.pop() {
            if at == NONE {
                continue;
            }
            let node = self.nodes[at as usize];
            let below = if node.below == NONE { 0 } else { HAS_BELOW };
            let next = if node.next == NONE { 0 } else { HAS_NEXT };
            put_varint(out, u64::from(node.frame) << 2 | below | next);
            put_weight(out, node.own);
            lists.extend([node.next, node.below]);
            self.free_node(at);
            nodes += 1;
        }
        nodes
    }

    /// Restores a list. Returns its first node and the number of nodes.
    fn read_list(&mut self, bytes: &mut &[u8]) -> (u32, usize) {
        /// Where the next node is attached.
        enum Place {
            First,
            Below(u32),
            Next(u32),
        }
        let (mut first, mut nodes) = (NONE, 0);
        let mut places = Vec::new();
        if varint(bytes) != 0 {
            places.push(Place::First);
        }
        while let Some(place) = places.pop() {
            let head = varint(bytes);
            let at = self.take((head >> 2) as u32);
            nodes += 1;
            self.nodes[at as usize].own = weight(bytes);
            match place {
                Place::First => first = at,
                Place::Below(parent) => self.nodes[parent as usize].below = at,
                Place::Next(before) => self.nodes[before as usize].next = at,
            }
            if head & HAS_NEXT != 0 {
                places.push(Place::Next(at));
            }
            if head & HAS_BELOW != 0 {
                places.push(Place::Below(at));
            }
        }
        (first, nodes)
    }
}

fn put_weight<V: Weight>(out: &mut Vec<u8>, weight: V) {
    let _ = weight.each(weight, |number, _| {
        put_varint(out, number);
        number
    });
}

fn weight<V: Weight>(bytes: &mut &[u8]) -> V {
    V::default().each(V::default(), |_, _| varint(bytes))
}

/// Reads a number that [`put_varint`] wrote; reads zeros after the end.
fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    while let Some((&byte, rest)) = bytes.split_first() {
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 || shift > 63 {
            break;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_read_back() {
        let mut numbers: Vec<u64> = (0..64).map(|bits| 1 << bits).collect();
        numbers.extend((0..64).map(|bits| u64::MAX >> bits));
        numbers.push(0);
        let mut bytes = Vec::new();
        for &number in &numbers {
            put_varint(&mut bytes, number);
        }
        let mut rest = bytes.as_slice();
        for &number in &numbers {
            assert_eq!(varint(&mut rest), number);
        }
        assert!(rest.is_empty());
        assert_eq!(varint(&mut rest), 0, "zeros follow the end");
    }
}
