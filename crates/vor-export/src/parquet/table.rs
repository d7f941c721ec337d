//! One Parquet file: a schema, and row groups that are written whole.
//!
//! A table gathers the columns of a row group, at most [`ROW_GROUP_ROWS`] rows, and writes them to
//! an [`Output`]. So memory does not grow with the file, except for the footer: some kilobytes per
//! row group.
//!
//! Numbers that few rows share are stored as differences from the previous row, and compressed.
//! Texts, and numbers that many rows share, are stored as codes.

use std::fmt;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;
use vor_capture::Error;

use super::coded::{self, Dictionary};

/// Most rows of a row group: as many as an engine assigns to one of its threads, and few enough to
/// stay in memory.
pub(super) const ROW_GROUP_ROWS: usize = 1 << 17;

/// Version of the tables' columns; each file has it as `vor.tables`.
const TABLES_VERSION: &str = "1";

/// Context of an error of the writer.
const FAILURE: &str = "cannot write the Parquet file";

/// The values of a column in a row group.
#[derive(Debug)]
pub enum Column<'a> {
    /// A code per row.
    Coded(&'a [u32], Dictionary<'a>),
    /// A number per row.
    Ints(&'a [i64]),
    /// A number per row.
    Doubles(&'a [f64]),
    /// Texts at any depth of a list or map.
    NestedTexts(&'a [ByteArray], Levels<'a>),
    /// A number or none per row: the numbers, and for each row how many it has.
    OptionalInts(&'a [i64], &'a [i16]),
    /// Numbers at any depth of a list or map.
    NestedInts(&'a [i64], Levels<'a>),
}

/// The positions of the values of a nested column, as the format defines them.
#[derive(Clone, Copy, Debug)]
pub struct Levels<'a> {
    pub(super) definition: &'a [i16],
    pub(super) repetition: &'a [i16],
}

/// The destination of the row groups of a table: a file, or several by time.
pub trait Output: Send {
    /// Returns the times, in nanoseconds since 1970, whose rows may share a row group with those of
    /// `unix_ns`.
    fn period(&self, unix_ns: i64) -> RangeInclusive<i64>;

    /// Writes a row group whose rows are all in the period of `unix_ns`.
    fn write(&mut self, unix_ns: i64, columns: &[Column<'_>]) -> Result<(), Error>;
}

/// The period of the row group that a table gathers.
#[derive(Clone, Debug)]
pub(super) struct Period {
    times_ns: RangeInclusive<i64>,
    /// A time in it, by which an output finds it again.
    pub(super) unix_ns: i64,
}

impl Period {
    /// Returns the period of a time.
    pub(super) fn of(output: &dyn Output, unix_ns: i64) -> Self {
        Self {
            times_ns: output.period(unix_ns),
            unix_ns,
        }
    }

    #[inline]
    pub(super) fn contains(&self, unix_ns: i64) -> bool {
        self.times_ns.contains(&unix_ns)
    }
}

/// A period without any time, before the first row.
impl Default for Period {
    fn default() -> Self {
        Self {
            #[expect(clippy::reversed_empty_ranges, reason = "it contains no time")]
            times_ns: 1..=0,
            unix_ns: 0,
        }
    }
}

/// A Parquet file over a writer.
pub(super) struct TableFile<W: Write + Send> {
    file: SerializedFileWriter<Detachable<W>>,
    is_finished: bool,
}

/// A writer that can be taken out of `SerializedFileWriter`, which only returns a writer when it
/// finishes the file itself.
struct Detachable<W>(Option<W>);

impl<W: Write> Write for Detachable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Some(writer) => writer.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl<W: Write + Send> fmt::Debug for TableFile<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableFile").finish_non_exhaustive()
    }
}

impl<W: Write + Send> TableFile<W> {
    /// Begins a file.
    pub(super) fn new(writer: W, schema: TypePtr) -> Result<Self, Error> {
        let properties = WriterProperties::builder()
            .set_created_by(concat!("vor version ", env!("CARGO_PKG_VERSION")).into())
            .set_key_value_metadata(Some(vec![KeyValue::new(
                "vor.tables".into(),
                String::from(TABLES_VERSION),
            )]))
            .set_writer_version(WriterVersion::PARQUET_1_0)
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_encoding(Encoding::PLAIN)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            // A row group is small enough to be read at once, and coded columns have no page index.
            .set_offset_index_disabled(true);
        let leaves = parquet::schema::types::SchemaDescriptor::new(Arc::clone(&schema));
        let properties = leaves
            .columns()
            .iter()
            .fold(properties, |properties, leaf| {
                use parquet::basic::Type;
                // Floating-point numbers have no small differences, and texts in maps are short.
                match (leaf.physical_type(), leaf.max_rep_level()) {
                    (Type::INT64, 0) => properties
                        .set_column_encoding(leaf.path().clone(), Encoding::DELTA_BINARY_PACKED),
                    (Type::BYTE_ARRAY | Type::INT64, 1..) => {
                        properties.set_column_dictionary_enabled(leaf.path().clone(), true)
                    }
                    _ => properties,
                }
            });
        let file = SerializedFileWriter::new(
            Detachable(Some(writer)),
            schema,
            Arc::new(properties.build()),
        )
        .map_err(not_written)?;
        Ok(Self {
            file,
            is_finished: false,
        })
    }

