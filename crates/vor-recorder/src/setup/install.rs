//! `install` and `start` of each sink: they switch recording on where it is off, and add the sink
//! to the recorder.

use std::path::Path;

use crate::Error;
use crate::drain;
use crate::hot::record_state;
use crate::os::report;
use crate::setup;
#[cfg(feature = "web")]
use crate::sinks::browser::{BrowserSink, Measures};
use crate::sinks::chrome::{ChromeTraceSink, create_chrome_trace};
#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
use crate::sinks::otlp::{Otlp, OtlpSink};
use crate::sinks::perfetto::{PerfettoSink, TraceBuilder, create_perfetto_trace};
#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
use crate::sinks::pprof::PprofSink;
#[cfg(feature = "puffin")]
use crate::sinks::puffin::PuffinSink;
#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
use crate::sinks::pyroscope::{Pyroscope, PyroscopeSink};
#[cfg(not(target_arch = "wasm32"))]
use crate::sinks::samply::SamplySink;
use crate::sinks::{FrameSink, Guard, Sink};

/// Switches recording on where it is off, with the settings of the environment.
fn switch_on() {
    if !cfg!(feature = "off") && !record_state::is_on() {
        setup::enable();
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn attach(name: String, sink: Box<dyn FrameSink>) -> drain::SinkHandle {
    switch_on();
    drain::add_boxed_sink(name, sink)
}

/// Installs the sink of a trace, which writes the file at `path`; `kind` names it in messages.
fn install_file<S: FrameSink + 'static>(
    kind: &str,
    path: &Path,
    create: fn(&Path) -> Result<S, Error>,
) -> Guard {
    if cfg!(feature = "off") {
        report::line(&format!(
            "the {kind} {} is not written: vor is compiled out, by its feature `off`",
            path.display()
        ));
        return Guard::new(());
    }
    match create(path) {
        Ok(sink) => {
            switch_on();
            Guard::new(drain::add_file_sink(
                format!("the {kind} {}", path.display()),
                sink,
            ))
        }
        Err(error) => {
            report::line(&format!("{error}; no {kind} is written"));
            Guard::new(())
        }
    }
}

impl Sink for ChromeTraceSink {
    fn install(self) -> Guard {
        install_file("Chrome trace", &self.path, create_chrome_trace)
    }
}

impl Sink for PerfettoSink {
    fn install(self) -> Guard {
        install_file("Perfetto trace", &self.path, create_perfetto_trace)
    }
}

impl TraceBuilder {
    /// Begins a trace, and switches recording on where it is off.
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
            Guard::new(drain::add_sink("the browser's timeline", Measures::default()))
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

#[cfg(not(target_arch = "wasm32"))]
impl Sink for SamplySink {
    fn install(self) -> Guard {
        self.install_with(attach)
    }
}

#[cfg(all(feature = "pprof", not(target_arch = "wasm32")))]
impl Sink for PprofSink {
    fn install(self) -> Guard {
        self.install_with(attach)
    }
}

#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
impl Sink for PyroscopeSink {
    fn install(self) -> Guard {
        Guard::new(self.start())
    }
}

#[cfg(all(feature = "pyroscope", not(target_arch = "wasm32")))]
impl PyroscopeSink {
    /// Begins to push, as [`install`](Sink::install) does, and returns the counts of profiles.
    #[must_use = "dropping it ends the pushing"]
    pub fn start(self) -> Pyroscope {
        self.start_with(attach)
    }
}

#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
impl Sink for OtlpSink {
    fn install(self) -> Guard {
        Guard::new(self.start())
    }
}

#[cfg(all(feature = "otlp", not(target_arch = "wasm32")))]
impl OtlpSink {
    /// Begins to send, as [`install`](Sink::install) does, and returns the counts of spans and
    /// requests.
    #[must_use = "dropping it ends the sending"]
    pub fn start(self) -> Otlp {
        self.start_with(attach)
    }
}
