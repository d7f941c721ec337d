//! A column of a table. It provides numbers through the buffer protocol, all types through Arrow's
//! C data interface, and values one by one.

#![expect(unsafe_code, reason = "the buffer protocol is one of pointers")]

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, UInt32Array};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{DataType, Field, FieldRef};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyBufferError, PyIndexError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList, PySlice, PyString, PyTuple};

/// A column of a table.
///
/// The buffer protocol reads numbers without a copy (`numpy.asarray(column)`,
/// `memoryview(column)`). Libraries that read Arrow arrays can read every column. A buffer has -1
/// for a missing value, or 0 if the column has no negative numbers. Repeated strings are stored as
/// numbers, `column.codes`, that index the list of distinct strings, `column.values`.
#[pyclass(frozen, module = "vor")]
pub(crate) struct Column {
    field: FieldRef,
    array: ArrayRef,
}

impl Column {
    pub(super) fn new(field: FieldRef, array: ArrayRef) -> Self {
        Self { field, array }
    }

    fn numbers(&self) -> Option<Numbers<'_>> {
        numbers(&self.array)
    }

    /// Returns the value of a row.
    fn value<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Bound<'py, PyAny>> {
        value(py, &self.array, row)
    }

    fn is_coded(&self) -> bool {
        matches!(self.field.data_type(), DataType::Dictionary(..))
    }

    fn dictionary(&self) -> PyResult<&DictionaryArray<Int32Type>> {
        self.array.as_dictionary_opt().ok_or_else(|| {
            let message = format!("{}: a column of numbers, not of text", self.field.name());
            PyTypeError::new_err(message)
        })
    }
}

/// The numbers of a column in memory.
struct Numbers<'a> {
    bytes: &'a [u8],
    item_bytes: usize,
    format: &'static CStr,
}

/// Returns the numbers of an array of numbers.
fn numbers(array: &ArrayRef) -> Option<Numbers<'_>> {
    fn of<'a, T: ArrowPrimitiveType>(
        array: &'a ArrayRef,
        format: &'static CStr,
    ) -> Option<Numbers<'a>> {
        let values = array.as_primitive_opt::<T>()?.values();
        Some(Numbers {
            bytes: values.inner().as_slice(),
            item_bytes: size_of::<T::Native>(),
            format,
        })
    }
    match array.data_type() {
        DataType::Int32 => of::<Int32Type>(array, c"i"),
        DataType::Int64 => of::<Int64Type>(array, c"q"),
        DataType::UInt32 => of::<UInt32Type>(array, c"I"),
        DataType::UInt64 => of::<UInt64Type>(array, c"Q"),
        DataType::Float64 => of::<Float64Type>(array, c"d"),
        _ => None,
    }
}

/// Returns the value of a row of an array, or Python's `None` if it is missing.
pub(super) fn value<'py>(
    py: Python<'py>,
    array: &ArrayRef,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    fn number<'py, T>(py: Python<'py>, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>>
    where
        T: ArrowPrimitiveType,
        T::Native: IntoPyObjectExt<'py>,
    {
        array.as_primitive::<T>().value(row).into_bound_py_any(py)
    }
    if array.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match array.data_type() {
        DataType::Int32 => number::<Int32Type>(py, array, row)?,
        DataType::Int64 => number::<Int64Type>(py, array, row)?,
        DataType::UInt32 => number::<UInt32Type>(py, array, row)?,
        DataType::UInt64 => number::<UInt64Type>(py, array, row)?,
        DataType::Float64 => number::<Float64Type>(py, array, row)?,
        DataType::Utf8 => PyString::new(py, array.as_string::<i32>().value(row)).into_any(),
        DataType::Dictionary(..) => {
            let coded = array.as_dictionary::<Int32Type>();
            let code = coded.keys().value(row).unsigned_abs() as usize;
            value(py, coded.values(), code)?
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let (keys, values) = (
                entries.column(0).as_string::<i32>(),
                entries.column(1).as_string::<i32>(),
            );
            let found = PyDict::new(py);
            for (key, value) in keys.iter().zip(values) {
                found.set_item(key, value)?;
            }
            found.into_any()
        }
        other => {
            return Err(PyTypeError::new_err(format!(
                "values of type {other} have no equivalent in Python"
            )));
        }
    })
}

