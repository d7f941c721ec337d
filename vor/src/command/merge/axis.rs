//! The time axis of merged captures.
//!
//! All programs of one boot read the same time-stamp counter, so their captures are aligned by its
//! ticks, regardless of how each recorder converted them to time: the timeline of one capture holds
//! for all. With another counter, they share the time since boot. Different machines share only the
//! wall clock.

use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, MachineInfo};
use vor_capture::model::timeline::Timeline;
use vor_capture::units;

use super::host;
use crate::command::source::Source;

/// The clock that the captures have in common.
#[derive(Clone, Debug)]
pub(super) enum Axis {
    /// The ticks of one boot of a machine, and their timeline.
    Ticks {
        timeline: Arc<Timeline>,
        machine: Arc<MachineInfo>,
    },
    /// The time since one boot of a machine.
    Boot { host: String },
    /// The wall clock.
    Wall {
        /// The largest distance of a capture's time from the wall clock of its own machine.
        off_ns: u64,
        hosts: Vec<String>,
    },
}

impl Axis {
    /// Finds the clock that captures have in common.
    pub(super) fn of(sources: &[Source]) -> Self {
        let catalogs = || sources.iter().map(|source| source.capture.catalog());
        let machines = || catalogs().map(|catalog| &catalog.machine);
        let boot_id = machines().next().map_or("", |machine| &machine.boot_id);
        let is_one_boot = !boot_id.is_empty()
            && machines().all(|machine| machine.boot_id == boot_id && machine.clocks.is_some());
        if is_one_boot {
            // The longest recording measured the clock most exactly.
            let longest = catalogs().max_by_key(|catalog| duration_ticks(&catalog.timeline));
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

    /// Gives a catalog the common clock.
    pub(super) fn place(&self, catalog: &mut Catalog) {
        match self {
            Self::Ticks { timeline, machine } => {
                catalog.timeline = Arc::clone(timeline);
                catalog.machine = Arc::clone(machine);
            }
            Self::Boot { .. } => {}
            // The trace of a machine with unknown clocks uses the wall clock.
            Self::Wall { .. } => Arc::make_mut(&mut catalog.machine).clocks = None,
        }
    }

    /// Returns whether the captures share only the wall clock.
    pub(super) fn is_wall(&self) -> bool {
        matches!(self, Self::Wall { .. })
    }

    /// Describes how the captures are aligned, and how exactly.
    pub(super) fn describe(&self) -> String {
        match self {
            Self::Ticks { machine, .. } => {
                format!(
                    "one boot of {}: aligned to the tick of its clock",
                    machine.host
                )
            }
            Self::Boot { host } => {
                format!("one boot of {host}: aligned to about a microsecond")
            }
            Self::Wall { off_ns, hosts } => format!(
                "aligned by the wall clocks of {}: \
                 each capture is within {} of its own machine's clock; \
                 the difference between the clocks is unknown",
                hosts.join(", "),
                units::duration(*off_ns as f64)
            ),
        }
    }
}

fn duration_ticks(timeline: &Timeline) -> u64 {
    let syncs = timeline.syncs();
    match (syncs.first(), syncs.last()) {
        (Some(first), Some(last)) => last.ticks - first.ticks,
        _ => 0,
    }
}

/// Returns the largest distance of a recording's time from the wall clock, in nanoseconds.
fn off_ns(timeline: &Timeline) -> u64 {
    let syncs = timeline.syncs().iter();
    syncs
        .map(|sync| sync.wall_ns.abs_diff(sync.unix_ns))
        .max()
        .unwrap_or(0)
}