    /// Writes a row group. The columns are in the order of the schema's leaves.
    pub(super) fn write(&mut self, columns: &[Column<'_>]) -> Result<(), Error> {
        let schema = self.file.schema_descr().columns().to_vec();
        let write = || -> Result<(), ParquetError> {
            let mut group = self.file.next_row_group()?;
            for (column, values) in schema.into_iter().zip(columns) {
                match values {
                    Column::Coded(codes, dictionary) => {
                        let (bytes, close) = coded::encode(column, codes, dictionary)?;
                        group.append_column(&bytes, close)?;
                    }
                    values => write_plain(&mut group, values)?,
                }
            }
            group.close()?;
            Ok(())
        };
        write().map_err(not_written)
    }

    /// Flushes the writer. Rows of an incomplete row group are not in the file yet.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let flushed = self.file.inner_mut().flush();
        flushed.map_err(|error| Error::io(FAILURE, error))
    }

    /// Writes the footer, without which the file cannot be read.
    pub(super) fn finish(&mut self) -> Result<(), Error> {
        if !self.is_finished {
            self.file.finish().map_err(not_written)?;
            self.is_finished = true;
        }
        self.flush()
    }

    /// Finishes the file if necessary, and returns the writer.
    pub(super) fn into_inner(mut self) -> Result<W, Error> {
        self.finish()?;
        let writer = self.file.inner_mut().0.take();
        writer.ok_or_else(|| Error::sink("the table was finished already"))
    }
}

/// All rows go into one file, regardless of their time.
impl<W: Write + Send> Output for TableFile<W> {
    fn period(&self, _: i64) -> RangeInclusive<i64> {
        i64::MIN..=i64::MAX
    }

    fn write(&mut self, _: i64, columns: &[Column<'_>]) -> Result<(), Error> {
        self.write(columns)
    }
}

/// Parses the schema of a table from the format's own notation.
pub(super) fn parse_schema(message: &str) -> Result<TypePtr, Error> {
    parse_message_type(message)
        .map(Arc::new)
        .map_err(not_written)
}

fn write_plain<W: Write + Send>(
    group: &mut SerializedRowGroupWriter<'_, W>,
    values: &Column<'_>,
) -> Result<(), ParquetError> {
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General(
            "a row group has a column more than its table".into(),
        ));
    };
    match values {
        Column::Coded(..) => {}
        Column::Ints(ints) => drop(column.typed::<Int64Type>().write_batch(ints, None, None)?),
        Column::Doubles(doubles) => drop(
            column
                .typed::<DoubleType>()
                .write_batch(doubles, None, None)?,
        ),
        Column::NestedTexts(texts, levels) => drop(column.typed::<ByteArrayType>().write_batch(
            texts,
            Some(levels.definition),
            Some(levels.repetition),
        )?),
        Column::OptionalInts(ints, definition) => drop(column.typed::<Int64Type>().write_batch(
            ints,
            Some(definition),
            None,
        )?),
        Column::NestedInts(ints, levels) => drop(column.typed::<Int64Type>().write_batch(
            ints,
            Some(levels.definition),
            Some(levels.repetition),
        )?),
    }
    column.close()
}

/// Returns an error of the writer, or one of the `parquet` crate.
fn not_written(error: ParquetError) -> Error {
    match error {
        ParquetError::External(source) => match source.downcast::<io::Error>() {
            Ok(error) => Error::io(FAILURE, *error),
            Err(other) => Error::sink(format!("{FAILURE}: {other}")),
        },
        other => Error::sink(format!("{FAILURE}: {other}")),
    }
}

/// An output that a test reads: the number of rows of each row group.
#[cfg(test)]
#[derive(Debug, Default)]
pub(super) struct RowCounts(pub(super) Vec<usize>);

#[cfg(test)]
impl Output for RowCounts {
    fn period(&self, _: i64) -> RangeInclusive<i64> {
        i64::MIN..=i64::MAX
    }

    fn write(&mut self, _: i64, columns: &[Column<'_>]) -> Result<(), Error> {
        let rows = columns.iter().find_map(|column| match column {
            Column::Ints(ints) => Some(ints.len()),
            _ => None,
        });
        self.0.extend(rows);
        Ok(())
    }
}
