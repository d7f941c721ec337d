//! The values of a GPU in the property lists of macOS: the part that needs no macOS.
//!
//! The registry has an `IOAccelerator` per GPU with a dictionary `PerformanceStatistics`. Its keys
//! differ between drivers: Apple's chips, AMD's cards and Intel's integrated graphics each name
//! their load and memory differently. Energy comes from the counters of IOReport: a list of
//! channels, each with a group, a name, a unit and a number. Macs with Intel processors have none,
//! but an AMD card reports its power in its dictionary.
//!
//! None of this is documented, so every value is optional: a key that is missing, or has an
//! unexpected kind, has no value.

use std::collections::BTreeMap;

/// A value of a property list, copied from the system's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Property {
    Integer(i64),
    Real(f64),
    Text(String),
    Dictionary(BTreeMap<String, Property>),
    /// A kind that no code here reads.
    Other,
}

impl Property {
    fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(value) => Some(*value as f64),
            Self::Real(value) => Some(*value).filter(|value| value.is_finite()),
            _ => None,
        }
    }

    fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Dictionary(entries) => entries.get(key),
            _ => None,
        }
    }
}

/// The values of an accelerator. `None` if its driver does not report one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Statistics {
    /// Share of the time in which the GPU was busy, in percent.
    pub(super) util_pct: Option<f64>,
    /// Share of the time in which its renderer was busy, in percent.
    pub(super) renderer_pct: Option<f64>,
    /// Memory in use, in bytes.
    pub(super) mem_bytes: Option<f64>,
    /// Power drawn, in watts.
    pub(super) power_w: Option<f64>,
    /// Temperature of the chip, in degrees Celsius.
    pub(super) temp_c: Option<f64>,
}

/// No GPU has so many bytes. Some drivers count below zero, which reads as nearly 2^64.
const IMPLAUSIBLE_BYTES: f64 = (1u64 << 53) as f64;

/// Reads the dictionary `PerformanceStatistics` of an accelerator.
pub(super) fn statistics(performance: &Property) -> Statistics {
    let number = |key| performance.get(key)?.number().filter(|value| *value >= 0.0);
    // A driver that reports more than 100 % measures something else.
    let percent = |key| number(key).filter(|value| *value <= 100.0);
    let bytes = |key| number(key).filter(|value| *value < IMPLAUSIBLE_BYTES);
    // A driver reports 0 for a sensor that a card lacks.
    let sensed = |key| number(key).filter(|value| *value > 0.0);
    Statistics {
        util_pct: percent("Device Utilization %").or_else(|| percent("GPU Activity(%)")),
        renderer_pct: percent("Renderer Utilization %"),
        // In order: an Apple chip; a card with its own memory; a GPU without its own memory, which
        // reports 0 for it.
        mem_bytes: bytes("In use system memory")
            .or_else(|| bytes("inUseVidMemoryBytes").filter(|value| *value > 0.0))
            .or_else(|| bytes("inUseSysMemoryBytes")),
        power_w: sensed("Total Power(W)"),
        temp_c: sensed("Temperature(C)"),
    }
}

/// A counter of IOReport, and its growth between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) grown: i64,
}

/// The group of channels that count energy.
pub(super) const ENERGY_GROUP: &str = "Energy Model";

