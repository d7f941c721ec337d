//! Futures: a scope that is open while the future is polled, and closed across `.await`.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::callsite::CallSite;

pin_project! {
    /// A future each of whose polls is a scope. It is `Send` where the inner future is.
    #[must_use = "futures do nothing unless polled"]
    #[derive(Debug)]
    pub struct ProfiledFuture<F> {
        site: &'static CallSite,
        #[pin]
        inner: F,
    }
}

impl<F> ProfiledFuture<F> {
    /// Wraps a future.
    #[inline]
    pub fn new(site: &'static CallSite, inner: F) -> Self {
        Self { site, inner }
    }
}

impl<F: Future> Future for ProfiledFuture<F> {
    type Output = F::Output;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        #[cfg(not(feature = "off"))]
        let _scope = crate::scope::open(this.site);
        #[cfg(feature = "off")]
        let _ = this.site;
        this.inner.poll(context)
    }
}
