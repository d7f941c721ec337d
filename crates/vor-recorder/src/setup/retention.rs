//! A recording keeps segments of its capture, or its newest records in memory for a dump.

use std::path::Path;

use vor_capture::Error;

use super::config::Config;
use super::limits;
use super::variables::Variables;
use crate::drain::capture_file::Begun;
use crate::sinks::capture::CaptureOptions;
use crate::sinks::last::{DumpOn, Last, LastOptions, LastSink};
use crate::sinks::named_files::is_segmented;
use crate::sinks::segments::{SegmentSink, Segments};

/// The segments or the records in memory that a recording keeps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retention {
    /// When segments end and which are kept, if the path makes segments.
    pub(super) segments: Segments,
    /// How much is kept in memory, if nothing is written until a dump.
    pub(super) last: Option<Last>,
    pub(super) dump_on: DumpOn,
}

impl Retention {
    /// Returns whether the newest records are kept in memory.
    pub(super) fn keeps_last(&self) -> bool {
        self.last.is_some()
    }

    /// Returns why segments that were asked for are not made.
    pub(super) fn refusal(&self, path: &Path) -> Option<String> {
        let is_refused = self.segments.is_set() && !self.keeps_last() && !is_segmented(path);
        is_refused.then(|| one_file(path))
    }

    /// Begins dumps or segments, and returns their folder and their sink. `None` if the capture is
    /// one file.
    pub(super) fn begin(
        &self,
        path: &Path,
        capture: CaptureOptions,
        signals: bool,
    ) -> Result<Option<Begun>, Error> {
        if let Some(last) = self.last {
            let options = LastOptions {
                last,
                dump_on: self.dump_on.clone(),
                segments: self.segments,
                capture,
                signals,
            };
            let sink = LastSink::create(path, options)?;
            return Ok(Some((sink.folder(), Box::new(sink))));
        }
        if !is_segmented(path) {
            return Ok(None);
        }
        let mut sink = SegmentSink::create(path, self.segments, capture)?;
        sink.enable_crash_records(signals);
        Ok(Some((sink.folder(), Box::new(sink))))
    }
}

/// Says why a path gets no segments, and which ones do.
fn one_file(path: &Path) -> String {
    format!(
        "{} is one file; segments need a folder (`captures/`) or a pattern \
        (`run-%Y%m%dT%H%M%S.vor`)",
        path.display()
    )
}

impl Config {
    /// Sets when a segment of the capture ends, and how many segments are kept.
    ///
    /// A capture is written in segments if its path is a folder (it exists, or the path ends with a
    /// slash) or a pattern. A pattern is a file name with `%Y%m%dT%H%M%S`, the time at which a
    /// segment begins in UTC, or `%p`, the process id. Each segment is a whole capture, and every
    /// span is in exactly one. Only segments with such a name are deleted, the oldest first, and
    /// none that has a file `<segment>.lock` beside it.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor {
    /// #     pub use vor_recorder::setup::Config;
    /// #     pub use vor_recorder::sinks::segments::Segments;
    /// # }
    /// let segments = vor::Segments::new().size(64_000_000).keep_size(2_000_000_000);
    /// vor::Config::new().capture("captures/").segments(segments).enable();
    /// ```
    #[must_use]
    pub fn segments(mut self, segments: Segments) -> Self {
        self.retention.segments = segments;
        self
    }

    /// Keeps the newest records in memory, and writes nothing until something asks for a dump:
    /// [`sinks::last::dump`](crate::sinks::last::dump), SIGUSR2 on Unix, or what
    /// [`dump_on`](Self::dump_on) says.
    ///
    /// A dump is a whole capture. The path of the capture is the folder of the dumps, a pattern of
    /// their names as for [`segments`](Self::segments), or a file name to which the time and the
    /// process are added; without a path they are in the current folder. The newest 16 stay, or
    /// those that [`segments`](Self::segments) keeps. For SIGUSR2 vor installs a handler unless the
    /// program has one, or [`signals`](Self::signals) are off.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # mod vor { pub use vor_recorder::setup::Config; pub use vor_recorder::sinks::last::Last; }
    /// use std::time::Duration;
    ///
    /// let last = vor::Last::new().age(Duration::from_secs(30)).size(64_000_000);
    /// vor::Config::new().capture("dumps/").last(last).enable();
    /// ```
    #[must_use]
    pub fn last(mut self, last: Last) -> Self {
        self.retention.last = Some(last);
        self
    }

    /// Sets what has the records in memory dumped (default: a panic and a crash). It needs
    /// [`last`](Self::last).
    #[must_use]
    pub fn dump_on(mut self, dump_on: DumpOn) -> Self {
        self.retention.dump_on = dump_on;
        self
    }
}

