//! Calls of functions that are not written in Python, for `python -m vor run --c-calls`.

use pyo3::prelude::*;
use pyo3::types::PyType;
use vor_recorder::hot::scope::manual;

use crate::recording::monitor::MIN_TICKS;
use crate::recording::open;
use crate::recording::sites::{self, Place};

/// One key for all such calls: they nest only through calls of Python functions, which have keys of
/// their own.
static KEY: u64 = 0;

/// Begins a call, unless the callable is written in Python.
pub(crate) fn begin(called: &Bound<'_, PyAny>) {
    if let Some(name) = name(called) {
        let site = sites::intern(Place {
            name,
            ..Place::default()
        });
        open::push(open::call_key(&raw const KEY), manual::begin(site));
    }
}

/// Ends the innermost call that was begun.
pub(crate) fn end() {
    open::end(
        open::call_key(&raw const KEY),
        MIN_TICKS.load(std::sync::atomic::Ordering::Relaxed),
    );
}

/// Returns the name of a callable, as `module.name`; `None` if it is written in Python.
fn name(called: &Bound<'_, PyAny>) -> Option<String> {
    let kind = called.get_type();
    let kind_name = kind.name().ok()?.to_string();
    match kind_name.as_str() {
        "function" => return None,
        "method" => return name(&called.getattr("__func__").ok()?),
        _ => {}
    }
    let text = |of: &Bound<'_, PyAny>, attribute: &str| {
        let value = of.getattr(attribute).ok()?;
        value.extract::<String>().ok()
    };
    let own = match kind_name.as_str() {
        "builtin_function_or_method"
        | "method_descriptor"
        | "wrapper_descriptor"
        | "method-wrapper"
        | "classmethod_descriptor" => text(called, "__qualname__"),
        _ if called.is_instance_of::<PyType>() => text(called, "__qualname__"),
        // The name of any other object may be a property: reading it would run code of the program.
        _ => text(kind.as_any(), "__qualname__"),
    };
    let module = match kind_name.as_str() {
        "builtin_function_or_method" => text(called, "__module__"),
        _ => None,
    };
    let own = own.unwrap_or(kind_name);
    Some(match module {
        Some(module) if module != "builtins" => format!("{module}.{own}"),
        _ => own,
    })
}
