//! Values of Python as arguments of a span.

use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString};
use vor_recorder::hot::args::{Arg, ArgWord};

/// A value that can be told when the object that it was is gone.
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
    /// Reads an object: a truth value, a number or a text as it is, and of anything else its type's
    /// name. No code of the program runs for it.
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
                // Beyond 64 bits it is told by its size.
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

    /// Makes the word of a record.
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
