//! Values of Python as arguments of a span.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use vor_recorder::hot::args::{Arg, ArgWord};
use vor_recorder::hot::callsite::CallSite;
use vor_recorder::hot::scope::manual::{self, ArgWords, ManualScope};

/// Begins a span with arguments. `values` is called only while spans are recorded.
pub(crate) fn begin<V: AsRef<[Value]>>(
    site: &'static CallSite,
    values: impl FnOnce() -> V,
) -> (ManualScope, ArgWords) {
    manual::begin_with(site, |put| {
        for value in values().as_ref() {
            put(value.word());
        }
    })
}

/// A value that outlives the object that it was read from.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    None,
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl Value {
    /// Reads an object: the value of a bool, a number or a string, and the type's name of anything
    /// else. It runs no code of the program.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> Self {
        if object.is_none() {
            return Self::None;
        }
        if let Ok(value) = object.cast::<PyBool>() {
            return Self::Bool(value.is_true());
        }
        if let Ok(value) = object.cast::<PyInt>() {
            return match (value.extract::<i64>(), value.extract::<u64>()) {
                (Ok(value), _) => Self::Signed(value),
                (_, Ok(value)) => Self::Unsigned(value),
                // Beyond 64 bits, only its magnitude is stored.
                _ => Self::Float(value.extract::<f64>().unwrap_or(f64::INFINITY)),
            };
        }
        if let Ok(value) = object.cast::<PyFloat>() {
            return Self::Float(value.extract::<f64>().unwrap_or(f64::NAN));
        }
        if let Ok(value) = object.cast::<PyString>() {
            return Self::Text(value.to_string_lossy().into_owned());
        }
        let name = object.get_type().qualname();
        Self::Text(name.map_or_else(|_| "?".into(), |name| name.to_string_lossy().into_owned()))
    }

    /// Encodes the value as the word of a record.
    pub(crate) fn word(&self) -> ArgWord {
        match self {
            Self::None => None::<i64>.encode(),
            Self::Bool(value) => value.encode(),
            Self::Signed(value) => value.encode(),
            Self::Unsigned(value) => value.encode(),
            Self::Float(value) => value.encode(),
            Self::Text(value) => value.encode(),
        }
    }
}
