//! NVIDIA's cards: the visible ones, and the publication of their values.

use super::latest;
use super::nvml::{self, Answer, Gpu};
use super::poller::call_driver;
use super::report_no_rows;
use super::rows::{Pace, Row};
use super::visible;
use crate::clock;
use crate::os::report;
use crate::os::system;

/// The visible cards, at least one, and the reports about each.
#[derive(Debug)]
pub struct Cards {
    cards: Vec<(Gpu, Reported)>,
    /// Index of the next card and direction whose PCIe is polled.
    turn: usize,
}

/// The reports about a card that were made, each at most once: on stderr, and its absent rows in
/// detailed messages.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    lost: bool,
    failed: bool,
    absent: bool,
}

impl Cards {
    /// Loads the driver's library and finds the visible cards; `None` if there are none.
    pub fn find() -> Option<Self> {
        let found = nvml::load().and_then(|nvml| {
            let uuids = nvml::uuids(nvml)?;
            let list = std::env::var_os("CUDA_VISIBLE_DEVICES");
            let list = list.as_ref().map(|list| list.to_string_lossy());
            let visible = visible::visible(list.as_deref(), &uuids);
            if visible.is_empty() {
                let by = list.map(|list| format!(" with CUDA_VISIBLE_DEVICES `{list}`"));
                let by = by.unwrap_or_default();
                return Err(match uuids.len() {
                    0 => "the driver finds no GPU".to_owned(),
                    count => format!("none of {count} GPUs is visible{by}"),
                });
            }
            let card = |visible| (Gpu::new(nvml, visible, &uuids), Reported::default());
            let cards: Vec<_> = visible.into_iter().map(card).collect();
            latest::reset(cards.len());
            Ok(Self { cards, turn: 0 })
        });
        found.map_err(|reason| report_no_rows(&reason)).ok()
    }

    pub(super) fn count(&self) -> usize {
        self.cards.len()
    }

    /// Looks for lost cards.
    pub fn find_lost(&mut self) {
        for (gpu, _) in self.cards.iter_mut().filter(|(gpu, _)| gpu.is_lost()) {
            call_driver(|| gpu.find());
        }
    }

    /// Polls the quickly changing rows of all cards.
    pub fn poll_fast(&mut self) {
        for (number, (gpu, reported)) in self.cards.iter_mut().enumerate() {
            call_driver(|| {
                if gpu.is_lost() {
                    return report_lost(gpu, reported);
                }
                let answer = gpu.poll_fast();
                publish(number, gpu, reported, &[Pace::Fast], answer);
            });
        }
    }

    /// Reads the energy counters of all cards.
    pub fn poll_energy(&mut self) {
        for (number, (gpu, reported)) in self.cards.iter_mut().enumerate() {
            if gpu.is_lost() {
                continue;
            }
            call_driver(|| {
                let answer = gpu.poll_energy();
                publish(number, gpu, reported, &[], answer);
                latest::count_energy(number, gpu.energy_mj, clock::ticks());
            });
        }
    }

    /// Polls the slowly changing rows of all cards.
    pub fn poll_slow(&mut self) {
        let of = self.cards.len();
        // By then each row has been polled once.
        let has_polled_all = self.turn >= 2 * of;
        for (number, (gpu, reported)) in self.cards.iter_mut().enumerate() {
            if gpu.is_lost() {
                continue;
            }
            call_driver(|| {
                let answer = gpu.poll_slow();
                // Counters are read with the slow rows.
                let paces: &[Pace] = if gpu.counts_pcie() {
                    &[Pace::Slow, Pace::RoundRobin]
                } else {
                    &[Pace::Slow]
                };
                publish(number, gpu, reported, paces, answer);
            });
            if has_polled_all && !gpu.is_lost() && !std::mem::replace(&mut reported.absent, true) {
                let name = |row: Row| row.names(number, of).swap_remove(0);
                let absent = gpu.absent().map(|(row, why)| (name(row), why.to_owned()));
                if let Some(absent) = system::describe_absent(absent) {
                    report::detail(&format!("{}: {absent}", gpu.name()));
                }
            }
        }
    }

    /// Polls the slow-to-read row of the next card: one direction of PCIe.
    pub fn poll_turn(&mut self) {
        let (number, is_receiving) = (self.turn / 2 % self.cards.len(), self.turn % 2 == 1);
        self.turn = self.turn.wrapping_add(1);
        let card = self.cards.get_mut(number);
        if let Some((gpu, reported)) = card.filter(|(gpu, _)| !gpu.is_lost() && !gpu.counts_pcie())
        {
            call_driver(|| {
                let answer = gpu.read_pcie(is_receiving);
                publish(number, gpu, reported, &[Pace::RoundRobin], answer);
            });
        }
    }
}

/// Publishes the values of a card, and reports each kind of failure once.
fn publish(number: usize, gpu: &mut Gpu, reported: &mut Reported, paces: &[Pace], answer: Answer) {
    match answer {
        Answer::Complete => (),
        Answer::Failed => {
            if !std::mem::replace(&mut reported.failed, true)
                && let Some(error) = &gpu.error
            {
                report::line(&format!(
                    "{}: the driver could not answer: {error}; such rows are left out",
                    gpu.name()
                ));
            }
        }
        Answer::Lost => {
            report_lost(gpu, reported);
            return latest::clear_values(number);
        }
    }
    for pace in paces {
        latest::publish(number, *pace, &gpu.values, clock::ticks());
    }
}

fn report_lost(gpu: &Gpu, reported: &mut Reported) {
    if !std::mem::replace(&mut reported.lost, true) {
        let error = gpu
            .error
            .as_ref()
            .map(|error| format!(": {error}"))
            .unwrap_or_default();
        report::line(&format!(
            "{} is lost{error}; it has no rows until it is back",
            gpu.name()
        ));
    }
}
