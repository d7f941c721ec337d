//! The spans of functions under the attribute macros.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use crate::futures::{pause, poll};
use vor::capture::{ArgValue, FrameSnapshot, SiteInfo, SpanBatch, ThreadId};
use vor::sinks::{FrameSink, Interest};
use vor::{Config, Error};
use vor_fixtures::own_process;

/// A finished span.
#[derive(Debug)]
struct Recorded {
    site: SiteInfo,
    args: Vec<ArgValue>,
    thread: ThreadId,
    start_ticks: u64,
    end_ticks: u64,
}

/// Stores all spans, in the order in which they ended.
struct RecordingSink(Arc<Mutex<Vec<Recorded>>>);

impl FrameSink for RecordingSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), Error> {
        let mut kept = self.0.lock().unwrap();
        for thread in &batch.threads {
            for span in 0..thread.len() {
                let args = thread.args.iter().find(|args| args.span as usize == span);
                kept.push(Recorded {
                    site: batch.catalog.site(thread.sites[span]).unwrap().clone(),
                    args: args.map(|args| args.values.clone()).unwrap_or_default(),
                    thread: thread.thread,
                    start_ticks: thread.start_ticks[span],
                    end_ticks: thread.end_ticks(span),
                });
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), Error> {
        Ok(())
    }
}

/// Returns the spans that ended while `work` ran.
fn record(work: impl FnOnce()) -> Vec<Recorded> {
    Config::new().enable();
    let kept = Arc::default();
    let sink = vor::add_sink("test", RecordingSink(Arc::clone(&kept)));
    work();
    drop(sink);
    Arc::into_inner(kept).unwrap().into_inner().unwrap()
}

fn names(spans: &[Recorded]) -> Vec<&str> {
    spans.iter().map(|span| &*span.site.name).collect()
}

/// Returns whether a scope called `name` is open on any thread.
fn is_open(name: &str) -> bool {
    vor::open_scopes()
        .iter()
        .flat_map(|thread| &thread.scopes)
        .any(|scope| scope.name == name)
}

#[vor::profile]
fn free() {
    assert!(is_open("free"));
}

#[vor::profile]
fn r#loop() {}

#[vor::profile]
const fn constant() -> u32 {
    1
}

struct Plain;

impl Plain {
    #[vor::profile]
    fn method(&self) {
        free();
    }
}

#[test]
fn profile_uses_the_bare_name_of_the_function() {
    own_process!();
    let spans = record(|| {
        Plain.method();
        r#loop();
        assert_eq!(constant(), 1);
    });
    assert_eq!(names(&spans), ["free", "method", "loop"]);
    assert!(!is_open("free"));
}

struct Frame<T>(T);

#[vor::all_functions]
impl<T> Frame<T> {
    const fn constant(&self) -> u32 {
        1
    }

    fn decode(&self) {
        self.quiet();
    }

    #[vor::skip]
    fn quiet(&self) {}

    #[vor::profile]
    fn own(&self) {}

    #[cfg_attr(all(), vor::skip)]
    fn left_out(&self) {}

    #[cfg_attr(any(), vor::skip)]
    fn kept(&self) {}

    async fn later(&self) {}
}

#[vor::all_functions]
impl<T> Drop for Frame<T> {
    fn drop(&mut self) {}
}

#[vor::all_functions]
trait Source {
    fn read(&self);

    fn read_twice(&self) {
        self.read();
        self.read();
    }
}

#[vor::all_functions]
impl Source for &[u8] {
    fn read(&self) {}
}

#[vor::all_functions]
mod outer {
    pub fn first() {
        inner::second();
        super::Frame(()).decode();
    }

    mod inner {
        pub fn second() {
            Third.third();
        }

        struct Third;

        impl Third {
            fn third(&self) {}
        }
    }
}

#[test]
fn all_functions_adds_the_path_to_the_name() {
    own_process!();
    let spans = record(|| {
        let frame = Frame(1);
        assert_eq!(frame.constant(), 1);
        frame.decode();
        frame.own();
        frame.left_out();
        frame.kept();
        assert!(poll(pin!(frame.later())).is_ready());
    });
    let expected = [
        "Frame::decode",
        "own",
        "Frame::kept",
        "Frame::later",
        "<Frame as Drop>::drop",
    ];
    assert_eq!(names(&spans), expected);

    let spans = record(|| [0].as_slice().read_twice());
    assert_eq!(
        names(&spans),
        [
            "<&[u8] as Source>::read",
            "<&[u8] as Source>::read",
            "Source::read_twice"
        ]
    );

    let spans = record(outer::first);
    let expected = [
        "Third::third",
        "outer::inner::second",
        "Frame::decode",
        "<Frame as Drop>::drop",
        "outer::first",
    ];
    assert_eq!(names(&spans), expected);
}

#[vor::profile(
    name = "frame/pack",
    category = "codec",
    color = 0x3388ff,
    args(level, len = text.len(), text, ok, ratio)
)]
fn pack(level: i8, text: &str, ok: bool, ratio: f32) -> usize {
    level as usize + text.len() + usize::from(ok) + ratio as usize
}
const PACK_LINE: u32 = line!() - 3;

