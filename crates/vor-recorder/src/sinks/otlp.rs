//! Sends metrics and chosen spans to an OpenTelemetry collector, and so to Prometheus, Tempo and
//! others.
//!
//! The official crates make the messages, which are posted as protobuf over HTTP. Metrics are
//! instruments of the official meter, whose thread reads them at each interval. Spans go through a
//! bounded queue to a thread that sends them in groups. Spans that do not fit or that the collector
//! does not accept are counted. After a failure the span thread pauses, and the pause doubles.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use opentelemetry::metrics::{Counter, Gauge, Histogram, Meter, MeterProvider as _};
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{
    MetricExporter, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use ureq::Agent;
use ureq::http::Uri;
use vor_capture::Error;
use vor_capture::model::batch::ArgValue;
use vor_capture::model::frame::{FrameSnapshot, ThreadTree};
use vor_capture::sink::{FrameSink, Interest};
use vor_export::arg_name;

use crate::allocations;
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Most frames whose spans wait in the queue.
const MAX_QUEUED_FRAMES: usize = 256;

/// Number of spans above which a request is sent.
const MAX_BATCH_SPANS: usize = 512;

/// How long spans wait for others to join their request.
const MAX_BATCH_DELAY: Duration = Duration::from_secs(1);

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Bytes that are read of an answer.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// Sends metrics, and spans of chosen names, to an OpenTelemetry collector while its guard is held,
/// and switches recording on if it is off.
///
/// Each metric of a frame is a gauge of its name. Frame durations are the histogram
/// `vor.frame.duration`, and lost spans the counter `vor.dropped_spans`. A chosen span has its
/// arguments as attributes. Its parent is the nearest chosen span around it; without one, it is the
/// root of a trace. The program never waits for the collector. The first failure is reported on
/// stderr in one line, and so is the number of lost spans at the end.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, otlp as sinks}; }
/// use vor::Sink as _;
///
/// let sent = vor::sinks::OtlpSink::new("http://localhost:4318")
///     .service("shop")
///     .spans(["request"])
///     .install();
/// // … what the program does …
/// drop(sent);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OtlpSink {
    /// The collector's address for OTLP over HTTP, up to `/v1/traces`. Default:
    /// `http://localhost:4318`.
    pub endpoint: String,
    /// The resource's `service.name`. Default: `vor`.
    pub service: String,
    /// Additional headers, such as an authorization token. Default: none.
    pub headers: Vec<(String, String)>,
    /// Names of the scopes whose spans are sent. Default: none.
    pub spans: Vec<String>,
    /// How often metrics are sent. Default: 10 s.
    pub interval: Duration,
    /// Time limit of a request. Default: 5 s.
    pub timeout: Duration,
}

impl Default for OtlpSink {
    fn default() -> Self {
        Self {
            endpoint: "http://localhost:4318".to_owned(),
            service: "vor".to_owned(),
            headers: Vec::new(),
            spans: Vec::new(),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(5),
        }
    }
}

/// The threads beside the drain. Dropping it sends the remaining data and ends them.
#[derive(Debug)]
struct Workers {
    sender: Option<JoinHandle<()>>,
    provider: SdkMeterProvider,
    timeout: Duration,
    pid: u32,
}

/// Counts of the spans and requests of an [`OtlpSink`].
///
/// A clone reads the same numbers.
#[derive(Clone, Debug, Default)]
pub struct OtlpCounts(Arc<Counts>);

/// Written by the threads that send and by the drain, and read by any thread. Relaxed: each count
/// is independent.
#[derive(Debug, Default)]
struct Counts {
    sent_spans: AtomicU64,
    lost_spans: AtomicU64,
    failed_requests: AtomicU64,
}

impl OtlpCounts {
    /// Returns how many spans the collector accepted.
    #[must_use]
    pub fn sent_spans(&self) -> u64 {
        self.0.sent_spans.load(Ordering::Relaxed)
    }

    /// Returns how many spans were dropped: the collector did not accept them, or the queue was
    /// full.
    #[must_use]
    pub fn lost_spans(&self) -> u64 {
        self.0.lost_spans.load(Ordering::Relaxed)
    }

