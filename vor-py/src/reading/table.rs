//! A table as Python sees it: columns by name, rows by number, all of it by Arrow's C data
//! interface.

use std::num::NonZero;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchIterator, StructArray};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PySlice, PyString, PyTuple};

use super::column::{self, Column, contiguous, position, refused};

/// Tables with fewer rows are not worth a thread.
const MIN_PARALLEL_ROWS: usize = 1 << 18;

/// Columns of equal length.
///
/// `table["name"]` is a column, `table[7]` a row as a dictionary, `table[10:20]` a table of some of
/// the rows. Nothing of it is copied.
#[pyclass(frozen, module = "vor")]
pub(crate) struct Table {
    columns: Arc<[Arc<Lazy>]>,
    rows: Range<usize>,
    frames: Arc<Vec<FrameEnd>>,
}

/// Where the rows of a frame end.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameEnd {
    /// Number of the frame; `u64::MAX` for what ended after the last one.
    pub(super) frame: u64,
    /// The row behind its last one.
    pub(super) end: usize,
}

/// Returns the range of frames from number `first` to `last`. Numbers ascend, unless damage moved
/// a frame: then the range ends before the first that does not belong to it.
pub(super) fn frames_within<T>(
    frames: &[T],
    number: impl Fn(&T) -> u64,
    first: u64,
    last: u64,
) -> Range<usize> {
    let begin = frames.partition_point(|frame| number(frame) < first);
    let wanted = |frame: &&T| (first..=last).contains(&number(frame));
    begin..begin + frames[begin..].iter().take_while(wanted).count()
}

/// What makes a column when it is asked for.
type Maker = Box<dyn Fn() -> Result<ArrayRef, arrow_schema::ArrowError> + Send + Sync>;

/// A column that is there, or is made when somebody asks for it.
pub(super) struct Lazy {
    field: FieldRef,
    array: OnceLock<ArrayRef>,
    make: Option<Maker>,
    /// One row, where it is known that all rows are like it.
    constant: Option<ArrayRef>,
}

impl Lazy {
    /// Makes a column of values that are there.
    pub(super) fn ready(name: &str, array: ArrayRef, is_nullable: bool) -> Self {
        Self {
            field: Arc::new(Field::new(name, array.data_type().clone(), is_nullable)),
            array: OnceLock::from(array),
            make: None,
            constant: None,
        }
    }

    /// Makes a column whose values follow from others.
    pub(super) fn made(
        name: &str,
        of: DataType,
        is_nullable: bool,
        make: impl Fn() -> Result<ArrayRef, arrow_schema::ArrowError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            field: Arc::new(Field::new(name, of, is_nullable)),
            array: OnceLock::new(),
            make: Some(Box::new(make)),
            constant: None,
        }
    }

    /// Says that all rows are like this one, if there is one.
    pub(super) fn with_constant(self, constant: Option<ArrayRef>) -> Self {
        Self { constant, ..self }
    }

    fn get(&self) -> Result<&ArrayRef, arrow_schema::ArrowError> {
        if let Some(array) = self.array.get() {
            return Ok(array);
        }
        let made = match &self.make {
            Some(make) => make()?,
            None => arrow_array::new_empty_array(self.field.data_type()),
        };
        Ok(self.array.get_or_init(|| made))
    }
}

impl Table {
    pub(super) fn new(columns: Vec<Lazy>, rows: usize, frames: Vec<FrameEnd>) -> Self {
        Self {
            columns: columns.into_iter().map(Arc::new).collect(),
            rows: 0..rows,
            frames: Arc::new(frames),
        }
    }

    fn part(&self, rows: Range<usize>) -> Self {
        Self {
            columns: Arc::clone(&self.columns),
            rows,
            frames: Arc::clone(&self.frames),
        }
    }

    /// Returns a column's values of the table's rows. Whoever else waits for them does so without
    /// the interpreter's lock.
    fn array(&self, py: Python<'_>, column: &Lazy) -> PyResult<ArrayRef> {
        let array = py.detach(|| column.get().cloned()).map_err(refused)?;
        Ok(array.slice(self.rows.start, self.rows.len()))
    }

    /// Makes the columns that are not there yet, on as many threads as may run at once.
    fn make_all(&self) {
        let most = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if self.rows.len() < MIN_PARALLEL_ROWS {
            1
        } else {
            most
        };
        // The place of the next column; whoever adds to it makes that column. No memory is passed
        // on by it, so the order of other accesses does not matter.
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(column) = self.columns.get(next.fetch_add(1, Ordering::Relaxed)) {
                // What cannot be made says so to whoever asks for it.
                drop(column.get());
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(self.columns.len()) {
                scope.spawn(work);
            }
            work();
        });
    }

    fn fields(&self) -> Fields {
        self.columns
            .iter()
            .map(|column| FieldRef::clone(&column.field))
            .collect()
    }

    fn arrays(&self, py: Python<'_>) -> PyResult<Vec<ArrayRef>> {
        py.detach(|| self.make_all());
        self.columns
            .iter()
            .map(|column| self.array(py, column))
            .collect()
    }

    fn convert<'py>(slf: &Bound<'py, Self>, function: &str) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("vor._tables")?
            .call_method1(function, (slf,))
    }
}

