//! Options of Parquet: several tables, and a data set in folders.

use std::path::Path;

use clap::ValueEnum;
use vor_capture::model::catalog::Catalog;
use vor_capture::sink::FrameSink;
use vor_export::parquet::{Dataset, MetricsParquet, Origin, Partition, SketchParquet, SpanParquet};

use crate::command::failure::Failure;
use crate::command::output::Writer;

/// Options of `--to parquet`.
#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// With --to parquet: the table to write; `spans` by default.
    #[arg(long, value_name = "TABLE")]
    table: Option<Table>,
    /// With --to parquet: adds all tables to a data set of many captures in the folder OUT, in
    /// subfolders by `host`, by `date` (UTC) or by `host,date`.
    #[arg(
        long,
        value_name = "COLUMNS",
        conflicts_with = "table",
        requires = "output"
    )]
    partition: Option<String>,
    /// With --to parquet: the name of the machine, instead of the one in the capture.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// With --to parquet: the version of the recorded program, for the column `version`.
    #[arg(long, value_name = "TEXT")]
    program_version: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Table {
    /// A row per span.
    Spans,
    /// A row per value of a metric.
    Metrics,
    /// A row per scope and minute, with a histogram that merges with others.
    Sketches,
}

impl Options {
    /// Returns whether an option of Parquet is present.
    pub(super) fn are_given(&self) -> bool {
        let others = [&self.partition, &self.host, &self.program_version];
        self.table.is_some() || others.iter().any(|option| option.is_some())
    }

    /// Returns whether the output holds only spans.
    pub(super) fn is_of_spans(&self) -> bool {
        !self.is_dataset() && self.table != Some(Table::Metrics)
    }

    /// Returns whether the output is a folder.
    pub(super) fn is_dataset(&self) -> bool {
        self.partition.is_some()
    }

    fn origin(&self, catalog: &Catalog) -> Origin {
        let named = Some(&catalog.machine.host).filter(|host| !host.is_empty());
        vor_capture::filled!(Origin {
            host: self.host.as_ref().or(named).cloned(),
            version: self.program_version.clone(),
        })
    }

    /// Makes the exporter of one table.
    pub(super) fn sink(
        &self,
        writer: std::io::BufWriter<Writer>,
        catalog: &Catalog,
    ) -> Result<Box<dyn FrameSink>, vor_capture::Error> {
        let origin = self.origin(catalog);
        Ok(match self.table.unwrap_or(Table::Spans) {
            Table::Spans => Box::new(SpanParquet::new(writer, origin)?),
            Table::Metrics => Box::new(MetricsParquet::new(writer, origin)?),
            Table::Sketches => Box::new(SketchParquet::new(writer, origin)?),
        })
    }

    /// Makes the exporter of all tables into a folder, under the name of the capture.
    pub(super) fn dataset(
        &self,
        folder: &Path,
        capture: &Path,
        catalog: &Catalog,
    ) -> Result<Box<dyn FrameSink>, Failure> {
        let stem = capture.file_stem().unwrap_or_default().to_string_lossy();
        let partitions = Partition::list(self.partition.as_deref().unwrap_or_default())
            .map_err(|error| Failure::Message(format!("--partition: {error}")))?;
        if partitions.is_empty() {
            let expected = "--partition is empty; choose `host`, `date` or both";
            return Err(Failure::Message(expected.to_owned()));
        }
        if folder.exists() && !folder.is_dir() {
            return Err(Failure::in_file(
                folder,
                "a file; name a folder for the tables",
            ));
        }
        Ok(Box::new(Dataset::new(
            folder,
            &stem,
            &partitions,
            self.origin(catalog),
        )?))
    }
}
