//! One card, read through the driver's library.
//!
//! The kind of an error decides the next poll: a row that the card lacks is not read again, a row
//! that failed this time is, and a lost card is searched for.

use std::ffi::OsStr;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, PcieUtilCounter, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::{GpmSample, gpm_metrics_get};
use nvml_wrapper::struct_wrappers::gpm::GpmMetricResult;
use nvml_wrapper::{Device, Nvml};

use super::rows::{ALL, COUNT, Row};
use super::visible::Visible;

/// The counters of Hopper and later cards, with the factor to their rows' units. By NVIDIA's
/// `nvml.h` the byte counters are in MiB/s.
const GPM: [(GpmMetricId, Row, f64); 8] = [
    (GpmMetricId::SmUtil, Row::Sm, 1.0),
    (GpmMetricId::SmOccupancy, Row::SmOccupancy, 1.0),
    (GpmMetricId::AnyTensorUtil, Row::Tensor, 1.0),
    (GpmMetricId::DramBwUtil, Row::Dram, 1.0),
    (GpmMetricId::NvlinkTotalTxPerSec, Row::NvlinkTx, MIB / 1e6),
    (GpmMetricId::NvlinkTotalRxPerSec, Row::NvlinkRx, MIB / 1e6),
    (GpmMetricId::PcieTxPerSec, Row::PcieTx, MIB / 1e6),
    (GpmMetricId::PcieRxPerSec, Row::PcieRx, MIB / 1e6),
];
const MIB: f64 = 1_048_576.0;

/// Returns whether a row is polled in turns if the card has no counter for it. Counters are better:
/// they miss nothing, and reading them does not block.
const fn is_of_pcie(row: Row) -> bool {
    matches!(row, Row::PcieTx | Row::PcieRx)
}

/// Loads the driver's library, which stays loaded until the process ends.
///
/// # Errors
///
/// The text explains why there is no library.
pub(super) fn load() -> Result<&'static Nvml, String> {
    let name = if cfg!(windows) {
        "nvml.dll"
    } else {
        "libnvidia-ml.so.1"
    };
    let loaded = Nvml::builder().lib_path(OsStr::new(name)).init();
    // Dropping it would shut the library down.
    loaded
        .map(|nvml| &*Box::leak(Box::new(nvml)))
        .map_err(|error| match error {
            NvmlError::LibloadingError(error) => error.to_string(),
            error => format!("{name} does not start: {error}"),
        })
}

/// Returns the identifiers of all cards in bus order; unreadable ones are empty.
///
/// # Errors
///
/// The text explains why they cannot be counted.
pub(super) fn uuids(nvml: &Nvml) -> Result<Vec<String>, String> {
    let count = nvml
        .device_count()
        .map_err(|error| format!("the cards cannot be counted: {error}"))?;
    let uuid = |number| {
        nvml.device_by_index(number)
            .and_then(|device| device.uuid())
    };
    Ok((0..count)
        .map(|number| uuid(number).unwrap_or_default())
        .collect())
}

/// The outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Every row that the card has was read.
    Complete,
    /// The driver failed to return a row this time.
    Failed,
    /// The card cannot be reached.
    Lost,
}

/// One card, or a part of one.
#[derive(Debug)]
pub(super) struct Gpu {
    nvml: &'static Nvml,
    /// Its number on the bus, or its identifier.
    visible: Visible,
    uuid: String,
    device: Option<Device<'static>>,
    /// The driver's reason why the card lacks a row.
    lacks: [Option<String>; COUNT],
    /// Its latest values.
    pub(super) values: [Option<f64>; COUNT],
    /// Its energy counter, in millijoules.
    pub(super) energy_mj: Option<u64>,
    /// The last sample of its counters; values need two.
    sample: Option<GpmSample<'static>>,
    /// Whether it has GPM counters.
    has_gpm: Option<bool>,
    /// Whether PCIe counters are not among them.
    lacks_pcie_counters: bool,
    answer: Answer,
    /// The last error of the kinds `Failure` and `Lost`.
    pub(super) error: Option<NvmlError>,
}