#[test]
fn options_reach_the_call_site() {
    own_process!();
    let spans = record(|| assert_eq!(pack(2, "four", true, 0.5), 7));
    let [span] = spans.as_slice() else {
        panic!("expected one span, found {spans:?}")
    };
    assert_eq!(span.site.name, "frame/pack");
    assert_eq!(span.site.category, "codec");
    assert_eq!(span.site.color, Some(0x3388ff));
    assert_eq!(span.site.arg_names, ["level", "len", "text", "ok", "ratio"]);
    let text = ArgValue::Str("four".into());
    let expected = [
        ArgValue::I64(2),
        ArgValue::U64(4),
        text,
        ArgValue::Bool(true),
        ArgValue::F64(0.5),
    ];
    assert_eq!(span.args, expected);
}

struct Lines;

#[vor::all_functions]
impl Lines {
    fn first() -> u32 {
        line!() - 1
    }

    /// The position is that of the function, not of its documentation.
    #[inline]
    async fn second() -> u32 {
        line!() - 1
    }
}

#[test]
fn a_call_site_has_the_position_of_its_function() {
    own_process!();
    let mut lines = Vec::new();
    let spans = record(|| {
        lines.push(Lines::first());
        if let Poll::Ready(line) = poll(pin!(Lines::second())) {
            lines.push(line);
        }
        lines.push(PACK_LINE);
        pack(0, "", false, 0.0);
    });
    assert_eq!(
        spans.iter().map(|span| span.site.line).collect::<Vec<_>>(),
        lines
    );
    for span in &spans {
        assert!(
            span.site.file.ends_with("macros_behaviour.rs"),
            "{:?}",
            span.site
        );
        assert_eq!(span.site.module_path, module_path!());
    }
}

#[vor::profile(args(value = { evaluations.set(evaluations.get() + 1); 1 }))]
fn counted(evaluations: &Cell<u32>) {
    evaluations.get();
}

#[test]
fn nothing_is_evaluated_while_off() {
    own_process!();
    let evaluations = Cell::new(0);
    let spans = record(|| {
        counted(&evaluations);
        vor::disable();
        counted(&evaluations);
    });
    assert_eq!(evaluations.get(), 1);
    assert_eq!(names(&spans), ["counted"]);
}

#[vor::profile]
fn fail(early: bool) -> Result<(), String> {
    if early {
        Err("early")?;
    }
    panic!("late");
}

#[test]
fn an_early_end_closes_the_scope() {
    own_process!();
    let spans = record(|| {
        assert_eq!(fail(true), Err("early".to_owned()));
        assert!(panic::catch_unwind(AssertUnwindSafe(|| fail(false))).is_err());
        assert!(!is_open("fail"));
    });
    assert_eq!(names(&spans), ["fail", "fail"]);
}

#[vor::profile(args(id))]
async fn fetch(id: u32) -> u32 {
    assert!(is_open("fetch"));
    free();
    pause(1).await;
    assert!(is_open("fetch"));
    r#loop();
    id
}

#[test]
fn an_async_scope_is_open_only_while_polled() {
    own_process!();
    let spans = record(|| {
        let mut future = pin!(fetch(7));
        assert!(!is_open("fetch"));
        assert!(poll(future.as_mut()).is_pending());
        assert!(!is_open("fetch"));
        Plain.method();
        assert_eq!(poll(future.as_mut()), Poll::Ready(7));
        assert!(!is_open("fetch"));
    });
    assert_eq!(
        names(&spans),
        [
            "fetch args",
            "free",
            "fetch",
            "free",
            "method",
            "loop",
            "fetch"
        ]
    );
    assert_eq!(spans[0].args, [ArgValue::U64(7)]);
    let [first, between, second] = [&spans[2], &spans[4], &spans[6]];
    assert!(first.end_ticks <= between.start_ticks && between.end_ticks <= second.start_ticks);
    assert!(first.start_ticks <= spans[0].start_ticks && spans[1].end_ticks <= first.end_ticks);
}

