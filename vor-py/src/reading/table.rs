//! A table. It provides columns by name, rows by number, and itself through Arrow's C data
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

use super::column::{self, Column, arrow_error, contiguous, position};

/// Smaller tables are made on one thread.
const MIN_PARALLEL_ROWS: usize = 1 << 18;

/// Columns of equal length.
///
/// `table["name"]` is a column, `table[7]` is a row as a dictionary, and `table[10:20]` is a table
/// of some of the rows. Neither columns nor slices copy values.
#[pyclass(frozen, module = "vor")]
pub(crate) struct Table {
    columns: Arc<[Arc<LazyColumn>]>,
    rows: Range<usize>,
    frames: Arc<Vec<FrameEnd>>,
}

/// The end of the rows of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameEnd {
    /// Number of the frame; `u64::MAX` for rows after the last one.
    pub(super) frame: u64,
    /// The row after its last one.
    pub(super) end: usize,
}

/// Returns the range of frames from number `first` to `last`. Numbers ascend, unless damage moved a
/// frame. Then the range ends before the first frame outside.
pub(super) fn frames_within<T>(
    frames: &[T],
    number: impl Fn(&T) -> u64,
    first: u64,
    last: u64,
) -> Range<usize> {
    let begin = frames.partition_point(|frame| number(frame) < first);
    let is_within = |frame: &&T| (first..=last).contains(&number(frame));
    begin..begin + frames[begin..].iter().take_while(is_within).count()
}

/// Makes a column at first use.
type Maker = Box<dyn Fn() -> Result<ArrayRef, arrow_schema::ArrowError> + Send + Sync>;

/// A column that is made at first use, unless it is ready.
pub(super) struct LazyColumn {
    field: FieldRef,
    array: OnceLock<ArrayRef>,
    make: Option<Maker>,
    /// One row, if all rows are known to equal it.
    constant: Option<ArrayRef>,
}

impl LazyColumn {
    /// Makes a column of values.
    pub(super) fn ready(name: &str, array: ArrayRef, is_nullable: bool) -> Self {
        Self {
            field: Arc::new(Field::new(name, array.data_type().clone(), is_nullable)),
            array: OnceLock::from(array),
            make: None,
            constant: None,
        }
    }

    /// Makes a column whose values are computed at first use.
    pub(super) fn computed(
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

    /// Sets the row that all rows equal, if there is one.
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
    pub(super) fn new(columns: Vec<LazyColumn>, rows: usize, frames: Vec<FrameEnd>) -> Self {
        Self {
            columns: columns.into_iter().map(Arc::new).collect(),
            rows: 0..rows,
            frames: Arc::new(frames),
        }
    }

    fn slice(&self, rows: Range<usize>) -> Self {
        Self {
            columns: Arc::clone(&self.columns),
            rows,
            frames: Arc::clone(&self.frames),
        }
    }

    /// Returns a column's values of the table's rows. Other threads that wait for them do not hold
    /// the interpreter's lock.
    fn array(&self, py: Python<'_>, column: &LazyColumn) -> PyResult<ArrayRef> {
        let array = py.detach(|| column.get().cloned()).map_err(arrow_error)?;
        Ok(array.slice(self.rows.start, self.rows.len()))
    }

    /// Makes the columns that are not ready, on as many threads as the machine has cores.
    fn make_all(&self) {
        let most = std::thread::available_parallelism().map_or(1, NonZero::get);
        let threads = if self.rows.len() < MIN_PARALLEL_ROWS {
            1
        } else {
            most
        };
        // The index of the next column. The thread that increments it makes that column. It
        // publishes no other memory, so the order of other accesses does not matter.
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(column) = self.columns.get(next.fetch_add(1, Ordering::Relaxed)) {
                // An error is returned again at the next use of the column.
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

    /// Return the rows of frames, by the numbers of the first and the last one.
    #[pyo3(signature = (first, last, /))]
    fn of_frames(&self, first: u64, last: u64) -> Self {
        let rows_of = frames_within(&self.frames, |of| of.frame, first, last);
        let end_of = |at: usize| at.checked_sub(1).map_or(0, |at| self.frames[at].end);
        let (begin, end) = (end_of(rows_of.start), end_of(rows_of.end));
        let within = |row: usize| row.clamp(self.rows.start, self.rows.end);
        self.slice(within(begin)..within(end))
    }

    /// Return the columns whose rows may differ, and one row of the columns whose rows are all
    /// equal. The latter need no memory per row in other libraries.
    fn _apart(&self) -> (Self, Self) {
        let (constant, varying): (Vec<_>, Vec<_>) = self
            .columns
            .iter()
            .map(Arc::clone)
            .partition(|column| column.constant.is_some());
        let row = |column: Arc<LazyColumn>| {
            let row = column.constant.as_ref().map(Arc::clone);
            row.map(|row| LazyColumn {
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
                let message = format!("no column {name}; the columns are {}", names.join(", "));
                return Err(PyKeyError::new_err(message));
            };
            let column = Column::new(FieldRef::clone(&column.field), self.array(py, column)?);
            return Ok(Bound::new(py, column)?.into_any());
        }
        if let Ok(slice) = at.cast::<PySlice>() {
            let rows = contiguous(slice, self.rows.len())?;
            let rows = self.slice(self.rows.start + rows.start..self.rows.start + rows.end);
            return Ok(Bound::new(py, rows)?.into_any());
        }
        let row = position(at, self.rows.len())?;
        let found = PyDict::new(py);
        for column in self.columns.iter() {
            let array = py.detach(|| column.get().cloned()).map_err(arrow_error)?;
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

    /// Return the table as a Polars DataFrame. Polars must be installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_polars")
    }

    /// Return the table as a pandas DataFrame. pandas must be installed.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_pandas")
    }

    /// Return the table as a PyArrow Table. PyArrow must be installed.
    fn to_arrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        Self::convert(slf, "to_arrow")
    }

    /// Return the columns by name as NumPy arrays. NumPy must be installed. Numbers are not copied.
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
            FFI_ArrowSchema::try_from(&DataType::Struct(self.fields())).map_err(arrow_error)?;
        column::schema_capsule(py, schema)
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // There is only one schema. The interface allows ignoring the request.
        drop(requested_schema);
        let rows = StructArray::try_new_with_length(
            self.fields(),
            self.arrays(py)?,
            None,
            self.rows.len(),
        );
        let rows: ArrayRef = Arc::new(rows.map_err(arrow_error)?);
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
        let rows =
            RecordBatch::try_new(Arc::clone(&schema), self.arrays(py)?).map_err(arrow_error)?;
        let stream =
            FFI_ArrowArrayStream::new(Box::new(RecordBatchIterator::new([Ok(rows)], schema)));
        column::capsule(py, stream, c"arrow_array_stream")
    }
}