    /// Returns how many requests failed, including those with metrics.
    #[must_use]
    pub fn failed_requests(&self) -> u64 {
        self.0.failed_requests.load(Ordering::Relaxed)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        // The child of a fork has no such thread.
        if self.pid != std::process::id() {
            return;
        }
        // The client has reported and counted any failure.
        drop(self.provider.shutdown_with_timeout(self.timeout));
        // The panic hook has already reported a panic of the thread.
        drop(self.sender.take().map(JoinHandle::join));
    }
}

impl OtlpSink {
    /// Describes an output to the collector at `endpoint`, with the default of every other field.
    pub fn new(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            ..Self::default()
        }
    }

    /// Sets [`service`](Self::service).
    #[must_use]
    pub fn service(mut self, service: impl Into<String>) -> Self {
        self.service = service.into();
        self
    }

    /// Adds one of the [`headers`](Self::headers).
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets [`spans`](Self::spans).
    #[must_use]
    pub fn spans(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.spans = names.into_iter().map(Into::into).collect();
        self
    }

    /// Sets [`interval`](Self::interval).
    #[must_use]
    pub fn interval(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// Sets [`timeout`](Self::timeout).
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Starts the threads that send. Returns the sink, for [`add_sink`](crate::drain::add_sink),
    /// and the counts of spans and failed requests. Dropping the sink sends the remaining data.
    ///
    /// # Errors
    ///
    /// The address cannot be used, or a thread cannot be started.
    pub fn build(self) -> Result<(impl FrameSink + use<>, OtlpCounts), Error> {
        let counts = OtlpCounts::default();
        let sink = self.start(&counts.0)?;
        Ok((sink, counts))
    }

    fn base(&self) -> &str {
        self.endpoint.trim().trim_end_matches('/')
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        // An address with a password is not shown.
        let base = Some(self.base()).filter(|base| !base.contains('@'));
        let at = base.map(|base| format!(" at {base}")).unwrap_or_default();
        format!("the OpenTelemetry sink{at}")
    }

    fn start(self, counts: &Arc<Counts>) -> Result<CollectorSink, Error> {
        let base = self.base().to_owned();
        // A name and password in an address would appear in every message.
        if base.contains('@') {
            let why = "the address holds a user or password; set `headers` instead";
            return Err(Error::config(format!("OpenTelemetry: {why}")));
        }
        let uri = base.parse::<Uri>().ok();
        let is_known =
            |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.query().is_none();
        if !uri.as_ref().is_some_and(is_known) {
            return Err(Error::config(format!(
                "OpenTelemetry: `{base}` is not an address such as http://localhost:4318"
            )));
        }
        let agent = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .build()
            .new_agent();
        let client = Client {
            agent,
            address: base.clone(),
            counts: Arc::clone(counts),
        };
        let failed = |error: &dyn std::fmt::Display| {
            Error::sink(format!("OpenTelemetry at {base}: {error}"))
        };
        let headers: HashMap<String, String> = self.headers.into_iter().collect();
        let mut spans = SpanExporter::builder()
            .with_http()
            .with_http_client(client.clone())
            .with_headers(headers.clone())
            .with_timeout(self.timeout)
            .with_endpoint(format!("{base}/v1/traces"))
            .build()
            .map_err(|error| failed(&error))?;
        let metrics = MetricExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_headers(headers)
            .with_timeout(self.timeout)
            .with_endpoint(format!("{base}/v1/metrics"))
            .build()
            .map_err(|error| failed(&error))?;
        let resource = Resource::builder().with_service_name(self.service).build();
        opentelemetry_sdk::trace::SpanExporter::set_resource(&mut spans, &resource);
        let (queue, receiver) = sync_channel(MAX_QUEUED_FRAMES);
        let sender = {
            let counts = Arc::clone(counts);
            let address = base.clone();
            let builder = std::thread::Builder::new().name("vor-otlp".to_owned());
            let run = move || {
                allocations::stay_untracked();
                send(&spans, &receiver, &counts, &address);
            };
            builder.spawn(run).map_err(|error| failed(&error))?
        };
        let reader = PeriodicReader::builder(metrics)
            .with_interval(self.interval)
            .build();
        let provider = SdkMeterProvider::builder()
            .with_resource(resource)
            .with_reader(reader)
            .build();
        let meter = provider.meter("vor");
        Ok(CollectorSink {
            frames: meter
                .f64_histogram("vor.frame.duration")
                .with_unit("ms")
                .build(),
            dropped: meter.u64_counter("vor.dropped_spans").build(),
            gauges: HashMap::new(),
            meter,
            names: self.spans,
            queue: Some(queue),
            counts: Arc::clone(counts),
            ids: Ids::new(),
            _workers: Workers {
                sender: Some(sender),
                provider,
                timeout: self.timeout,
                pid: std::process::id(),
            },
        })
    }
}

