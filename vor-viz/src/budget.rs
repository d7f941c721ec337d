//! The time that a frame may take: set by the user, or found from the frames.
//!
//! Frames of a program that draws have about the period of a display, and the next worse is to miss
//! one. Frames of other programs are compared with the usual one: twice as long is slow, four times
//! is bad.

use egui::{ComboBox, Ui};
use vor_capture::units;

use crate::bars::{MAX_SORTED, Thresholds, rounded_up};
use crate::replay::Summary;
use crate::store::Store;

/// Refresh rates of displays, in hertz.
const RATES: [f64; 10] = [
    240.0, 165.0, 144.0, 120.0, 100.0, 90.0, 75.0, 60.0, 50.0, 30.0,
];

/// The rates in the menu.
const OFFERED: [f64; 6] = [240.0, 144.0, 120.0, 90.0, 60.0, 30.0];

/// How much longer or shorter the usual frame may be than the period of a display that it follows,
/// as a share of it: a display is waited for, so frames are hardly longer.
const LONGER: f64 = 0.02;
const SHORTER: f64 = 0.08;

/// The time that a frame may take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum FrameBudget {
    /// The period of the display that the frames follow, else twice the usual time.
    #[default]
    Adaptive,
    /// These limits.
    Fixed(Thresholds),
}

impl From<Thresholds> for FrameBudget {
    fn from(thresholds: Thresholds) -> Self {
        Self::Fixed(thresholds)
    }
}

/// The budget of a panel, and its limits for the frames that it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    chosen: FrameBudget,
    limits: Thresholds,
    /// The source of the limits: a capture or a store, and its rounded number of frames.
    of: Option<(bool, u64)>,
}

impl Budget {
    pub(crate) fn new(chosen: FrameBudget) -> Self {
        Self {
            chosen,
            limits: match chosen {
                FrameBudget::Adaptive => Thresholds::default(),
                FrameBudget::Fixed(limits) => limits,
            },
            of: None,
        }
    }

    pub(crate) fn limits(&self) -> Thresholds {
        self.limits
    }

    /// Finds the limits again where there are many more frames than before. `summary` is of a
    /// capture.
    pub(crate) fn update(&mut self, store: &Store, summary: Option<&Summary>) {
        if self.chosen != FrameBudget::Adaptive {
            return;
        }
        let frames = match summary {
            Some(summary) => summary.durations_ms().len() as u64,
            // Of a running program, the numbers of its frames go on.
            None => store.id_at(store.frames().len()).0,
        };
        let of = Some((summary.is_some(), rounded(frames)));
        if self.of == of || frames == 0 {
            return;
        }
        self.of = of;
        self.limits = adaptive(match summary {
            Some(summary) => {
                let durations = summary.durations_ms();
                let step = durations.len().div_ceil(MAX_SORTED).max(1);
                let sample = (0..durations.len()).step_by(step);
                sample.filter_map(|frame| durations.get(frame)).collect()
            }
            None => {
                let step = store.frames().len().div_ceil(MAX_SORTED).max(1);
                let frames = store.frames().iter().step_by(step);
                let durations_ms = frames.map(|frame| frame.duration_ms() as f32);
                durations_ms.filter(|ms| !ms.is_nan()).collect()
            }
        });
    }

