//! The order of a table's rows, which is computed only when its inputs have changed.

use std::cmp::Ordering;

use super::grid::Sort;

/// Which rows are shown, from top to bottom.
#[derive(Clone, Debug, Default)]
pub(crate) struct RowOrder {
    /// The rows' generation, the sorted column and the filter.
    inputs: Option<(u64, Sort, String)>,
    shown: Vec<usize>,
}

impl RowOrder {
    /// Returns the indices of the shown rows.
    pub(crate) fn shown(&self) -> &[usize] {
        &self.shown
    }

    /// Stores the inputs of the order, and returns whether they have changed. Then no row is shown
    /// until [`fill`](Self::fill).
    pub(crate) fn restart(&mut self, generation: u64, sort: Sort, filter: &str) -> bool {
        let holds = |(of, by, text): &(u64, Sort, String)| {
            *of == generation && *by == sort && text == filter
        };
        if self.inputs.as_ref().is_some_and(holds) {
            return false;
        }
        self.inputs = Some((generation, sort, filter.to_owned()));
        self.shown.clear();
        true
    }

    /// Shows the rows that pass the filter, which is in lower case, in the order of the sorted
    /// column, whose number `order` gets. Ties have the order of `tie` in either direction.
    pub(crate) fn fill<R>(
        &mut self,
        rows: &[R],
        passes: impl Fn(&R, &str) -> bool,
        order: impl Fn(usize, &R, &R) -> Ordering,
        tie: impl Fn(&R, &R) -> Ordering,
    ) {
        let Some((_, sort, filter)) = &self.inputs else {
            return;
        };
        let filter = filter.trim().to_lowercase();
        let found = (0..rows.len()).filter(|&i| passes(&rows[i], &filter));
        self.shown.extend(found);
        self.shown.sort_by(|&a, &b| {
            let (a, b) = (&rows[a], &rows[b]);
            let order = order(sort.column, a, b);
            let order = if sort.descending {
                order.reverse()
            } else {
                order
            };
            order.then_with(|| tie(a, b))
        });
    }
}
