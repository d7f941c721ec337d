//! The formats that `vor export` writes. A new format is a variant of [`Format`] and an arm in
//! [`Format::sink`] and in [`Format::is_of_spans`].
//!
//! [`FrameSink::interest`] says which data a format needs: batches as they are in the capture, or
//! trees frame by frame, with one frame in memory at a time, or frames without spans.

use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum;
use vor_capture::Error;
use vor_capture::model::batch::SpanBatch;
use vor_capture::model::catalog::Catalog;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_export::chrome::ChromeExporter;
use vor_export::collapsed::CollapsedExporter;
use vor_export::csv::{MetricsCsv, SpanCsv};
use vor_export::firefox::FirefoxExporter;
use vor_export::perfetto::PerfettoExporter;
use vor_export::pprof::PprofExporter;
use vor_export::speedscope::SpeedscopeExporter;

#[cfg(not(feature = "parquet"))]
use crate::command::WITHOUT_PARQUET;
use crate::command::failure::warn;
use crate::command::output::Writer;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// A Chrome trace, for chrome://tracing, Perfetto and others.
    Chrome,
    /// A Perfetto trace, for ui.perfetto.dev and the trace processor.
    Perfetto,
    /// A profile of at most 2 097 152 spans for the Firefox Profiler, profiler.firefox.com.
    Firefox,
    /// A profile for speedscope.app.
    Speedscope,
    /// A line per stack with its time, for inferno and flamegraph.pl.
    Collapsed,
    /// A gzipped profile for `go tool pprof`, Pyroscope and others; see --label.
    Pprof,
    /// A table of all spans.
    Csv,
    /// A table of metrics, a row per frame.
    MetricsCsv,
    /// Tables for DuckDB, Spark and others; see --table and --partition.
    #[cfg(feature = "parquet")]
    Parquet,
}

/// The ends of file names that choose a format. A longer one comes before its own end.
const ENDINGS: [(&str, Format); 12] = [
    (".speedscope.json", Format::Speedscope),
    (".firefox.json", Format::Firefox),
    (".json", Format::Chrome),
    (".pftrace", Format::Perfetto),
    (".perfetto-trace", Format::Perfetto),
    (".folded", Format::Collapsed),
    (".collapsed", Format::Collapsed),
    (".txt", Format::Collapsed),
    (".pb.gz", Format::Pprof),
    (".pprof", Format::Pprof),
    (".metrics.csv", Format::MetricsCsv),
    (".csv", Format::Csv),
];

impl Format {
    /// Returns the format that a file's name ends with.
    pub(super) fn of_file(path: &Path) -> Result<Self, String> {
        let name = path.file_name().unwrap_or(path.as_os_str());
        let name = name.to_string_lossy().to_lowercase();
        if name.ends_with(".parquet") {
            #[cfg(feature = "parquet")]
            return Ok(Self::Parquet);
            #[cfg(not(feature = "parquet"))]
            return Err(format!("{}: {WITHOUT_PARQUET}", path.display()));
        }
        let format = ENDINGS.iter().find(|(ending, _)| name.ends_with(ending));
        format.map(|(_, format)| *format).ok_or_else(|| {
            let endings: Vec<&str> = ENDINGS.iter().map(|(ending, _)| *ending).collect();
            format!(
                "{}: its ending chooses no format; use --to, or one of {} .parquet",
                path.display(),
                endings.join(" ")
            )
        })
    }

    /// Makes the exporter. Its `finish` must flush the writer, since the output is kept or
    /// discarded after it.
    ///
    /// `labels` are names of arguments that become labels of a profile. `catalog` has all names and
    /// columns of the capture. The exporter writes nothing before the first batch or frame.
    pub(super) fn sink(
        self,
        writer: BufWriter<Writer>,
        catalog: &Catalog,
        labels: &[String],
        #[cfg(feature = "parquet")] options: &super::parquet::Options,
    ) -> Result<Box<dyn FrameSink>, Error> {
        Ok(match self {
            Self::Chrome => Box::new(ChromeExporter::new(writer)),
            Self::Perfetto => Box::new(PerfettoExporter::new(writer)),
            Self::Firefox => Box::new(Firefox(FirefoxExporter::new(writer))),
            Self::Speedscope => Box::new(SpeedscopeExporter::new(writer)),
            Self::Collapsed => Box::new(CollapsedExporter::new(writer)),
            Self::Pprof => Box::new(
                labels
                    .iter()
                    .fold(PprofExporter::new(writer), PprofExporter::label),
            ),
            Self::Csv => Box::new(SpanCsv::new(writer)),
            Self::MetricsCsv => Box::new(MetricsCsv::new(writer, catalog)),
            #[cfg(feature = "parquet")]
            Self::Parquet => options.sink(writer, catalog)?,
        })
    }

    /// Returns whether the output holds only spans, so that a capture without any is refused.
    pub(super) fn is_of_spans(
        self,
        #[cfg(feature = "parquet")] options: &super::parquet::Options,
    ) -> bool {
        match self {
            Self::Collapsed | Self::Pprof | Self::Speedscope | Self::Csv => true,
            Self::Chrome | Self::Perfetto | Self::Firefox | Self::MetricsCsv => false,
            #[cfg(feature = "parquet")]
            Self::Parquet => options.is_of_spans(),
        }
    }
}

/// The exporter for the Firefox Profiler, with a warning about data that does not fit.
struct Firefox(FirefoxExporter<BufWriter<Writer>>);

impl FrameSink for Firefox {
    fn interest(&self) -> Interest {
        self.0.interest()
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        self.0.accept_batch(batch)
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.0.accept_frame(frame)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.0.finish()?;
        match self.0.skipped() {
            0 => {}
            skipped => warn(&format!(
                "{skipped} spans, messages, tasks and frames do not fit into the Firefox profile; \
                 select fewer with --frames, --thread, --name or --min-us"
            )),
        }
        Ok(())
    }
}
