//! The time axis of captures that are put together.
//!
//! The counter of a processor means the same to all programs since the machine was started, so
//! captures of one start are put together by their very ticks, whatever each recorder thought of
//! the time: one of them says what the ticks are. Where the counter is another one, the time since
//! the start of the machine is what they share. Different machines share nothing but the wall
//! clock.

use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, MachineInfo};
use vor_capture::model::timeline::Timeline;

use super::host;
use crate::command::source::Source;
use crate::command::units;

/// What the captures have in common.
#[derive(Clone, Debug)]
pub(super) enum Axis {
    /// The ticks of one start of a machine, and what they mean.
    Ticks {
        timeline: Arc<Timeline>,
        machine: Arc<MachineInfo>,
    },
    /// The time since one start of a machine.
    Boot { host: String },
    /// The wall clock.
    Wall {
        /// How far the time of a capture was from its own machine's wall clock at most.
        off_ns: u64,
        hosts: Vec<String>,
    },
}

impl Axis {
    /// Finds out what captures have in common.
    pub(super) fn of(sources: &[Source]) -> Self {
        let catalogs = || sources.iter().map(|source| source.capture.catalog());
        let machines = || catalogs().map(|catalog| &catalog.machine);
        let boot_id = machines().next().map_or("", |machine| &machine.boot_id);
        let is_one_start = !boot_id.is_empty()
            && machines().all(|machine| machine.boot_id == boot_id && machine.clocks.is_some());
        if is_one_start {
            // The longest recording knows the clock best.
            let longest = catalogs().max_by_key(|catalog| length_ticks(&catalog.timeline));
            if let Some(catalog) =
                longest.filter(|_| machines().all(|machine| machine.hardware_ticks))
            {
                return Self::Ticks {
                    timeline: Arc::clone(&catalog.timeline),
                    machine: Arc::clone(&catalog.machine),
                };
            }
            return Self::Boot {
                host: sources
                    .first()
                    .map_or(String::new(), |source| host(source).to_owned()),
            };
        }
        let mut hosts: Vec<String> = sources
            .iter()
            .map(|source| host(source).to_owned())
            .collect();
        hosts.sort_unstable();
        hosts.dedup();
        Self::Wall {
            off_ns: catalogs()
                .map(|catalog| off_ns(&catalog.timeline))
                .max()
                .unwrap_or(0),
            hosts,
        }
    }

    /// Gives a catalog the clock that the captures have in common.
    pub(super) fn place(&self, catalog: &mut Catalog) {
        match self {
            Self::Ticks { timeline, machine } => {
                catalog.timeline = Arc::clone(timeline);
                catalog.machine = Arc::clone(machine);
            }
            Self::Boot { .. } => {}
            // A trace of a machine whose clocks are not known counts by the wall clock.
            Self::Wall { .. } => Arc::make_mut(&mut catalog.machine).clocks = None,
        }
    }

    /// Returns whether captures have nothing in common but the wall clock.
    pub(super) fn is_wall(&self) -> bool {
        matches!(self, Self::Wall { .. })
    }

    /// Says how exact the axis is.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Ticks { machine, .. } => {
                format!(
                    "one start of {}: on one time axis, to the tick of its clock",
                    machine.host
                )
            }
            Self::Boot { host } => {
                format!("one start of {host}: on one time axis, to about a microsecond")
            }
            Self::Wall { off_ns, hosts } => format!(
                "put together by the wall clocks of {}: each capture is within {} of its own machine's; how far these clocks were apart is not known",
                hosts.join(", "),
                units::duration(*off_ns as f64)
            ),
        }
    }
}

fn length_ticks(timeline: &Timeline) -> u64 {
    let syncs = timeline.syncs();
    match (syncs.first(), syncs.last()) {
        (Some(first), Some(last)) => last.ticks - first.ticks,
        _ => 0,
    }
}

/// Returns how far a recording's time was from the wall clock at most, in nanoseconds.
fn off_ns(timeline: &Timeline) -> u64 {
    let syncs = timeline.syncs().iter();
    syncs
        .map(|sync| sync.wall_ns.abs_diff(sync.unix_ns))
        .max()
        .unwrap_or(0)
}
