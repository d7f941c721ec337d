//! A reader or writer whose calls are scopes with their bytes, or tasks if they are asynchronous.

#[cfg(all(feature = "tokio", not(loom)))]
mod polled;

use std::io::{self, BufRead, IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::panic::Location;

use pin_project_lite::pin_project;

use super::record_io;
use crate::hot::args::UNSIGNED;
use crate::hot::named_site::{NamedSite, Shape, ValueName};
use crate::hot::scope::{Scope, open_registered};
use crate::hot::{record_state, thread};

/// Names of the arguments of a scope that moves bytes.
const ARG_NAMES: [&str; 1] = ["bytes"];

const fn with_bytes(prefix: &'static str) -> Shape {
    Shape {
        prefix,
        suffix: "",
        category: "io",
        arg_names: &ARG_NAMES,
        kinds: UNSIGNED,
    }
}

const fn without_bytes(prefix: &'static str) -> Shape {
    Shape {
        prefix,
        suffix: "",
        category: "io",
        arg_names: &[],
        kinds: 0,
    }
}

const READ: &Shape = &with_bytes("read: ");
const FILL: &Shape = &with_bytes("fill: ");
const WRITE: &Shape = &with_bytes("write: ");
const FLUSH: &Shape = &without_bytes("flush: ");
const SEEK: &Shape = &without_bytes("seek: ");

pin_project! {
    /// A reader or writer whose calls are scopes, and whose time and bytes are those of
    /// [`record_io`].
    ///
    /// A call of [`Read`] is a scope `read: NAME` with the argument `bytes`, which is 0 if it
    /// fails. A call of [`Write`] is a scope `write: NAME` or `flush: NAME`, and one of [`Seek`]
    /// `seek: NAME`. [`BufRead::fill_buf`] is a scope `fill: NAME` with the bytes of the buffer;
    /// `record_io` gets them when they are consumed. While recording is off, only `record_io` is
    /// called.
    ///
    /// With the feature `tokio`, the calls of an asynchronous reader or writer are tasks of the
    /// same names, from the first poll of a call to the one that is ready. The number of a task is
    /// its bytes. There is also `shutdown: NAME`. A call whose future is dropped goes on with the
    /// next one.
    ///
    /// Each call costs a scope, so put the buffer around it: `BufReader::new(Timed::new(file))`.
    ///
    /// The name is the one given to [`named`](Self::named), or else the place of the call of
    /// [`new`](Self::new).
    ///
    /// # Examples
    ///
    /// ```
    /// # mod vor { pub mod io { pub use vor_recorder::metrics::Timed; } }
    /// use std::io::{BufRead, BufReader};
    ///
    /// # fn open() -> std::io::Result<std::io::Cursor<&'static str>> {
    /// #     Ok(std::io::Cursor::new("first\nsecond\n"))
    /// # }
    /// # fn main() -> std::io::Result<()> {
    /// let file = vor::io::Timed::named("settings", open()?);
    /// for line in BufReader::new(file).lines() {
    ///     println!("{}", line?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    #[derive(Debug)]
    pub struct Timed<T> {
        calls: Calls,
        #[pin]
        inner: T,
    }
}

/// The sites of the calls of a reader or writer.
#[derive(Debug)]
struct Calls {
    name: ValueName,
    read: NamedSite,
    fill: NamedSite,
    write: NamedSite,
    flush: NamedSite,
    seek: NamedSite,
    #[cfg(all(feature = "tokio", not(loom)))]
    polled: polled::PolledCalls,
}

impl<T> Timed<T> {
    /// Makes a reader or writer around `inner`, whose name is the place of this call.
    #[track_caller]
    pub const fn new(inner: T) -> Self {
        Self::with_name(ValueName::Place(Location::caller()), inner)
    }

    /// Makes a reader or writer with a name around `inner`.
    pub const fn named(name: &'static str, inner: T) -> Self {
        Self::with_name(ValueName::Named(name), inner)
    }

    const fn with_name(name: ValueName, inner: T) -> Self {
        let calls = Calls {
            name,
            read: NamedSite::new(READ),
            fill: NamedSite::new(FILL),
            write: NamedSite::new(WRITE),
            flush: NamedSite::new(FLUSH),
            seek: NamedSite::new(SEEK),
            #[cfg(all(feature = "tokio", not(loom)))]
            polled: polled::PolledCalls::new(),
        };
        Self { calls, inner }
    }

    /// Returns a reference to the reader or writer inside.
    pub const fn get_ref(&self) -> &T {
        &self.inner
    }

    /// Returns a reference to the reader or writer inside. Calls through it are not recorded.
    pub const fn get_mut(&mut self) -> &mut T {
        &mut self.inner
    }

    /// Returns the reader or writer inside.
    pub fn into_inner(self) -> T {
        self.inner
    }
}

/// Runs a call in a scope with its bytes, which `bytes` returns, and records them.
fn moved<R>(
    name: ValueName,
    site: &NamedSite,
    call: impl FnOnce() -> io::Result<R>,
    bytes: impl FnOnce(&R) -> u64,
) -> io::Result<R> {
    if is_unrecorded() {
        return call();
    }
    let mut scope: Scope<{ ARG_NAMES.len() }> = open(name, site);
    let elapsed_ns = stopwatch();
    let result = call();
    let elapsed_ns = elapsed_ns();
    let bytes = result.as_ref().map_or(0, bytes);
    scope.set_words([bytes]);
    drop(scope);
    record_io(elapsed_ns, bytes);
    result
}

/// Runs a call in a scope without arguments, and records its time.
fn waited<R>(
    name: ValueName,
    site: &NamedSite,
    call: impl FnOnce() -> io::Result<R>,
) -> io::Result<R> {
    if is_unrecorded() {
        return call();
    }
    let scope: Scope = open(name, site);
    let elapsed_ns = stopwatch();
    let result = call();
    let elapsed_ns = elapsed_ns();
    drop(scope);
    record_io(elapsed_ns, 0);
    result
}

/// Returns whether a call leaves nothing, because instrumentation is compiled out or vor itself
/// calls.
fn is_unrecorded() -> bool {
    if cfg!(feature = "off") {
        return true;
    }
    match record_state::is_on() {
        true => thread::drop_if_busy(),
        false => thread::is_busy(),
    }
}

fn open<const ARGS: usize>(name: ValueName, site: &NamedSite) -> Scope<ARGS> {
    if !record_state::is_on() {
        return Scope::off();
    }
    open_registered(site.id(name).0, [0; ARGS])
}

/// Begins to measure a time, which the returned function returns in nanoseconds.
#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
fn stopwatch() -> impl Fn() -> u64 {
    let begin = std::time::Instant::now();
    move || u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

/// Begins to measure a time by vor's clock, since the standard library has none in browsers.
#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
fn stopwatch() -> impl Fn() -> u64 {
    use crate::clock;
    let begin = clock::ticks();
    move || clock::approximate_ns(clock::ticks().saturating_sub(begin))
}

fn count(bytes: &usize) -> u64 {
    *bytes as u64
}

impl<R: Read> Read for Timed<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(calls.name, &calls.read, || inner.read(buf), count)
    }

    fn read_vectored(&mut self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(calls.name, &calls.read, || inner.read_vectored(bufs), count)
    }

    fn read_to_end(&mut self, buf: &mut Vec<u8>) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(calls.name, &calls.read, || inner.read_to_end(buf), count)
    }

    fn read_to_string(&mut self, buf: &mut String) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(calls.name, &calls.read, || inner.read_to_string(buf), count)
    }
}

