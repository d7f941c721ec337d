//! One sort for all tables that are short or rarely sorted.
//!
//! The standard library's sort is compiled anew for each type and order, some 2000 lines of LLVM's
//! intermediate code each time, which everyone who builds the crate pays for. [`sort_by`] merges
//! positions, whatever the type, and then moves the items.

use std::cmp::Ordering;

/// Sorts like [`slice::sort_by`]: stable, and slower per item.
///
/// # Examples
///
/// ```
/// use vor_capture::sort::sort_by;
///
/// let mut words = ["queue", "a", "be", "c"];
/// sort_by(&mut words, |a, b| a.len().cmp(&b.len()));
/// assert_eq!(words, ["a", "c", "be", "queue"]);
/// ```
pub fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    // Also the usual case: most tables are made in order.
    if items.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return;
    }
    let mut from = sorted(items.len(), &|a, b| compare(&items[a], &items[b]));
    for place in 0..items.len() {
        // An item that was moved away from its place is where that place's item came from.
        let mut source = from[place];
        while source < place {
            source = from[source];
        }
        from[place] = source;
        items.swap(place, source);
    }
}

/// Returns the positions of `count` items in their order, by merges of ever longer runs.
fn sorted(count: usize, compare: &dyn Fn(usize, usize) -> Ordering) -> Vec<usize> {
    let mut positions: Vec<usize> = (0..count).collect();
    let mut merged = positions.clone();
    let mut run = 1;
    while run < count {
        for start in (0..count).step_by(2 * run) {
            let middle = count.min(start + run);
            let end = count.min(middle + run);
            let (mut left, mut right) = (start, middle);
            for place in &mut merged[start..end] {
                let is_right_next = left == middle
                    || right < end && compare(positions[right], positions[left]).is_lt();
                let next = if is_right_next { &mut right } else { &mut left };
                *place = positions[*next];
                *next += 1;
            }
        }
        std::mem::swap(&mut positions, &mut merged);
        run *= 2;
    }
    positions
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_the_standard_library(
            mut items in proptest::collection::vec((0_u8..20, any::<u16>()), 0..200),
        ) {
            let mut expected = items.clone();
            expected.sort_by_key(|&(key, _)| key);
            sort_by(&mut items, |a, b| a.0.cmp(&b.0));
            prop_assert_eq!(items, expected);
        }
    }
}
