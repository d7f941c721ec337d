//! A web server that is instrumented with `tracing` only, and the cost of vor there.
//!
//! Without arguments it starts servers as separate processes, sends them requests in turn, and
//! prints the CPU time per request and the share of vor's own threads. It compares servers with vor
//! to servers with a subscriber that does nothing, in alternating turns, since requests per second
//! mean little on a busy machine. `traced_server FOLDER` stores captures of the servers with vor in
//! a folder.

use std::convert::Infallible;
use std::error::Error;
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, ExitCode, Stdio};

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument, Metadata, Span, Subscriber, info_span, instrument, warn};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use vor_examples::{Outcome, run};

/// The variable that makes a process a server of a kind.
const MODE: &str = "TRACED_SERVER_MODE";

fn main() -> ExitCode {
    match std::env::var(MODE) {
        Ok(mode) => run(|out| serve(&mode, out)),
        Err(_) => run(compare),
    }
}

/// A subscriber that enables everything and does nothing.
struct NoOp;

impl Subscriber for NoOp {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A layer that does nothing.
struct NoOpLayer;

impl<S: Subscriber> Layer<S> for NoOpLayer {}

fn serve(mode: &str, out: &mut dyn Write) -> Outcome {
    use tracing::subscriber::set_global_default as set;
    match mode {
        "registry" => set(registry().with(NoOpLayer))?,
        "layer" => set(registry().with(vor::tracing::TracingLayer::new()))?,
        "no-op" => set(NoOp)?,
        _ => set(vor::tracing::TracingSubscriber::new())?,
    }
    if matches!(mode, "layer" | "subscriber") {
        vor::enable();
    }
    listen(|address| {
        writeln!(out, "{address}")?;
        out.flush()
    })
}

/// Serves on a loopback port until the process ends. `report` receives the address.
fn listen(report: impl FnOnce(SocketAddr) -> io::Result<()>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_io()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        report(listener.local_addr()?)?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let service = service_fn(|request| async {
                    let (method, path) = (request.method(), request.uri().path());
                    let span = info_span!("request", %method, path, status = 0_u16);
                    answer(request).instrument(span).await
                });
                // A client may disconnect.
                let _ = http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    })
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, text) = match request.uri().path() {
        "/cpu" => (StatusCode::OK, cpu_ns()),
        path if path.starts_with("/items/") => {
            let user = authorise(path.len() as u64).await;
            let rows = query(user).await;
            (StatusCode::OK, render(&rows))
        }
        path => {
            warn!(path, "nothing is here");
            (StatusCode::NOT_FOUND, String::new())
        }
    };
    Span::current().record("status", status.as_u16());
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    Ok(response)
}

#[instrument]
async fn authorise(token: u64) -> u64 {
    // Mixes bits as a hash would.
    (0..400_u64).fold(token, |hash, i| {
        (hash ^ i).wrapping_mul(0x100_0000_01b3).rotate_left(5)
    })
}

#[instrument(skip(user))]
async fn query(user: u64) -> Vec<u64> {
    let plan = info_span!("plan", user).in_scope(|| user % 64 + 100);
    // Other requests run meanwhile, as with a database.
    tokio::task::yield_now().await;
    (0..plan).map(|row| row.wrapping_mul(user)).collect()
}

#[instrument(skip(rows), fields(rows = rows.len()))]
fn render(rows: &[u64]) -> String {
    let mut text = String::from("[");
    for (i, row) in rows.iter().enumerate() {
        if i > 0 {
            text.push(',');
        }
        text.push_str(&row.to_string());
    }
    text.push(']');
    text
}

