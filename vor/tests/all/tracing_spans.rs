//! Spans and events of the layer and the subscriber, in every order of entering and leaving.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use crate::tracing_support::{Recording, both, layer, record, subscriber};
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::span::Attributes;
use tracing::{Dispatch, Level, Span, debug, debug_span, error, info, info_span, trace_span, warn};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use vor_fixtures::own_process;

/// Waits until the clock has advanced.
fn pause() {
    let begin = vor::ticks();
    while vor::ticks() < begin + 10_000 {
        thread::yield_now();
    }
}

#[test]
fn events_are_messages_in_order_and_marks_are_not() {
    own_process!();
    both(
        || {
            let _span = info_span!("outer").entered();
            warn!(target: "elsewhere", left = 3, path = "a/b", what = ?Some(1), "disk {}", "full");
            info!(only = true);
            info!("plain");
            info!(tracy.frame_mark = true);
            info!(tracy.frame_mark = false);
            tracing::trace!("too detailed");
        },
        |kept| {
            let expected = [
                "WARN elsewhere: disk full left=3 path=a/b what=Some(1)",
                "INFO all::tracing_spans: only=true",
                "INFO all::tracing_spans: plain",
            ];
            assert_eq!(kept.messages, expected);
            assert_eq!(kept.frames, 1);
            assert_eq!(kept.names(), ["outer"]);
        },
    );
}

#[test]
fn the_usual_filters_choose_levels_and_targets() {
    own_process!();
    let work = || {
        let _outer = info_span!("outer").entered();
        debug_span!("detail").in_scope(|| debug!("detail"));
        info_span!(target: "other", "other").in_scope(|| error!(target: "other", "other"));
        trace_span!("trace").in_scope(|| info!("heard"));
    };
    let targets = || Targets::new().with_target("all::tracing_spans", Level::INFO);
    let told = targets();
    let dispatches: [Dispatch; 3] = [
        Dispatch::new(registry().with(vor::tracing::TracingLayer::new().with_filter(targets()))),
        Dispatch::new(
            vor::tracing::TracingSubscriber::new()
                .with_filter(move |what| told.would_enable(what.target(), what.level())),
        ),
        Dispatch::new(
            registry().with(
                vor::tracing::TracingLayer::new()
                    .with_max_level(LevelFilter::TRACE)
                    .with_filter(targets()),
            ),
        ),
    ];
    for dispatch in dispatches {
        let kept = record(&dispatch, work);
        assert_eq!(kept.names(), ["outer"]);
        assert_eq!(kept.messages, ["INFO all::tracing_spans: heard"]);
    }
    let dispatch =
        Dispatch::new(vor::tracing::TracingSubscriber::new().with_max_level(LevelFilter::WARN));
    let kept = record(&dispatch, work);
    assert_eq!(kept.names(), [""; 0]);
    assert_eq!(kept.messages, ["ERROR other: other"]);
}

/// A span that is made, waits, is entered `times` times with a wait between, and waits before it is
/// closed.
fn task(times: u32) {
    let span = info_span!("task", times);
    pause();
    for _ in 0..times {
        span.in_scope(|| info_span!("inside").in_scope(pause));
        pause();
    }
}

#[test]
fn a_span_that_is_entered_again_is_a_task_whose_busy_time_is_the_sum_of_its_polls() {
    own_process!();
    both(
        || (0..3).for_each(|_| task(3)),
        |kept| {
            let (scopes, tasks) = (kept.called("task"), kept.tasks_called("task"));
            assert_eq!((scopes.len(), tasks.len()), (9, 3));
            for (nth, task) in tasks.iter().enumerate() {
                let of_task = &scopes[nth * 3..nth * 3 + 3];
                let times = of_task
                    .iter()
                    .map(|scope| (scope.thread, scope.start, scope.end));
                let polls = kept.polls(task.id);
                assert_eq!(polls, times.collect::<Vec<_>>());
                let (first, last) = (of_task[0].start, of_task[2].end);
                // The first one, or an earlier recording, showed that this site makes tasks.
                if nth > 0 {
                    assert!(task.start_ticks + 10_000 <= first);
                }
                assert!(task.start_ticks <= first && task.end_ticks() >= last + 10_000);
                let idle = task.duration_ticks - kept.busy(task.id);
                assert!(idle >= 30_000, "{idle}");
            }
            // Plain scopes are not tasks.
            assert_eq!(kept.called("inside").len(), 9);
            assert_eq!(kept.tasks_called("inside"), []);
        },
    );
}

