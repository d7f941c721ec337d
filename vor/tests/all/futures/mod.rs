//! Futures that tests poll by hand.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

/// A future that is pending `times` times.
pub async fn pause(mut times: u32) {
    std::future::poll_fn(|_| {
        if times == 0 {
            return Poll::Ready(());
        }
        times -= 1;
        Poll::Pending
    })
    .await;
}

/// Polls once, with a waker that does nothing.
pub fn poll<F: Future + ?Sized>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}