/// Returns the CPU time of all threads of this process and of vor's own threads, in nanoseconds.
fn cpu_ns() -> String {
    let (mut all, mut vor_ns) = (0, 0);
    for entry in fs::read_dir("/proc/self/task")
        .into_iter()
        .flatten()
        .flatten()
    {
        let read = |file| fs::read_to_string(entry.path().join(file)).unwrap_or_default();
        let first = read("schedstat")
            .split(' ')
            .next()
            .and_then(|ns| ns.parse().ok());
        let ns: u64 = first.unwrap_or(0);
        all += ns;
        if read("comm").starts_with("vor-") {
            vor_ns += ns;
        }
    }
    format!("{all} {vor_ns}")
}

/// A connection to a server.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(address: &str) -> Result<Self, Box<dyn Error>> {
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        Ok(Self(BufReader::new(connection)))
    }

    /// Sends a request and returns the answer.
    fn get(&mut self, path: &str) -> Result<String, Box<dyn Error>> {
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.0.get_mut().write_all(request.as_bytes())?;
        let (mut line, mut bytes) = (String::new(), 0);
        loop {
            line.clear();
            if self.0.read_line(&mut line)? == 0 {
                return Err("the server went away".into());
            }
            if let Some(length) = line.strip_prefix("content-length: ") {
                bytes = length.trim().parse()?;
            }
            if line == "\r\n" {
                break;
            }
        }
        let mut body = vec![0; bytes];
        self.0.read_exact(&mut body)?;
        Ok(String::from_utf8(body)?)
    }

    /// Returns the two values of [`cpu_ns`] in the server.
    fn cpu_ns(&mut self) -> Result<[f64; 2], Box<dyn Error>> {
        let answer = self.get("/cpu")?;
        let (all, vor_ns) = answer.split_once(' ').ok_or("no times")?;
        Ok([all.parse()?, vor_ns.parse()?])
    }

    /// Returns the server's CPU time per request and the part of vor's own threads, in
    /// nanoseconds.
    fn measure(&mut self, requests: u64) -> Result<[f64; 2], Box<dyn Error>> {
        let before = self.cpu_ns()?;
        for i in 0..requests {
            self.get(&format!("/items/{i}"))?;
        }
        let after = self.cpu_ns()?;
        Ok([0, 1].map(|i| (after[i] - before[i]) / requests as f64))
    }
}

/// A server in a separate process, and a connection to it.
struct Server {
    process: Child,
    client: Client,
}