/// The effect of an error on the next poll.
enum Kind {
    /// The card or the driver lacks the row.
    Permanent,
    /// There is no value now.
    NoValue,
    /// The driver failed.
    Failure,
    /// The card is not there.
    Lost,
}

fn kind_of(error: &NvmlError) -> Kind {
    match error {
        NvmlError::NotSupported
        | NvmlError::FailedToLoadSymbol(_)
        | NvmlError::FunctionNotFound
        | NvmlError::NoPermission
        | NvmlError::InvalidArg
        | NvmlError::IncorrectBits(_)
        | NvmlError::UnexpectedVariant(_)
        | NvmlError::VgpuEccNotSupported => Kind::Permanent,
        NvmlError::NoData | NvmlError::InUse => Kind::NoValue,
        NvmlError::GpuLost
        | NvmlError::ResetRequired
        | NvmlError::Uninitialized
        | NvmlError::DriverNotLoaded
        | NvmlError::LibRmVersionMismatch
        | NvmlError::NotFound => Kind::Lost,
        _ => Kind::Failure,
    }
}

impl Gpu {
    /// Finds a card. A card that cannot be found is lost until it can.
    pub(super) fn new(nvml: &'static Nvml, visible: Visible, uuids: &[String]) -> Self {
        let uuid = match &visible {
            Visible::Card(number) => uuids.get(*number).cloned().unwrap_or_default(),
            Visible::Part(uuid) => uuid.clone(),
        };
        let mut gpu = Self {
            nvml,
            visible,
            uuid,
            device: None,
            lacks: [const { None }; COUNT],
            values: [None; COUNT],
            energy_mj: None,
            sample: None,
            has_gpm: None,
            lacks_pcie_counters: false,
            answer: Answer::Complete,
            error: None,
        };
        gpu.find();
        gpu
    }

    /// Searches for the card, by its identifier if it has one, because numbers change when a card
    /// is removed. Returns whether it was found.
    pub(super) fn find(&mut self) -> bool {
        let found = match (&self.visible, self.uuid.is_empty()) {
            (Visible::Card(number), true) => self.nvml.device_by_index(*number as u32),
            _ => self.nvml.device_by_uuid(self.uuid.as_str()),
        };
        self.device = found.map_err(|error| self.error = Some(error)).ok();
        self.device.is_some()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.device.is_none()
    }

    /// Returns the card's name in messages.
    pub(super) fn name(&self) -> &str {
        if self.uuid.is_empty() {
            "a GPU"
        } else {
            &self.uuid
        }
    }

    /// Returns the rows that the card lacks, each with the reason.
    pub(super) fn absent(&self) -> impl Iterator<Item = (Row, &str)> {
        ALL.into_iter().filter_map(|row| {
            let read = match row {
                Row::MemTotal => Row::Mem,
                Row::ThrottlePower | Row::ThrottleThermal => Row::Throttle,
                Row::Pcie if self.lacks[Row::PcieTx as usize].is_some() => Row::PcieTx,
                Row::Pcie => Row::PcieRx,
                row => row,
            };
            Some((row, self.lacks[read as usize].as_deref()?))
        })
    }

    /// Reads the quickly changing rows.
    pub(super) fn poll_fast(&mut self) -> Answer {
        self.answer = Answer::Complete;
        self.read(Row::Util, |device| {
            Ok(f64::from(device.utilization_rates()?.gpu))
        });
        self.read(Row::Power, |device| {
            Ok(f64::from(device.power_usage()?) / 1e3)
        });
        let mut total = None;
        self.read(Row::Mem, |device| {
            let memory = device.memory_info()?;
            total = Some(memory.total as f64 / 1e6);
            Ok(memory.used as f64 / 1e6)
        });
        // It comes with the same answer, and never changes.
        self.values[Row::MemTotal as usize] = total.or(self.values[Row::MemTotal as usize]);
        self.read(Row::Clock, |device| {
            Ok(f64::from(device.clock_info(Clock::SM)?))
        });
        self.settle()
    }

