//! The functions that PyO3 wraps, because they are not hot.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use vor_recorder::drain::ScopeState;
use vor_recorder::hot::callsite::MAX_ARGS;
use vor_recorder::hot::rules;
use vor_recorder::{clock, drain, metrics, setup};

use crate::recording::codes::{self, Code, Coroutine};
use crate::recording::filter::{self, Filter};
use crate::recording::sites::{self, Place};
use crate::recording::values::Value;
use crate::recording::wrapper::{self, Parameter};
use crate::recording::{config, gil, loops, maker, monitor, open, scope, ticker};

/// Switches recording on.
#[pyfunction]
#[pyo3(signature = (**keywords))]
pub(crate) fn enable(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    config::enable(py, keywords)?;
    loops::watch(py);
    Ok(())
}

/// Switches recording off. Calls that are open on this thread end.
#[pyfunction]
pub(crate) fn disable(py: Python<'_>) {
    open::forget_calls();
    py.detach(setup::disable);
}

/// Returns whether recording is on.
#[pyfunction]
pub(crate) fn is_enabled() -> bool {
    setup::is_enabled()
}

/// Writes everything recorded so far to the capture.
#[pyfunction]
pub(crate) fn flush(py: Python<'_>) {
    py.detach(drain::flush);
}

/// Measures the cost of an empty span on this machine, in about a millisecond.
#[pyfunction]
pub(crate) fn calibrate() {
    // No `detach`: the call records, and the recorder may read the thread's name from the
    // interpreter.
    setup::calibrate();
}

/// Returns the cost of an empty span in Rust, in nanoseconds; 0 before `calibrate()`.
#[pyfunction]
pub(crate) fn empty_span_ns() -> u64 {
    setup::empty_span_ns()
}

/// Sets the unit of a metric.
#[pyfunction]
#[pyo3(signature = (name, unit, /))]
pub(crate) fn record_metric_unit(name: &str, unit: &str) {
    metrics::record_metric_unit(name, unit);
}

/// Returns the path of the capture that is being written.
#[pyfunction]
pub(crate) fn capture_path(py: Python<'_>) -> Option<PathBuf> {
    py.detach(drain::capture_path)
}

/// Ends the capture that is being written, and returns its path.
#[pyfunction]
pub(crate) fn close_capture(py: Python<'_>) -> Option<PathBuf> {
    py.detach(drain::close_capture)
}

/// Writes the records in memory as a capture, and returns its path.
#[pyfunction]
#[pyo3(signature = (reason, /))]
pub(crate) fn dump(py: Python<'_>, reason: &str) -> PyResult<PathBuf> {
    let dumped = py.detach(|| vor_recorder::sinks::last::dump(reason));
    dumped.map_err(|error| match error.is_io() {
        true => PyOSError::new_err(error.to_string()),
        false => PyValueError::new_err(format!("dump: {error}")),
    })
}

/// Replaces the rules that say which scopes are recorded.
#[pyfunction]
#[pyo3(signature = (rules, /))]
pub(crate) fn set_scopes(py: Python<'_>, rules: &str) -> PyResult<()> {
    let set = py.detach(|| rules::set_scopes(rules));
    set.map_err(|error| PyValueError::new_err(format!("set_scopes: {error}")))
}

/// Returns the rules that are on.
#[pyfunction]
pub(crate) fn scope_rules(py: Python<'_>) -> String {
    py.detach(rules::scope_rules)
}

/// Returns how the scopes of each call site are recorded, and how many there were.
#[pyfunction]
pub(crate) fn scopes<'py>(py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let states = py.detach(drain::scopes);
    let row = |state: ScopeState| {
        let row = PyDict::new(py);
        row.set_item("name", state.name)?;
        row.set_item("mode", state.mode.to_string())?;
        row.set_item("over_budget", state.over_budget)?;
        row.set_item("recorded", state.recorded)?;
        row.set_item("counted", state.counted)?;
        row.set_item("skipped", state.skipped)?;
        Ok(row)
    };
    states.into_iter().map(row).collect()
}

/// Runs a command line of `vor`, which starts with the program's name, and returns the exit code.
#[pyfunction]
#[pyo3(signature = (arguments, /))]
pub(crate) fn command(py: Python<'_>, arguments: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| vor::command::run(arguments))
}

/// Returns the callbacks for `sys.monitoring`, by event.
#[pyfunction]
#[pyo3(signature = (disable, /))]
pub(crate) fn hooks<'py>(
    py: Python<'py>,
    disable: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyDict>> {
    monitor::hooks(py, disable)
}

/// Records the calls of a code object under a name, with some of its arguments.
#[pyfunction]
#[pyo3(signature = (code, name, module, args, /))]
pub(crate) fn put_code(
    code: &Bound<'_, PyAny>,
    name: String,
    module: String,
    args: Vec<String>,
) -> PyResult<()> {
    let args: Vec<String> = args.into_iter().take(MAX_ARGS).collect();
    let site = sites::intern(place(code, name, module, args.clone())?);
    codes::put(
        code,
        Code {
            site: Some(site),
            args: args.into(),
            coroutine: Coroutine::of(code)?,
        },
    )
}

/// Returns the place of a code object, or of a callable without one.
fn place(
    code: &Bound<'_, PyAny>,
    name: String,
    module: String,
    args: Vec<String>,
) -> PyResult<Place> {
    let mut place = Place {
        name,
        module,
        args,
        ..Place::default()
    };
    if !code.is_none() {
        place.file = code.getattr("co_filename")?.extract()?;
        place.line = code.getattr("co_firstlineno")?.extract()?;
    }
    Ok(place)
}