#[test]
fn waiting_spans_are_tasks_once_their_site_is_known_or_with_whole_lives() {
    own_process!();
    let queued = || {
        let first = info_span!("queued");
        let second = info_span!("queued");
        pause();
        first.in_scope(pause);
        second.in_scope(pause);
    };
    both(
        || (0..2).for_each(|_| queued()),
        |kept| {
            let tasks = kept.tasks_called("queued");
            assert!(tasks.len() >= 2);
            for task in &tasks[tasks.len() - 2..] {
                assert!(task.duration_ticks >= kept.busy(task.id) + 10_000);
                assert!(kept.busy(task.id) >= 10_000);
            }
        },
    );
    let layer = vor::tracing::TracingLayer::new().with_whole_lives();
    for dispatch in [
        Dispatch::new(registry().with(layer)),
        Dispatch::new(vor::tracing::TracingSubscriber::new().with_whole_lives()),
    ] {
        let kept = record(&dispatch, || {
            let span = info_span!("held");
            pause();
            span.in_scope(pause);
            pause();
            drop(span);
            drop(info_span!("never entered"));
        });
        let held = kept.tasks_called("held")[0];
        assert!(held.duration_ticks >= kept.busy(held.id) + 20_000);
        let never = kept.tasks_called("never entered")[0];
        assert_eq!(
            (
                kept.polls(never.id).len(),
                kept.called("never entered").len()
            ),
            (0, 0)
        );
    }
}

#[test]
fn threads_that_enter_one_span_at_once_make_separate_polls() {
    own_process!();
    both(
        || {
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let span = info_span!("shared", n = 1);
            let barrier = Barrier::new(3);
            span.in_scope(|| {
                thread::scope(|threads| {
                    for _ in 0..2 {
                        threads.spawn(|| {
                            tracing::dispatcher::with_default(&dispatch, || {
                                span.in_scope(|| {
                                    barrier.wait();
                                    // Entered within itself: the outer time includes this one.
                                    span.in_scope(pause);
                                });
                            });
                        });
                    }
                    barrier.wait();
                });
            });
        },
        |kept| {
            let scopes = kept.called("shared");
            assert_eq!(scopes.len(), 5);
            assert!(scopes.iter().all(|scope| scope.args == ["n=1"]));
            let task = kept.tasks_called("shared")[0];
            let mut threads: Vec<u32> = kept.polls(task.id).iter().map(|poll| poll.0).collect();
            threads.sort_unstable();
            threads.dedup();
            assert_eq!((threads.len(), kept.polls(task.id).len()), (3, 3));
        },
    );
}

#[test]
fn spans_left_out_of_order_have_their_own_times() {
    own_process!();
    both(
        || {
            let first = info_span!("first", n = 1).entered();
            pause();
            let second = info_span!("second", n = 2).entered();
            let third = info_span!("third", n = 3).entered();
            pause();
            drop(first);
            let fourth = info_span!("fourth", n = 4).entered();
            pause();
            drop(second);
            drop(fourth);
            pause();
            drop(third);
            info_span!("after").in_scope(|| {});
        },
        |kept| {
            let [first, second, third, fourth] =
                ["first", "second", "third", "fourth"].map(|name| kept.the(name));
            assert!(
                first.start < second.start && second.start < third.start && third.end > second.end
            );
            assert!(first.end <= fourth.start && fourth.end >= second.end);
            assert!(second.end >= first.end + 10_000 && third.end >= fourth.end + 10_000);
            for (span, n) in [(first, 1), (second, 2), (third, 3), (fourth, 4)] {
                assert_eq!(span.args, [format!("n={n}")]);
            }
            assert!(kept.the("after").start >= third.end);
        },
    );
}

#[test]
fn hundreds_of_nested_spans_are_recorded_and_nest() {
    own_process!();
    fn descend(left: u64) {
        if left > 0 {
            let _span = info_span!("deep", left).entered();
            descend(left - 1);
        }
    }
    both(
        || {
            descend(300);
            // The outermost is left first, so each is taken from the bottom of the thread's stack
            // of entered spans.
            let mut spans: Vec<_> = (0..100_u64)
                .map(|i| info_span!("row", i).entered())
                .collect();
            while !spans.is_empty() {
                drop(spans.remove(0));
            }
            descend(1);
        },
        |kept| {
            let deep = kept.called("deep");
            assert_eq!(deep.len(), 301);
            for (i, pair) in deep[..300].windows(2).enumerate() {
                assert!(pair[1].has(pair[0]));
                assert_eq!(pair[0].args, [format!("left={}", i + 1)]);
            }
            let row: Vec<String> = kept
                .called("row")
                .iter()
                .map(|span| span.args.concat())
                .collect();
            assert_eq!(row, (0..100).map(|i| format!("i={i}")).collect::<Vec<_>>());
            assert!(
                kept.called("row")
                    .windows(2)
                    .all(|pair| pair[0].end <= pair[1].end)
            );
        },
    );
}

