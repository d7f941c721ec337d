//! Implements [`Sink`] for each of vor's sinks: it builds the sink, switches recording on if it is
//! off, and adds the sink to the recorder.

#![cfg_attr(
    not(feature = "export"),
    allow(dead_code, unused_imports, reason = "features choose the sinks")
)]

use vor_capture::Error;
use vor_capture::sink::FrameSink;

use crate::drain;
use crate::hot::record_state;
use crate::os::report;
use crate::setup;
#[cfg(feature = "web")]
use crate::sinks::browser::BrowserSink;
#[cfg(feature = "export")]
use crate::sinks::chrome::ChromeTraceSink;
#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
use crate::sinks::otlp::OtlpSink;
#[cfg(feature = "export")]
use crate::sinks::perfetto::{PerfettoSink, TraceBuilder};
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
use crate::sinks::pprof::PprofSink;
#[cfg(feature = "puffin")]
use crate::sinks::puffin::PuffinSink;
#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
use crate::sinks::pyroscope::PyroscopeSink;
#[cfg(all(feature = "export", not(target_arch = "wasm32")))]
use crate::sinks::samply::SamplySink;
use crate::sinks::{Guard, Sink};

/// Switches recording on if it is off, with the settings of the environment.
fn switch_on() {
    if !cfg!(feature = "off") && !record_state::is_on() {
        setup::enable();
    }
}

/// Installs the sink that `build` makes, with its `name` in messages. If it cannot be built, one
/// line reports the reason and the consequence, `nothing`.
fn install<S: FrameSink + 'static>(
    name: String,
    nothing: &str,
    build: impl FnOnce() -> Result<S, Error>,
) -> Guard {
    if cfg!(feature = "off") {
        report::line(&format!(
            "{name}: vor is compiled out, by its feature `off`; {nothing}"
        ));
        return Guard::new(());
    }
    match build() {
        Ok(sink) => {
            switch_on();
            Guard::new(drain::add_sink(name, sink))
        }
        Err(error) => {
            report::line(&format!("{error}; {nothing}"));
            Guard::new(())
        }
    }
}

#[cfg(feature = "export")]
impl Sink for ChromeTraceSink {
    fn install(self) -> Guard {
        install(self.name(), "no Chrome trace is written", || self.build())
    }
}

#[cfg(feature = "export")]
impl Sink for PerfettoSink {
    fn install(self) -> Guard {
        install(self.name(), "no Perfetto trace is written", || self.build())
    }
}

#[cfg(feature = "export")]
impl TraceBuilder {
    /// Begins a trace, and switches recording on if it is off.
    #[must_use]
    #[expect(
        clippy::new_without_default,
        reason = "it switches recording on, which a default does not"
    )]
    pub fn new() -> Self {
        switch_on();
        Self::attach()
    }
}

#[cfg(feature = "web")]
impl Sink for BrowserSink {
    fn install(self) -> Guard {
        setup::enable();
        if cfg!(all(target_arch = "wasm32", target_os = "unknown")) {
            Guard::new(drain::add_sink("the browser's timeline", self.build()))
        } else {
            Guard::new(())
        }
    }
}

#[cfg(feature = "puffin")]
impl Sink for PuffinSink {
    fn install(self) -> Guard {
        setup::enable();
        Guard::new(drain::add_sink("puffin", self))
    }
}

#[cfg(all(feature = "export", not(target_arch = "wasm32")))]
impl Sink for SamplySink {
    fn install(self) -> Guard {
        install(self.name(), "no markers are written", || self.build())
    }
}

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
impl Sink for PprofSink {
    fn install(self) -> Guard {
        install(self.name(), "no profiles are written", || self.build())
    }
}

#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
impl Sink for PyroscopeSink {
    fn install(self) -> Guard {
        install(self.name(), "no profiles are pushed", || {
            self.build().map(|(sink, _)| sink)
        })
    }
}

#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
impl Sink for OtlpSink {
    fn install(self) -> Guard {
        install(self.name(), "nothing is sent to a collector", || {
            self.build().map(|(sink, _)| sink)
        })
    }
}
