//! Scopes that measure more than their duration: the values of their spans, beside scopes that do
//! not.
#![cfg(not(feature = "off"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::measured::{Span, SpanSink};
use vor_capture::model::batch::ArgValue;
use vor_capture::model::measures::Measures;
use vor_fixtures::own_process;
use vor_recorder::__private::init_cpu;
use vor_recorder::clock::cpu::Source;
use vor_recorder::hot::scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, profile_scope, setup};

fn burn(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn nested(depth: usize) {
    profile_scope!("nested", cpu, depth = depth);
    if depth == 0 {
        std::thread::sleep(Duration::from_millis(20));
    } else {
        nested(depth - 1);
    }
}

#[test]
fn cpu_time_of_some_scopes_and_then_of_all() {
    own_process!();
    // Wine has none, for example.
    let has_source = init_cpu() != Source::None;
    if !has_source {
        vor_fixtures::skip("CPU time", "this system does not report a thread's");
    }
    let kept = Arc::default();
    Config::new()
        .sink("kept", SpanSink(Arc::clone(&kept)))
        .enable();
    let take = || {
        drain::flush();
        std::mem::take(&mut *kept.lock().unwrap())
    };
    {
        profile_scope!("plain", n = 3);
        profile_scope!("slept", cpu, n = 4);
        std::thread::sleep(Duration::from_millis(20));
    }
    nested(200);
    let spans = take();
    let of = |name: &str| {
        spans
            .iter()
            .filter(|span| span.site.name == name)
            .collect::<Vec<_>>()
    };
    assert_eq!(Measures::of(&of("plain")[0].site), Measures::NONE);
    assert_eq!(of("plain")[0].args, [ArgValue::I64(3)]);
    let slept = of("slept")[0];
    assert_eq!(Measures::of(&slept.site), Measures::CPU);
    assert_eq!(slept.args[0], ArgValue::I64(4));
    let off_cpu = |span: &Span| span.measured().off_cpu_ns;
    // Asleep nearly all the time; a span never has a negative CPU time.
    assert!(off_cpu(slept) <= slept.duration_ns + 100);
    let was_off = |span: &Span, min_ns: u64| !has_source || off_cpu(span) > min_ns;
    assert!(was_off(slept, 19_000_000));
    // Work of other programs on this machine does not count; its own work counts. A busy machine
    // may leave the thread little of the time, so the scope becomes longer until it had some.
    let mut time = Duration::from_millis(20);
    loop {
        {
            profile_scope!("burned", cpu);
            burn(time);
        }
        let burned = &take()[0];
        if burned.duration_ns - off_cpu(burned) > 1_000_000 {
            break;
        }
        time *= 2;
        assert!(time < Duration::from_secs(60), "no CPU time");
    }
    // Deeper than the open scopes that a thread publishes.
    let all = of("nested");
    assert_eq!(all.len(), 201);
    assert!(all.iter().all(|span| was_off(span, 19_000_000)));

    setup::disable();
    Config::new().cpu_time(true).enable();
    {
        profile_scope!("plain", n = 5);
        let _named = scope::scope("named");
        std::thread::sleep(Duration::from_millis(5));
    }
    let spans = take();
    assert_eq!(spans.len(), 2);
    for span in &spans {
        let expected = if has_source {
            Measures::CPU
        } else {
            Measures::NONE
        };
        assert_eq!(Measures::of(&span.site), expected, "{}", span.site.name);
        assert!(was_off(span, 4_900_000));
    }
    setup::disable();
}

/// Passes the time in calls of the system.
fn call_the_system(time: Duration) {
    let begin = Instant::now();
    let path = std::env::current_exe().unwrap();
    while begin.elapsed() < time {
        assert!(std::fs::metadata(&path).unwrap().is_file());
    }
}

#[test]
fn the_split_divides_cpu_time_between_program_and_kernel() {
    own_process!();
    if init_cpu() == Source::None {
        eprintln!("SKIPPED: CPU time; this system does not report a thread's");
        return;
    }
    let kept = Arc::default();
    Config::new()
        .cpu_split(true)
        .sink("kept", SpanSink(Arc::clone(&kept)))
        .enable();
    // Some systems count CPU time in ticks of their timer, and a busy machine gives the thread only
    // a part of the time. So the spans become longer until both have CPU time of their kind.
    let mut time = Duration::from_millis(50);
    loop {
        {
            profile_scope!("burned", n = 5);
            burn(time);
        }
        {
            profile_scope!("called");
            call_the_system(time);
        }
        drain::flush();
        let spans: Vec<Span> = std::mem::take(&mut *kept.lock().unwrap());
        let [burned, called] = &spans[..] else {
            panic!("{} spans", spans.len());
        };
        assert_eq!(burned.args[0], ArgValue::I64(5));
        for span in [burned, called] {
            let expected = Measures::CPU | Measures::CPU_SPLIT;
            assert_eq!(Measures::of(&span.site), expected);
        }
        let [burned, called] = [burned, called].map(Span::measured);
        if burned.cpu_user_ns > 0 && burned.cpu_user_ns > burned.cpu_sys_ns && called.cpu_sys_ns > 0
        {
            break;
        }
        time *= 2;
        assert!(
            time < Duration::from_secs(10),
            "{burned:?} {called:?}: no CPU time"
        );
    }
    setup::disable();
}
