//! Tests of other modules that need a running recorder.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(not(target_arch = "wasm32"))]
mod fallback_clock {
    use vor_capture::reader::Capture;

    use crate::hot::{scope, thread};
    use crate::setup::{self, Config};
    use crate::{clock, drain, message, profile_phase, profile_scope};

    /// The processor's counter cannot be made unfit, so the test sets the fallback in a separate
    /// process.
    #[test]
    fn scopes_without_a_fit_counter_are_recorded_by_the_fallback() {
        const ROLE: &str = "VOR_FALLBACK_CLOCK";
        if std::env::var_os(ROLE).is_some() {
            clock::use_fallback();
            return record_by_the_fallback();
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["scopes_without_a_fit_counter", "--nocapture"]);
        match child.env(ROLE, "1").output() {
            Ok(output) => assert!(output.status.success(), "{output:?}"),
            // An emulator of another processor may be unable to start a second program of that
            // processor.
            Err(error) => assert_ne!(error.kind(), std::io::ErrorKind::NotFound),
        }
    }

    fn record_by_the_fallback() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        Config::new().capture(&path).enable();
        assert!(!clock::is_hardware());
        let around = clock::ticks();
        let mut inside = Vec::new();
        for n in 0..100_u64 {
            profile_scope!("outer");
            let begin = clock::ticks();
            {
                profile_scope!("inner", n = n, text = "text");
                let _named = scope::scope("named");
                let mut phases = profile_phase!("first");
                profile_phase!(phases, "second");
                message!("at {n}");
                let open = thread::open_scopes();
                assert_eq!(open[0].scopes.len(), 4);
                assert!(
                    open[0]
                        .scopes
                        .iter()
                        .all(|scope| scope.start_ticks >= around)
                );
            }
            inside.push(clock::ticks() - begin);
        }
        // This scope is open while recording is switched off, and is still recorded.
        let open = scope::scope("open");
        setup::disable();
        drop(open);
        Config::new().enable();
        drain::frame_mark();
        let around = clock::ticks() - around;
        assert_eq!(drain::close_capture(), Some(path.clone()));

        let mut capture = Capture::open(&path).unwrap();
        let frame = capture.frame(0).unwrap();
        let spans = &frame.threads[0].spans;
        let named = |name: &str| {
            let spans = spans
                .iter()
                .filter(|span| frame.catalog.site_name(span.site) == name);
            spans.map(|span| span.duration_ticks).collect::<Vec<_>>()
        };
        for name in ["outer", "inner", "named", "first", "second"] {
            assert_eq!(named(name).len(), 100, "{name}");
        }
        assert_eq!((named("open").len(), spans.len()), (1, 501));
        assert_eq!(frame.threads[0].messages.len(), 100);
        let outer = named("outer");
        assert!(
            outer
                .iter()
                .zip(&inside)
                .all(|(outer, inside)| outer >= inside)
        );
        assert!(outer.iter().sum::<u64>() <= around);
        assert_eq!(scope::backward_ticks(), 0);
    }
}

#[cfg(feature = "tracing")]
mod fast_path {
    use std::time::{Duration, Instant};

    use tracing::level_filters::LevelFilter;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Dispatch, Event, Metadata, Subscriber};

    use crate::hot::callsite::{self, CallSite};
    use crate::hot::scope;
    use crate::{drain, setup};

    /// Enables the spans of one module, or of none.
    struct ModuleFilter(Option<&'static str>);

    impl Subscriber for ModuleFilter {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            Some(metadata.target()) == self.0
        }
        fn max_level_hint(&self) -> Option<LevelFilter> {
            Some(self.0.map_or(LevelFilter::OFF, |_| LevelFilter::TRACE))
        }
        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    static SITE: CallSite = CallSite::new("site", module_path!(), file!(), 1);

    /// Flushes until the site's scopes take the fast path, or do not, as `fast` requires.
    fn wait_until_fast(fast: bool, at_most: Duration) {
        let begin = Instant::now();
        while callsite::is_fast(SITE.word()) != fast {
            assert!(begin.elapsed() < at_most, "fast: {fast} is expected");
            drain::flush();
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn sites_leave_the_fast_path_while_a_subscriber_wants_scopes() {
        setup::enable();
        drop(scope::open(&SITE));
        wait_until_fast(true, Duration::from_secs(30));
        // A subscriber that wants the announcement's own span is noticed immediately, another one
        // at the next pass.
        for (target, immediately) in [("vor", true), ("elsewhere", false)] {
            let subscriber = Dispatch::new(ModuleFilter(Some(target)));
            if immediately {
                assert!(!callsite::is_fast(SITE.word()));
            }
            wait_until_fast(false, Duration::from_secs(30));
            drop(subscriber);
            // `tracing` asks the remaining subscribers, or the next one.
            let _next = Dispatch::new(ModuleFilter(None));
            wait_until_fast(true, Duration::from_secs(30));
        }
        setup::disable();
        assert!(!callsite::is_fast(SITE.word()) && SITE.id(0).is_some());
        assert!(scope::open(&SITE).start().is_none());
        setup::enable();
        assert!(callsite::is_fast(SITE.word()));
        setup::disable();
    }
}