    /// Reads the energy counter, which takes the driver 4 ms of CPU time on an H100, 40 times as
    /// long as any other fast row.
    pub(super) fn poll_energy(&mut self) -> Answer {
        self.answer = Answer::Complete;
        let mut energy_mj = None;
        self.read(Row::Energy, |device| {
            let counter_mj = device.total_energy_consumption()?;
            energy_mj = Some(counter_mj);
            Ok(counter_mj as f64)
        });
        self.energy_mj = energy_mj;
        self.settle()
    }

    /// Reads the slowly changing rows, and those that take longer to read.
    pub(super) fn poll_slow(&mut self) -> Answer {
        self.answer = Answer::Complete;
        self.read(Row::Temp, |device| {
            Ok(f64::from(device.temperature(TemperatureSensor::Gpu)?))
        });
        self.read(Row::PowerLimit, |device| {
            Ok(f64::from(device.enforced_power_limit()?) / 1e3)
        });
        let mut reasons = None;
        self.read(Row::Throttle, |device| {
            let found = device.current_throttle_reasons()?;
            reasons = Some(found);
            Ok(found.bits() as f64)
        });
        let is_any = |of: ThrottleReasons| {
            reasons.map(|reasons| f64::from(u8::from(reasons.intersects(of))))
        };
        let power = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
        let heat = ThrottleReasons::SW_THERMAL_SLOWDOWN | ThrottleReasons::HW_THERMAL_SLOWDOWN;
        self.values[Row::ThrottlePower as usize] = is_any(power);
        self.values[Row::ThrottleThermal as usize] = is_any(heat);
        self.read(Row::Encoder, |device| {
            Ok(f64::from(device.encoder_utilization()?.utilization))
        });
        self.read(Row::Decoder, |device| {
            Ok(f64::from(device.decoder_utilization()?.utilization))
        });
        self.read(Row::MemOwn, own_memory_mb);
        self.read_counters();
        self.settle()
    }

    /// Reads the traffic over PCIe in one direction, which takes the driver 20 ms.
    pub(super) fn read_pcie(&mut self, is_receiving: bool) -> Answer {
        self.answer = Answer::Complete;
        let (row, counter) = if is_receiving {
            (Row::PcieRx, PcieUtilCounter::Receive)
        } else {
            (Row::PcieTx, PcieUtilCounter::Send)
        };
        // The driver's unit is 1024 bytes per second.
        self.read(row, |device| {
            Ok(f64::from(device.pcie_throughput(counter)?) * 1024.0 / 1e6)
        });
        self.add_up_pcie();
        self.settle()
    }

    fn add_up_pcie(&mut self) {
        let of = |row: Row| self.values[row as usize];
        self.values[Row::Pcie as usize] =
            of(Row::PcieTx).and_then(|tx| Some(tx + of(Row::PcieRx)?));
    }

    /// Returns whether [`poll_slow`](Self::poll_slow) reads PCIe, so that it needs no separate
    /// poll.
    pub(super) fn counts_pcie(&self) -> bool {
        self.has_gpm == Some(true) && !self.lacks_pcie_counters
    }

