//! The live tap: a subscriber gets scopes as `tracing` spans and writes down each call that it
//! gets.

#![cfg(all(feature = "tracing", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use vor_fixtures::own_process;

/// The calls that a subscriber got, one line each.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Takes spans of all levels up to one.
struct Listener {
    calls: CallLog,
    up_to: Level,
    next_id: AtomicU64,
    names: Mutex<Vec<&'static str>>,
    panics: bool,
}

impl Listener {
    fn new(calls: &CallLog, up_to: Level) -> Self {
        Self {
            calls: calls.clone(),
            up_to,
            next_id: AtomicU64::new(1),
            names: Mutex::new(Vec::new()),
            panics: false,
        }
    }

    fn name(&self, id: &Id) -> &'static str {
        self.names.lock().unwrap()[id.into_u64() as usize - 1]
    }
}

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.up_to
    }

    fn max_level_hint(&self) -> Option<tracing::level_filters::LevelFilter> {
        Some(self.up_to.into())
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        assert!(!self.panics, "a subscriber with a mistake");
        let metadata = span.metadata();
        assert_eq!(metadata.file(), Some(file!()));
        assert_eq!(metadata.target(), module_path!());
        assert!(metadata.line().is_some());
        // The tap skips a scope inside the subscriber.
        vor::profile_scope!("inside the subscriber");
        self.names.lock().unwrap().push(metadata.name());
        Id::from_u64(self.next_id.fetch_add(1, Ordering::Relaxed))
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}

    fn enter(&self, span: &Id) {
        self.calls.push(format!("> {}", self.name(span)));
    }

    fn exit(&self, span: &Id) {
        self.calls.push(format!("< {}", self.name(span)));
    }
}

fn inner(number: u64) {
    vor::profile_scope!("inner", number = number);
}

fn outer() {
    vor::profile_scope!("outer");
    inner(1);
    let mut phases = vor::profile_phase!("one");
    vor::profile_phase!(phases, "two");
}

const EXPECTED: [&str; 8] = [
    "> outer", "> inner", "< inner", "> one", "< one", "> two", "< two", "< outer",
];

#[test]
fn a_subscriber_gets_nested_scopes_and_only_while_it_takes_them() {
    own_process!();
    let calls = CallLog::default();
    let before_ns = {
        outer();
        calls.take()
    };
    assert!(before_ns.is_empty());
    for is_recording in [false, true, false] {
        if is_recording {
            vor::enable();
        } else {
            vor::disable();
        }
        tracing::subscriber::with_default(Listener::new(&calls, Level::TRACE), || {
            outer();
            outer();
        });
        assert_eq!(
            calls.take(),
            [EXPECTED, EXPECTED].concat(),
            "recording: {is_recording}"
        );
        // A subscriber with a lower level gets nothing.
        tracing::subscriber::with_default(Listener::new(&calls, Level::DEBUG), outer);
        assert_eq!(calls.take(), [""; 0]);
        outer();
        assert_eq!(calls.take(), [""; 0]);
    }

    // A scope that began before the subscriber was set, or ends after it was removed, makes no half
    // span.
    {
        vor::profile_scope!("before");
        let guard = tracing::subscriber::set_default(Listener::new(&calls, Level::TRACE));
        vor::profile_scope!("during");
        drop(guard);
    }
    assert_eq!(calls.take(), ["> during", "< during"]);

    // A panic of the subscriber does not reach the program.
    let mistaken = Listener {
        panics: true,
        ..Listener::new(&calls, Level::TRACE)
    };
    tracing::subscriber::with_default(mistaken, outer);
    assert_eq!(calls.take(), [""; 0]);
    tracing::subscriber::with_default(Listener::new(&calls, Level::TRACE), outer);
    assert_eq!(calls.take(), EXPECTED);
}