impl Server {
    fn start(mode: &str, folder: Option<&str>) -> Result<Self, Box<dyn Error>> {
        let mut command = Command::new(std::env::current_exe()?);
        command.env(MODE, mode).stdout(Stdio::piped());
        if let Some(folder) = folder {
            command
                .env("VOR_RECORD", format!("{folder}/{mode}.vor"))
                .env("VOR_RECORD_SPANS", "1");
        }
        let mut process = command.spawn()?;
        let mut address = String::new();
        BufReader::new(process.stdout.take().ok_or("no stdout")?).read_line(&mut address)?;
        let client = Client::connect(address.trim())?;
        Ok(Self { process, client })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its capture is complete up to the last record without a clean exit.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Requests per turn.
const REQUESTS: u64 = 4000;
/// Pairs of turns, one with vor and one without.
const PAIRS: usize = 41;

fn compare(out: &mut dyn Write) -> Outcome {
    let folder = std::env::args().nth(1);
    for (floor, mode) in [("registry", "layer"), ("no-op", "subscriber")] {
        let (mut without, mut with) = (
            Server::start(floor, None)?,
            Server::start(mode, folder.as_deref())?,
        );
        let (without, with) = (&mut without.client, &mut with.client);
        without.measure(REQUESTS)?;
        with.measure(REQUESTS)?;
        let (mut more, mut times, mut drained) = (Vec::new(), Vec::new(), Vec::new());
        for pair in 0..PAIRS {
            // The order alternates too.
            let ([a, _], [b, vor_ns]) = if pair % 2 == 0 {
                let a = without.measure(REQUESTS)?;
                (a, with.measure(REQUESTS)?)
            } else {
                let b = with.measure(REQUESTS)?;
                (without.measure(REQUESTS)?, b)
            };
            more.push(100.0 * (b / a - 1.0));
            times.push(a);
            drained.push(100.0 * vor_ns / a);
        }
        for values in [&mut more, &mut times, &mut drained] {
            values.sort_unstable_by(f64::total_cmp);
        }
        writeln!(
            out,
            "{mode:<12} over {floor:<10} {:>6.1} us of CPU per request without it, \
             {:+.1} % with it (quartiles {:+.1} and {:+.1}), {:+.1} % in vor's threads",
            times[PAIRS / 2] / 1000.0,
            more[PAIRS / 2],
            more[PAIRS / 4],
            more[PAIRS * 3 / 4],
            drained[PAIRS / 2],
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use vor::capture::{AsyncSpan, Capture, TaskEventKind, ThreadBatch};

    use super::*;

    /// A scope of the capture.
    #[derive(Debug)]
    struct Scope {
        name: String,
        start: u64,
        end: u64,
        /// `name=value` each.
        args: Vec<String>,
    }

    /// The content of the capture, for the one thread that answers.
    #[derive(Default)]
    struct Recording {
        scopes: Vec<Scope>,
        tasks: Vec<(String, AsyncSpan)>,
        polls: Vec<(u64, u64, u64)>,
        messages: Vec<(u64, String)>,
    }

    impl Recording {
        fn read(path: &std::path::Path) -> Result<Self, Box<dyn Error>> {
            let mut recording = Self::default();
            let mut capture = Capture::open(path)?;
            for batch in capture.batches()? {
                let batch = batch?;
                for thread in &batch.threads {
                    assert_eq!(thread.dropped_spans, 0);
                    recording.add(thread, &batch.catalog);
                }
            }
            Ok(recording)
        }

        fn add(&mut self, thread: &ThreadBatch, catalog: &vor::capture::Catalog) {
            for i in 0..thread.len() {
                let site = catalog.site(thread.sites[i]).unwrap();
                let values = thread.args.iter().find(|args| args.span == i as u32);
                let values = values.into_iter().flat_map(|args| &args.values);
                let args = site.arg_names.iter().zip(values);
                self.scopes.push(Scope {
                    name: site.name.to_string(),
                    start: thread.start_ticks[i],
                    end: thread.end_ticks(i),
                    args: args
                        .map(|(name, value)| format!("{name}={value}"))
                        .collect(),
                });
            }
            for task in &thread.async_spans {
                self.tasks
                    .push((catalog.site_name(task.site).to_owned(), *task));
            }
            for event in &thread.task_events {
                if let TaskEventKind::Poll { duration_ticks } = event.kind {
                    let end = event.start_ticks + duration_ticks;
                    self.polls.push((event.task, event.start_ticks, end));
                }
            }
            let messages = thread.messages.iter();
            self.messages
                .extend(messages.map(|message| (message.ticks, message.text.to_string())));
        }

        /// Returns the scopes of a name within a range of ticks.
        fn within(&self, name: &str, start: u64, end: u64) -> Vec<&Scope> {
            let of_name = self.scopes.iter().filter(|scope| scope.name == name);
            of_name
                .filter(|scope| start <= scope.start && scope.end <= end)
                .collect()
        }

        /// Returns the tasks of a name within a range of ticks.
        fn tasks_within(&self, name: &str, start: u64, end: u64) -> Vec<AsyncSpan> {
            let of_name = self.tasks.iter().filter(|(of, _)| of == name);
            let tasks = of_name.map(|(_, task)| *task);
            tasks
                .filter(|task| start <= task.start_ticks && task.end_ticks() <= end)
                .collect()
        }

        /// Checks the number of polls of a task, and that each is a scope of its name.
        fn expect_polls(&self, name: &str, task: AsyncSpan, count: usize) {
            let (start, end) = (task.start_ticks, task.end_ticks());
            let scopes = self.within(name, start, end);
            let mut times: Vec<_> = scopes
                .iter()
                .map(|scope| (task.id, scope.start, scope.end))
                .collect();
            let mut polls: Vec<_> = self
                .polls
                .iter()
                .filter(|poll| poll.0 == task.id)
                .copied()
                .collect();
            times.sort_unstable();
            polls.sort_unstable();
            assert_eq!(polls, times, "{name}");
            assert_eq!(polls.len(), count, "{name}");
        }
    }

    /// Requests for items.
    const ITEMS: u64 = 300;

    #[test]
    fn each_request_is_a_task_with_its_own_spans_fields_and_messages() -> Result<(), Box<dyn Error>>
    {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("server.vor");
        tracing::subscriber::set_global_default(
            registry().with(vor::tracing::TracingLayer::new()),
        )?;
        vor::Config::new().capture(&path).enable();
        let (sender, addresses) = mpsc::channel();
        std::thread::spawn(move || {
            listen(|address| sender.send(address).map_err(io::Error::other)).is_ok()
        });
        let address = addresses.recv_timeout(Duration::from_secs(60))?;
        let mut client = Client::connect(&address.to_string())?;
        let paths = (0..ITEMS).map(|i| format!("/items/{i}"));
        let paths: Vec<String> = paths.chain(["/elsewhere".to_owned()]).collect();
        let answers: Result<Vec<String>, _> = paths.iter().map(|path| client.get(path)).collect();
        let answers = answers?;
        vor::flush();
        vor::frame_mark();
        assert_eq!(vor::close_capture(), Some(path.clone()));
        vor::disable();

        let recording = Recording::read(&path)?;
        let requests = recording.tasks_within("request", 0, u64::MAX);
        assert_eq!(requests.len(), paths.len());
        for ((request, path), answer) in requests.iter().zip(&paths).zip(&answers) {
            let (start, end) = (request.start_ticks, request.end_ticks());
            let is_item = path.starts_with("/items/");
            // `Instrumented` enters a span once more when its future is dropped.
            recording.expect_polls("request", *request, if is_item { 3 } else { 2 });
            let scopes = recording.within("request", start, end);
            let status = if is_item { 200 } else { 404 };
            let fields = [
                "method=GET".to_owned(),
                format!("path={path}"),
                format!("status={status}"),
            ];
            assert_eq!(scopes.last().unwrap().args, fields);
            for (name, polls) in [("authorise", 2), ("query", 3)] {
                let tasks = recording.tasks_within(name, start, end);
                assert_eq!(tasks.len(), usize::from(is_item), "{name}");
                if let [task] = tasks[..] {
                    recording.expect_polls(name, task, polls);
                }
            }
            let rows = answer
                .split_terminator([',', '[', ']'])
                .filter(|row| !row.is_empty())
                .count();
            let rendered: Vec<_> = recording.within("render", start, end);
            let rendered: Vec<_> = rendered.iter().map(|scope| scope.args.concat()).collect();
            let authorised = recording.within("authorise", start, end);
            let authorised: Vec<_> = authorised.iter().map(|scope| scope.args.concat()).collect();
            let messages: Vec<_> = recording
                .messages
                .iter()
                .filter(|(at, _)| start <= *at && *at <= end)
                .collect();
            if is_item {
                assert_eq!(rendered, [format!("rows={rows}")]);
                assert_eq!(authorised, vec![format!("token={}", path.len()); 2]);
                assert_eq!(recording.within("plan", start, end).len(), 1);
                assert!(messages.is_empty());
            } else {
                assert_eq!((rendered.len(), authorised.len()), (0, 0));
                assert_eq!(
                    messages[0].1,
                    "WARN traced_server: nothing is here path=/elsewhere"
                );
            }
        }
        assert_eq!(
            (
                recording.messages.len(),
                recording.within("plan", 0, u64::MAX).len()
            ),
            (1, ITEMS as usize)
        );
        Ok(())
    }
}