    /// Shows the menu of budgets.
    pub(crate) fn menu(&mut self, ui: &mut Ui) {
        let text = |ms: f64| units::duration(ms * 1e6);
        let combo = ComboBox::from_id_salt("vor budget")
            .selected_text(format!("Budget: {}", text(self.limits.good)))
            .show_ui(ui, |ui| {
                let is_it = self.chosen == FrameBudget::Adaptive;
                let label = ui.selectable_label(is_it, "adaptive").on_hover_text(
                    "The period of a display that the frames follow, else twice the usual time",
                );
                if label.clicked() {
                    *self = Self::new(FrameBudget::Adaptive);
                }
                for rate in OFFERED {
                    let limits = of_rate(rate);
                    let is_it = self.chosen == FrameBudget::Fixed(limits);
                    let name = format!("{rate} per second ({})", text(limits.good));
                    if ui.selectable_label(is_it, name).clicked() {
                        *self = Self::new(limits.into());
                    }
                }
                let mut good = self.limits.good;
                let speed = good * 0.01;
                let field = egui::DragValue::new(&mut good)
                    .range(0.001..=1e6)
                    .speed(speed)
                    .suffix(" ms");
                if ui.add(field).changed() {
                    let warn = 2.0 * good;
                    *self = Self::new(Thresholds { good, warn }.into());
                }
            });
        combo
            .response
            .on_hover_text(
                "The time that a frame may take: a longer one is yellow, and red from twice",
            )
            .accessible_name("frame budget");
    }
}

/// Returns a number that changes with a quarter more frames.
fn rounded(frames: u64) -> u64 {
    let bits = u64::BITS - frames.leading_zeros();
    let step = bits.saturating_sub(3);
    frames >> step << step
}

fn of_rate(rate: f64) -> Thresholds {
    let good = 1000.0 / rate;
    Thresholds {
        good,
        warn: 2.0 * good,
    }
}

/// Returns the limits for frames with these durations, in milliseconds; NaN stands for a lost one.
fn adaptive(mut durations_ms: Vec<f32>) -> Thresholds {
    durations_ms.retain(|ms| ms.is_finite() && *ms > 0.0);
    if durations_ms.is_empty() {
        return Thresholds::default();
    }
    let middle = durations_ms.len() / 2;
    let usual_ms = f64::from(
        *durations_ms
            .select_nth_unstable_by(middle, f32::total_cmp)
            .1,
    );
    let longer = |rate: &f64| usual_ms * rate / 1000.0 - 1.0;
    let near = RATES.into_iter();
    let near = near.filter(|rate| (-SHORTER..=LONGER).contains(&longer(rate)));
    match near.min_by(|one, other| longer(one).abs().total_cmp(&longer(other).abs())) {
        Some(rate) => of_rate(rate),
        None => Thresholds {
            good: rounded_up(2.0 * usual_ms),
            warn: rounded_up(4.0 * usual_ms),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(durations_ms: &[f32]) -> f64 {
        let limits = adaptive(durations_ms.to_vec());
        assert!(limits.warn > limits.good);
        limits.good
    }

    #[test]
    fn frames_near_the_period_of_a_display_have_its_budget() {
        for (usual_ms, rate) in [
            (16.7, 60.0),
            (16.2, 60.0),
            (6.95, 144.0),
            (8.4, 120.0),
            (33.0, 30.0),
        ] {
            // A few long frames change nothing.
            let durations = [usual_ms, usual_ms * 1.01, usual_ms, 80.0, usual_ms * 0.99];
            assert_eq!(good(&durations), 1000.0 / rate, "{usual_ms} ms");
        }
    }

    #[test]
    fn other_frames_have_twice_the_usual_time() {
        assert_eq!(good(&[1.0, 1.0, 3.0]), 2.0);
        assert_eq!(good(&[100.0, 90.0, 110.0, f32::NAN, 0.0]), 200.0);
        // Longer than the period of 50 Hz by more than a display would cause.
        assert_eq!(good(&[21.5, 21.0, 22.0]), 50.0);
        assert_eq!(good(&[]), 1000.0 / 60.0);
        assert_eq!(good(&[f32::NAN]), 1000.0 / 60.0);
    }

    #[test]
    fn limits_are_found_again_with_a_quarter_more_frames() {
        assert_eq!(rounded(0), 0);
        assert_eq!((rounded(7), rounded(8), rounded(9)), (7, 8, 8));
        assert_eq!(
            (rounded(1000), rounded(1023), rounded(1024)),
            (896, 896, 1024)
        );
        assert_eq!(rounded(u64::MAX), 7 << 61);
    }
}