/// Returns an object around a callable that records its calls. Each of the `parameters` has a name,
/// a position (`None` if keyword-only), whether there is a default, and the default.
#[pyfunction]
#[pyo3(signature = (function, code, name, module, parameters, is_suspended, /))]
pub(crate) fn wrap<'py>(
    function: Bound<'py, PyAny>,
    code: &Bound<'py, PyAny>,
    name: String,
    module: String,
    parameters: Vec<(String, Option<usize>, bool, Bound<'py, PyAny>)>,
    is_suspended: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let parameter = |(name, position, has_default, default): (_, _, bool, _)| Parameter {
        name,
        position,
        default: has_default.then(|| Value::of(&default)),
    };
    let parameters: Vec<Parameter> = parameters
        .into_iter()
        .take(MAX_ARGS)
        .map(parameter)
        .collect();
    let names = parameters
        .iter()
        .map(|parameter| parameter.name.clone())
        .collect();
    let site = sites::intern(place(code, name, module, names)?);
    let is_function = !code.is_none();
    wrapper::wrap(function, site, parameters, is_function, is_suspended)
}

/// Starts or stops recording all code that is not in `exclude`, and is in `include` unless that is
/// empty.
#[pyfunction]
#[pyo3(signature = (on, include, exclude, min_us, c_calls, /))]
pub(crate) fn trace(
    on: bool,
    include: Vec<String>,
    exclude: Vec<String>,
    min_us: f64,
    c_calls: bool,
) {
    filter::set(Filter { include, exclude });
    let min_ns = if min_us > 0.0 {
        (min_us * 1e3) as u64
    } else {
        0
    };
    monitor::MIN_TICKS.store(clock::approximate_ticks(min_ns), Ordering::Relaxed);
    codes::trace_all(on);
    #[cfg(not(Py_3_12))]
    crate::recording::callback::set(on, c_calls);
    // From 3.12 on, the package switches these events on and off.
    #[cfg(Py_3_12)]
    let _ = c_calls;
}

/// Starts to mark a frame at this interval in milliseconds, until the program marks one itself.
#[pyfunction]
#[pyo3(signature = (interval_ms, /))]
pub(crate) fn mark_frames_every(interval_ms: f64) {
    ticker::start(Duration::from_nanos((interval_ms * 1e6) as u64));
}

/// Stops the marks of `mark_frames_every`, and returns whether the program has marked no frame
/// itself.
#[pyfunction]
pub(crate) fn stop_marking_frames() -> bool {
    ticker::stop()
}

/// Starts to measure the waits for the interpreter's lock at this interval in milliseconds.
#[pyfunction]
#[pyo3(signature = (interval_ms, /))]
pub(crate) fn measure_gil(py: Python<'_>, interval_ms: f64) -> PyResult<()> {
    gil::start(py, Duration::from_nanos((interval_ms * 1e6) as u64))
}

/// Ends the measurement of `measure_gil`.
#[pyfunction]
pub(crate) fn stop_measuring_gil(py: Python<'_>) {
    gil::stop(py);
}

/// Forgets the measurement in the child of a fork, and returns whether there was one.
#[pyfunction]
pub(crate) fn forget_gil() -> bool {
    gil::forget()
}

/// Returns an object for `with` around the waits for something without a holder that the program
/// makes here; `suffix` follows its name.
#[pyfunction]
#[pyo3(signature = (suffix, /))]
pub(crate) fn wait_scope<'py>(py: Python<'py>, suffix: &str) -> PyResult<Bound<'py, PyAny>> {
    let (file, line) = maker::place(py)?;
    let file = file.to_str().unwrap_or("<unknown>").to_owned();
    let place = Place {
        name: format!("wait: {file}:{line}{suffix}"),
        file,
        line,
        category: "wait",
        ..Place::default()
    };
    scope::of_site(py, sites::intern(place))
}

/// Returns the name of this thread from the tables of `threading`, without running Python code.
pub(super) fn thread_name() -> Option<String> {
    #[expect(
        unsafe_code,
        reason = "threads of vor are not attached to the interpreter"
    )]
    // SAFETY: the function may be called on any thread. Threads of Python record in functions that
    // Python calls, and stay attached to it meanwhile.
    let py = unsafe {
        if ffi::PyGILState_GetThisThreadState().is_null() {
            return None;
        }
        Python::assume_attached()
    };
    let find = || -> PyResult<String> {
        let modules = py.import("sys")?.getattr("modules")?;
        let threading = modules.get_item("threading")?;
        let ident = py.import("_thread")?.getattr("get_ident")?.call0()?;
        let name = |thread: &Bound<'_, PyAny>| thread.getattr("_name")?.extract::<String>();
        if let Ok(thread) = threading.getattr("_active")?.get_item(&ident) {
            return name(&thread);
        }
        // A thread that has just been started is not in `_active` yet.
        for thread in threading
            .getattr("_limbo")?
            .call_method0("copy")?
            .call_method0("values")?
            .try_iter()?
        {
            let thread = thread?;
            if thread.getattr("_ident")?.eq(&ident)? {
                return name(&thread);
            }
        }
        Ok(String::new())
    };
    let found = find().ok().filter(|name| !name.is_empty());
    if found.is_some() {
        return found;
    }
    // Before `threading` is imported, there is only the main thread.
    let modules = py
        .import("sys")
        .and_then(|sys| sys.getattr("modules"))
        .ok()?;
    let has_threads = modules
        .contains(PyString::new(py, "threading"))
        .unwrap_or(true);
    (!has_threads).then(|| "MainThread".to_owned())
}
