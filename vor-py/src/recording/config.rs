//! `vor.enable(…)`: settings from keywords.

use std::path::PathBuf;
use std::time::Duration;

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};
use vor_capture::Error;
use vor_recorder::hot::rules::ScopeRules;
use vor_recorder::setup;
use vor_recorder::setup::{Config, RING_KIB_RANGE};
use vor_recorder::sinks::live::{Listen, Token};
use vor_recorder::sinks::segments::Segments;

use crate::recording::object::{repr_text, type_name};

/// The keywords, as messages list them.
const KEYWORDS: &str = "capture, spans, every, max_frames, slow_frames_ms, frames_before, \
    ring_kib, stats, count_scopes, print_stats, cpu_time, cpu_split, waits, scheduler, \
    inline_drain, drain_interval_ms, max_spans_per_frame, watchdog_ms, signals, segment, \
    keep, last, dump_on, scopes, scope_budget, shared_memory, listen";

/// Switches recording on: with the environment variables if there are no keywords, otherwise with
/// the keywords only.
pub(crate) fn enable(py: Python<'_>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<()> {
    match keywords {
        Some(keywords) if !keywords.is_empty() => {
            let config = config(keywords)?;
            py.detach(|| config.enable());
        }
        _ => py.detach(setup::enable),
    }
    Ok(())
}

fn config(keywords: &Bound<'_, PyDict>) -> PyResult<Config> {
    let mut config = Config::new();
    let (mut slow, mut before) = (None, None);
    let mut segments = Segments::new();
    for (key, value) in keywords {
        let key: String = key.extract()?;
        let keyword = Keyword {
            name: &key,
            value: &value,
        };
        // `None` means the same as no keyword.
        if value.is_none() {
            continue;
        }
        config = match key.as_str() {
            "capture" => config.capture(keyword.path()?),
            "spans" => config.spans(keyword.flag()?),
            "every" => config.every(keyword.whole(1, u64::MAX)?),
            "max_frames" => config.max_frames(keyword.whole(0, u64::MAX)?),
            "slow_frames_ms" => {
                slow = Some(keyword.duration_ms()?);
                config
            }
            "frames_before" => {
                before = Some(keyword.whole(0, 1000)? as usize);
                config
            }
            "ring_kib" => {
                let (least, most) = (*RING_KIB_RANGE.start() as u64, *RING_KIB_RANGE.end() as u64);
                config.ring_kib(keyword.whole(least, most)? as usize)
            }
            "stats" => config.stats(keyword.flag()?),
            "count_scopes" => config.count_scopes(keyword.flag()?),
            "print_stats" => config.print_stats(keyword.flag()?),
            "cpu_time" => config.cpu_time(keyword.flag()?),
            "cpu_split" => config.cpu_split(keyword.flag()?),
            "waits" => config.waits(keyword.flag()?),
            "scheduler" => config.scheduler(keyword.flag()?),
            "inline_drain" => config.inline_drain(keyword.flag()?),
            "drain_interval_ms" => config.drain_interval(keyword.duration_ms()?),
            "max_spans_per_frame" => {
                config.max_spans_per_frame(keyword.whole(0, u64::from(u32::MAX))? as usize)
            }
            "watchdog_ms" => config.watchdog(keyword.duration_ms()?),
            "signals" => config.signals(keyword.flag()?),
            "segment" => {
                segments = keyword.setting(|text| segments.end_at(text))?;
                config
            }
            "keep" => {
                segments = keyword.setting(|text| segments.keep(text))?;
                config
            }
            "last" => config.last(keyword.setting(str::parse)?),
            "scopes" => {
                // Refused here, where it becomes an exception.
                let rules: ScopeRules = keyword.setting(str::parse)?;
                config.scopes(&rules.to_string())
            }
            "scope_budget" => config.scope_budget(keyword.share()?),
            "shared_memory" => config.shared_memory(keyword.flag()?),
            "dump_on" => config.dump_on(keyword.setting(str::parse)?),
            "listen" => config.listen(keyword.setting(listen)?),
            _ => {
                return Err(PyTypeError::new_err(format!(
                    "enable: unknown keyword {key}; the keywords are {KEYWORDS}"
                )));
            }
        };
    }
    let config = config.segments(segments);
    match (slow, before) {
        (Some(slow), before) => Ok(config.slow_frames(slow, before.unwrap_or(2))),
        (None, Some(_)) => Err(PyValueError::new_err(
            "enable: frames_before needs slow_frames_ms",
        )),
        (None, None) => Ok(config),
    }
}

