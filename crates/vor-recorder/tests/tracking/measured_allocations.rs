//! Allocations of scopes, in a program with the counting allocator.
#![cfg(not(feature = "off"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::{Arc, Mutex};

use crate::measured::SpanSink;
use vor_capture::filled;
use vor_capture::model::measures::{Measured, Measures};
use vor_fixtures::process::{child, role, run_to_success};
use vor_fixtures::{own_process, test_name};
use vor_recorder::allocations::untracked;
use vor_recorder::hot::scope;
use vor_recorder::setup::Config;
use vor_recorder::{drain, message, profile_scope, setup};

fn bytes(count: usize) -> Vec<u8> {
    std::hint::black_box(Vec::with_capacity(count))
}

#[test]
fn a_span_has_the_allocations_and_frees_within_it() {
    own_process!();
    let kept = Arc::default();
    Config::new()
        .sink("kept", SpanSink(Arc::clone(&kept)))
        .enable();
    let from_outside = bytes(64);
    let stays;
    {
        profile_scope!("outer", text = "an argument is of the recorder");
        stays = bytes(1000);
        {
            let _inner = scope::scope("inner");
            drop((bytes(300), bytes(50), from_outside));
            message!("a note, which allocates nothing that counts: {}", 7);
        }
        untracked(|| drop(bytes(1 << 20)));
    }
    {
        profile_scope!("nothing");
    }
    let threads: Vec<_> = (0..4)
        .map(|i| {
            std::thread::spawn(move || {
                for _ in 0..1000 {
                    profile_scope!("on a thread");
                    drop(bytes(10 + i));
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    drain::flush();
    let spans = std::mem::take(&mut *kept.lock().unwrap());
    let of = |name: &'static str| {
        let named = spans.iter().filter(move |span| span.site.name == name);
        named.map(|span| {
            assert!(Measures::of(&span.site).has(Measures::ALLOC));
            span.measured()
        })
    };
    let allocated = |alloc_objects, alloc_bytes, free_objects, free_bytes| {
        filled!(Measured {
            alloc_objects,
            alloc_bytes,
            free_objects,
            free_bytes
        })
    };
    assert_eq!(of("inner").collect::<Vec<_>>(), [allocated(2, 350, 3, 414)]);
    assert_eq!(
        of("outer").collect::<Vec<_>>(),
        [allocated(3, 1350, 3, 414)]
    );
    assert_eq!(of("nothing").collect::<Vec<_>>(), [Measured::default()]);
    let on_threads = of("on a thread").fold(Measured::default(), Measured::plus);
    let expected = 1000 * (10 + 11 + 12 + 13);
    assert_eq!(on_threads, allocated(4000, expected, 4000, expected));
    drop(stays);
    setup::disable();
}

#[test]
fn a_variable_switches_off_the_allocations_of_spans() {
    if role().is_some() {
        let kept = Arc::new(Mutex::new(Vec::new()));
        Config::from_env()
            .sink("kept", SpanSink(Arc::clone(&kept)))
            .enable();
        {
            profile_scope!("allocates");
            drop(bytes(1000));
        }
        drain::flush();
        let kept = std::mem::take(&mut *kept.lock().unwrap());
        assert_eq!(kept.len(), 1);
        let measured = kept[0].measured();
        println!(
            "said: {} {}",
            Measures::of(&kept[0].site).has(Measures::ALLOC),
            measured.alloc_bytes
        );
        return;
    }
    for (value, expected) in [
        (None, "true 1000"),
        (Some("1"), "true 1000"),
        (Some("0"), "false 0"),
    ] {
        let mut command = child(test_name!(), "child");
        command.envs(value.map(|value| ("VOR_ALLOCATIONS", value)));
        let output = run_to_success(&mut command);
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, said) = text.split_once("said: ").unwrap();
        assert_eq!(said.lines().next(), Some(expected), "{value:?}");
    }
}
