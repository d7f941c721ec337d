//! Tables, read by the `parquet` crate's own reader.
#![allow(clippy::expect_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use bytes::Bytes;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::Int64Type;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

/// A row, by column.
pub type Row = BTreeMap<String, Field>;

pub fn rows(file: Vec<u8>) -> Vec<Row> {
    let reader = SerializedFileReader::new(Bytes::from(file)).expect("a Parquet file");
    reader
        .get_row_iter(None)
        .expect("a schema that can be read")
        .map(|row| {
            let row = row.expect("a row");
            row.get_column_iter()
                .map(|(name, field)| (name.clone(), field.clone()))
                .collect()
        })
        .collect()
}

/// Returns a column of integers. A row without a value has `None`.
pub fn ints(file: &[u8], column: &str) -> Vec<Option<i64>> {
    let reader = SerializedFileReader::new(Bytes::copy_from_slice(file)).expect("a Parquet file");
    let schema = reader.metadata().file_metadata().schema_descr();
    let at = (0..schema.num_columns())
        .find(|&at| schema.column(at).name() == column)
        .expect("a column of the table");
    let mut ints = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group).expect("a row group");
        let rows = group.metadata().num_rows() as usize;
        let mut reader =
            get_typed_column_reader::<Int64Type>(group.get_column_reader(at).expect("a column"));
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let wanted_levels = (schema.column(at).max_def_level() > 0).then_some(&mut levels);
        reader
            .read_records(rows, wanted_levels, None, &mut values)
            .expect("values");
        if schema.column(at).max_def_level() == 0 {
            levels = vec![1; rows];
        }
        let mut values = values.into_iter();
        ints.extend(
            levels
                .iter()
                .map(|&level| (level > 0).then(|| values.next().expect("a value"))),
        );
    }
    ints
}

pub fn int(row: &Row, column: &str) -> i64 {
    match &row[column] {
        Field::Long(value) => *value,
        other => panic!("{column} is not an integer: {other:?}"),
    }
}

pub fn optional(row: &Row, column: &str) -> Option<i64> {
    (row[column] != Field::Null).then(|| int(row, column))
}

pub fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    match &row[column] {
        Field::Str(value) => value,
        other => panic!("{column} is not text: {other:?}"),
    }
}

/// Returns the keys and values of a row's arguments.
pub fn args(row: &Row) -> Vec<(String, String)> {
    let text = |field: &Field| match field {
        Field::Str(value) => value.clone(),
        other => panic!("not text: {other:?}"),
    };
    match &row["args"] {
        Field::Null => Vec::new(),
        Field::MapInternal(map) => {
            let entries = map.entries().iter();
            entries
                .map(|(key, value)| (text(key), text(value)))
                .collect()
        }
        other => panic!("not a map: {other:?}"),
    }
}

/// Returns the bucket, middle and count of each bucket of a sketch.
pub fn buckets(row: &Row) -> Vec<[i64; 3]> {
    let Field::ListInternal(list) = &row["buckets"] else {
        panic!("not a list: {:?}", row["buckets"]);
    };
    let bucket = |field: &Field| {
        let Field::Group(bucket) = field else {
            panic!("not a bucket: {field:?}");
        };
        let mut values = [0; 3];
        for (value, (_, field)) in values.iter_mut().zip(bucket.get_column_iter()) {
            let Field::Long(found) = field else {
                panic!("not an integer: {field:?}");
            };
            *value = *found;
        }
        values
    };
    list.elements().iter().map(bucket).collect()
}
