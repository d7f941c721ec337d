//! A server with three hundred open requests: work that belongs to no single thread, in a trace for
//! Perfetto.
//!
//! ```text
//! cargo run --release --example requests -- requests.pftrace
//! ```
//!
//! Three threads poll the requests. A request reads from the storage twice, and meanwhile its
//! thread polls others, so no call stack shows a whole request. Three kinds of events do:
//!
//! - An asynchronous span with steps covers the life of the request.
//! - Its future is a task, whose polls show when and where it ran.
//! - Flows lead from each query to the thread of the storage, and on to the scope that uses the
//!   page.
//!
//! Open the file in `ui.perfetto.dev`.

use std::future::Future;
use std::io::Write;
use std::path::Path;
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use vor::{FlowId, ProfileFuture as _, Sink as _};
use vor_examples::{Generator, Outcome};

const REQUESTS: u64 = 300;
const THREADS: usize = 3;
/// Queries that the storage answers together.
const BATCH: usize = 16;
/// The time that a disk would take for a batch.
const DISK: Duration = Duration::from_micros(200);
/// The time between reports of the server, each a frame.
const REPORT: Duration = Duration::from_millis(2);

fn main() -> ExitCode {
    vor_examples::run(|out| {
        let path = std::env::args_os().nth(1);
        let path = path.map_or_else(|| std::env::temp_dir().join("requests.pftrace"), Into::into);
        record(out, &path)
    })
}

fn record(out: &mut dyn Write, path: &Path) -> Outcome {
    let trace = vor::sinks::PerfettoSink::new(path).install();
    let served = serve(REQUESTS)?;
    vor::flush();
    drop(trace);
    writeln!(
        out,
        "{REQUESTS} requests, up to {} at once, {} kB of answers.",
        served.max_open,
        served.bytes / 1000
    )?;
    writeln!(
        out,
        "The trace is {}: open it in ui.perfetto.dev.",
        path.display()
    )?;
    Ok(())
}

/// The totals of all requests.
#[derive(Clone, Copy, Debug, Default)]
struct Served {
    answers: u64,
    bytes: usize,
    max_open: usize,
}

/// Accepts all requests, and reports until all are answered.
fn serve(requests: u64) -> Result<Served, Box<dyn std::error::Error>> {
    for (metric, unit) in [
        ("open_requests", "count"),
        ("answered", "kB"),
        ("answers_per_s", "1/s"),
    ] {
        vor::record_metric_unit(metric, unit);
    }
    let (queue, tasks) = unbounded();
    let (to_storage, queries) = unbounded();
    let (to_storage_urgent, urgent) = unbounded();
    let (answer, answers) = unbounded();
    let storage = Arc::new(Storage {
        queries: to_storage,
        urgent: to_storage_urgent,
        open: AtomicUsize::new(0),
    });
    let mut threads = vec![
        thread::Builder::new()
            .name("storage".into())
            .spawn(move || read_pages(&queries, &urgent))?,
    ];
    for number in 1..=THREADS {
        let tasks = tasks.clone();
        let name = format!("executor {number}");
        threads.push(
            thread::Builder::new()
                .name(name)
                .spawn(move || execute(&tasks))?,
        );
    }
    {
        vor::profile_scope!("accept", requests = requests);
        for number in 0..requests {
            let request = respond(number, Arc::clone(&storage), answer.clone());
            Task::spawn(request.profiled("respond"), &queue);
        }
    }
    drop((storage, answer, queue));

    let mut served = Served::default();
    while served.answers < requests {
        report(&answers, &mut served);
    }
    for thread in threads {
        thread
            .join()
            .map_err(|_| "a thread of the server panicked")?;
    }
    Ok(served)
}

