//! The numbers that the program gave the frames of a capture.
//!
//! A program that keeps all frames numbers them from 0, in steps of one; one that keeps each tenth
//! has steps of ten. So the numbers are stored as runs of equal steps, which are few:
//!
//! ```text
//! places   0  1  2 │ 3    4    5 │ …
//! numbers  0  1  2 │ 40  50   60 │
//! runs     (0, 0, 1) (3, 40, 10)       (first place, its number, step)
//! ```

/// Maximum number of runs. The numbers of frames beyond the last run continue it.
const MAX_RUNS: usize = 1 << 21;

#[derive(Clone, Copy, Debug)]
struct Run {
    first_place: u64,
    first_number: u64,
    step: u64,
}

impl Run {
    fn number(&self, place: u64) -> u64 {
        let steps = place.saturating_sub(self.first_place);
        self.first_number
            .saturating_add(steps.saturating_mul(self.step))
    }
}

/// The numbers of the frames of a capture, by their places in it.
#[derive(Clone, Debug, Default)]
pub struct FrameNumbers {
    runs: Vec<Run>,
}

impl FrameNumbers {
    /// Adds the number of the frame after those so far; `None` of a lost one, which gets the one
    /// that is due.
    pub(super) fn push(&mut self, place: u64, number: Option<u64>) {
        let due = self.number(place);
        let number = number.unwrap_or(due);
        if number == due && !self.runs.is_empty() {
            return;
        }
        if let Some(run) = self.runs.last_mut()
            && run.first_place + 1 == place
            && number > run.first_number
        {
            run.step = number - run.first_number;
        } else if self.runs.len() < MAX_RUNS {
            self.runs.push(Run {
                first_place: place,
                first_number: number,
                step: 1,
            });
        }
    }

    /// Returns the number of the frame at a place, or the one that is due there.
    #[must_use]
    pub fn number(&self, place: u64) -> u64 {
        let runs = self.runs.partition_point(|run| run.first_place <= place);
        match runs.checked_sub(1) {
            Some(at) => self.runs[at].number(place),
            None => place,
        }
    }

    /// Returns the place of the frame with a number, or of the next one that there is. Beyond the
    /// last frame it is the place that is due.
    #[must_use]
    pub fn place(&self, number: u64) -> u64 {
        // Numbers ascend, unless the capture is damaged or hostile.
        let runs = self.runs.partition_point(|run| run.first_number <= number);
        let Some(at) = runs.checked_sub(1) else {
            return if self.runs.is_empty() { number } else { 0 };
        };
        let run = &self.runs[at];
        let steps = (number - run.first_number).div_ceil(run.step);
        let place = run.first_place.saturating_add(steps);
        let next = self.runs.get(at + 1);
        next.map_or(place, |next| place.min(next.first_place))
    }

    /// Returns whether the number of each frame is its place.
    #[must_use]
    pub fn are_places(&self) -> bool {
        let is_plain = |run: &Run| run.first_number == run.first_place && run.step == 1;
        self.runs.iter().all(is_plain)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn numbers(all: impl IntoIterator<Item = u64>) -> FrameNumbers {
        let mut numbers = FrameNumbers::default();
        for (place, number) in (0..).zip(all) {
            numbers.push(place, Some(number));
        }
        numbers
    }

    #[test]
    fn equal_steps_are_one_run() {
        assert_eq!(numbers(0..1_000).runs.len(), 1);
        assert!(numbers(0..1_000).are_places() && numbers([]).are_places());
        let each_tenth = numbers((500..9_000).step_by(10));
        assert_eq!(each_tenth.runs.len(), 1);
        assert!(!each_tenth.are_places());
        assert_eq!((each_tenth.number(3), each_tenth.place(531)), (530, 4));
        assert_eq!((each_tenth.place(7), each_tenth.place(10_500)), (0, 1_000));
    }

    #[test]
    fn a_lost_frame_has_the_number_that_is_due() {
        let mut numbers = numbers([10, 20]);
        numbers.push(2, None);
        numbers.push(3, Some(40));
        assert_eq!(numbers.runs.len(), 1);
        assert_eq!((numbers.number(2), numbers.place(40)), (30, 3));
        let mut lost = FrameNumbers::default();
        lost.push(0, None);
        assert_eq!((lost.number(0), lost.are_places()), (0, true));
    }

    proptest! {
        #[test]
        fn numbers_are_those_that_were_pushed(
            steps in prop::collection::vec(prop_oneof![3 => Just(1_u64), 1 => 1..5_u64], 1..200),
            first in 0..50_u64,
        ) {
            let all: Vec<u64> = steps
                .iter()
                .scan(first, |number, step| Some(std::mem::replace(number, *number + step)))
                .collect();
            let numbers = numbers(all.iter().copied());
            for (place, number) in all.iter().enumerate() {
                prop_assert_eq!(numbers.number(place as u64), *number);
            }
            for number in 0..=all[all.len() - 1] {
                let place = all.partition_point(|known| *known < number);
                prop_assert_eq!(numbers.place(number), place as u64);
            }
        }

        #[test]
        fn numbers_in_any_order_do_not_panic(all in prop::collection::vec(any::<u64>(), 0..50)) {
            let numbers = numbers(all.iter().copied());
            for number in all {
                let _ = (numbers.place(number), numbers.number(number));
            }
        }
    }
}
