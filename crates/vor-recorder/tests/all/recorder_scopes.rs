//! Odd scopes: deep, with long names, with many names, closed out of order, and read while they
//! open and close.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use vor_capture::model::batch::{ArgValue, SpanBatch};
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;
use vor_recorder::hot::scope::scope;
use vor_recorder::hot::thread::{MAX_OPEN, open_scopes};
use vor_recorder::setup::Config;
use vor_recorder::{clock, drain, profile_scope};

/// A span's name and the values of its arguments.
type NamedArgs = (String, Vec<ArgValue>);

#[derive(Default)]
struct ArgsSink(Arc<Mutex<Vec<NamedArgs>>>, Arc<Mutex<u64>>);

impl FrameSink for ArgsSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let mut spans = self.0.lock().unwrap();
        for thread in &batch.threads {
            *self.1.lock().unwrap() += thread.dropped_spans;
            let first = spans.len();
            spans.extend(
                thread
                    .sites
                    .iter()
                    .map(|site| (batch.catalog.site_name(*site).to_owned(), Vec::new())),
            );
            for args in &thread.args {
                spans[first + args.span as usize].1 = args.values.clone();
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

/// Runs `work`. Returns the names and arguments of the spans that ended in it, and the number of
/// dropped ones.
fn recorded(work: impl FnOnce()) -> (Vec<NamedArgs>, u64) {
    let sink = ArgsSink::default();
    let (spans, dropped) = (Arc::clone(&sink.0), Arc::clone(&sink.1));
    Config::new().stats(true).enable();
    let handle = drain::add_sink("sink", sink);
    work();
    drop(handle);
    let dropped = *dropped.lock().unwrap();
    (std::mem::take(&mut *spans.lock().unwrap()), dropped)
}

/// Like [`recorded`], for work that fits into a ring: nothing is dropped.
fn spans_of(work: impl FnOnce()) -> Vec<NamedArgs> {
    let (spans, dropped) = recorded(work);
    assert_eq!(dropped, 0);
    spans
}

fn nest(depth: usize, at_bottom: &dyn Fn()) {
    profile_scope!("nest");
    if depth > 1 {
        nest(depth - 1, at_bottom)
    } else {
        at_bottom()
    }
}

fn open_here() -> usize {
    open_scopes().iter().map(|thread| thread.scopes.len()).sum()
}

#[test]
fn scopes_deeper_than_the_stack_of_open_ones_are_recorded() {
    own_process!();
    let spans = spans_of(|| nest(5 * MAX_OPEN, &|| assert_eq!(open_here(), MAX_OPEN)));
    assert_eq!(spans.len(), 5 * MAX_OPEN);
    assert_eq!(open_here(), 0);
}

#[test]
fn scopes_closed_out_of_order_leave_nothing_open() {
    own_process!();
    let spans = spans_of(|| {
        for _ in 0..1000 {
            let outer = scope("outer");
            let inner = scope("inner");
            drop(outer);
            drop(inner);
        }
        assert_eq!(open_here(), 0);
        let _last = scope("last");
        assert_eq!(open_here(), 1);
    });
    assert_eq!(spans.len(), 2001);
}

#[test]
fn names_of_any_length_and_number_are_kept() {
    own_process!();
    const NAMES: usize = 100_000;
    let long = "n".repeat(60_000);
    let spans = spans_of(|| {
        for i in 0..NAMES {
            let _scope = scope(&format!("name {i}"));
            if i % 10_000 == 0 {
                drain::flush();
            }
        }
        let _long = scope(&long);
        let _empty = scope("");
        let _zero = scope("with \0 and \u{1F980}");
    });
    assert_eq!(spans.len(), NAMES + 3);
    assert!((0..NAMES).all(|i| spans[i].0 == format!("name {i}")));
    let rest: Vec<_> = spans[NAMES..]
        .iter()
        .map(|(name, _)| name.as_str())
        .collect();
    assert_eq!(rest, ["with \0 and \u{1F980}", "", &long]);
}

#[test]
fn arguments_survive_the_end_of_the_ring() {
    own_process!();
    // The first test set the size of a thread's ring. This test wraps around it several times, with
    // texts of all lengths.
    const SPANS: usize = 20_000;
    let text = |i: usize| "é".repeat(i % 600);
    let spans = spans_of(|| {
        for i in 0..SPANS {
            {
                profile_scope!(
                    "args",
                    i = i,
                    text = &text(i),
                    negative = -(i as i64),
                    float = i as f32,
                    yes = i % 2 == 0
                );
            }
            if i % 500 == 0 {
                drain::flush();
            }
        }
    });
    assert_eq!(spans.len(), SPANS);
    for (i, (_, args)) in spans.iter().enumerate() {
        let whole = text(i);
        let kept = &whole[..whole.floor_char_boundary(vor_recorder::hot::args::MAX_STR_BYTES)];
        let expected = [
            ArgValue::U64(i as u64),
            ArgValue::Str(kept.into()),
            ArgValue::I64(-(i as i64)),
            ArgValue::F64(i as f64),
            ArgValue::Bool(i % 2 == 0),
        ];
        assert_eq!(args[..], expected, "span {i}");
    }
}

#[test]
fn open_scopes_are_never_torn() {
    own_process!();
    static STOP: AtomicBool = AtomicBool::new(false);
    // The thread runs at full speed, so on a busy machine its ring is full at times.
    let _ = recorded(|| {
        std::thread::scope(|threads| {
            // A site's name has its depth, so the start of another site shows as a start out of
            // order or a wrong place.
            threads.spawn(|| {
                while !STOP.load(Ordering::Relaxed) {
                    profile_scope!("depth 0");
                    for _ in 0..50 {
                        profile_scope!("depth 1");
                        for _ in 0..3 {
                            profile_scope!("depth 2");
                        }
                        {
                            profile_scope!("depth 2 too");
                            profile_scope!("depth 3");
                        }
                    }
                    std::thread::yield_now();
                }
            });
            let mut seen = [0; 4];
            // On a busy machine, the other thread may start late.
            for round in 0..2_000_000 {
                if round >= 20_000 && seen[0] > 0 {
                    break;
                }
                for thread in open_scopes() {
                    let mut last = 0;
                    for (depth, scope) in thread.scopes.iter().enumerate() {
                        let named: usize = scope.name["depth ".len()..][..1].parse().unwrap();
                        assert_eq!(named, depth, "{thread:?}");
                        assert!(scope.start_ticks > last, "{thread:?}");
                        last = scope.start_ticks;
                        seen[depth] += 1;
                    }
                }
                if round % 1000 == 0 {
                    std::thread::yield_now();
                }
            }
            STOP.store(true, Ordering::Relaxed);
            assert!(seen[0] > 0, "{seen:?}");
        });
    });
}

/// Both ends of every span, with its name, in the order of the ends.
#[derive(Clone, Default)]
struct EndsSink(Arc<Mutex<Vec<(String, u64, u64)>>>);

impl FrameSink for EndsSink {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let mut spans = self.0.lock().unwrap();
        for thread in &batch.threads {
            spans.extend((0..thread.len()).map(|i| {
                let name = batch.catalog.site_name(thread.sites[i]).to_owned();
                (name, thread.start_ticks[i], thread.end_ticks(i))
            }));
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

/// Runs `work`, and returns the spans that ended in it, with both ends.
fn ends_of(work: impl FnOnce()) -> Vec<(String, u64, u64)> {
    let sink = EndsSink::default();
    Config::new().enable();
    let handle = drain::add_sink("sink ends", sink.clone());
    work();
    drop(handle);
    std::mem::take(&mut *sink.0.lock().unwrap())
}

#[test]
fn phases_touch() {
    own_process!();
    let spans = ends_of(|| {
        for _ in 0..100 {
            let mut phases = vor_recorder::profile_phase!("first");
            for _ in 0..10 {
                profile_scope!("inside a phase");
                vor_recorder::profile_phase!(phases, "next");
            }
            vor_recorder::profile_phase!(phases, "last");
        }
    });
    let phases: Vec<_> = spans
        .iter()
        .filter(|(name, ..)| name != "inside a phase")
        .collect();
    assert_eq!((spans.len(), phases.len()), (2200, 1200));
    for chain in phases.chunks(12) {
        let names: Vec<_> = chain.iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!((names[0], names[11]), ("first", "last"));
        assert!(names[1..11].iter().all(|name| *name == "next"), "{names:?}");
        for pair in chain.windows(2) {
            // One reading of the clock is both the end and the start, on the slow path too.
            assert_eq!(pair[0].2, pair[1].1, "{pair:?}");
        }
    }
}

/// A duration of more than 32 bits needs a different record, with arguments and without. On other
/// processors, the counter is too slow for a test.
#[cfg(target_arch = "x86_64")]
#[test]
fn scopes_of_more_ticks_than_32_bits_keep_their_duration() {
    own_process!();
    let mut bounds = None;
    let wait = || {
        let begin = clock::ticks();
        while clock::ticks() - begin <= u64::from(u32::MAX) + 1000 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        clock::ticks() - begin
    };
    let spans = ends_of(|| {
        let around = clock::ticks();
        let inside = {
            profile_scope!("plain");
            profile_scope!("one", a = 1);
            profile_scope!(
                "eight",
                a = 1,
                b = 2,
                c = 3,
                d = 4,
                e = "text",
                f = 6.5,
                g = true,
                h = 8
            );
            let _named = scope("named");
            let _phases = vor_recorder::profile_phase!("phase");
            wait()
        };
        bounds = Some((inside, clock::ticks() - around));
    });
    let (inside, around) = bounds.unwrap();
    let names: Vec<_> = spans.iter().map(|(name, ..)| name.as_str()).collect();
    assert_eq!(names, ["phase", "named", "eight", "one", "plain"]);
    for (name, start, end) in spans {
        assert!((inside..=around).contains(&(end - start)), "{name}");
    }
}

#[test]
fn open_scopes_have_a_thread_name_a_start_and_an_age() {
    own_process!();
    Config::new().enable();
    let (sender, opened) = std::sync::mpsc::channel();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let other = std::thread::Builder::new()
        .name("the other".into())
        .spawn(move || {
            let before = clock::ticks();
            profile_scope!("outer");
            profile_scope!("inner", n = 1);
            sender.send((before, clock::ticks())).unwrap();
            released.recv().unwrap_err();
        });
    let (before, after) = opened.recv().unwrap();
    let asked = clock::ticks();
    let open = open_scopes();
    let answered = clock::ticks();
    drop(release);
    other.unwrap().join().unwrap();
    let thread = open
        .iter()
        .find(|thread| thread.name == "the other")
        .unwrap();
    let names: Vec<_> = thread
        .scopes
        .iter()
        .map(|scope| scope.name.as_str())
        .collect();
    assert_eq!(names, ["outer", "inner"]);
    let rate = drain::catalog().unwrap().timeline.syncs()[0].rate;
    let ns = |ticks: u64| {
        ticks as f64 * rate as f64 / (1_u64 << vor_capture::model::timeline::RATE_BITS) as f64
    };
    for scope in &thread.scopes {
        assert!((before..=after).contains(&scope.start_ticks));
        // Rounding takes up to a nanosecond.
        let age = scope.age_ns as f64;
        assert!(
            age + 1.0 >= ns(asked - after) && age <= ns(answered - before) + 1.0,
            "{scope:?}"
        );
    }
    assert!(
        open_scopes()
            .iter()
            .all(|thread| thread.name != "the other")
    );
}

#[test]
fn the_sum_of_self_times_is_the_total_of_the_roots() {
    own_process!();
    let before: u64 = drain::stats().iter().map(|row| row.self_ns).sum();
    let spans = spans_of(|| {
        profile_scope!("root of sums");
        for i in 0..50_000 {
            profile_scope!("branch of sums");
            if i % 3 == 0 {
                profile_scope!("leaf of sums");
            }
            if i % 5_000 == 0 {
                drain::flush();
            }
        }
    });
    assert_eq!(spans.len(), 1 + 50_000 + 50_000_usize.div_ceil(3));
    let rows = drain::stats();
    let of = |name: &str| rows.iter().find(|row| row.name == name).unwrap().clone();
    let after: u64 = rows.iter().map(|row| row.self_ns).sum();
    assert_eq!(
        after - before,
        of("root of sums").total_ns,
        "each nanosecond counts once"
    );
    let [root, branch, leaf] =
        ["root", "branch", "leaf"].map(|name| of(&format!("{name} of sums")));
    assert_eq!(root.self_ns, root.total_ns - branch.total_ns);
    assert_eq!(branch.self_ns, branch.total_ns - leaf.total_ns);
    assert_eq!(leaf.self_ns, leaf.total_ns);
}
