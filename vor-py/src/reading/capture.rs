//! An open capture, for the package `vor`. Users see `vor.Capture`, which is written in Python.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use vor_capture::model::catalog::{Catalog, ThreadId};
use vor_capture::reader::{Damage, FrameSummary, SegmentedCapture};
use vor_capture::stats::{ScopeStats, StatsBuilder};
use vor_export::thread_label;

use super::column::arrow_error;
use super::error::failed;
use super::gather::{FrameSelection, Interruption, PassData, gather, statistics, statistics_until};
use super::make;
use super::table::Table;

/// Most spans of a frame: positions in a frame are 32-bit.
const MAX_SPANS: usize = i32::MAX as usize;

/// An open or closed capture.
#[pyclass(frozen, module = "vor._core")]
pub(crate) struct Reading {
    path: PathBuf,
    open: Mutex<Option<Open>>,
}

struct Open {
    capture: SegmentedCapture,
    /// The readable frames, with their places in the file. `None` before the first search.
    frames: Option<Arc<Vec<(u64, FrameSummary)>>>,
    damage: Damage,
}

impl Reading {
    /// Runs `work` on the open capture, without the interpreter's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Path, &mut Open) -> Result<T, Interruption> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            open.as_mut().map(|open| work(&self.path, open))
        });
        match done {
            Some(done) => done.map_err(|interruption| interruption.raise(&self.path)),
            None => {
                let path = self.path.display();
                let message = format!("{path}: the capture is closed");
                Err(PyValueError::new_err(message))
            }
        }
    }
}

impl Open {
    fn frames(&mut self) -> Result<Arc<Vec<(u64, FrameSummary)>>, Interruption> {
        if let Some(frames) = &self.frames {
            return Ok(Arc::clone(frames));
        }
        let frames = self.capture.summaries()?;
        Ok(Arc::clone(self.frames.insert(Arc::new(frames))))
    }

    /// Stores damage that a pass found, unless an earlier pass found more.
    fn note(&mut self, damage: Damage) {
        if damage.count >= self.damage.count {
            self.damage = damage;
        }
    }
}

/// Tables of spans, tasks, messages and metrics, in this order.
type Tables = (Table, Table, Table, Table);

