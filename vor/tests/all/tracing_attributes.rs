//! Functions under `#[tracing::instrument]`, with the behaviour that tokio-rs/tracing documents:
//! what the layer and the subscriber record for them.

#![cfg(all(feature = "tracing-layer", not(feature = "off")))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

use crate::futures::{pause, poll};
use crate::tracing_support::{Recording, both};
use tracing::{Id, Instrument, Level, Span, info, info_span, instrument};
use vor_fixtures::own_process;

fn run<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = poll(future.as_mut()) {
            return output;
        }
    }
}

/// Returns the arguments of the spans named `name`, in the order in which the spans ended.
fn args(kept: &Recording, name: &str) -> Vec<String> {
    kept.called(name)
        .iter()
        .map(|span| span.args.join(" "))
        .collect()
}

#[instrument]
fn plain(number: u64, text: &str, what: Option<i32>) -> u64 {
    info!("inside");
    number + text.len() as u64 + u64::from(what.is_some())
}

#[instrument(
    name = "renamed",
    level = "debug",
    skip(secret),
    fields(len = secret.len(), extra = "yes", late)
)]
fn with_options(shown: u8, secret: &str) {
    Span::current().record("late", shown);
}

#[instrument(skip_all, level = Level::TRACE)]
fn too_detailed() {
    info_span!("below it").in_scope(|| {});
}

#[test]
fn functions_are_scopes_with_their_arguments() {
    own_process!();
    both(
        || {
            assert_eq!(plain(3, "ab", Some(-1)), 6);
            with_options(7, "hidden");
            too_detailed();
        },
        |kept| {
            assert_eq!(args(kept, "plain"), ["number=3 text=ab what=Some(-1)"]);
            assert_eq!(args(kept, "renamed"), ["shown=7 len=6 extra=yes late=7"]);
            assert!(kept.called("too_detailed").is_empty());
            assert_eq!(kept.called("below it").len(), 1);
            assert_eq!(kept.messages, ["INFO all::tracing_attributes: inside"]);
        },
    );
}

#[instrument(err, ret)]
fn half(number: u32) -> Result<u32, String> {
    if number.is_multiple_of(2) {
        Ok(number / 2)
    } else {
        Err(format!("{number} is odd"))
    }
}

#[instrument(err(Debug, level = "warn"), ret(level = "debug"))]
async fn half_later(number: u32) -> Result<u32, String> {
    pause(1).await;
    half(number)
}

#[test]
fn results_and_errors_are_messages_at_their_levels() {
    own_process!();
    both(
        || {
            assert_eq!(half(4), Ok(2));
            assert!(half(5).is_err());
            assert!(run(half_later(7)).is_err());
            assert_eq!(run(half_later(8)), Ok(4));
        },
        |kept| {
            let expected = [
                "INFO all::tracing_attributes: return=2",
                "ERROR all::tracing_attributes: error=5 is odd",
                "ERROR all::tracing_attributes: error=7 is odd",
                "WARN all::tracing_attributes: error=\"7 is odd\"",
                "INFO all::tracing_attributes: return=4",
                "DEBUG all::tracing_attributes: return=4",
            ];
            assert_eq!(kept.messages, expected);
            assert_eq!(kept.called("half").len(), 4);
            // The second poll contains the inner function. `Instrumented` enters the span once more
            // where the future is dropped.
            let outer = kept.called("half_later");
            assert_eq!(outer.len(), 2 * 3);
            let with_inner = outer
                .iter()
                .filter(|outer| kept.called("half").iter().any(|half| outer.has(half)));
            assert_eq!(with_inner.count(), 2);
        },
    );
}

#[instrument]
async fn fetch(name: &str, pauses: u32) -> usize {
    let inner = async {
        pause(pauses).await;
        name.len()
    };
    inner.instrument(info_span!("inner")).await
}

#[test]
fn each_poll_of_an_async_function_is_a_scope_and_the_whole_call_a_task() {
    own_process!();
    both(
        || {
            for _ in 0..2 {
                // Interleaved: polls of the one lie between polls of the other.
                let (mut first, mut second) = (pin!(fetch("a", 2)), pin!(fetch("bc", 1)));
                assert!(poll(first.as_mut()).is_pending());
                assert!(poll(second.as_mut()).is_pending());
                assert!(poll(first.as_mut()).is_pending());
                assert_eq!(poll(second.as_mut()), Poll::Ready(2));
                assert_eq!(poll(first.as_mut()), Poll::Ready(1));
            }
            // Dropped before it completes.
            let mut dropped = Box::pin(fetch("dropped", 5));
            assert!(poll(dropped.as_mut()).is_pending());
            drop(dropped);
        },
        |kept| {
            let tasks = kept.tasks_called("fetch");
            let polls: Vec<usize> = tasks.iter().map(|task| kept.polls(task.id).len()).collect();
            // `Instrumented` enters each once more where it is dropped.
            assert_eq!(tasks.len(), 5);
            let of_first = [&polls[..2], &polls[2..4]];
            assert!(
                of_first.iter().all(|polls| polls[0] < polls[1]),
                "{polls:?}"
            );
            for task in &tasks {
                let busy = kept.busy(task.id);
                assert!(busy > 0 && busy <= task.duration_ticks);
                for (_, start, end) in kept.polls(task.id) {
                    assert!(start >= task.start_ticks && end <= task.end_ticks());
                    let is_a_scope = |scope: &&crate::tracing_support::Span| {
                        (scope.start, scope.end) == (start, end)
                    };
                    assert!(kept.called("fetch").iter().any(is_a_scope));
                }
            }
            let outer = kept.called("fetch");
            for inner in kept.called("inner") {
                assert!(outer.iter().any(|outer| outer.has(inner)));
            }
        },
    );
}

#[instrument(parent = parent, skip(parent))]
fn with_parent(parent: &Span, number: u32) {
    assert!(Span::current().id() != parent.id());
    let _ = number;
}

#[instrument(follows_from = causes, skip(causes))]
fn follows(causes: impl IntoIterator<Item = Option<Id>>) {}

#[test]
fn explicit_parents_and_causes_do_not_change_the_order_of_the_thread() {
    own_process!();
    both(
        || {
            let parent = info_span!("parent", n = 1);
            with_parent(&parent, 2);
            let _entered = parent.enter();
            with_parent(&info_span!("another"), 3);
            follows([parent.id(), info_span!("cause").id(), None]);
        },
        |kept| {
            assert_eq!(args(kept, "with_parent"), ["number=2", "number=3"]);
            let parent = kept.the("parent");
            let children = kept.called("with_parent");
            // The order is that of the thread: the first child ended before its parent was entered.
            assert!(!parent.has(children[0]) && parent.has(children[1]));
            assert!(parent.has(kept.the("follows")));
        },
    );
}
