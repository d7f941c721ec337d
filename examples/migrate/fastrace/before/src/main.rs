//! A service: a request is parsed, asks two shards at once, and may try a shard again.

use std::cell::Cell;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use fastrace::collector::{Config, SpanContext};
use fastrace::local::LocalSpan;
use fastrace::prelude::*;

mod counts;

/// Waits once, as if for the network.
struct Network(Cell<bool>);

impl Future for Network {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.0.replace(true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[fastrace::trace]
fn parse(line: &str) -> u64 {
    let _span = LocalSpan::enter_with_local_parent("digits")
        .with_property(|| ("bytes", line.len().to_string()));
    line.bytes()
        .filter(u8::is_ascii_digit)
        .fold(0, |id, digit| id * 10 + u64::from(digit - b'0'))
}

#[fastrace::trace(name = "ask")]
async fn query(id: u64, shard: u64) -> Option<u64> {
    Network(Cell::new(false)).await;
    (id % 5 != shard).then_some(id + shard)
}

async fn shard(id: u64, shard: u64) -> u64 {
    if let Some(answer) = query(id, shard).await {
        return answer;
    }
    LocalSpan::add_event(Event::new("retry"));
    query(id + 1, shard).await.unwrap_or(0)
}

async fn handle(id: u64) -> u64 {
    let first = shard(id, 0).in_span(Span::enter_with_local_parent("shard 0"));
    let second = shard(id, 1).in_span(Span::enter_with_local_parent("shard 1"));
    both(first, second).await
}

/// Polls both until both are ready.
async fn both(first: impl Future<Output = u64>, second: impl Future<Output = u64>) -> u64 {
    let (mut first, mut second) = (pin!(first), pin!(second));
    let (mut answers, mut sum) = ([None, None], 0);
    std::future::poll_fn(|context| {
        if answers[0].is_none()
            && let Poll::Ready(answer) = first.as_mut().poll(context)
        {
            (answers[0], sum) = (Some(()), sum + answer);
        }
        if answers[1].is_none()
            && let Poll::Ready(answer) = second.as_mut().poll(context)
        {
            (answers[1], sum) = (Some(()), sum + answer);
        }
        if answers.contains(&None) {
            Poll::Pending
        } else {
            Poll::Ready(sum)
        }
    })
    .await
}

fn main() {
    fastrace::set_reporter(counts::Counter, Config::default());
    let mut sum = 0;
    for number in 0..50 {
        let root = Span::root("request", SpanContext::random());
        let _guard = root.set_local_parent();
        let id = parse(&format!("GET /item/{number}"));
        sum += pollster::block_on(handle(id));
    }
    fastrace::flush();
    counts::print();
    eprintln!("answered {sum}");
}
