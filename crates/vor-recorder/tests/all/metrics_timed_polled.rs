//! Asynchronous readers and writers whose calls are tasks.

#![cfg(not(feature = "off"))]

use std::collections::HashMap;
use std::future::poll_fn;
use std::io::{self, IoSlice, SeekFrom};
use std::path::Path;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tokio::io::{AsyncBufRead, AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};
use vor_capture::model::batch::TaskEventKind;
use vor_capture::reader::{Event, Reader};
use vor_fixtures::own_process;
use vor_recorder::drain;
use vor_recorder::metrics::{IoTick, Timed, drain_io};
use vor_recorder::setup::Config;

/// Is ready at every second poll of a call, and moves 5 bytes then.
#[derive(Default)]
struct Slow {
    polls: usize,
    fails: bool,
}

impl Slow {
    fn poll<T>(&mut self, value: T) -> Poll<io::Result<T>> {
        self.polls += 1;
        match (self.polls % 2, self.fails) {
            (1, _) => Poll::Pending,
            (_, true) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            (_, false) => Poll::Ready(Ok(value)),
        }
    }
}

impl AsyncRead for Slow {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = self.poll(());
        if matches!(polled, Poll::Ready(Ok(()))) {
            buf.put_slice(b"hello");
        }
        polled
    }
}

impl AsyncBufRead for Slow {
    fn poll_fill_buf(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        self.get_mut().poll(&b"hello"[..])
    }

    fn consume(self: Pin<&mut Self>, _: usize) {}
}

impl AsyncWrite for Slow {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll(5)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(6)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(())
    }
}

impl AsyncSeek for Slow {
    fn start_seek(self: Pin<&mut Self>, _: SeekFrom) -> io::Result<()> {
        Ok(())
    }

    fn poll_complete(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        self.poll(7)
    }
}

const LENGTH: Duration = Duration::from_millis(20);

/// Polls until a call is ready, and sleeps between two polls.
fn complete<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut future = pin!(poll_fn(|context| poll(context)));
    let context = &mut Context::from_waker(Waker::noop());
    loop {
        match future.as_mut().poll(context) {
            Poll::Ready(result) => return result,
            Poll::Pending => std::thread::sleep(LENGTH),
        }
    }
}

/// Makes one call of each kind.
fn call_all(timed: &mut Timed<Slow>) -> io::Result<()> {
    let mut timed = Pin::new(timed);
    let mut bytes = [0; 16];
    let mut buf = ReadBuf::new(&mut bytes);
    complete(|context| timed.as_mut().poll_read(context, &mut buf))?;
    assert_eq!(buf.filled(), b"hello");
    complete(|context| timed.as_mut().poll_fill_buf(context).map_ok(<[u8]>::len))?;
    timed.as_mut().consume(3);
    assert!(timed.is_write_vectored());
    assert_eq!(
        complete(|context| timed.as_mut().poll_write(context, b"hello"))?,
        5
    );
    let vectored = |context: &mut Context<'_>| timed.as_mut().poll_write_vectored(context, &[]);
    assert_eq!(complete(vectored)?, 6);
    complete(|context| timed.as_mut().poll_flush(context))?;
    // Nothing is sought.
    complete(|context| timed.as_mut().poll_complete(context))?;
    timed.as_mut().start_seek(SeekFrom::Start(7))?;
    assert_eq!(
        complete(|context| timed.as_mut().poll_complete(context))?,
        7
    );
    complete(|context| timed.as_mut().poll_shutdown(context))
}

/// Returns the tasks with their numbers, which last for the sleep between two polls.
fn tasks(path: &Path) -> Vec<(String, u64)> {
    drain::flush();
    let (mut begun, mut ended) = (Vec::new(), HashMap::new());
    let mut reader = Reader::open(path).unwrap();
    while let Some(event) = reader.next_event().unwrap() {
        let Event::Batch(batch) = event else { continue };
        for thread in &batch.threads {
            assert_eq!((thread.dropped_spans, thread.len()), (0, 0));
            for event in &thread.task_events {
                let TaskEventKind::Begin { given_id } = event.kind else {
                    panic!("{event:?}")
                };
                let name = batch.catalog.site_name(event.site).to_owned();
                begun.push((event.task, name, given_id));
            }
            for span in &thread.async_spans {
                let timeline = &batch.catalog.timeline;
                let ns = timeline.duration_ns(span.start_ticks, span.duration_ticks);
                ended.insert(span.id, Duration::from_nanos(ns));
            }
        }
    }
    assert_eq!(begun.len(), ended.len());
    let tasks = begun.into_iter().map(|(task, name, bytes)| {
        assert!(ended[&task] >= LENGTH * 99 / 100, "{ended:?}");
        (name, bytes)
    });
    tasks.collect()
}

#[test]
fn each_call_is_a_task_whose_number_is_its_bytes() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.vor");
    Config::new().capture(&path).enable();
    let mut timed = Timed::named("socket", Slow::default());
    let _ = drain_io();
    call_all(&mut timed).unwrap();
    let IoTick {
        elapsed_ns, bytes, ..
    } = drain_io();
    assert_eq!(bytes, 5 + 3 + 5 + 6);
    let least = 7 * LENGTH * 99 / 100;
    assert!(Duration::from_nanos(elapsed_ns) >= least, "{elapsed_ns}");
    timed = Timed::named(
        "socket",
        Slow {
            polls: 0,
            fails: true,
        },
    );
    assert!(call_all(&mut timed).is_err());
    // While recording is off, only the totals are kept.
    vor_recorder::setup::disable();
    timed = Timed::named("off", Slow::default());
    call_all(&mut timed).unwrap();
    assert_eq!(drain_io().bytes, 5 + 3 + 5 + 6);
    let expected = [
        ("read: socket", 5),
        ("fill: socket", 5),
        ("write: socket", 5),
        ("write: socket", 6),
        ("flush: socket", 0),
        ("seek: socket", 0),
        ("shutdown: socket", 0),
        ("read: socket", 0),
    ];
    assert_eq!(
        tasks(&path),
        expected.map(|(name, bytes)| (name.to_owned(), bytes))
    );
}