impl Variables<'_> {
    /// Reads what is kept. Segments need a path that makes them.
    pub(super) fn retention(&mut self, path: Option<&Path>) -> Retention {
        let last = self.value("VOR_RECORD_LAST", limits::LAST, limits::last);
        let dump_on = self.value("VOR_DUMP_ON", limits::DUMP_ON, limits::dump_on);
        if dump_on.is_some() && last.is_none() {
            (self.report)("VOR_DUMP_ON: nothing is kept in memory; set VOR_RECORD_LAST, too");
        }
        Retention {
            segments: self.segments(path, last.is_some()),
            last,
            dump_on: dump_on.unwrap_or_default(),
        }
    }

    /// Reads when segments end, and how many are kept. Both need a path that makes segments.
    fn segments(&mut self, path: Option<&Path>, are_dumps: bool) -> Segments {
        let segment = self.value("VOR_RECORD_SEGMENT", limits::SEGMENT, limits::segment);
        let keep = self.value("VOR_RECORD_KEEP", limits::KEEP, limits::keep);
        if are_dumps {
            if segment.is_some() {
                (self.report)(
                    "VOR_RECORD_SEGMENT: with VOR_RECORD_LAST nothing is written in segments; it \
                    is ignored",
                );
            }
            return keep.unwrap_or_default();
        }
        if let Some(path) = path
            && !is_segmented(path)
        {
            let set = [("VOR_RECORD_SEGMENT", segment), ("VOR_RECORD_KEEP", keep)];
            for (name, _) in set.into_iter().filter(|(_, value)| value.is_some()) {
                (self.report)(&format!("{name}: {}; it is ignored", one_file(path)));
            }
            return Segments::default();
        }
        let segments = segment.unwrap_or_default().or(keep.unwrap_or_default());
        if let Some(bytes) = segments.size_in_conflict() {
            (self.report)(&format!(
                "VOR_RECORD_SEGMENT: a segment is larger than a quarter of VOR_RECORD_KEEP; \
                segments end at {bytes} bytes"
            ));
        }
        segments
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::setup::variables::tests::from;

    #[test]
    fn dumps_are_asked_for_by_a_list() {
        let set = |value| from(&[("VOR_RECORD_LAST", "1m"), ("VOR_DUMP_ON", value)]);
        let ms = Duration::from_millis;
        for (value, expected) in [
            ("nothing", DumpOn::nothing()),
            ("panic,crash", DumpOn::new()),
            ("exit", DumpOn::nothing().exit(true)),
            ("stall , panic", DumpOn::nothing().stall(true).panic(true)),
            ("frame:50ms", DumpOn::nothing().slow_frame(ms(50))),
            (
                "scope:db::query:1.5s,scope:parse:200us",
                DumpOn::nothing()
                    .slow_scope("db::query", ms(1_500))
                    .slow_scope("parse", Duration::from_micros(200)),
            ),
            ("failure", DumpOn::nothing().failure(true)),
            (
                "count:db::error:10/1s, count:ERROR:1/50ms",
                DumpOn::nothing()
                    .count("db::error", 10, ms(1_000))
                    .count("ERROR", 1, ms(50)),
            ),
        ] {
            let (config, lines) = set(value);
            assert_eq!((config.retention.dump_on, lines), (expected, vec![]), "{value}");
            assert!(config.spans && config.retention.last.is_some());
        }
        for value in [
            "",
            "frame",
            "frame:50",
            "frame:-1ms",
            "scope::1s",
            "scope:1s",
            "exits",
            "failure:1",
            "count",
            "count:ERROR",
            "count:ERROR:10",
            "count:ERROR:0/1s",
            "count:ERROR:1/s",
            "count::1/1s",
            "panic:1s",
            "nothing,exit",
            "frame:NaNs",
        ] {
            let (config, lines) = set(value);
            assert_eq!(config.retention.dump_on, DumpOn::new(), "{value}");
            assert!(
                lines.len() == 1 && lines[0].starts_with("VOR_DUMP_ON: "),
                "{lines:?}"
            );
        }
        let last = ("VOR_RECORD_LAST", "1m");
        assert!(!from(&[last, ("VOR_RECORD_SPANS", "0")]).0.spans);
        let (config, lines) = from(&[
            last,
            ("VOR_RECORD_SEGMENT", "1MB"),
            ("VOR_RECORD_KEEP", "9"),
        ]);
        assert_eq!(config.retention.segments, Segments::new().keep_count(9));
        assert_eq!(
            lines,
            [
                "VOR_RECORD_SEGMENT: with VOR_RECORD_LAST nothing is written in segments; it is \
                ignored"
            ]
        );
    }

    #[test]
    fn segments_need_a_folder_or_a_pattern_and_room_for_four() {
        let set = |path, segment, keep| {
            let segment = ("VOR_RECORD_SEGMENT", segment);
            let keep = ("VOR_RECORD_KEEP", keep);
            let spans = ("VOR_RECORD_SPANS", "1");
            from(&[("VOR_RECORD", path), spans, segment, keep])
        };
        for path in ["captures/", "run-%H.vor"] {
            let (config, lines) = set(path, "64MB,10m", "2GB,7d,200");
            let expected = Segments::new()
                .size(64_000_000)
                .age(Duration::from_secs(600))
                .keep_size(2_000_000_000)
                .keep_age(Duration::from_secs(7 * 86_400))
                .keep_count(200);
            assert_eq!((config.retention.segments, lines), (expected, vec![]), "{path}");
        }
        let (config, lines) = set("run.vor", "64MB", "200");
        assert!(!config.retention.segments.is_set());
        let line = |name| {
            format!(
                "{name}: run.vor is one file; segments need a folder (`captures/`) or a pattern \
                (`run-%Y%m%dT%H%M%S.vor`); it is ignored"
            )
        };
        assert_eq!(lines, ["VOR_RECORD_SEGMENT", "VOR_RECORD_KEEP"].map(line));
        let (_, lines) = set("captures/", "64MB", "100MB");
        assert_eq!(
            lines,
            [
                "VOR_RECORD_SEGMENT: a segment is larger than a quarter of VOR_RECORD_KEEP; \
              segments end at 25000000 bytes"
            ]
        );
        assert_eq!(set("captures/", "25MB", "100MB").1, [""; 0]);
    }
}
