//! Stands in for `retention` in a build without the feature `segments`: a capture is one file.

use std::path::Path;

use vor_capture::Error;

use super::variables::Variables;
use crate::drain::capture_file::Begun;
use crate::sinks::capture::CaptureOptions;

/// Everything is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retention {}

impl Retention {
    pub(super) fn keeps_last(&self) -> bool {
        false
    }

    pub(super) fn refusal(&self, _: &Path) -> Option<String> {
        None
    }

    pub(super) fn begin(
        &self,
        path: &Path,
        _: CaptureOptions,
        _: bool,
    ) -> Result<Option<Begun>, Error> {
        let text = path.to_string_lossy();
        if text.contains('%') || text.ends_with('/') || path.is_dir() {
            return Err(Error::config(format!(
                "{text}: the program was built without vor's feature `segments`, so a capture is \
                one file"
            )));
        }
        Ok(None)
    }
}

impl Variables<'_> {
    pub(super) fn retention(&mut self, _: Option<&Path>) -> Retention {
        let names = [
            "VOR_RECORD_LAST",
            "VOR_DUMP_ON",
            "VOR_RECORD_SEGMENT",
            "VOR_RECORD_KEEP",
        ];
        self.lacks_feature("segments", &names);
        Retention {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_segments_names_the_feature() {
        let options = CaptureOptions {
            spans: true,
            every: 1,
            max_frames: None,
            slow: None,
            frames_before: 0,
        };
        let begin = |path: &str| Retention {}.begin(Path::new(path), options, false);
        assert!(begin("run.vor").unwrap().is_none());
        for path in ["captures/", "run-%H.vor", "."] {
            let Err(error) = begin(path) else {
                panic!("{path} begins");
            };
            let error = error.to_string();
            assert!(error.starts_with(path) && error.contains("`segments`"), "{error}");
        }
    }
}