#[pymethods]
impl Column {
    /// The name of the column.
    #[getter]
    fn name(&self) -> &str {
        self.field.name()
    }

    /// The number of missing values.
    #[getter]
    fn null_count(&self) -> usize {
        self.array.null_count()
    }

    /// The type of the values: `int64`, `uint32` and so on, `text` or `map`.
    #[getter]
    fn kind(&self) -> &'static str {
        kind(self.field.data_type())
    }

    /// Whether the values are repeated strings, with `codes` and `values`.
    #[getter(is_coded)]
    fn has_codes(&self) -> bool {
        self.is_coded()
    }

    /// A column with 1 for each missing value and 0 for each other value.
    #[getter]
    fn missing(&self) -> Self {
        let missing: UInt32Array = (0..self.array.len())
            .map(|row| Some(u32::from(self.array.is_null(row))))
            .collect();
        let field = Field::new(self.field.name(), DataType::UInt32, false);
        Self::new(field.into(), std::sync::Arc::new(missing))
    }

    /// The index of each row's string in `values`. Only for a column of repeated strings.
    #[getter]
    fn codes(&self) -> PyResult<Self> {
        let keys: ArrayRef = std::sync::Arc::new(self.dictionary()?.keys().clone());
        let field = self.field.as_ref().clone().with_data_type(DataType::Int32);
        Ok(Self::new(field.into(), keys))
    }

    /// The distinct strings. Only for a column of repeated strings.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let values = self.dictionary()?.values();
        let texts: PyResult<Vec<_>> = (0..values.len())
            .map(|row| value(py, values, row))
            .collect();
        PyList::new(py, texts?)
    }

    /// Return all values as a list.
    fn to_list<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for row in 0..self.array.len() {
            list.append(self.value(py, row)?)?;
        }
        Ok(list)
    }

    /// Return the column as a NumPy array. Numbers are not copied.
    fn to_numpy<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("numpy")?.call_method1("asarray", (slf,))
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn __repr__(&self) -> String {
        format!(
            "<vor.Column {}: {} rows of {}>",
            self.name(),
            self.array.len(),
            kind(self.field.data_type())
        )
    }

    fn __getitem__<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let length = self.array.len();
        if let Ok(slice) = at.cast::<PySlice>() {
            let rows = contiguous(slice, length)?;
            let array = self.array.slice(rows.start, rows.len());
            return Ok(Bound::new(py, Self::new(FieldRef::clone(&self.field), array))?.into_any());
        }
        self.value(py, position(at, length)?)
    }

    fn __iter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("vor._tables")?
            .call_method1("items", (slf,))
    }

    #[pyo3(signature = (dtype=None, copy=None))]
    fn __array__<'py>(
        slf: &Bound<'py, Self>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        slf.py()
            .import("vor._tables")?
            .call_method1("array", (slf, dtype, copy))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        schema_capsule(
            py,
            FFI_ArrowSchema::try_from(&*self.field).map_err(arrow_error)?,
        )
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // There is only one schema. The interface allows ignoring the request.
        drop(requested_schema);
        array_capsules(py, &self.field, &self.array)
    }

    /// Fills in a buffer with the numbers.
    ///
    /// # Safety
    ///
    /// `view` is null, or a buffer of the interpreter to be filled in.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("there is no buffer to fill in"));
        }
        let column = slf.get();
        let Some(numbers) = column.numbers() else {
            return Err(PyBufferError::new_err(format!(
                "{}: a column of {}, not of numbers; its `codes` are numbers",
                column.name(),
                kind(column.field.data_type())
            )));
        };
        if flags & ffi::PyBUF_WRITABLE == ffi::PyBUF_WRITABLE {
            return Err(PyBufferError::new_err("columns cannot be written to"));
        }
        let (item_bytes, bytes) = (numbers.item_bytes, numbers.bytes.len());
        // Lives until the buffer is released.
        let shape = Box::into_raw(Box::new([
            (bytes / item_bytes) as ffi::Py_ssize_t,
            item_bytes as ffi::Py_ssize_t,
        ]));
        // SAFETY: `view` is a buffer that may be written, as the caller says. The column keeps its
        // array for as long as it lives, which is for as long as `obj` refers to it; nothing writes
        // to an array. The format is static, and shape and strides are freed by `__releasebuffer__`
        // only.
        unsafe {
            (*view).buf = numbers.bytes.as_ptr().cast_mut().cast();
            (*view).len = bytes as ffi::Py_ssize_t;
            (*view).itemsize = item_bytes as ffi::Py_ssize_t;
            (*view).readonly = 1;
            (*view).ndim = 1;
            let requested = |flag: c_int| flags & flag == flag;
            (*view).format = if requested(ffi::PyBUF_FORMAT) {
                numbers.format.as_ptr().cast_mut()
            } else {
                ptr::null_mut()
            };
            (*view).shape = if requested(ffi::PyBUF_ND) {
                shape.cast()
            } else {
                ptr::null_mut()
            };
            (*view).strides = if requested(ffi::PyBUF_STRIDES) {
                shape.cast::<ffi::Py_ssize_t>().add(1)
            } else {
                ptr::null_mut()
            };
            (*view).suboffsets = ptr::null_mut();
            (*view).internal = shape.cast::<c_void>();
            (*view).obj = slf.into_ptr();
        }
        Ok(())
    }

    /// Frees the shape and strides of a buffer.
    ///
    /// # Safety
    ///
    /// `view` was filled in by `__getbuffer__`, and is released once.
    unsafe fn __releasebuffer__(&self, view: *mut ffi::Py_buffer) {
        // SAFETY: as the caller says: `internal` is the box that `__getbuffer__` made.
        unsafe {
            drop(Box::from_raw(
                (*view).internal.cast::<[ffi::Py_ssize_t; 2]>(),
            ))
        };
    }
}

