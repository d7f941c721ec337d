//! Payload of a heap record: the live memory at a moment.
//!
//! Stacks are sorted by their scopes, so that each stores only the difference to the one before it.

use crate::sort::sort_by;
use std::sync::Arc;

use super::wire::{Cursor, put_varint};
use crate::Error;
use crate::model::catalog::SiteId;
use crate::model::heap::{HeapMode, HeapScope, HeapSnapshot, HeapStack};

const MAX_STACKS: usize = 1 << 16;
/// Most scopes of one stack, and of all stacks of a record.
const MAX_DEPTH: usize = 256;
const MAX_SCOPES: usize = 1 << 18;
/// Most payload bytes of a writer.
const MAX_PAYLOAD_BYTES: usize = 3 << 20;
/// Most bytes of the numbers of a stack, and of a scope.
const NUMBER_BYTES: usize = 5 * 10 + 2 * 8;
const SITE_BYTES: usize = 5;

/// Appends a snapshot; where it is too large, without the stacks that have the fewest bytes.
pub(super) fn put(out: &mut Vec<u8>, snapshot: &HeapSnapshot) {
    let interval_bytes = match snapshot.mode {
        HeapMode::Sampled { interval_bytes } => interval_bytes.max(1),
        HeapMode::Exact | HeapMode::Off => 0,
    };
    let stacks = fitting(snapshot);
    let groups = || stacks.chunk_by(|a, b| has_same_scopes(a, b));
    put_varint(out, snapshot.ticks);
    put_varint(out, interval_bytes);
    put_varint(out, groups().count() as u64);
    let mut before: &[HeapScope] = &[];
    for group in groups() {
        let scopes = &group[0].scopes[..];
        let sum;
        let stack = if let [stack] = group {
            stack
        } else {
            sum = HeapStack::sum(group.iter().copied());
            &sum
        };
        let pairs = before.iter().zip(scopes);
        let shared = pairs.take_while(|(a, b)| a.site == b.site).count();
        put_varint(out, shared as u64);
        put_varint(out, (scopes.len() - shared) as u64);
        for scope in &scopes[shared..] {
            put_varint(out, u64::from(scope.site.0));
        }
        put_varint(out, stack.inuse_objects);
        put_varint(out, stack.inuse_bytes);
        if interval_bytes > 0 {
            put_varint(out, stack.samples);
            for error in [stack.objects_error, stack.bytes_error] {
                out.extend_from_slice(&error.to_bits().to_le_bytes());
            }
        }
        before = scopes;
    }
}

fn has_same_scopes(a: &HeapStack, b: &HeapStack) -> bool {
    a.sites().eq(b.sites())
}

/// Returns the stacks that fit into a record, sorted by their scopes.
fn fitting(snapshot: &HeapSnapshot) -> Vec<&HeapStack> {
    let (mut scopes, mut bytes) = (0, 0);
    let fits = |stack: &&HeapStack| {
        scopes += stack.scopes.len();
        bytes += NUMBER_BYTES + SITE_BYTES * stack.scopes.len();
        scopes <= MAX_SCOPES && bytes <= MAX_PAYLOAD_BYTES
    };
    let mut stacks: Vec<&HeapStack> = snapshot.stacks.iter().collect();
    sort_by(&mut stacks, |a, b| b.inuse_bytes.cmp(&a.inuse_bytes));
    stacks.retain(|stack| stack.scopes.len() <= MAX_DEPTH);
    let stacks = stacks.into_iter().take(MAX_STACKS).take_while(fits);
    sorted_by_scopes(stacks.collect())
}

fn sorted_by_scopes(mut stacks: Vec<&HeapStack>) -> Vec<&HeapStack> {
    sort_by(&mut stacks, |a, b| a.sites().cmp(b.sites()));
    stacks
}

/// Reads a snapshot, whose scopes have no names.
pub(super) fn get(cursor: &mut Cursor<'_>) -> Result<HeapSnapshot, Error> {
    let ticks = cursor.varint()?;
    let mode = match cursor.varint()? {
        0 => HeapMode::Exact,
        interval_bytes => HeapMode::Sampled { interval_bytes },
    };
    let count = cursor.count(4, MAX_STACKS)?;
    let mut room = MAX_SCOPES;
    let nameless = Arc::default();
    let mut path: Vec<SiteId> = Vec::new();
    let mut stacks = Vec::new();
    for _ in 0..count {
        let shared = cursor.varint()?;
        if shared > path.len() as u64 {
            return Err(Error::corrupt(format!(
                "a stack shares {shared} scopes with the one before it, which has {}",
                path.len()
            )));
        }
        path.truncate(shared as usize);
        let more = cursor.count(1, MAX_DEPTH - path.len())?;
        for _ in 0..more {
            path.push(SiteId(cursor.varint_u32()?));
        }
        room = room.checked_sub(path.len()).ok_or_else(|| {
            Error::corrupt(format!("the stacks have more than {MAX_SCOPES} scopes"))
        })?;
        let scope = |&site| HeapScope {
            site,
            info: Arc::clone(&nameless),
        };
        let mut stack = HeapStack {
            scopes: path.iter().map(scope).collect(),
            inuse_objects: cursor.varint()?,
            inuse_bytes: cursor.varint()?,
            ..HeapStack::default()
        };
        if mode != HeapMode::Exact {
            stack.samples = cursor.varint()?;
            stack.objects_error = f64::from_bits(cursor.u64()?);
            stack.bytes_error = f64::from_bits(cursor.u64()?);
        }
        stacks.push(stack);
    }
    // The stacks of a writer are sorted already.
    let by_scopes = sorted_by_scopes(stacks.iter().collect());
    if by_scopes
        .array_windows()
        .any(|[a, b]| has_same_scopes(a, b))
    {
        return Err(Error::corrupt("two stacks have the same scopes"));
    }
    let mut snapshot = HeapSnapshot {
        mode,
        ticks,
        stacks,
    };
    snapshot.sort();
    Ok(snapshot)
}