/// Returns the joules that the GPU used between two samples. The unit differs between chips; an
/// unknown unit has no value.
pub(super) fn gpu_joules(channels: &[Channel]) -> Option<f64> {
    let is_gpus =
        |channel: &&Channel| channel.group == ENERGY_GROUP && channel.name == "GPU Energy";
    let channel = channels.iter().find(is_gpus)?;
    let joules = match channel.unit.trim() {
        "J" => 1.0,
        "mJ" => 1e-3,
        "uJ" | "µJ" => 1e-6,
        "nJ" => 1e-9,
        _ => return None,
    };
    (channel.grown >= 0).then_some(channel.grown as f64 * joules)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Output of `ioreg -r -c IOAccelerator` for GPUs of real Macs, as their owners published it.
    /// Shortened to the keys that a reader could confuse with those it needs, and some others.
    const M3_PRO: &str = concat!(
        r#"{"In use system memory (driver)"=0,"Alloc system memory"=16749051904,"#,
        r#""Tiler Utilization %"=7,"recoveryCount"=0,"lastRecoveryTime"=0,"#,
        r#""Renderer Utilization %"=11,"TiledSceneBytes"=1441792,"Device Utilization %"=16,"#,
        r#""SplitSceneCount"=0,"Allocated PB Size"=89915392,"In use system memory"=568164352}"#,
    );
    const M1_PRO: &str = concat!(
        r#"{"In use system memory (driver)"=0,"Alloc system memory"=14511046656,"#,
        r#""Tiler Utilization %"=34,"recoveryCount"=0,"Renderer Utilization %"=34,"#,
        r#""Device Utilization %"=34,"In use system memory"=7688503296}"#,
    );
    /// A phone's, which reports no memory.
    const PHONE: &str = concat!(
        r#"{"CommandBufferRenderCount"=1,"Device Utilization %"=0,"Renderer Utilization %"=0,"#,
        r#""SplitSceneCount"=0,"TiledSceneBytes"=217088,"Tiler Utilization %"=0,"#,
        r#""gartUsedBytes"=30801920,"hardwareWaitTime"=0,"recoveryCount"=0,"textureCount"=521}"#,
    );
    /// Integrated graphics of an Intel processor, without its own memory.
    const INTEL: &str = concat!(
        r#"{"gartUsedBytes"=33492992,"gartSizeBytes"=7516192768,"gartFreeBytes"=7482699776,"#,
        r#""gartCacheBytes"=33554432,"Device Utilization % at cur p-state"=0,"#,
        r#""Device Utilization %"=0,"Device Unit 0 Utilization %"=0,"#,
        r#""Device Unit 2 Utilization %"=0,"inUseVidMemoryBytes"=0,"#,
        r#""inUseSysMemoryBytes"=33492992,"orphanedReusableVidMemoryBytes"=0,"textureCount"=52}"#,
    );
    /// An AMD card, at rest.
    const RADEON: &str = concat!(
        r#"{"Core Clock(MHz)"=48,"GPU Activity(%)"=2,"Fan Speed(RPM)"=0,"Temperature(C)"=57,"#,
        r#""Total Power(W)"=15}"#,
    );

    /// Reads a dictionary in the notation of `ioreg`: numbers, texts in quotes, and dictionaries.
    fn parse(text: &str) -> Property {
        fn value(rest: &mut &str) -> Property {
            if let Some(inner) = rest.strip_prefix('{') {
                *rest = inner;
                let mut entries = BTreeMap::new();
                while !rest.starts_with('}') {
                    *rest = rest.trim_start_matches(',');
                    let Property::Text(key) = value(rest) else {
                        panic!("no key: {rest}")
                    };
                    *rest = rest.strip_prefix('=').unwrap();
                    entries.insert(key, value(rest));
                }
                *rest = &rest[1..];
                return Property::Dictionary(entries);
            }
            if let Some(inner) = rest.strip_prefix('"') {
                let (text, after) = inner.split_once('"').unwrap();
                *rest = after;
                return Property::Text(text.to_owned());
            }
            let end = rest.find([',', '}']).unwrap_or(rest.len());
            let (number, after) = rest.split_at(end);
            *rest = after;
            match number.parse() {
                Ok(number) => Property::Integer(number),
                Err(_) => number.parse().map_or(Property::Other, Property::Real),
            }
        }
        let mut rest = text;
        let read = value(&mut rest);
        assert_eq!(rest, "");
        read
    }

    #[test]
    fn recorded_statistics_are_read() {
        let none = Statistics::default();
        let apples = |util, renderer, mem: f64| Statistics {
            util_pct: Some(util),
            renderer_pct: Some(renderer),
            mem_bytes: Some(mem),
            ..none
        };
        assert_eq!(
            statistics(&parse(M3_PRO)),
            apples(16.0, 11.0, 568_164_352.0)
        );
        assert_eq!(
            statistics(&parse(M1_PRO)),
            apples(34.0, 34.0, 7_688_503_296.0)
        );
        let phone = Statistics {
            util_pct: Some(0.0),
            renderer_pct: Some(0.0),
            ..none
        };
        assert_eq!(statistics(&parse(PHONE)), phone);
        let intel = Statistics {
            util_pct: Some(0.0),
            mem_bytes: Some(33_492_992.0),
            ..none
        };
        assert_eq!(statistics(&parse(INTEL)), intel);
        let radeon = Statistics {
            util_pct: Some(2.0),
            power_w: Some(15.0),
            temp_c: Some(57.0),
            ..none
        };
        assert_eq!(statistics(&parse(RADEON)), radeon);
    }

    #[test]
    fn a_card_with_its_own_memory_reports_that() {
        let text = concat!(
            r#"{"inUseVidMemoryBytes"=1073741824,"inUseSysMemoryBytes"=4096,"#,
            r#""vramUsedBytes"=2147483648}"#,
        );
        assert_eq!(statistics(&parse(text)).mem_bytes, Some(1_073_741_824.0));
    }

    #[test]
    fn a_missing_or_mistyped_property_is_no_value() {
        for text in [
            "{}",
            r#"{"Device Utilization %"="12"}"#,
            r#"{"Device Utilization %"={"a"=1}}"#,
            r#"{"Device Utilization %"=-1}"#,
            r#"{"Device Utilization %"=101}"#,
            r#"{"Device Utilization %"=nan}"#,
            r#"{"Device Utilization %"=inf}"#,
            r#"{"device utilization %"=12}"#,
            r#"{"In use system memory"=Yes}"#,
            // These three come from real Macs: Intel graphics that were three times busy, a count
            // of bytes below zero, and a card without sensors.
            r#"{"Device Utilization %"=308}"#,
            r#"{"In use system memory"=18446744071562067968}"#,
            r#"{"Temperature(C)"=0,"Total Power(W)"=0}"#,
        ] {
            assert_eq!(statistics(&parse(text)), Statistics::default(), "{text}");
        }
        for property in [
            Property::Other,
            Property::Integer(12),
            Property::Text(M3_PRO.into()),
        ] {
            assert_eq!(statistics(&property), Statistics::default());
        }
        // A wrong value does not affect the others.
        let text =
            r#"{"Device Utilization %"="x","Renderer Utilization %"=9.5,"In use system memory"=0}"#;
        let expected = Statistics {
            renderer_pct: Some(9.5),
            mem_bytes: Some(0.0),
            ..Statistics::default()
        };
        assert_eq!(statistics(&parse(text)), expected);
    }

    fn channel(group: &str, name: &str, unit: &str, grown: i64) -> Channel {
        Channel {
            group: group.into(),
            name: name.into(),
            unit: unit.into(),
            grown,
        }
    }

    #[test]
    fn the_gpus_energy_is_found_in_any_unit() {
        let others = [
            channel("Energy Model", "CPU Energy", "mJ", 900),
            channel("Energy Model", "GPU SRAM0", "mJ", 800),
            channel("PMP", "GPU Energy", "mJ", 700),
        ];
        for (unit, expected) in [
            ("mJ", 0.25),
            ("mJ  ", 0.25),
            ("uJ", 0.000_25),
            ("µJ", 0.000_25),
            ("nJ", 2.5e-7),
            ("J", 250.0),
        ] {
            let mut channels = others.to_vec();
            channels.push(channel("Energy Model", "GPU Energy", unit, 250));
            let found = gpu_joules(&channels).unwrap();
            assert!((found - expected).abs() < 1e-12, "{unit}: {found}");
        }
        assert_eq!(gpu_joules(&others), None);
        assert_eq!(gpu_joules(&[]), None);
        for (unit, grown) in [("", 1), ("ticks", 1), ("mJ", -1)] {
            assert_eq!(
                gpu_joules(&[channel("Energy Model", "GPU Energy", unit, grown)]),
                None
            );
        }
    }

    /// Names and units of an M1 Ultra's GPU channels, and of some of the 321 others, as its owner
    /// published them. The GPU's counter has a finer unit than the rest.
    #[test]
    fn the_gpus_energy_is_found_among_recorded_channels() {
        let channels = [
            channel("Energy Model", "DIE_0_CPU Energy", "mJ", 5000),
            channel("Energy Model", "DIE_1_CPU Energy", "mJ", 4000),
            channel("Energy Model", "GPU0_0", "mJ", 20),
            channel("Energy Model", "GPU SRAM0_0", "mJ", 30),
            channel("Energy Model", "ANE0_0", "mJ", 0),
            channel("Energy Model", "DRAM0_1", "mJ", 900),
            channel("Energy Model", "PCIe Port 0 Energy", "uJ", 10),
            channel("Energy Model", "GPU Energy", "nJ", 1_250_000_000),
        ];
        assert_eq!(gpu_joules(&channels), Some(1.25));
    }

    fn any_property() -> impl Strategy<Value = Property> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Property::Integer),
            any::<f64>().prop_map(Property::Real),
            ".{0,5}".prop_map(Property::Text),
            Just(Property::Other),
        ];
        leaf.prop_recursive(2, 16, 4, |inner| {
            let key = prop_oneof![
                Just("Device Utilization %".to_owned()),
                Just("In use system memory".to_owned()),
                Just("inUseVidMemoryBytes".to_owned()),
                Just("Total Power(W)".to_owned()),
                ".{0,5}"
            ];
            prop::collection::btree_map(key, inner, 0..4).prop_map(Property::Dictionary)
        })
    }

    proptest! {
        #[test]
        fn any_property_gives_sound_values(property in any_property()) {
            let found = statistics(&property);
            for percent in [found.util_pct, found.renderer_pct].into_iter().flatten() {
                prop_assert!((0.0..=100.0).contains(&percent));
            }
            prop_assert!(
                found
                    .mem_bytes
                    .is_none_or(|bytes| (0.0..IMPLAUSIBLE_BYTES).contains(&bytes))
            );
            prop_assert!(
                found
                    .power_w
                    .is_none_or(|watts| watts.is_finite() && watts > 0.0)
            );
        }
    }
}