    /// Reads one row. Its value is `None` if there is no answer.
    fn read(&mut self, row: Row, query: impl FnOnce(&Device<'static>) -> Result<f64, NvmlError>) {
        let value = &mut self.values[row as usize];
        *value = None;
        let Some(device) = self
            .device
            .as_ref()
            .filter(|_| self.lacks[row as usize].is_none())
        else {
            return;
        };
        if self.answer == Answer::Lost {
            return;
        }
        match query(device) {
            Ok(found) => *value = Some(found),
            Err(error) => match kind_of(&error) {
                Kind::Permanent => self.lacks[row as usize] = Some(error.to_string()),
                Kind::NoValue => (),
                Kind::Failure => self.fail(Answer::Failed, error),
                Kind::Lost => self.fail(Answer::Lost, error),
            },
        }
    }

    fn fail(&mut self, answer: Answer, error: NvmlError) {
        self.answer = answer;
        self.error = Some(error);
    }

    fn settle(&mut self) -> Answer {
        if self.answer == Answer::Lost {
            self.device = None;
            self.sample = None;
        }
        self.answer
    }

    /// Reads the counters of Hopper and later: their growth since the last reading.
    fn read_counters(&mut self) {
        self.set_counted([None; GPM.len()]);
        let Some(device) = &self.device else { return };
        if self.has_gpm.is_none() {
            match device.gpm_support() {
                Ok(true) => self.has_gpm = Some(true),
                Ok(false) => return self.lack_counters(&NvmlError::NotSupported),
                Err(error) => return self.lack_counters(&error),
            }
        }
        if self.has_gpm != Some(true) {
            return;
        }
        let sample = match device.gpm_sample() {
            Ok(sample) => sample,
            Err(error) => {
                self.sample = None;
                match kind_of(&error) {
                    Kind::Permanent => self.lack_counters(&error),
                    Kind::NoValue => (),
                    Kind::Failure => self.fail(Answer::Failed, error),
                    Kind::Lost => self.fail(Answer::Lost, error),
                }
                return;
            }
        };
        if let Some(before) = self.sample.replace(sample)
            && let Some(after) = &self.sample
        {
            let ids = GPM.map(|(id, _, _)| id);
            let found = gpm_metrics_get(self.nvml, &before, after, &ids).unwrap_or_default();
            self.take_counters(found);
        }
    }

    /// Takes the growth of the counters, in the order of [`GPM`].
    fn take_counters(&mut self, found: Vec<Result<GpmMetricResult, NvmlError>>) {
        let mut values = [None; GPM.len()];
        for (((_, row, factor), found), value) in GPM.iter().zip(found).zip(&mut values) {
            match found {
                Ok(found) => *value = Some(found.value * factor).filter(|value| value.is_finite()),
                // A card without NVLink has the other counters.
                Err(error) if matches!(kind_of(&error), Kind::Permanent) => {
                    if is_of_pcie(*row) {
                        self.lacks_pcie_counters = true;
                    } else {
                        self.lacks[*row as usize] = Some(error.to_string());
                    }
                }
                Err(_) => (),
            }
        }
        // Some cards' counters pause at times. They did if a kernel ran but no multiprocessor had a
        // warp.
        let stood_still = self.values[Row::Util as usize] > Some(0.0) && values[0] == Some(0.0);
        self.set_counted(values.map(|value| value.filter(|value| !stood_still || *value > 0.0)));
    }

    /// Sets the counted rows, in the order of [`GPM`].
    fn set_counted(&mut self, values: [Option<f64>; GPM.len()]) {
        let counts_pcie = self.counts_pcie();
        for ((_, row, _), value) in GPM.iter().zip(values) {
            if !is_of_pcie(*row) || counts_pcie {
                self.values[*row as usize] = value;
            }
        }
        if counts_pcie {
            self.add_up_pcie();
        }
    }

    /// Disables the counters.
    fn lack_counters(&mut self, why: &NvmlError) {
        self.has_gpm = Some(false);
        for (_, row, _) in GPM.iter().filter(|(_, row, _)| !is_of_pcie(*row)) {
            self.lacks[*row as usize] = Some(why.to_string());
        }
    }
}

/// Returns the card's memory that this process uses, in MB.
///
/// In a container the driver may use other process numbers than the process itself, or list none.
/// Then there is no answer.
fn own_memory_mb(device: &Device<'static>) -> Result<f64, NvmlError> {
    let pid = std::process::id();
    let mut own = None;
    for processes in [
        device.running_compute_processes(),
        device.running_graphics_processes(),
    ] {
        for process in processes?.into_iter().filter(|process| process.pid == pid) {
            if let UsedGpuMemory::Used(bytes) = process.used_gpu_memory {
                // A process that computes and draws is in both lists, each with all of its memory.
                own = own.max(Some(bytes));
            }
        }
    }
    own.map(|bytes| bytes as f64 / 1e6).ok_or(NvmlError::NoData)
}