#[test]
fn spans_that_are_never_closed_or_left_do_not_affect_others() {
    own_process!();
    both(
        || {
            // On its own thread, because its spans stay entered.
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let forgets = move || {
                tracing::dispatcher::with_default(&dispatch, || {
                    for i in 0..3000_u64 {
                        std::mem::forget(info_span!("forgotten", i));
                    }
                    for _ in 0..50 {
                        std::mem::forget(info_span!("never left").entered());
                    }
                    info_span!("seen", text = "kept").in_scope(|| info!("heard"));
                });
            };
            thread::spawn(forgets).join().unwrap();
            for i in 0..3000_u64 {
                info_span!("after", i).in_scope(|| {});
            }
        },
        |kept| {
            assert_eq!(kept.the("seen").args, ["text=kept"]);
            assert_eq!(kept.messages.len(), 1);
            let after = kept.called("after");
            assert_eq!(after.len(), 3000);
            let in_order = after
                .iter()
                .enumerate()
                .all(|(i, span)| span.args == [format!("i={i}")]);
            assert!(
                in_order
                    && kept.called("forgotten").is_empty()
                    && kept.called("never left").is_empty()
            );
        },
    );
}

#[test]
fn fields_have_the_values_from_when_the_span_is_left() {
    own_process!();
    both(
        || {
            let span = info_span!(
                "request",
                path = "/a",
                status = Empty,
                size = Empty,
                ok = true
            );
            span.in_scope(|| {
                Span::current().record("status", 404_u64);
                span.record("path", "/another/path/that/is/longer");
            });
            span.record("size", -1.5);
            span.in_scope(|| {});
            // The next span reuses the memory of its texts.
            drop(span);
            info_span!(
                "request",
                path = %format_args!("{:>5}", "x"),
                status = Empty,
                size = 3_i8,
                ok = false
            )
            .in_scope(|| {});
        },
        |kept| {
            let args: Vec<String> = kept
                .called("request")
                .iter()
                .map(|span| span.args.join(" "))
                .collect();
            assert_eq!(
                args[0],
                "path=/another/path/that/is/longer status=404 size=None ok=true"
            );
            assert_eq!(
                args[1],
                "path=/another/path/that/is/longer status=404 size=-1.5 ok=true"
            );
        },
    );
}

#[test]
fn any_number_of_reentered_spans_keep_their_texts() {
    own_process!();
    // More texts than the ring of one thread holds at a time.
    const SPANS: usize = 300;
    both(
        || {
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let make =
                |i| info_span!("named", a = %i, n = i, b = format!("text {i}"), late = Empty);
            let spans: Vec<Span> = (0..SPANS).map(make).collect();
            let enter_all = || spans.iter().for_each(|span| span.in_scope(|| {}));
            enter_all();
            enter_all();
            thread::scope(|threads| {
                threads.spawn(|| tracing::dispatcher::with_default(&dispatch, enter_all));
            });
            spans.iter().step_by(2).for_each(|span| {
                span.record("late", "now");
            });
            enter_all();
            // The same span is entered again and again, which stores no new text.
            (0..SPANS).for_each(|_| spans[7].in_scope(|| {}));
        },
        |kept| {
            let named: Vec<String> = kept
                .called("named")
                .iter()
                .map(|span| span.args.join(" "))
                .collect();
            assert_eq!((named.len(), kept.dropped), (5 * SPANS, 0));
            for i in 0..SPANS {
                let begin = format!("a={i} n={i} b=text {i} late=");
                let of_span = |late: &str| {
                    let expected = format!("{begin}{late}");
                    named.iter().filter(|args| **args == expected).count()
                };
                let more = if i == 7 { SPANS } else { 0 };
                let expected = if i % 2 == 0 { (3, 1) } else { (4 + more, 0) };
                assert_eq!((of_span("None"), of_span("now")), expected, "{i}");
            }
            let tasks = kept.tasks_called("named");
            assert_eq!(tasks.len(), SPANS);
            let polls: usize = tasks.iter().map(|task| kept.polls(task.id).len()).sum();
            assert_eq!(polls, 5 * SPANS);
        },
    );
}

