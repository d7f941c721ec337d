//! Asynchronous readers and writers whose calls are tasks.
//!
//! A call may be pending for many polls, and holds no thread meanwhile, so it is a task and not a
//! scope. Its bytes are known when it ends, and are the number of the task. So the task is recorded
//! then, as one that is over.

use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

use super::{Timed, is_unrecorded, without_bytes};
use crate::clock;
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::{record_state, task};
use crate::metrics::record_io;

const READ: &Shape = &without_bytes("read: ");
const FILL: &Shape = &without_bytes("fill: ");
const WRITE: &Shape = &without_bytes("write: ");
const FLUSH: &Shape = &without_bytes("flush: ");
const SEEK: &Shape = &without_bytes("seek: ");
const SHUTDOWN: &Shape = &without_bytes("shutdown: ");

/// The calls of one kind.
#[derive(Debug)]
struct Kind {
    site: NamedSite,
    /// When the call that is pending began; 0 if none is.
    begin_ticks: u64,
}

/// The asynchronous calls of a reader or writer.
#[derive(Debug)]
pub(super) struct PolledCalls {
    read: Kind,
    fill: Kind,
    write: Kind,
    flush: Kind,
    seek: Kind,
    shutdown: Kind,
}

impl PolledCalls {
    pub(super) const fn new() -> Self {
        Self {
            read: Kind::new(READ),
            fill: Kind::new(FILL),
            write: Kind::new(WRITE),
            flush: Kind::new(FLUSH),
            seek: Kind::new(SEEK),
            shutdown: Kind::new(SHUTDOWN),
        }
    }
}

impl Kind {
    const fn new(shape: &'static Shape) -> Self {
        Self {
            site: NamedSite::new(shape),
            begin_ticks: 0,
        }
    }

    fn begin(&mut self) {
        if self.begin_ticks == 0 {
            self.begin_ticks = clock::ticks();
        }
    }

    /// Ends the call, and records it with the bytes that it has moved, and those that
    /// [`record_io`] gets.
    fn end(&mut self, name: ValueName, bytes: u64, io_bytes: u64) {
        let (begin_ticks, end_ticks) = (std::mem::take(&mut self.begin_ticks), clock::ticks());
        if record_state::is_on() {
            task::push_numbered(self.site.id(name).0, bytes, begin_ticks, end_ticks);
        }
        let elapsed_ticks = end_ticks.saturating_sub(begin_ticks);
        record_io(clock::approximate_ns(elapsed_ticks), io_bytes);
    }

    /// Polls a call, which returns its bytes with its result.
    fn poll<R>(
        &mut self,
        name: ValueName,
        poll: impl FnOnce() -> (Poll<io::Result<R>>, u64),
    ) -> Poll<io::Result<R>> {
        if is_unrecorded() {
            self.begin_ticks = 0;
            return poll().0;
        }
        self.begin();
        let (polled, bytes) = poll();
        if polled.is_ready() {
            self.end(name, bytes, bytes);
        }
        polled
    }
}

/// Returns a result with the bytes of a call that returns their number.
fn counted(polled: Poll<io::Result<usize>>) -> (Poll<io::Result<usize>>, u64) {
    let bytes = match polled {
        Poll::Ready(Ok(bytes)) => bytes as u64,
        _ => 0,
    };
    (polled, bytes)
}

impl<R: AsyncRead> AsyncRead for Timed<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.project();
        let (name, inner) = (this.calls.name, this.inner);
        this.calls.polled.read.poll(name, || {
            let before = buf.filled().len();
            let polled = inner.poll_read(context, buf);
            (polled, buf.filled().len().saturating_sub(before) as u64)
        })
    }
}

impl<R: AsyncBufRead> AsyncBufRead for Timed<R> {
    fn poll_fill_buf(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.project();
        let fill = &mut this.calls.polled.fill;
        if is_unrecorded() {
            fill.begin_ticks = 0;
            return this.inner.poll_fill_buf(context);
        }
        fill.begin();
        let polled = this.inner.poll_fill_buf(context);
        if let Poll::Ready(result) = &polled {
            let bytes = result.as_ref().map_or(0, |buf| buf.len() as u64);
            // The bytes may be returned again, so they are recorded when they are consumed.
            fill.end(this.calls.name, bytes, 0);
        }
        polled
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.project().inner.consume(amount);
        if !is_unrecorded() {
            record_io(0, amount as u64);
        }
    }
}

impl<W: AsyncWrite> AsyncWrite for Timed<W> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let (name, inner) = (this.calls.name, this.inner);
        let write = &mut this.calls.polled.write;
        write.poll(name, || counted(inner.poll_write(context, buf)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.project();
        let (name, inner) = (this.calls.name, this.inner);
        let write = &mut this.calls.polled.write;
        write.poll(name, || counted(inner.poll_write_vectored(context, bufs)))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let (name, inner) = (this.calls.name, this.inner);
        let flush = &mut this.calls.polled.flush;
        flush.poll(name, || (inner.poll_flush(context), 0))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.project();
        let (name, inner) = (this.calls.name, this.inner);
        let shutdown = &mut this.calls.polled.shutdown;
        shutdown.poll(name, || (inner.poll_shutdown(context), 0))
    }
}

impl<S: AsyncSeek> AsyncSeek for Timed<S> {
    fn start_seek(self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        let this = self.project();
        if !is_unrecorded() {
            this.calls.polled.seek.begin();
        }
        this.inner.start_seek(position)
    }

    fn poll_complete(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<u64>> {
        let this = self.project();
        let seek = &mut this.calls.polled.seek;
        // A call that completes no seek only returns the position.
        if seek.begin_ticks == 0 {
            return this.inner.poll_complete(context);
        }
        let (name, inner) = (this.calls.name, this.inner);
        seek.poll(name, || (inner.poll_complete(context), 0))
    }
}
