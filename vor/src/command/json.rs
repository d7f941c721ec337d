//! What `--json` gives that several commands share. The fields are documented in `docs/command.md`;
//! they are only ever added to.

use std::io::Write;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use vor_capture::reader::{Damage, Loss};

use crate::command::failure::Failure;

/// Writes a value over several lines.
pub(crate) fn write_pretty(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(failed)?;
    writeln!(out).map_err(Failure::output)
}

/// Writes a value as one line, without the line's end.
pub(crate) fn write_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), Failure> {
    serde_json::to_writer(out, value).map_err(failed)
}

fn failed(error: serde_json::Error) -> Failure {
    Failure::output(error.into())
}

/// What could not be read.
#[derive(Debug, Serialize)]
pub(crate) struct DamageJson {
    /// Number of losses; 0 without damage.
    count: u64,
    /// Bytes that were passed over.
    bytes: u64,
    /// The first losses one by one.
    losses: Vec<LossJson>,
    /// What stands at the end and is no whole record.
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

/// A number that JSON may not be able to hold: those become the texts `NaN`, `inf` and `-inf`.
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

/// Names and values, in their order.
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
