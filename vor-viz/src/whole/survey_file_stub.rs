//! Browsers have no files to keep surveys in.

use std::time::Duration;

use super::archive::Archive;
use super::thinned::Thinned;

/// The stamp of a capture in a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stamp {}

/// The file of the survey of a capture.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SurveyFile {}

impl SurveyFile {
    pub(crate) fn is_worth(_: Duration) -> bool {
        false
    }

    pub(crate) fn stamp(self) -> Option<Stamp> {
        match self {}
    }

    pub(crate) fn read(self, _: &Stamp) -> Option<(Archive, Thinned)> {
        match self {}
    }

    pub(crate) fn write(self, _: Stamp, _: &Archive, _: Thinned) -> bool {
        match self {}
    }
}
