//! What macOS says of a GPU, read from its property lists: the half that needs no macOS.
//!
//! The registry has an `IOAccelerator` per GPU with a dictionary `PerformanceStatistics`, whose keys differ from driver to driver. Energy comes from the counters of IOReport: a
//! list of channels, each with a group, a name, a unit and a number. None of it is documented, so nothing is taken for granted: what is missing or of another kind than it was seen to
//! be is no value.

use std::collections::BTreeMap;

/// A value of a property list, copied from the system's.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Property {
    Integer(i64),
    Real(f64),
    Text(String),
    Dictionary(BTreeMap<String, Property>),
    /// Of a kind that nothing here reads.
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

/// What an accelerator says. `None` is what its driver does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Statistics {
    /// Share of the time in which the GPU worked, in percent.
    pub(super) util_pct: Option<f64>,
    /// Share of the time in which its renderer worked, in percent.
    pub(super) renderer_pct: Option<f64>,
    /// Memory in use, in bytes.
    pub(super) mem_bytes: Option<f64>,
}

/// Reads the dictionary `PerformanceStatistics` of an accelerator.
pub(super) fn statistics(performance: &Property) -> Statistics {
    let number = |key| performance.get(key)?.number().filter(|value| *value >= 0.0);
    // A driver that counts beyond the whole time measures something else.
    let percent = |key| number(key).filter(|value| *value <= 100.0);
    Statistics {
        util_pct: percent("Device Utilization %"),
        renderer_pct: percent("Renderer Utilization %"),
        mem_bytes: number("In use system memory"),
    }
}

/// A counter of IOReport, and what it grew by between two samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Channel {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) grown: i64,
}

/// The group of channels that count energy.
pub(super) const ENERGY_GROUP: &str = "Energy Model";

/// Returns the joules that the GPU used between two samples. The unit differs from chip to chip; one that is not known is no energy.
pub(super) fn gpu_joules(channels: &[Channel]) -> Option<f64> {
    let is_gpus = |channel: &&Channel| channel.group == ENERGY_GROUP && channel.name == "GPU Energy";
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

    /// The keys that the driver of an M1 has, in the notation of `ioreg -r -c IOAccelerator`.
    const M1: &str = r#"{"In use system memory (driver)"=0,"Alloc system memory"=3411165184,"Tiler Utilization %"=7,"recoveryCount"=0,"lastRecoveryTime"=0,"Renderer Utilization %"=9,"TiledSceneBytes"=655360,"Device Utilization %"=12,"SplitSceneCount"=0,"Allocated PB Size"=85327872,"In use system memory"=538558464}"#;

    /// Those of an older driver, which says other things.
    const OLDER: &str = r#"{"CommandBufferRenderCount"=1,"hardwareWaitTime"=0,"Device Utilization %"=3,"gartUsedBytes"=30801920,"textureCount"=521}"#;

    /// Reads a dictionary in the notation of `ioreg`: numbers, texts in quotes, and dictionaries.
    fn parse(text: &str) -> Property {
        fn value(rest: &mut &str) -> Property {
            if let Some(inner) = rest.strip_prefix('{') {
                *rest = inner;
                let mut entries = BTreeMap::new();
                while !rest.starts_with('}') {
                    *rest = rest.trim_start_matches(',');
                    let Property::Text(key) = value(rest) else {
                        panic!("a key was expected: {rest}")
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
        let m1 = Statistics {
            util_pct: Some(12.0),
            renderer_pct: Some(9.0),
            mem_bytes: Some(538_558_464.0),
        };
        assert_eq!(statistics(&parse(M1)), m1);
        let older = Statistics {
            util_pct: Some(3.0),
            ..Statistics::default()
        };
        assert_eq!(statistics(&parse(OLDER)), older);
    }

    #[test]
    fn what_is_missing_or_of_another_kind_is_no_value() {
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
        ] {
            assert_eq!(statistics(&parse(text)), Statistics::default(), "{text}");
        }
        for property in [Property::Other, Property::Integer(12), Property::Text(M1.into())] {
            assert_eq!(statistics(&property), Statistics::default());
        }
        // One that is wrong leaves the others.
        let text = r#"{"Device Utilization %"="x","Renderer Utilization %"=9.5,"In use system memory"=0}"#;
        let expected = Statistics {
            util_pct: None,
            renderer_pct: Some(9.5),
            mem_bytes: Some(0.0),
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
    fn the_gpus_energy_is_found_in_whatever_unit() {
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
                ".{0,5}"
            ];
            prop::collection::btree_map(key, inner, 0..4).prop_map(Property::Dictionary)
        })
    }

    proptest! {
        #[test]
        fn whatever_it_is_the_values_are_sound(property in any_property()) {
            let found = statistics(&property);
            for percent in [found.util_pct, found.renderer_pct].into_iter().flatten() {
                prop_assert!((0.0..=100.0).contains(&percent));
            }
            prop_assert!(found.mem_bytes.is_none_or(|bytes| bytes.is_finite() && bytes >= 0.0));
        }
    }
}
