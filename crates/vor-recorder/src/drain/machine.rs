//! Describes the machine on which the program runs.

use vor_capture::filled;
use vor_capture::model::catalog::MachineInfo;

use crate::clock;
use crate::hot::scope;
use crate::os::host;

/// Returns the machine's identity, the current values of its clocks, and what a scope costs on it.
pub(crate) fn describe() -> MachineInfo {
    filled!(MachineInfo {
        host: host::name(),
        boot_id: text_of("/proc/sys/kernel/random/boot_id"),
        hardware_ticks: clock::is_hardware(),
        clocks: clock::snapshot(),
        scope_ps: scope::measured_ps(),
    })
}

/// Returns the trimmed text of a small file, empty if there is none.
fn text_of(path: &str) -> String {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.trim().to_owned()
}