/// Returns the name of a type for users.
pub(super) fn kind(of: &DataType) -> &'static str {
    match of {
        DataType::Int32 => "int32",
        DataType::Int64 => "int64",
        DataType::UInt32 => "uint32",
        DataType::UInt64 => "uint64",
        DataType::Float64 => "float64",
        DataType::Utf8 | DataType::Dictionary(..) => "text",
        _ => "map",
    }
}

/// Returns the row of a Python index, which counts from the end if negative.
pub(super) fn position(at: &Bound<'_, PyAny>, length: usize) -> PyResult<usize> {
    let index: isize = at.extract()?;
    let row = if index < 0 {
        length.checked_add_signed(index)
    } else {
        usize::try_from(index).ok()
    };
    row.filter(|&row| row < length).ok_or_else(|| {
        PyIndexError::new_err(format!("row {index} is out of range: there are {length}"))
    })
}

/// Returns the rows of a slice. They must be contiguous, because tables are not copied.
pub(super) fn contiguous(
    slice: &Bound<'_, PySlice>,
    length: usize,
) -> PyResult<std::ops::Range<usize>> {
    let length = isize::try_from(length).unwrap_or(isize::MAX);
    let indices = slice.indices(length)?;
    if indices.step != 1 {
        let message = format!("the step of a slice must be 1, not {}", indices.step);
        return Err(PyValueError::new_err(message));
    }
    let begin = indices.start.unsigned_abs();
    Ok(begin..begin + indices.slicelength)
}

/// Makes the two capsules of an array.
pub(super) fn array_capsules<'py>(
    py: Python<'py>,
    field: &FieldRef,
    array: &ArrayRef,
) -> PyResult<Bound<'py, PyTuple>> {
    let schema = FFI_ArrowSchema::try_from(&**field).map_err(arrow_error)?;
    let array = FFI_ArrowArray::new(&array.to_data());
    let array = capsule(py, array, c"arrow_array")?;
    PyTuple::new(py, [schema_capsule(py, schema)?, array])
}

/// Makes the capsule of a schema.
pub(super) fn schema_capsule(
    py: Python<'_>,
    schema: FFI_ArrowSchema,
) -> PyResult<Bound<'_, PyCapsule>> {
    capsule(py, schema, c"arrow_schema")
}

/// Makes a capsule with an Arrow struct. The consumer marks the struct as released, or the capsule
/// releases it.
pub(super) fn capsule<'py, T: Send + 'static>(
    py: Python<'py>,
    value: T,
    name: &CStr,
) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_destructor(py, value, Some(CString::from(name)), |value, _| drop(value))
}

/// Makes the exception for an error of Arrow.
pub(super) fn arrow_error(error: arrow_schema::ArrowError) -> PyErr {
    PyValueError::new_err(error.to_string())
}
