//! The shortest paths between the places of a grid, and how often each place is on one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The places of a side of the grid.
const SIDE: usize = 20;

struct Grid {
    costs: Vec<u64>,
}

#[hotpath::measure_all]
impl Grid {
    fn new(seed: u64) -> Self {
        let costs = (0..SIDE * SIDE)
            .map(|place| 1 + hash(place as u64 + seed) % 9)
            .collect();
        Self { costs }
    }

    fn distances(&self, from: usize) -> Vec<u64> {
        let mut distances = vec![u64::MAX; self.costs.len()];
        let mut open = BinaryHeap::from([(Reverse(0), from)]);
        distances[from] = 0;
        while let Some((Reverse(distance), place)) = open.pop() {
            if distance > distances[place] {
                continue;
            }
            for next in Self::neighbours(place) {
                let longer = distance + self.costs[next];
                if longer < distances[next] {
                    distances[next] = longer;
                    open.push((Reverse(longer), next));
                }
            }
        }
        distances
    }

    #[hotpath::skip]
    fn neighbours(place: usize) -> impl Iterator<Item = usize> {
        let (row, column) = (place / SIDE, place % SIDE);
        [
            (row.wrapping_sub(1), column),
            (row + 1, column),
            (row, column.wrapping_sub(1)),
            (row, column + 1),
        ]
        .into_iter()
        .filter(|&(row, column)| row < SIDE && column < SIDE)
        .map(|(row, column)| row * SIDE + column)
    }
}

fn hash(value: u64) -> u64 {
    value.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

#[hotpath::measure]
fn farthest(distances: &[u64]) -> usize {
    (0..distances.len())
        .max_by_key(|&place| distances[place])
        .unwrap_or(0)
}

/// Goes from place to place, each time to the farthest.
#[hotpath::measure(label = "tour")]
fn walk(grid: &Grid, steps: usize) -> u64 {
    let mut place = 0;
    let mut length = 0;
    for _ in 0..steps {
        let distances = grid.distances(place);
        place = farthest(&distances);
        length += hotpath::measure_block!("add up", { distances[place] });
    }
    length
}

#[hotpath::main]
fn main() {
    let mut length = 0;
    for seed in 0..5 {
        length += walk(&Grid::new(seed), 12);
    }
    eprintln!("walked {length}");
}