/// The sink.
struct CollectorSink {
    meter: Meter,
    frames: Histogram<f64>,
    dropped: Counter<u64>,
    /// The gauges, by column.
    gauges: HashMap<u32, Gauge<f64>>,
    /// Names of the spans that are sent.
    names: Vec<String>,
    /// Dropping it ends the thread. It is dropped before `_workers`, which waits for the thread.
    queue: Option<SyncSender<Vec<SpanData>>>,
    counts: Arc<Counts>,
    ids: Ids,
    _workers: Workers,
}

impl FrameSink for CollectorSink {
    fn interest(&self) -> Interest {
        if self.names.is_empty() {
            Interest::METRICS
        } else {
            Interest::FRAMES
        }
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        self.dropped.add(frame.dropped_spans, &[]);
        if frame.frame_set == 0 {
            self.frames.record(frame.duration_ns() as f64 / 1e6, &[]);
        }
        for metric in &frame.metrics {
            let Some(column) = frame.catalog.columns.get(metric.column as usize) else {
                continue;
            };
            let gauge = self.gauges.entry(metric.column).or_insert_with(|| {
                let gauge = self.meter.f64_gauge(column.metric.name.clone());
                gauge.with_unit(column.metric.unit.clone()).build()
            });
            gauge.record(metric.value, &[]);
        }
        let mut spans = Vec::new();
        for tree in &frame.threads {
            self.choose(frame, tree, &mut spans);
        }
        let count = spans.len() as u64;
        let is_queued = match &self.queue {
            Some(queue) if count > 0 => queue.try_send(spans).is_ok(),
            _ => count == 0,
        };
        if !is_queued {
            self.counts.lost_spans.fetch_add(count, Ordering::Relaxed);
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.queue = None;
        Ok(())
    }
}

impl CollectorSink {
    /// Appends the chosen spans of a thread.
    fn choose(&mut self, frame: &FrameSnapshot, tree: &ThreadTree, into: &mut Vec<SpanData>) {
        let catalog = &frame.catalog;
        let time = |ticks: u64| {
            let ns = u64::try_from(catalog.unix_ns(ticks)).unwrap_or(0);
            UNIX_EPOCH + Duration::from_nanos(ns)
        };
        // Depth, trace and span of the chosen spans that are open.
        let mut open: Vec<(u32, TraceId, SpanId)> = Vec::new();
        for span in &tree.spans {
            while open.last().is_some_and(|(depth, ..)| *depth >= span.depth) {
                open.pop();
            }
            let name = catalog.site_name(span.site);
            if !self.names.iter().any(|chosen| chosen == name) {
                continue;
            }
            let parent = open.last().map(|&(_, trace, id)| (trace, id));
            let trace = parent.map_or_else(|| self.ids.trace(), |(trace, _)| trace);
            let id = self.ids.span();
            open.push((span.depth, trace, id));
            let site = catalog.site(span.site);
            let args = tree.args(span).iter().enumerate();
            let mut attributes: Vec<KeyValue> = args
                .map(|(at, value)| KeyValue::new(arg_name(site, at).into_owned(), attribute(value)))
                .collect();
            attributes.push(KeyValue::new(
                "thread.name",
                catalog.thread_name(tree.thread).to_owned(),
            ));
            into.push(SpanData {
                span_context: SpanContext::new(
                    trace,
                    id,
                    TraceFlags::SAMPLED,
                    false,
                    TraceState::default(),
                ),
                parent_span_id: parent.map_or(SpanId::INVALID, |(_, id)| id),
                parent_span_is_remote: false,
                span_kind: SpanKind::Internal,
                name: name.to_owned().into(),
                start_time: time(span.start_ticks),
                end_time: time(span.end_ticks()),
                attributes,
                dropped_attributes_count: 0,
                events: SpanEvents::default(),
                links: SpanLinks::default(),
                status: Status::Unset,
                instrumentation_scope: InstrumentationScope::builder("vor").build(),
            });
        }
    }
}

fn attribute(value: &ArgValue) -> Value {
    match value {
        ArgValue::Bool(value) => Value::Bool(*value),
        ArgValue::I64(value) => Value::I64(*value),
        ArgValue::U64(number) => match i64::try_from(*number) {
            Ok(number) => Value::I64(number),
            // Attributes have no unsigned numbers.
            Err(_) => Value::String(number.to_string().into()),
        },
        ArgValue::F64(value) => Value::F64(*value),
        ArgValue::Str(text) => Value::String(Arc::clone(text).into()),
        other => Value::String(other.to_string().into()),
    }
}

/// Numbers of traces and spans, meant to be unique among all processes.
#[derive(Debug)]
struct Ids {
    seed: u64,
    next: u64,
}

impl Ids {
    fn new() -> Self {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let ns = since.as_nanos() as u64;
        Self {
            seed: mixed(ns ^ u64::from(std::process::id()).rotate_left(40)),
            next: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.next += 1;
        // 0 is not a valid id.
        mixed(
            self.seed
                .wrapping_add(self.next.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
        )
        .max(1)
    }

    fn span(&mut self) -> SpanId {
        SpanId::from_bytes(self.number().to_be_bytes())
    }

    fn trace(&mut self) -> TraceId {
        let (high, low) = (u128::from(self.number()), u128::from(self.number()));
        TraceId::from_bytes((high << 64 | low).to_be_bytes())
    }
}

/// Spreads a number over all 64 bits: the last step of splitmix64 (G. Steele, D. Lea, C. Flood,
/// Fast splittable pseudorandom number generators, OOPSLA 2014).
fn mixed(mut number: u64) -> u64 {
    number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

/// Sends spans until the queue is closed.
fn send(exporter: &SpanExporter, queue: &Receiver<Vec<SpanData>>, counts: &Counts, address: &str) {
    let mut pause = PAUSES.0;
    let mut retry_at = None::<Instant>;
    let mut is_open = true;
    while is_open {
        let mut spans = Vec::new();
        let until = Instant::now() + MAX_BATCH_DELAY;
        while spans.len() < MAX_BATCH_SPANS {
            match queue.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(more) => spans.extend(more),
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => {
                    is_open = false;
                    break;
                }
            }
        }
        let count = spans.len() as u64;
        if count == 0 {
            continue;
        }
        let may_try = retry_at.is_none_or(|at| Instant::now() >= at) || !is_open;
        if may_try && futures_executor::block_on(exporter.export(spans)).is_ok() {
            counts.sent_spans.fetch_add(count, Ordering::Relaxed);
            (retry_at, pause) = (None, PAUSES.0);
            continue;
        }
        counts.lost_spans.fetch_add(count, Ordering::Relaxed);
        if may_try {
            retry_at = Some(Instant::now() + pause);
            pause = (pause * 2).min(PAUSES.1);
        }
    }
    let lost = counts.lost_spans.load(Ordering::Relaxed);
    if lost > 0 {
        report::line(&format!(
            "OpenTelemetry at {address}: {lost} spans were lost"
        ));
    }
}

/// The HTTP client for the official crates. It blocks; only dedicated threads call it.
#[derive(Clone, Debug)]
struct Client {
    agent: Agent,
    address: String,
    counts: Arc<Counts>,
}

#[async_trait::async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (parts, body) = request.into_parts();
        let sent = self.agent.run(Request::from_parts(parts, body.to_vec()));
        let answer = sent.inspect_err(|error| self.failed(&error.to_string()))?;
        if !answer.status().is_success() {
            self.failed(&format!("the collector answered {}", answer.status()));
        }
        let (parts, mut body) = answer.into_parts();
        let bytes = body
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_vec()
            .unwrap_or_default();
        Ok(Response::from_parts(parts, bytes.into()))
    }
}

impl Client {
    fn failed(&self, why: &str) {
        if self.counts.failed_requests.fetch_add(1, Ordering::Relaxed) == 0 {
            report::line(&format!(
                "OpenTelemetry at {}: {why}; what is lost is counted",
                self.address
            ));
        }
    }
}