#[pymethods]
impl Table {
    /// Names of the columns.
    #[getter]
    fn columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.columns.iter().map(|column| column.field.name()))
    }

    /// Return the rows of frames by their numbers, from the first to the last of them.
    #[pyo3(signature = (first, last, /))]
    fn of_frames(&self, first: u64, last: u64) -> Self {
        let rows_of = frames_within(&self.frames, |of| of.frame, first, last);
        let end_of = |at: usize| at.checked_sub(1).map_or(0, |at| self.frames[at].end);
        let (begin, end) = (end_of(rows_of.start), end_of(rows_of.end));
        let within = |row: usize| row.clamp(self.rows.start, self.rows.end);
        self.part(within(begin)..within(end))
    }

    /// Return the columns whose rows may differ, and one row of those of which all rows are the
    /// same. The latter need no memory for each row where they go.
    fn _apart(&self) -> (Self, Self) {
        let (constant, varying): (Vec<_>, Vec<_>) = self
            .columns
            .iter()
            .map(Arc::clone)
            .partition(|column| column.constant.is_some());
        let row = |column: Arc<Lazy>| {
            let row = column.constant.as_ref().map(Arc::clone);
            row.map(|row| Lazy {
                field: FieldRef::clone(&column.field),
                array: OnceLock::from(row),
                make: None,
                constant: None,
            })
        };
        let varying = Self {
            columns: varying.into(),
            rows: self.rows.clone(),
            frames: Arc::clone(&self.frames),
        };
        let constant = constant.into_iter().filter_map(row).collect();
        (varying, Self::new(constant, 1, Vec::new()))
    }

    fn __len__(&self) -> usize {
        self.rows.len()
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if let Ok(name) = at.cast::<PyString>() {
            let name = name.to_cow()?;
            let Some(column) = self
                .columns
                .iter()
                .find(|column| *column.field.name() == *name)
            else {
                let names: Vec<&str> = self
                    .columns
                    .iter()
                    .map(|column| column.field.name().as_str())
                    .collect();
                let message = format!(
                    "there is no column {name}; the columns are {}",
                    names.join(", ")
                );
                return Err(PyKeyError::new_err(message));
            };
            let column = Column::new(FieldRef::clone(&column.field), self.array(py, column)?);
            return Ok(Bound::new(py, column)?.into_any());
        }
        if let Ok(slice) = at.cast::<PySlice>() {
            let rows = contiguous(slice, self.rows.len())?;
            let part = self.part(self.rows.start + rows.start..self.rows.start + rows.end);
            return Ok(Bound::new(py, part)?.into_any());
        }
        let row = position(at, self.rows.len())?;
        let found = PyDict::new(py);
        for column in self.columns.iter() {
            let array = py.detach(|| column.get().cloned()).map_err(refused)?;
            found.set_item(
                column.field.name(),
                column::value(py, &array, self.rows.start + row)?,
            )?;
        }
        Ok(found.into_any())
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("vor._tables")?
            .call_method1("items", (slf,))
    }

    /// Return the table as a DataFrame of Polars, which must be installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_polars")
    }

    /// Return the table as a DataFrame of pandas, which must be installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_pandas")
    }

    /// Return the table as a Table of PyArrow, which must be installed.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_arrow")
    }

    /// Return the columns by name as arrays of NumPy, which must be installed; numbers are not
    /// copied.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_numpy")
    }

    fn __repr__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "text")
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "html")
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema =
            FFI_ArrowSchema::try_from(&DataType::Struct(self.fields())).map_err(refused)?;
        column::schema_capsule(py, schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // What is there is the only form there is, which the interface allows.
        drop(requested_schema);
        let rows = StructArray::try_new_with_length(
            self.fields(),
            self.arrays(py)?,
            None,
            self.rows.len(),
        );
        let rows: ArrayRef = Arc::new(rows.map_err(refused)?);
        let field = Arc::new(Field::new("", rows.data_type().clone(), false));
        column::array_capsules(py, &field, &rows)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        drop(requested_schema);
        let schema = Arc::new(Schema::new(self.fields()));
        let rows = RecordBatch::try_new(Arc::clone(&schema), self.arrays(py)?).map_err(refused)?;
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(rows)], schema)));
        column::capsule(py, stream, c"arrow_array_stream")
    }
}
