//! The parts of `--json` that several commands share. `docs/command.md` documents the fields, which
//! are only ever added to.

use std::io::Write;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vor_capture::reader::{Damage, Loss};

use crate::command::failure::Failure;

/// Writes a value with one field per line.
pub(crate) fn write_pretty(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(failed)?;
    writeln!(out).map_err(Failure::output)
}

/// Writes a value as one line, without a line break at its end.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(out, value).map_err(failed)
}

fn failed(error: serde_json::Error) -> Failure {
    Failure::output(error.into())
}

/// The damage of a capture.
#[derive(Debug, Serialize)]
pub(crate) struct DamageJson {
    /// Number of losses; 0 without damage.
    count: u64,
    /// Bytes that were skipped.
    bytes: u64,
    /// The first losses.
    losses: Vec<LossJson>,
    /// The incomplete record at the end.
    tail: Option<LossJson>,
}

#[derive(Debug, Serialize)]
struct LossJson {
    offset: u64,
    bytes: u64,
    reason: String,
}

impl DamageJson {
    pub(crate) fn new(damage: &Damage) -> Self {
        Self {
            count: damage.count,
            bytes: damage.bytes,
            losses: damage.losses.iter().map(LossJson::new).collect(),
            tail: damage.tail.as_ref().map(LossJson::new),
        }
    }
}

impl LossJson {
    fn new(loss: &Loss) -> Self {
        Self {
            offset: loss.offset,
            bytes: loss.bytes,
            reason: loss.reason.clone(),
        }
    }
}

/// A number that may not be finite, for which JSON has no notation: `"NaN"`, `"inf"`, `"-inf"`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_finite() {
            serializer.serialize_f64(self.0)
        } else {
            serializer.serialize_str(&self.0.to_string())
        }
    }
}

/// A map that keeps the order of its entries.
#[derive(Debug)]
pub(crate) struct Values(pub(crate) Vec<(String, f64)>);

impl Serialize for Values {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, &Number(*value))?;
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_are_not_finite_are_texts() {
        let values = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1.5];
        let values = Values(
            ["a", "b", "c", "d"]
                .map(str::to_owned)
                .into_iter()
                .zip(values)
                .collect(),
        );
        let text = serde_json::to_string(&values).unwrap();
        assert_eq!(text, r#"{"a":"NaN","b":"inf","c":"-inf","d":-1.5}"#);
    }
}
