//! Finds the cards that the process may use, from `CUDA_VISIBLE_DEVICES`.
//!
//! The variable is a list of numbers, of unique identifiers (`GPU-…`, which may be shortened as
//! long as they are unique), or of parts of a card (`MIG-…`). An invalid entry ends the list, and a
//! duplicate entry makes all cards invisible. Rows are numbered as in CUDA, by the position in the
//! list.
//!
//! Numbers are positions on the bus. CUDA counts this way with `CUDA_DEVICE_ORDER=PCI_BUS_ID`, and
//! always if all cards are alike. CUDA's default order begins with the fastest card, which only
//! CUDA itself knows. A list of identifiers is exact everywhere.

/// A card, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Visible {
    /// The card of this number on the bus.
    Card(usize),
    /// The part of a card with this identifier.
    Part(String),
}

/// Returns the visible cards for the variable's value, in its order. `uuids` are those of all
/// cards, in bus order; unreadable ones are empty.
pub(super) fn visible(variable: Option<&str>, uuids: &[String]) -> Vec<Visible> {
    let Some(list) = variable else {
        return (0..uuids.len()).map(Visible::Card).collect();
    };
    let mut seen: Vec<Visible> = Vec::new();
    for entry in list.split(',') {
        let Some(found) = parse_entry(entry.trim(), uuids) else {
            break;
        };
        if seen.contains(&found) {
            return Vec::new();
        }
        seen.push(found);
    }
    seen
}

fn parse_entry(entry: &str, uuids: &[String]) -> Option<Visible> {
    if entry.starts_with("MIG-") {
        return Some(Visible::Part(entry.to_owned()));
    }
    if entry.starts_with("GPU-") {
        let mut matching = uuids
            .iter()
            .enumerate()
            .filter(|(_, uuid)| uuid.starts_with(entry));
        let (number, _) = matching.next()?;
        return matching.next().is_none().then_some(Visible::Card(number));
    }
    let number: usize = entry.parse().ok()?;
    (number < uuids.len()).then_some(Visible::Card(number))
}

#[cfg(test)]
mod tests {
    use super::Visible::{Card, Part};
    use super::*;

    fn cards(list: &str) -> Vec<Visible> {
        visible(
            Some(list),
            &["GPU-aa-1".into(), "GPU-ab-2".into(), "GPU-b-3".into()],
        )
    }

    #[test]
    fn without_the_variable_all_are_visible() {
        assert_eq!(
            visible(None, &[String::new(), String::new()]),
            [Card(0), Card(1)]
        );
        assert_eq!(visible(None, &[]), []);
    }

    #[test]
    fn cards_come_in_the_order_of_the_list() {
        assert_eq!(cards("2, 0"), [Card(2), Card(0)]);
        assert_eq!(cards("GPU-b,GPU-aa-1"), [Card(2), Card(0)]);
        assert_eq!(cards("1,MIG-x/1/2"), [Card(1), Part("MIG-x/1/2".into())]);
    }

    #[test]
    fn a_meaningless_entry_ends_the_list() {
        for (list, expected) in [
            ("", 0),
            ("-1", 0),
            ("1,-1,2", 1),
            ("0,3,1", 1),
            ("0,x", 1),
            ("GPU-a", 0),
            ("GPU-c,0", 0),
            ("0,,1", 1),
            ("99999999999999999999", 0),
            ("0,1,GPU-aa", 0),
            ("NoDevFiles", 0),
        ] {
            assert_eq!(cards(list).len(), expected, "{list}");
        }
    }
}
