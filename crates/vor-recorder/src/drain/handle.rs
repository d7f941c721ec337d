//! Sinks that the program adds, and the handles that keep them active.

use std::sync::Mutex;

use vor_capture::sink::FrameSink;

use super::{SETTINGS, Settings, pass, with_engine, with_settings};
use crate::hot::thread;
use crate::os::report;
use crate::sync::global::AtomicU64;
use crate::sync::{Ordering, lock};

static NEXT_NUMBER: AtomicU64 = AtomicU64::new(1);

/// Sinks that were added before the recorder first started. Locked with the settings locked.
static EARLY_SINKS: Mutex<Vec<EarlySink>> = Mutex::new(Vec::new());

struct EarlySink {
    number: u64,
    name: String,
    sink: Box<dyn FrameSink>,
}

/// Returns the number of the next sink.
pub(super) fn next_number() -> u64 {
    NEXT_NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Adds a sink to the recorder; dropping the returned handle ends it. Recording need not be on: the
/// sink then waits. A sink cannot be added from inside a sink.
///
/// ```
/// # mod vor {
/// #     pub use vor_capture::{Error, model::frame::FrameSnapshot};
/// #     pub use vor_recorder::drain::add_sink;
/// #     pub mod sinks { pub use vor_capture::sink::FrameSink; }
/// # }
/// use std::sync::Arc;
///
/// /// Prints the duration of each frame.
/// struct Printer;
///
/// impl vor::sinks::FrameSink for Printer {
///     fn accept_frame(&mut self, frame: &Arc<vor::FrameSnapshot>) -> Result<(), vor::Error> {
///         println!("{} ms", frame.duration_ns() as f64 / 1e6);
///         Ok(())
///     }
/// }
///
/// let handle = vor::add_sink("printer", Printer);
/// // … the program
/// drop(handle); // the sink has everything up to here
/// ```
pub fn add_sink(name: impl Into<String>, sink: impl FrameSink + 'static) -> SinkHandle {
    add(name.into(), Box::new(sink))
}

fn add(name: String, sink: Box<dyn FrameSink>) -> SinkHandle {
    let number = next_number();
    if thread::is_busy() {
        // This thread itself has the engine locked.
        report::line(&format!(
            "{name} cannot be added from inside a sink; it stays off"
        ));
        return SinkHandle { number };
    }
    thread::while_busy(|| {
        let settings = lock(&SETTINGS);
        if let Some(started) = settings.clone() {
            drop(settings);
            with_settings(&started, |engine| {
                pass(engine);
                engine.outputs.add(number, name, sink);
            });
        } else {
            lock(&EARLY_SINKS).push(EarlySink { number, name, sink });
        }
    });
    SinkHandle { number }
}

/// Adds the sink that `make` builds from the catalog, for a thread of vor's own. Returns its
/// number;
/// `None` before recording was first enabled.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub(crate) fn join<S: FrameSink + 'static>(
    name: String,
    make: impl FnOnce(&std::sync::Arc<vor_capture::model::catalog::Catalog>) -> S,
) -> Option<u64> {
    let number = next_number();
    thread::while_busy(|| {
        with_engine(|engine| {
            pass(engine);
            engine.learn_sites();
            let sink = make(engine.catalog());
            engine.outputs.add(number, name, Box::new(sink));
        })
    })?;
    Some(number)
}

/// Ends and removes a sink that [`join`] added.
#[cfg(all(feature = "live", not(target_family = "wasm")))]
pub(crate) fn leave(number: u64) {
    thread::while_busy(|| {
        with_engine(|engine| {
            pass(engine);
            engine.outputs.remove(number);
        })
    });
}

/// Adds the sinks that were added before the recorder started.
pub(super) fn add_early(settings: &Settings) {
    let early = std::mem::take(&mut *lock(&EARLY_SINKS));
    if !early.is_empty() {
        with_settings(settings, |engine| {
            for EarlySink { number, name, sink } in early {
                engine.outputs.add(number, name, sink);
            }
        });
    }
}

/// Keeps a sink on. Dropping it delivers everything that ended before to the sink, and finishes it.
#[must_use = "dropping the handle ends the sink"]
#[derive(Debug)]
pub struct SinkHandle {
    number: u64,
}

impl Drop for SinkHandle {
    fn drop(&mut self) {
        if !thread::is_busy() {
            thread::while_busy(|| remove(self.number));
        }
    }
}

fn remove(number: u64) {
    let settings = lock(&SETTINGS);
    let is_early = |early: &mut EarlySink| early.number == number;
    let early = lock(&EARLY_SINKS).extract_if(.., is_early).next();
    drop(settings);
    if let Some(EarlySink { name, mut sink, .. }) = early {
        if let Err(error) = sink.finish() {
            report::line(&format!("{name} is switched off: {error}"));
        }
        return;
    }
    with_engine(|engine| {
        pass(engine);
        engine.outputs.remove(number);
    });
}
