//! The contents of a capture as lists of dictionaries, for tests.

use std::path::PathBuf;

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::catalog::{Catalog, SiteInfo};
use vor_capture::reader::{Event, Reader};

/// Returns the contents of a capture as lists of dictionaries, in the order of their ends.
#[pyfunction]
#[pyo3(signature = (path, /))]
pub(crate) fn contents(py: Python<'_>, path: PathBuf) -> PyResult<Bound<'_, PyDict>> {
    let fail = |error: std::io::Error| PyOSError::new_err(format!("{}: {error}", path.display()));
    let mut reader = Reader::open(&path).map_err(fail)?;
    let found = PyDict::new(py);
    let lists = ["spans", "tasks", "messages", "frames", "open", "losses"];
    for name in lists {
        found.set_item(name, PyList::empty(py))?;
    }
    let add = |list: &str, entry: Bound<'_, PyDict>| -> PyResult<()> {
        let Some(list) = found.get_item(list)? else {
            return Ok(());
        };
        list.cast::<PyList>()?.append(entry)
    };
    let mut dropped = 0;
    while let Some(event) = reader.next_event().map_err(fail)? {
        match event {
            Event::Batch(batch) => {
                let in_batch = batch.threads.iter().map(|thread| thread.dropped_spans);
                dropped = in_batch.fold(dropped, u64::saturating_add);
                add_batch(py, &batch, &add)?;
            }
            Event::Frame(frame) => {
                let frame = frame.frame;
                let entry = PyDict::new(py);
                let set = frame.catalog.frame_sets.get(frame.frame_set as usize);
                entry.set_item("set", set.map(|set| set.to_string()))?;
                entry.set_item("index", frame.index)?;
                entry.set_item("spans", frame.span_count)?;
                let metrics = PyDict::new(py);
                for metric in &frame.metrics {
                    if let Some(column) = frame.catalog.columns.get(metric.column as usize) {
                        metrics.set_item(
                            column.metric.name.to_string(),
                            (metric.value, column.metric.unit.to_string()),
                        )?;
                    }
                }
                entry.set_item("metrics", metrics)?;
                add("frames", entry)?;
            }
            Event::OpenScopes(open) => {
                let catalog = reader.catalog().cloned().unwrap_or_default();
                for (thread, scopes) in &open.threads {
                    for (site, start_ticks) in scopes {
                        let entry = PyDict::new(py);
                        entry.set_item("name", catalog.site_name(*site))?;
                        entry.set_item("thread", catalog.thread_name(*thread))?;
                        entry.set_item("start", start_ticks)?;
                        add("open", entry)?;
                    }
                }
            }
            Event::Loss(loss) => {
                let entry = PyDict::new(py);
                entry.set_item("reason", format!("{loss:?}"))?;
                add("losses", entry)?;
            }
            _ => {}
        }
    }
    found.set_item("dropped", dropped)?;
    Ok(found)
}

fn add_batch(
    py: Python<'_>,
    batch: &SpanBatch,
    add: &impl Fn(&str, Bound<'_, PyDict>) -> PyResult<()>,
) -> PyResult<()> {
    let catalog = &batch.catalog;
    for thread in &batch.threads {
        let name = catalog.thread_name(thread.thread);
        let mut args = thread.args.iter().peekable();
        for i in 0..thread.len() {
            let site = site(catalog, thread.sites[i]);
            let (start, duration) = (thread.start_ticks[i], thread.duration_ticks[i]);
            let entry = span(py, &site, name, start, duration)?;
            let values = PyDict::new(py);
            if let Some(given) = args.next_if(|args| args.span as usize == i) {
                for (name, value) in site.arg_names.iter().zip(&given.values) {
                    values.set_item(name.as_ref(), object(py, value)?)?;
                }
            }
            entry.set_item("args", values)?;
            add("spans", entry)?;
        }
        for task in &thread.async_spans {
            let site = site(catalog, task.site);
            add(
                "tasks",
                span(py, &site, name, task.start_ticks, task.duration_ticks)?,
            )?;
        }
        for message in &thread.messages {
            let entry = PyDict::new(py);
            entry.set_item("text", message.text.as_ref())?;
            entry.set_item("thread", name)?;
            entry.set_item("start", message.ticks)?;
            add("messages", entry)?;
        }
    }
    Ok(())
}

fn site(catalog: &Catalog, id: vor_capture::model::catalog::SiteId) -> SiteInfo {
    catalog.site(id).cloned().unwrap_or_default()
}

fn span<'py>(
    py: Python<'py>,
    site: &SiteInfo,
    thread: &str,
    start_ticks: u64,
    duration_ticks: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("name", site.name.as_ref())?;
    entry.set_item("module", site.module_path.as_ref())?;
    entry.set_item("file", site.file.as_ref())?;
    entry.set_item("line", site.line)?;
    entry.set_item("thread", thread)?;
    entry.set_item("start", start_ticks)?;
    entry.set_item("end", start_ticks.saturating_add(duration_ticks))?;
    Ok(entry)
}

fn object<'py>(py: Python<'py>, value: &ArgValue) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        ArgValue::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        ArgValue::I64(value) => value.into_pyobject(py)?.into_any(),
        ArgValue::U64(value) => value.into_pyobject(py)?.into_any(),
        ArgValue::F64(value) => value.into_pyobject(py)?.into_any(),
        ArgValue::Str(value) => value.into_pyobject(py)?.into_any(),
        other => other.to_string().into_pyobject(py)?.into_any(),
    })
}
