//! The rows of a card: names, units and paces.

/// The rate at which a row is polled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Ten times a second.
    Fast,
    /// Once a second.
    Slow,
    /// In turns with other cards.
    RoundRobin,
}

/// A row of a card. MB are 10^6 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// Share of the time in which a kernel ran.
    Util,
    /// Power drawn.
    Power,
    /// Memory in use by all processes.
    Mem,
    /// Clock of the multiprocessors.
    Clock,
    /// Energy used in the frame. The card's value is its counter since the driver was loaded.
    Energy,
    /// Temperature of the chip.
    Temp,
    /// Total memory.
    MemTotal,
    /// Memory in use by this process.
    MemOwn,
    /// The enforced power limit.
    PowerLimit,
    /// Reasons for reduced clocks, as the bits of NVML.
    Throttle,
    /// 1 while power reduces the clocks.
    ThrottlePower,
    /// 1 while heat reduces the clocks.
    ThrottleThermal,
    /// Share of the time in which video was encoded.
    Encoder,
    /// Share of the time in which video was decoded.
    Decoder,
    /// Bytes over PCIe in both directions.
    Pcie,
    /// Bytes from the card.
    PcieTx,
    /// Bytes to the card.
    PcieRx,
    /// Share of the time in which a multiprocessor had a warp, on average.
    Sm,
    /// Active warps, as a share of the maximum.
    SmOccupancy,
    /// Share of the time in which tensor cores were busy.
    Tensor,
    /// Share of the memory's bandwidth that was used.
    Dram,
    /// Bytes over all NVLinks from the card.
    NvlinkTx,
    /// Bytes over all NVLinks to the card.
    NvlinkRx,
}

/// Number of rows.
pub(super) const COUNT: usize = Row::NvlinkRx as usize + 1;

/// All rows, in display order.
pub(super) const ALL: [Row; COUNT] = [
    Row::Util,
    Row::Power,
    Row::Mem,
    Row::Clock,
    Row::Energy,
    Row::Temp,
    Row::MemTotal,
    Row::MemOwn,
    Row::PowerLimit,
    Row::Throttle,
    Row::ThrottlePower,
    Row::ThrottleThermal,
    Row::Encoder,
    Row::Decoder,
    Row::Pcie,
    Row::PcieTx,
    Row::PcieRx,
    Row::Sm,
    Row::SmOccupancy,
    Row::Tensor,
    Row::Dram,
    Row::NvlinkTx,
    Row::NvlinkRx,
];

impl Row {
    /// Returns the last part of the row's name, the unit, and the pace.
    const fn described(self) -> (&'static str, &'static str, Pace) {
        match self {
            Self::Util => ("util", "%", Pace::Fast),
            Self::Power => ("power", "W", Pace::Fast),
            Self::Mem => ("mem", "MB", Pace::Fast),
            Self::Clock => ("clock", "MHz", Pace::Fast),
            Self::Energy => ("energy", "J", Pace::Fast),
            Self::Temp => ("temp", "°C", Pace::Slow),
            Self::MemTotal => ("mem_total", "MB", Pace::Slow),
            Self::MemOwn => ("mem_own", "MB", Pace::Slow),
            Self::PowerLimit => ("power_limit", "W", Pace::Slow),
            Self::Throttle => ("throttle", "", Pace::Slow),
            Self::ThrottlePower => ("throttle_power", "", Pace::Slow),
            Self::ThrottleThermal => ("throttle_thermal", "", Pace::Slow),
            Self::Encoder => ("encoder", "%", Pace::Slow),
            Self::Decoder => ("decoder", "%", Pace::Slow),
            Self::Pcie => ("pcie", "MB/s", Pace::RoundRobin),
            Self::PcieTx => ("pcie_tx", "MB/s", Pace::RoundRobin),
            Self::PcieRx => ("pcie_rx", "MB/s", Pace::RoundRobin),
            Self::Sm => ("sm", "%", Pace::Slow),
            Self::SmOccupancy => ("sm_occupancy", "%", Pace::Slow),
            Self::Tensor => ("tensor", "%", Pace::Slow),
            Self::Dram => ("dram", "%", Pace::Slow),
            Self::NvlinkTx => ("nvlink_tx", "MB/s", Pace::Slow),
            Self::NvlinkRx => ("nvlink_rx", "MB/s", Pace::Slow),
        }
    }

    pub(super) const fn unit(self) -> &'static str {
        self.described().1
    }

    pub(super) const fn pace(self) -> Pace {
        self.described().2
    }

    /// Returns the row's names for card `number` of `of` visible cards.
    ///
    /// A single card has no number. If there are several, the first one also has the names of
    /// 0.2.1, so that tools which show those show them on every machine.
    pub(super) fn names(self, number: usize, of: usize) -> Vec<String> {
        let (name, _, _) = self.described();
        let plain = match self {
            // The name of 0.2.1.
            Self::Pcie => name.to_owned(),
            _ => format!("gpu_{name}"),
        };
        if of == 1 {
            return vec![plain];
        }
        let is_old = matches!(
            self,
            Self::Util | Self::Power | Self::Mem | Self::Temp | Self::Clock | Self::Pcie
        );
        let mut names = vec![format!("gpu{number}_{name}")];
        if number == 0 && is_old {
            names.push(plain);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_at_its_number() {
        for (number, row) in ALL.iter().enumerate() {
            assert_eq!(*row as usize, number);
        }
    }

    #[test]
    fn a_single_card_has_no_number() {
        assert_eq!(Row::Util.names(0, 1), ["gpu_util"]);
        assert_eq!(Row::Pcie.names(0, 1), ["pcie"]);
        assert_eq!(Row::PcieTx.names(0, 1), ["gpu_pcie_tx"]);
        assert_eq!(Row::Util.names(0, 2), ["gpu0_util", "gpu_util"]);
        assert_eq!(Row::Pcie.names(0, 2), ["gpu0_pcie", "pcie"]);
        assert_eq!(Row::Sm.names(0, 2), ["gpu0_sm"]);
        assert_eq!(Row::Util.names(1, 2), ["gpu1_util"]);
        let mut names: Vec<_> = (0..8)
            .flat_map(|card| ALL.map(|row| row.names(card, 8)))
            .flatten()
            .collect();
        names.sort();
        let all = names.len();
        names.dedup();
        assert_eq!((all, names.len()), (8 * COUNT + 6, all));
    }
}