#[test]
fn fields_that_are_recorded_together_are_seen_together() {
    own_process!();
    const TIMES: u64 = 300;
    let times = AtomicU32::new(0);
    both(
        || {
            times.store(0, Ordering::Relaxed);
            let dispatch = tracing::dispatcher::get_default(Clone::clone);
            let with_text = info_span!("torn", a = 0_u64, b = 0_u64, c = 0_u64, text = "0");
            let numbers = info_span!("torn", a = 0_u64, b = 0_u64, c = 0_u64, d = 0_u64);
            let recorded = AtomicU32::new(0);
            // At least this often, and until values were recorded in between.
            let enter = || {
                let (mut seen, mut changes) = (0, 0);
                for i in 0.. {
                    if i < TIMES {
                        with_text.in_scope(|| {});
                        times.fetch_add(1, Ordering::Relaxed);
                    }
                    numbers.in_scope(|| {});
                    times.fetch_add(1, Ordering::Relaxed);
                    let now = recorded.load(Ordering::Relaxed);
                    changes += u32::from(now != seen);
                    seen = now;
                    if i > 20 * TIMES {
                        if changes > 10 {
                            break;
                        }
                        // The other thread may need this processor.
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            };
            let is_done = AtomicBool::new(false);
            thread::scope(|threads| {
                threads.spawn(|| {
                    tracing::dispatcher::with_default(&dispatch, || {
                        for i in 1.. {
                            tracing::record_all!(numbers, a = i, b = i, c = i, d = i);
                            if i <= TIMES {
                                tracing::record_all!(
                                    with_text,
                                    a = i,
                                    b = i,
                                    c = i,
                                    text = i.to_string().as_str()
                                );
                            }
                            recorded.fetch_add(1, Ordering::Relaxed);
                            if is_done.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                    });
                });
                threads
                    .spawn(|| tracing::dispatcher::with_default(&dispatch, enter))
                    .join()
                    .unwrap();
                enter();
                is_done.store(true, Ordering::Relaxed);
            });
        },
        |kept| {
            let torn = kept.called("torn");
            let times = times.load(Ordering::Relaxed) as usize;
            assert_eq!(torn.len() + kept.dropped as usize, times);
            let mut values = BTreeSet::new();
            for span in &torn {
                let of = |arg: &String| arg.split('=').nth(1).unwrap_or_default().to_owned();
                let value = of(&span.args[0]);
                assert!(
                    span.args.iter().all(|arg| of(arg) == value),
                    "{:?}",
                    span.args
                );
                values.insert(value);
            }
            assert!(values.len() > 2, "{values:?}");
        },
    );
}

#[test]
fn self_time_is_right_where_a_span_is_entered_many_times() {
    own_process!();
    for dispatch in [layer(), subscriber()] {
        record(&dispatch, || {
            let outer = info_span!("self: outer");
            for _ in 0..200 {
                outer.in_scope(|| {
                    for _ in 0..2 {
                        info_span!("self: inner").in_scope(pause);
                    }
                });
            }
            vor::flush();
            let stats = vor::stats();
            let of = |name: &str| stats.iter().find(|scope| scope.name == name).unwrap();
            let (outer, inner) = (of("self: outer"), of("self: inner"));
            assert_eq!(2 * outer.count, inner.count);
            assert_eq!(inner.self_ns, inner.total_ns);
            // Each conversion from ticks may be off by one nanosecond.
            let expected = outer.total_ns - inner.total_ns;
            assert!(
                outer.self_ns.abs_diff(expected) <= inner.count,
                "{} {expected}",
                outer.self_ns
            );
        });
    }
}

/// Samples the roots with one name.
struct Named(&'static str, AtomicU32);

impl vor::tracing::Sampler for Named {
    fn is_sampled(&self, root: &Attributes<'_>) -> bool {
        self.1.fetch_add(1, Ordering::Relaxed);
        root.metadata().name() == self.0
    }
}

fn traces() {
    for _ in 0..2 {
        let request = info_span!("request");
        let child = info_span!(parent: &request, "child");
        let _entered = request.enter();
        info_span!("child").in_scope(|| info!("in a request"));
        child.in_scope(|| {});
        info!(parent: &request, "of a request");
        let ping = info_span!(parent: None, "ping").entered();
        info_span!("child of ping").in_scope(|| info!("in a ping"));
        drop(ping);
        info_span!("child").in_scope(|| {});
    }
    info!("in nothing");
}

#[test]
fn the_root_decides_for_all_its_children() {
    own_process!();
    let dispatches = [
        Dispatch::new(
            registry()
                .with(vor::tracing::TracingLayer::new().with_sampler(Named("request", 0.into()))),
        ),
        Dispatch::new(
            vor::tracing::TracingSubscriber::new().with_sampler(Named("request", 0.into())),
        ),
    ];
    for dispatch in dispatches {
        let kept = record(&dispatch, traces);
        assert_eq!(kept.called("request").len(), 2);
        assert_eq!(kept.called("child").len(), 6);
        assert!(kept.called("ping").is_empty() && kept.called("child of ping").is_empty());
        let expected = ["in a request", "of a request"].repeat(2);
        let messages: Vec<&str> = kept
            .messages
            .iter()
            .map(|text| text.split_once(": ").unwrap().1)
            .collect();
        assert_eq!(messages, [expected, vec!["in nothing"]].concat());
    }
}

#[test]
fn a_probability_is_met_and_invalid_ones_mean_never_or_always() {
    own_process!();
    let count = |probability: f64| {
        let sampler = vor::tracing::Probabilistic(probability);
        let dispatches = [
            Dispatch::new(registry().with(vor::tracing::TracingLayer::new().with_sampler(sampler))),
            Dispatch::new(vor::tracing::TracingSubscriber::new().with_sampler(sampler)),
        ];
        dispatches.map(|dispatch| {
            let work = || {
                for _ in 0..2000 {
                    let _root = info_span!("root").entered();
                    info_span!("child").in_scope(|| {});
                }
            };
            let kept = record(&dispatch, work);
            assert_eq!(kept.called("root").len(), kept.called("child").len());
            kept.called("root").len()
        })
    };
    for never in [0.0, -1.0, f64::NAN, f64::NEG_INFINITY] {
        assert_eq!(count(never), [0, 0], "{never}");
    }
    for always in [1.0, 2.0, f64::INFINITY] {
        assert_eq!(count(always), [2000, 2000], "{always}");
    }
    // Sixteen standard deviations to either side.
    for counted in count(0.25) {
        assert!((190..=810).contains(&counted), "{counted}");
    }
}

#[test]
fn handles_of_a_span_are_counted_and_the_current_one_is_known() {
    own_process!();
    let kept = record(&subscriber(), || {
        assert!(Span::current().is_none());
        let span = info_span!("counted", n = 1);
        let (copy, same) = (span.clone(), span.id());
        let entered = span.entered();
        assert_eq!(Span::current().id(), same);
        assert_eq!(
            Span::current().metadata().map(|metadata| metadata.name()),
            Some("counted")
        );
        info_span!("inner").in_scope(|| assert_ne!(Span::current().id(), same));
        assert_eq!(Span::current().id(), same);
        drop(entered);
        assert!(Span::current().is_none());
        // The span is open as long as it has a handle on any thread.
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        let elsewhere = move || {
            tracing::dispatcher::with_default(&dispatch, || {
                copy.in_scope(|| {
                    copy.record("n", 2);
                });
            })
        };
        thread::spawn(elsewhere).join().unwrap();
        // Its slot is free again.
        let places: Vec<u64> = (0..10)
            .map(|_| info_span!("again").id().unwrap().into_u64() & 0xff_ffff)
            .collect();
        assert_eq!(places.iter().min(), places.iter().max());
    });
    let mut args: Vec<String> = kept
        .called("counted")
        .iter()
        .map(|span| span.args.concat())
        .collect();
    args.sort();
    assert_eq!(args, ["n=1", "n=2"]);
    assert_eq!(kept.tasks_called("counted").len(), 1);
}

#[test]
fn two_registries_may_give_the_same_ids() {
    own_process!();
    let (one, other) = (layer(), layer());
    let kept: Recording = record(&one, || {
        let outer = info_span!("of one", n = 1);
        tracing::dispatcher::with_default(&other, || {
            let inner = info_span!("of the other", n = 2);
            assert_eq!(outer.id(), inner.id());
            let _inner = inner.entered();
            tracing::dispatcher::with_default(&one, || outer.in_scope(|| {}));
        });
    });
    assert!(kept.the("of the other").has(kept.the("of one")));
    assert_eq!(kept.the("of one").args, ["n=1"]);
    assert_eq!(kept.the("of the other").args, ["n=2"]);
}

#[test]
fn the_subscriber_does_not_record_spans_of_the_tap_twice() {
    own_process!();
    let dispatch =
        Dispatch::new(vor::tracing::TracingSubscriber::new().with_max_level(LevelFilter::TRACE));
    let kept = record(&dispatch, || {
        let _span = info_span!("span").entered();
        vor::profile_scope!("scope");
        trace_span!("inside", n = 1).in_scope(|| {});
    });
    assert_eq!(kept.names(), ["inside", "scope", "span"]);
}