/// Collects answers until the next report is due.
fn report(answers: &Receiver<Answer>, served: &mut Served) {
    let (begin, before) = (Instant::now(), *served);
    let mut open = 0;
    {
        vor::profile_scope!("collect");
        while let Some(left) = REPORT.checked_sub(begin.elapsed()) {
            match answers.recv_timeout(left) {
                Ok(answer) => {
                    vor::message!("request {} is answered", answer.request);
                    served.answers += 1;
                    served.bytes += answer.bytes;
                    open = answer.open;
                    served.max_open = served.max_open.max(open);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    vor::record_metric("open_requests", open as f64);
    vor::record_metric("answered", (served.bytes - before.bytes) as f64 / 1e3);
    let rate = (served.answers - before.answers) as f64 / begin.elapsed().as_secs_f64();
    vor::record_metric("answers_per_s", rate);
    vor::frame_mark();
}

#[derive(Clone, Copy, Debug)]
struct Answer {
    request: u64,
    bytes: usize,
    /// The number of open requests at that time, including this one.
    open: usize,
}

/// A request, from the first byte to the answer.
async fn respond(number: u64, storage: Arc<Storage>, answer: Sender<Answer>) {
    let request = vor::async_span("request", number);
    storage.open.fetch_add(1, Ordering::Relaxed);
    let user = {
        vor::profile_scope!("parse", request = number);
        compute(number, 20)
    };
    request.step("parsed");
    let (rights, flow) = storage.read(user, false).await;
    let page = {
        vor::profile_scope!("authorise", user = user);
        flow.end();
        compute(rights, 30)
    };
    request.step("authorised");
    let (content, flow) = storage.read(page, true).await;
    let bytes = {
        vor::profile_scope!("answer", page = page);
        flow.end();
        render(content)
    };
    request.step("rendered");
    let open = storage.open.fetch_sub(1, Ordering::Relaxed);
    // The receiver is gone if the program ends early.
    let _ = answer.send(Answer {
        request: number,
        bytes,
        open,
    });
}

#[vor::profile]
fn render(content: u64) -> usize {
    let mut bytes = 0;
    for part in 0..3 {
        vor::profile_scope!("part", part = part);
        bytes += 500 + (compute(content + part, 25) % 1000) as usize;
    }
    bytes
}

/// Work: draws thousands of random numbers.
fn compute(seed: u64, thousands: u64) -> u64 {
    let mut generator = Generator::new(seed);
    (0..thousands * 1000).fold(0, |sum, _| sum ^ generator.bits()) >> 40
}

/// The interface of the storage to requests.
#[derive(Debug)]
struct Storage {
    queries: Sender<Query>,
    /// For requests that are nearly complete, which go first.
    urgent: Sender<Query>,
    /// The number of open requests.
    open: AtomicUsize,
}

#[derive(Debug)]
struct Query {
    page: u64,
    flow: FlowId,
    reply: Arc<Reply>,
}

impl Storage {
    /// Reads a page, and returns it with the flow that started here and passed the storage.
    async fn read(&self, page: u64, is_urgent: bool) -> (u64, FlowId) {
        let reply = Arc::new(Reply::default());
        let flow = {
            vor::profile_scope!("ask", page = page);
            let flow = vor::flow();
            let queue = if is_urgent {
                &self.urgent
            } else {
                &self.queries
            };
            // A storage that has ended never replies, and the request stays open.
            let _ = queue.send(Query {
                page,
                flow,
                reply: Arc::clone(&reply),
            });
            flow
        };
        (Pending(reply).await, flow)
    }
}

/// The thread of the storage: reads pages in batches, the urgent ones first.
fn read_pages(queries: &Receiver<Query>, urgent: &Receiver<Query>) {
    loop {
        let received = crossbeam_channel::select! {
            recv(urgent) -> query => query,
            recv(queries) -> query => query,
        };
        // The last request drops the senders of both queues.
        let Ok(first) = received else { return };
        let others = urgent.try_iter().chain(queries.try_iter());
        let batch: Vec<Query> = std::iter::once(first)
            .chain(others.take(BATCH - 1))
            .collect();
        vor::profile_scope!("read batch", pages = batch.len());
        {
            vor::profile_scope!("disk");
            thread::sleep(DISK);
        }
        for Query { page, flow, reply } in batch {
            vor::profile_scope!("read page", page = page);
            flow.step();
            reply.set(compute(page, 12));
        }
    }
}

/// The slot of a reply, and the task that waits for it.
#[derive(Debug, Default)]
struct Reply(Mutex<(Option<u64>, Option<Waker>)>);

impl Reply {
    fn set(&self, value: u64) {
        let mut state = locked(&self.0);
        state.0 = Some(value);
        if let Some(waker) = state.1.take() {
            waker.wake();
        }
    }
}

struct Pending(Arc<Reply>);

impl Future for Pending {
    type Output = u64;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u64> {
        let mut state = locked(&self.0.0);
        if let Some(value) = state.0 {
            return Poll::Ready(value);
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    }
}

/// A future, and the queue that it enters when it can make progress.
struct Task {
    future: Mutex<Option<Pin<Box<dyn Future<Output = ()> + Send>>>>,
    queue: Sender<Arc<Task>>,
}

impl Task {
    fn spawn(future: impl Future<Output = ()> + Send + 'static, queue: &Sender<Arc<Self>>) {
        let task = Self {
            future: Mutex::new(Some(Box::pin(future))),
            queue: queue.clone(),
        };
        Arc::new(task).wake();
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let queue = self.queue.clone();
        // The threads end only with the server.
        let _ = queue.send(self);
    }
}

/// The thread of an executor: polls tasks from the queue until none is left.
fn execute(tasks: &Receiver<Arc<Task>>) {
    for task in tasks {
        let mut future = locked(&task.future);
        let waker = Waker::from(Arc::clone(&task));
        let mut context = Context::from_waker(&waker);
        if let Some(running) = &mut *future
            && running.as_mut().poll(&mut context).is_ready()
        {
            // The last task drops the last sender of the queue, and the threads end.
            *future = None;
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_answered_and_they_overlap() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("requests.pftrace");
        let mut out = Vec::new();
        record(&mut out, &path).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("300 requests, up to"), "{out}");
        assert!(std::fs::metadata(&path).unwrap().len() > 100_000);
    }
}