#[pymethods]
impl Reading {
    #[new]
    #[pyo3(signature = (path, /))]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let capture = py
            .detach(|| opened(&path))
            .map_err(|error| failed(&path, error))?;
        let open = Open {
            frames: None,
            damage: capture.info().damage,
            capture,
        };
        Ok(Self {
            path,
            open: Mutex::new(Some(open)),
        })
    }

    /// Return the properties of a capture, as `vor info --json` prints them.
    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (info, catalog) = self.with(py, |_, open| {
            Ok((open.capture.info(), Arc::clone(open.capture.catalog())))
        })?;
        let found = PyDict::new(py);
        found.set_item("version", info.version)?;
        found.set_item("file_bytes", info.file_bytes)?;
        found.set_item("closed", info.closed)?;
        found.set_item("indexed", info.indexed)?;
        found.set_item("recorder", &catalog.process.recorder)?;
        found.set_item("process", &catalog.process.name)?;
        found.set_item("pid", catalog.process.pid)?;
        found.set_item("host", &catalog.machine.host)?;
        found.set_item(
            "start_unix_ns",
            catalog.timeline.syncs().first().map(|sync| sync.unix_ns),
        )?;
        found.set_item("duration_ns", info.duration_ns)?;
        found.set_item("frames", info.frames)?;
        found.set_item("spans", info.spans)?;
        found.set_item("dropped_spans", info.dropped_spans)?;
        let ids = 0..u32::try_from(catalog.threads.len()).unwrap_or(u32::MAX);
        let threads: Vec<_> = ids
            .map(|id| thread_label(&catalog, ThreadId(id)).into_owned())
            .collect();
        found.set_item("threads", threads)?;
        Ok(found)
    }

    /// Return the problems of a folder or pattern: segments that are missing or cannot be read.
    fn problems(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        self.with(py, |_, open| Ok(open.capture.problems().to_vec()))
    }

    /// Return the damage found so far, with the keys of the command's JSON.
    fn skipped<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let damage = self.with(py, |_, open| Ok(open.damage.clone()))?;
        damage_dict(py, &damage)
    }

    /// Read the whole file, check every checksum, and return the damage.
    fn verify<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let damage = self.with(py, |_, open| {
            let damage = open.capture.verify()?;
            open.note(damage.clone());
            Ok(damage)
        })?;
        damage_dict(py, &damage)
    }

    /// Return the table of frames.
    fn frames(&self, py: Python<'_>) -> PyResult<Table> {
        self.with(py, |_, open| {
            let frames = open.frames()?;
            let summaries: Vec<FrameSummary> = frames.iter().map(|&(_, summary)| summary).collect();
            Ok(make::frame_table(&summaries, open.capture.catalog()))
        })
    }

    /// Return the tables of spans, tasks, messages and metrics, for the whole capture or for an
    /// inclusive range of frame numbers. Without spans, the first three are empty.
    #[pyo3(signature = (frames, with_spans, /))]
    fn gather(
        &self,
        py: Python<'_>,
        frames: Option<(u64, u64)>,
        with_spans: bool,
    ) -> PyResult<Tables> {
        let tables = self.with(py, |_, open| {
            let all = open.frames()?;
            let found = gather(
                &mut open.capture,
                &all,
                FrameSelection::new(frames),
                with_spans,
            )?;
            let PassData {
                mut columns,
                metrics,
                catalog,
                damage,
            } = found;
            open.note(damage);
            let tasks = make::tasks(&columns.tasks, &catalog);
            let messages = make::messages(&columns.messages, &catalog);
            let metrics = make::metrics(&metrics, &catalog);
            Ok((
                make::spans(&mut columns, &catalog),
                tasks,
                messages,
                metrics,
            ))
        });
        let (spans, tasks, messages, metrics) = tables?;
        Ok((
            spans,
            tasks.map_err(arrow_error)?,
            messages.map_err(arrow_error)?,
            metrics.map_err(arrow_error)?,
        ))
    }

    /// Return the table of statistics for all spans, or for those that ended in a range of frames.
    /// It has a row per call site, the largest self time first.
    #[pyo3(signature = (frames, /))]
    fn stats(&self, py: Python<'_>, frames: Option<(u64, u64)>) -> PyResult<Table> {
        let table = self.with(py, |_, open| {
            let (builder, catalog, damage) =
                statistics(&mut open.capture, FrameSelection::new(frames))?;
            open.note(damage);
            let rows = by_self_time(&builder, &catalog);
            Ok(make::stats(&rows, &catalog))
        });
        table?.map_err(arrow_error)
    }

    /// Return the table of statistics for the spans that can be read within a time, and whether
    /// these are all spans. Very long captures have self times that are estimates in it.
    #[pyo3(signature = (limit_ms, /))]
    fn stats_within(&self, py: Python<'_>, limit_ms: u64) -> PyResult<(Table, bool)> {
        let deadline = Instant::now() + Duration::from_millis(limit_ms);
        let (table, is_whole) = self.with(py, |_, open| {
            let (builder, catalog, is_whole) = statistics_until(&mut open.capture, deadline)?;
            let rows = by_self_time(&builder, &catalog);
            Ok((make::stats(&rows, &catalog), is_whole))
        })?;
        Ok((table.map_err(arrow_error)?, is_whole))
    }

    /// Read the records written since the last call, and return the number of frames.
    fn extend(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |path, open| {
            if !open.capture.extend()? {
                // Segments that are written begin and end.
                open.capture = opened(path)?;
            }
            open.frames = None;
            let info = open.capture.info();
            open.note(info.damage);
            Ok(open.capture.frame_count())
        })
    }

    /// Close the file. Tables that were read remain valid.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *self.open.lock().unwrap_or_else(PoisonError::into_inner) = None);
    }
}

fn opened(path: &Path) -> Result<SegmentedCapture, vor_capture::Error> {
    let mut capture = SegmentedCapture::open(path)?;
    capture.set_max_spans(MAX_SPANS);
    Ok(capture)
}

/// Returns a row per call site, the largest self time first.
fn by_self_time(builder: &StatsBuilder, catalog: &Catalog) -> Vec<ScopeStats> {
    let mut rows = builder.scope_stats(catalog);
    rows.sort_by(|a, b| {
        b.self_ns
            .cmp(&a.self_ns)
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.site.cmp(&b.site))
    });
    rows
}

/// Returns damage as a dictionary with the names of the command's JSON.
fn damage_dict<'py>(py: Python<'py>, damage: &Damage) -> PyResult<Bound<'py, PyDict>> {
    let loss = |loss: &vor_capture::reader::Loss| -> PyResult<Bound<'py, PyDict>> {
        let found = PyDict::new(py);
        found.set_item("offset", loss.offset)?;
        found.set_item("bytes", loss.bytes)?;
        found.set_item("reason", &loss.reason)?;
        Ok(found)
    };
    let found = PyDict::new(py);
    found.set_item("count", damage.count)?;
    found.set_item("bytes", damage.bytes)?;
    let losses: PyResult<Vec<_>> = damage.losses.iter().map(loss).collect();
    found.set_item("losses", PyList::new(py, losses?)?)?;
    found.set_item("tail", damage.tail.as_ref().map(loss).transpose()?)?;
    Ok(found)
}