#[test]
fn an_async_function_moves_between_threads() {
    own_process!();
    let spans = record(|| {
        let mut future = Box::pin(fetch(1));
        assert!(poll(future.as_mut()).is_pending());
        let output = thread::spawn(move || poll(future.as_mut())).join().unwrap();
        assert_eq!(output, Poll::Ready(1));
    });
    let polls: Vec<_> = spans
        .iter()
        .filter(|span| span.site.name == "fetch")
        .collect();
    assert_eq!(polls.len(), 2);
    assert_ne!(polls[0].thread, polls[1].thread);
}

#[test]
fn a_dropped_future_leaves_no_scope_open() {
    own_process!();
    let spans = record(|| {
        let mut future = Box::pin(fetch(1));
        assert!(poll(future.as_mut()).is_pending());
        drop(future);
        drop(fetch(2));
        assert!(!is_open("fetch"));
    });
    assert_eq!(names(&spans), ["fetch args", "free", "fetch"]);
}

trait Shape {
    fn draw(&self, edges: u32);
}

struct Square;

impl Square {
    fn area(side: u32) -> u32 {
        vor::profile_function!();
        let twice = || {
            vor::profile_function!("twice");
            2 * side
        };
        twice() * side
    }

    async fn load(&self) {
        vor::profile_function!();
        pause(0).await;
    }
}

impl Shape for Square {
    fn draw(&self, edges: u32) {
        vor::profile_function!(edges = edges, kind = "square");
    }
}

fn generic<T: Default>() -> T {
    vor::profile_function!(@category = "made",);
    T::default()
}

/// As puffin has them.
#[test]
fn a_scope_may_have_the_name_of_its_function() {
    own_process!();
    let spans = record(|| {
        Square::area(3);
        assert_eq!(poll(pin!(Square.load())), Poll::Ready(()));
        Square.draw(4);
        let _: u8 = generic();
    });
    let found: Vec<(&str, &[ArgValue])> = spans
        .iter()
        .map(|span| (&*span.site.name, &span.args[..]))
        .collect();
    let text = |text: &str| ArgValue::Str(text.into());
    assert_eq!(
        found,
        [
            ("Square::area", &[text("twice")][..]),
            ("Square::area", &[]),
            ("Square::load", &[]),
            ("Square::draw", &[ArgValue::U64(4), text("square")]),
            ("generic", &[]),
        ]
    );
    assert_eq!(spans[4].site.category, "made");
}

#[test]
fn a_scope_may_depend_on_a_condition_and_have_one_value_without_a_name() {
    own_process!();
    let spans = record(|| {
        for size in [5_u32, 500] {
            vor::profile_scope_if!(size > 100, "large", size = size);
            vor::profile_scope_if!(size < 100, "small");
            vor::profile_scope!("positional", format!("{size} bytes"));
        }
    });
    let found: Vec<String> = spans
        .iter()
        .map(|span| {
            format!(
                "{} {:?} {:?}",
                span.site.name, span.site.arg_names, span.args
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            "positional [\"data\"] [Str(\"5 bytes\")]",
            "small [] []",
            "positional [\"data\"] [Str(\"500 bytes\")]",
            "large [\"size\"] [U64(500)]",
        ]
    );
}

fn resize(size: u32) {
    vor::profile_function_if!(size > 100, size = size);
    vor::profile_function_if!(size < 100);
}

#[test]
fn the_scope_of_a_function_may_depend_on_a_condition() {
    own_process!();
    let spans = record(|| [5, 50, 500].into_iter().for_each(resize));
    let found: Vec<_> = spans
        .iter()
        .map(|span| (&*span.site.name, span.args.len()))
        .collect();
    assert_eq!(found, [("resize", 0), ("resize", 0), ("resize", 1)]);
}

#[test]
fn a_scope_in_a_variable_ends_when_it_is_dropped() {
    own_process!();
    let spans = record(|| {
        let outer = vor::profile_scope_custom!("outer", 7_u64);
        let inner = vor::profile_scope_custom!("inner");
        drop(inner);
        drop(outer);
        vor::profile_scope!("after");
    });
    let found: Vec<_> = spans
        .iter()
        .map(|span| (&*span.site.name, span.args.len()))
        .collect();
    assert_eq!(found, [("inner", 0), ("outer", 1), ("after", 0)]);
    // The guard ended the outer scope, not the end of the block.
    assert!(spans[1].end_ticks <= spans[2].start_ticks);
    assert!(spans[1].start_ticks <= spans[0].start_ticks);
}
