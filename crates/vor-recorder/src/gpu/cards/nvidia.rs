//! NVIDIA's cards: which there are, and what becomes of what they say.

use super::latest;
use super::nvml::{self, Answer, Gpu};
use super::poller::asking;
use super::rows::{Pace, Row};
use super::tell_why_none;
use super::visible;
use crate::clock;
use crate::os::report;
use crate::os::system;

/// The visible cards, at least one, and what was told of them.
#[derive(Debug)]
pub struct Cards {
    cards: Vec<(Gpu, Reported)>,
    /// Whose turn it is to be asked for PCIe, of both directions of each.
    turn: usize,
}

/// What was told of a card, each once: on stderr, and which rows it does not have to who looks for
/// that.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    lost: bool,
    troubled: bool,
    absent: bool,
}

impl Cards {
    /// Loads the driver's library and finds the visible cards; `None` where there are none.
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
            latest::begin(cards.len());
            Ok(Self { cards, turn: 0 })
        });
        found.map_err(|reason| tell_why_none(&reason)).ok()
    }

    pub(super) fn count(&self) -> usize {
        self.cards.len()
    }

    /// Asks all cards for what changes quickly; looks for those that were lost where `retries` says
    /// so.
    pub fn ask_fast(&mut self, retries: bool) {
        for (number, (gpu, told)) in self.cards.iter_mut().enumerate() {
            asking(|| {
                if gpu.is_lost() && !(retries && gpu.find()) {
                    return tell_lost(gpu, told);
                }
                let answer = gpu.ask_fast();
                settle(number, gpu, told, &[Pace::Fast], answer);
            });
        }
    }

    /// Asks all cards for what changes slowly.
    pub fn ask_slow(&mut self) {
        let of = self.cards.len();
        // By then each was asked for everything.
        let has_asked_all = self.turn >= 2 * of;
        for (number, (gpu, told)) in self.cards.iter_mut().enumerate() {
            if gpu.is_lost() {
                continue;
            }
            asking(|| {
                let answer = gpu.ask_slow();
                // What is counted needs no turn.
                let paces: &[Pace] = if gpu.counts_pcie() {
                    &[Pace::Slow, Pace::Turns]
                } else {
                    &[Pace::Slow]
                };
                settle(number, gpu, told, paces, answer);
            });
            if has_asked_all && !gpu.is_lost() && !std::mem::replace(&mut told.absent, true) {
                let name = |row: Row| row.names(number, of).swap_remove(0);
                let absent = gpu.absent().map(|(row, why)| (name(row), why.to_owned()));
                if let Some(absent) = system::describe_absent(absent) {
                    report::detail(&format!("{}: {absent}", gpu.name()));
                }
            }
        }
    }

    /// Asks the next card for what takes long: one direction of PCIe.
    pub fn take_turn(&mut self) {
        let (number, is_receiving) = (self.turn / 2 % self.cards.len(), self.turn % 2 == 1);
        self.turn = self.turn.wrapping_add(1);
        let card = self.cards.get_mut(number);
        if let Some((gpu, told)) = card.filter(|(gpu, _)| !gpu.is_lost() && !gpu.counts_pcie()) {
            asking(|| {
                let answer = gpu.ask_pcie(is_receiving);
                settle(number, gpu, told, &[Pace::Turns], answer);
            });
        }
    }
}

/// Leaves what a card said where frames find it, and tells of what went wrong, once each.
fn settle(number: usize, gpu: &mut Gpu, told: &mut Reported, paces: &[Pace], answer: Answer) {
    match answer {
        Answer::Told => (),
        Answer::Troubled => {
            if !std::mem::replace(&mut told.troubled, true)
                && let Some(error) = &gpu.error
            {
                report::line(&format!(
                    "{}: the driver could not answer: {error}; such rows are left out",
                    gpu.name()
                ));
            }
        }
        Answer::Lost => {
            tell_lost(gpu, told);
            return latest::silence(number);
        }
    }
    for pace in paces {
        latest::publish(number, *pace, &gpu.values, gpu.energy_mj, clock::ticks());
    }
}

fn tell_lost(gpu: &Gpu, told: &mut Reported) {
    if !std::mem::replace(&mut told.lost, true) {
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