/// Reads an address, with the token of the environment.
fn listen(text: &str) -> Result<Listen, Error> {
    let listen: Listen = text.parse()?;
    Ok(match Token::from_env()? {
        Some(token) => listen.token(token),
        None => listen,
    })
}

/// A keyword and its value.
struct Keyword<'a, 'py> {
    name: &'a str,
    value: &'a Bound<'py, PyAny>,
}

impl Keyword<'_, '_> {
    fn wrong_type(&self, expected: &str) -> PyErr {
        let found = type_name(self.value);
        PyTypeError::new_err(format!(
            "enable: {}: expected {expected}, found {found}",
            self.name
        ))
    }

    fn wrong_value(&self, expected: &str) -> PyErr {
        let found = repr_text(self.value);
        PyValueError::new_err(format!(
            "enable: {}: expected {expected}, found {found}",
            self.name
        ))
    }

    fn flag(&self) -> PyResult<bool> {
        match self.value.cast::<PyBool>() {
            Ok(value) => Ok(value.is_true()),
            Err(_) => Err(self.wrong_type("True or False")),
        }
    }

    fn whole(&self, least: u64, most: u64) -> PyResult<u64> {
        let is_whole = !self.value.is_instance_of::<PyBool>() && self.value.hasattr("__index__")?;
        if !is_whole {
            return Err(self.wrong_type("a whole number"));
        }
        let value = self.value.call_method0("__index__")?.extract::<u64>().ok();
        let expected = || match most {
            u64::MAX => format!("a whole number of at least {least}"),
            _ => format!("a whole number from {least} to {most}"),
        };
        value
            .filter(|value| (least..=most).contains(value))
            .ok_or_else(|| self.wrong_value(&expected()))
    }

    fn duration_ms(&self) -> PyResult<Duration> {
        let value = match self.value.extract::<f64>() {
            Ok(value) if !self.value.is_instance_of::<PyBool>() => value,
            _ => return Err(self.wrong_type("a number of milliseconds")),
        };
        if value > 0.0 && value < 1e12 {
            return Ok(Duration::from_nanos((value * 1e6) as u64));
        }
        Err(self.wrong_value("a number of milliseconds above 0"))
    }

    fn share(&self) -> PyResult<f64> {
        let value = match self.value.extract::<f64>() {
            Ok(value) if !self.value.is_instance_of::<PyBool>() => value,
            _ => return Err(self.wrong_type("a share of a core, such as 0.01")),
        };
        if value > 0.0 && value <= 1.0 {
            return Ok(value);
        }
        Err(self.wrong_value("a share of a core above 0 and up to 1"))
    }

    /// Returns what `parse` makes of a text.
    fn setting<T>(&self, parse: impl FnOnce(&str) -> Result<T, Error>) -> PyResult<T> {
        let text: String = self
            .value
            .extract()
            .map_err(|_| self.wrong_type("a str, as in the variable"))?;
        let refuse = |error| PyValueError::new_err(format!("enable: {}: {error}", self.name));
        parse(&text).map_err(refuse)
    }

    fn path(&self) -> PyResult<PathBuf> {
        let path: PathBuf = self
            .value
            .extract()
            .map_err(|_| self.wrong_type("a path: str or os.PathLike"))?;
        match path.as_os_str().is_empty() {
            true => Err(self.wrong_value("a path")),
            false => Ok(path),
        }
    }
}