impl<R: BufRead> BufRead for Timed<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        let Self { calls, inner } = self;
        if is_unrecorded() {
            return inner.fill_buf();
        }
        let mut scope: Scope<{ ARG_NAMES.len() }> = open(calls.name, &calls.fill);
        let elapsed_ns = stopwatch();
        let result = inner.fill_buf();
        let elapsed_ns = elapsed_ns();
        scope.set_words([result.as_ref().map_or(0, |buf| buf.len() as u64)]);
        drop(scope);
        // The bytes may be returned again, so they are recorded when they are consumed.
        record_io(elapsed_ns, 0);
        result
    }

    fn consume(&mut self, amount: usize) {
        self.inner.consume(amount);
        if !thread::is_busy() {
            record_io(0, amount as u64);
        }
    }
}

impl<W: Write> Write for Timed<W> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(calls.name, &calls.write, || inner.write(buf), count)
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let Self { calls, inner } = self;
        moved(
            calls.name,
            &calls.write,
            || inner.write_vectored(bufs),
            count,
        )
    }

    fn flush(&mut self) -> io::Result<()> {
        let Self { calls, inner } = self;
        waited(calls.name, &calls.flush, || inner.flush())
    }
}

impl<S: Seek> Seek for Timed<S> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        let Self { calls, inner } = self;
        waited(calls.name, &calls.seek, || inner.seek(position))
    }
}
