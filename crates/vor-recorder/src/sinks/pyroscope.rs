//! Pushes profiles of the running program to a Pyroscope server.
//!
//! A profile is a `POST` to `/ingest`, as Pyroscope documents it. The query has `name`, `from`,
//! `until`, `format=pprof` and `spyName`. The parts `profile` and `sample_type_config` of a form
//! have the gzipped profile and the units of its values. If the program tracks its live heap, the
//! heap is a separate profile at the end of each interval.
//!
//! The thread that takes the profiles also pushes them. A profile that the server does not accept
//! now waits in a queue, bounded in profiles and bytes, and is retried after a pause that doubles.
//! When the queue is full, the oldest profile is dropped and counted. A profile that the server
//! refuses for good is not sent again.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use vor_capture::Error;
use vor_capture::sink::FrameSink;
use vor_export::pprof::{HEAP_TYPES, SPAN_TYPES, SampleType, TASK_TYPES};

use super::profiles::{FinishedProfile, Profiles, Receiver};
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::AtomicU64;

/// Most profiles that wait: two minutes at the default interval, with the heap.
const MAX_QUEUED_PROFILES: usize = 24;

/// Most bytes of waiting profiles.
const MAX_QUEUED_BYTES: usize = 16 << 20;

/// The first pause after a failure, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Time limit for pushing the remaining profiles at the end.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);

/// Bytes that are read of a server's answer.
const MAX_RESPONSE_BYTES: u64 = 4 << 10;

/// The identification of the program to a server.
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Auth {
    /// No authentication.
    #[default]
    None,
    /// A token, such as one of a service account.
    Bearer(String),
    /// A user, such as the number of a stack in Grafana Cloud, and a password.
    Basic {
        /// The name of the user.
        user: String,
        /// The password or token.
        password: String,
    },
}

/// Omits the secrets.
impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer(…)",
            Self::Basic { .. } => "Basic(…)",
        })
    }
}

/// Pushes a profile of each interval to a Pyroscope server while its guard is held, and switches
/// recording on if it is off.
///
/// The program never waits for the server. An unusable address is reported on stderr in one line.
/// So are the first push that fails and, at the end, the number of lost profiles.
/// [`export::pprof`](vor_export::pprof) describes the contents of a profile. If a
/// [`TrackingAllocator`](crate::heap::TrackingAllocator) tracks the live heap, that is pushed as
/// well. If a scope is open for several intervals, each profile has the part of its time in that
/// interval. The profile of the interval in which the scope ends divides its CPU time between
/// program and kernel.
///
/// # Examples
///
/// ```no_run
/// # mod vor { pub use vor_recorder::sinks::{Sink, pyroscope as sinks}; }
/// use vor::Sink as _;
///
/// let pushed = vor::sinks::PyroscopeSink::new("https://pyroscope.example.org")
///     .application("shop")
///     .label("env", "production")
///     .auth(vor::sinks::Auth::Bearer("…".into()))
///     .install();
/// // … what the program does …
/// drop(pushed);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PyroscopeSink {
    /// The server's address. A path before `/ingest` is kept. Default: `http://localhost:4040`.
    pub url: String,
    /// The program's name on the server. Default: the name of its executable.
    pub application: String,
    /// Names and values that distinguish this program's profiles. Default: none.
    pub labels: Vec<(String, String)>,
    /// How the program identifies itself. Default: not at all.
    pub auth: Auth,
    /// The tenant of a server that has several, for the header `X-Scope-OrgID`. Default: none.
    pub tenant: Option<String>,
    /// A file of trusted certificates (PEM), which replaces Mozilla's root certificates. Default:
    /// none.
    pub certificates: Option<PathBuf>,
    /// The duration that a profile covers, at least 10 ms. Default: 10 s.
    pub interval: Duration,
    /// Time limit of a push, from the look-up of the server's name to the end of its answer.
    /// Default: 10 s.
    pub timeout: Duration,
    /// Names of arguments that become labels of a span and of its descendants. Default: none.
    pub span_labels: Vec<String>,
}

impl Default for PyroscopeSink {
    fn default() -> Self {
        let program = std::env::current_exe().ok();
        let name = program.as_deref().and_then(|path| path.file_stem());
        Self {
            url: "http://localhost:4040".to_owned(),
            application: name.map_or_else(
                || "vor".to_owned(),
                |name| name.to_string_lossy().into_owned(),
            ),
            labels: Vec::new(),
            auth: Auth::None,
            tenant: None,
            certificates: None,
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            span_labels: Vec::new(),
        }
    }
}

/// Counts of the profiles of a [`PyroscopeSink`].
///
/// A clone reads the same numbers.
#[derive(Clone, Debug, Default)]
pub struct PyroscopeCounts(Arc<Counts>);

/// Written by the thread of the profiles and read by any thread. Relaxed: each count is
/// independent.
#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    lost: AtomicU64,
}

impl PyroscopeCounts {
    /// Returns how many profiles the server took.
    #[must_use]
    pub fn sent_profiles(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Returns how many profiles were dropped: the server refused them, or the queue was full.
    #[must_use]
    pub fn lost_profiles(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }
}

impl PyroscopeSink {
    /// Describes pushes to the server at `url`, with the default of every other field.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ..Self::default()
        }
    }

    /// Sets [`application`](Self::application).
    #[must_use]
    pub fn application(mut self, application: impl Into<String>) -> Self {
        self.application = application.into();
        self
    }

    /// Adds one of the [`labels`](Self::labels).
    #[must_use]
    pub fn label(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((name.into(), value.into()));
        self
    }

    /// Sets [`auth`](Self::auth).
    #[must_use]
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = auth;
        self
    }

    /// Sets [`tenant`](Self::tenant).
    #[must_use]
    pub fn tenant(mut self, tenant: impl Into<String>) -> Self {
        self.tenant = Some(tenant.into());
        self
    }

    /// Sets [`certificates`](Self::certificates).
    #[must_use]
    pub fn certificates(mut self, path: impl Into<PathBuf>) -> Self {
        self.certificates = Some(path.into());
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

    /// Sets [`span_labels`](Self::span_labels).
    #[must_use]
    pub fn span_labels(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.span_labels = names.into_iter().map(Into::into).collect();
        self
    }

    /// Starts the thread that pushes. Returns the sink, for [`add_sink`](crate::drain::add_sink),
    /// and the counts of sent and lost profiles. Dropping the sink pushes the remaining profiles,
    /// for at most a few seconds.
    ///
    /// # Errors
    ///
    /// The address, a header or the certificates cannot be used, or the thread cannot be started.
    pub fn build(self) -> Result<(impl FrameSink + use<>, PyroscopeCounts), Error> {
        let counts = PyroscopeCounts::default();
        let profiles = self.profiles(&counts.0)?;
        Ok((profiles, counts))
    }

    /// Returns the name of the sink in messages.
    pub(crate) fn name(&self) -> String {
        // An unusable address is not shown: it may hold a password.
        self.address().map_or_else(
            |_| "the profiles for Pyroscope".to_owned(),
            |address| format!("the profiles for Pyroscope at {}", address.shown),
        )
    }

    fn profiles(self, counts: &Arc<Counts>) -> Result<Profiles, Error> {
        let name = self.name();
        let address = self.address()?;
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            // A redirected `POST` would become a `GET`.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(concat!("vor/", env!("CARGO_PKG_VERSION")))
            .tls_config(self.tls()?)
            .build()
            .new_agent();
        let mut headers = Vec::new();
        match &self.auth {
            Auth::None => {}
            Auth::Bearer(token) => headers.push(("authorization", format!("Bearer {token}"))),
            Auth::Basic { user, password } => {
                let credentials = base64(format!("{user}:{password}").as_bytes());
                headers.push(("authorization", format!("Basic {credentials}")));
            }
        }
        headers.extend(self.tenant.map(|tenant| ("x-scope-orgid", tenant)));
        if let Some((name, _)) = headers.iter().find(|(_, value)| {
            let allowed = |byte: u8| byte == b' ' || byte.is_ascii_graphic();
            value.is_empty() || !value.bytes().all(allowed)
        }) {
            return Err(Error::config(format!(
                "Pyroscope at {}: the header `{name}` is empty or has characters that are not \
                printable ASCII",
                address.shown
            )));
        }
        let pusher = Pusher {
            agent,
            query: format!(
                "{}?format=pprof&spyName=vor&name={}",
                address.ingest,
                percent_encoded(&series(&self.application, &self.labels))
            ),
            address: address.shown,
            headers,
            waiting: VecDeque::new(),
            counts: Arc::clone(counts),
            pause: PAUSES.0,
            retry_at: None,
            has_reported: false,
            timeout: self.timeout,
        };
        Profiles::start(name, self.interval, self.span_labels, pusher)
    }

    fn address(&self) -> Result<Address, Error> {
        let refused = |found: &str| {
            Err(Error::config(format!(
                "Pyroscope: `{found}` is not an address such as http://localhost:4040"
            )))
        };
        let base = self.url.trim().trim_end_matches('/');
        let base = base.strip_suffix("/ingest").unwrap_or(base);
        // A name and password in an address would appear in every message.
        if base.contains('@') {
            let why = "the address holds a user or password; set `auth` instead";
            return Err(Error::config(format!("Pyroscope: {why}")));
        }
        let Ok(uri) = base.parse::<Uri>() else {
            return refused(base);
        };
        let Some(authority) = uri.authority() else {
            return refused(base);
        };
        let is_known = matches!(uri.scheme_str(), Some("http" | "https"));
        if !is_known || uri.query().is_some() || authority.host().is_empty() {
            return refused(base);
        }
        Ok(Address {
            ingest: format!("{base}/ingest"),
            shown: base.to_owned(),
        })
    }

    fn tls(&self) -> Result<TlsConfig, Error> {
        let Some(path) = &self.certificates else {
            return Ok(TlsConfig::default());
        };
        let doing = format!("Pyroscope: the certificates {}", path.display());
        let refused = |why: String| Error::config(format!("{doing}: {why}"));
        let pem = std::fs::read(path).map_err(|error| Error::io(doing.clone(), error))?;
        let mut certificates = Vec::new();
        for item in parse_pem(&pem) {
            if let PemItem::Certificate(certificate) =
                item.map_err(|error| refused(error.to_string()))?
            {
                certificates.push(certificate);
            }
        }
        if certificates.is_empty() {
            return Err(refused("no certificate in it".to_owned()));
        }
        let roots = RootCerts::new_with_certs(&certificates);
        Ok(TlsConfig::builder().root_certs(roots).build())
    }
}

/// The address to push to.
#[derive(Debug)]
struct Address {
    ingest: String,
    shown: String,
}

/// A profile that waits for the server.
#[derive(Debug)]
struct QueuedProfile {
    from_s: u64,
    until_s: u64,
    profile: Vec<u8>,
}

/// Pushes the profiles.
#[derive(Debug)]
struct Pusher {
    agent: Agent,
    /// The address without the part that differs between profiles.
    query: String,
    /// The server's name in messages.
    address: String,
    headers: Vec<(&'static str, String)>,
    /// The oldest first.
    waiting: VecDeque<QueuedProfile>,
    counts: Arc<Counts>,
    pause: Duration,
    /// When the next push may be tried, after a failure.
    retry_at: Option<Instant>,
    has_reported: bool,
    timeout: Duration,
}

/// Why a push failed.
struct Failure {
    why: String,
    /// Whether the same profile may be taken later.
    is_passing: bool,
    /// The wait that the server requests.
    retry_after: Option<Duration>,
}

impl Receiver for Pusher {
    fn take(&mut self, finished: FinishedProfile) {
        let mut profile = Vec::new();
        // Writing to memory does not fail.
        if finished.profile.write_gzipped(&mut profile).is_err() {
            return;
        }
        let from_s = finished.from_unix_ns / 1_000_000_000;
        self.waiting.push_back(QueuedProfile {
            from_s,
            until_s: finished
                .until_unix_ns
                .div_ceil(1_000_000_000)
                .max(from_s + 1),
            profile,
        });
        let mut bytes: usize = self
            .waiting
            .iter()
            .map(|waiting| waiting.profile.len())
            .sum();
        while self.waiting.len() > MAX_QUEUED_PROFILES || bytes > MAX_QUEUED_BYTES {
            let Some(oldest) = self.waiting.pop_front() else {
                break;
            };
            bytes -= oldest.profile.len();
            self.lose(1);
        }
    }

    fn work(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() < at) {
            return;
        }
        self.retry_at = None;
        // Push one at a time, so that the next profile need not wait for the whole queue.
        if let Some(waiting) = self.waiting.front() {
            match self.push(waiting) {
                Ok(()) => {
                    self.waiting.pop_front();
                    self.counts.sent.fetch_add(1, Ordering::Relaxed);
                    self.pause = PAUSES.0;
                }
                Err(failure) => self.failed(&failure),
            }
        }
    }

    fn wants_at(&self) -> Option<Instant> {
        let is_idle = self.waiting.is_empty();
        (!is_idle).then(|| self.retry_at.unwrap_or_else(Instant::now))
    }

    fn end(&mut self) {
        // Try each once more, also after a recent failure; the first failure ends it.
        let until = Instant::now() + DRAIN_TIMEOUT;
        while let Some(waiting) = self.waiting.front() {
            self.timeout = self
                .timeout
                .min(until.saturating_duration_since(Instant::now()));
            if self.timeout.is_zero() {
                break;
            }
            match self.push(waiting) {
                Ok(()) => {
                    self.waiting.pop_front();
                    self.counts.sent.fetch_add(1, Ordering::Relaxed);
                }
                Err(failure) => {
                    self.failed(&failure);
                    break;
                }
            }
        }
        self.lose(self.waiting.len() as u64);
        self.waiting.clear();
        let lost = self.counts.lost.load(Ordering::Relaxed);
        if lost > 0 {
            report::line(&format!(
                "Pyroscope at {}: {lost} profiles were lost",
                self.address
            ));
        }
    }
}

impl Pusher {
    fn lose(&self, profiles: u64) {
        self.counts.lost.fetch_add(profiles, Ordering::Relaxed);
    }

    fn failed(&mut self, failure: &Failure) {
        if !std::mem::replace(&mut self.has_reported, true) {
            report::line(&format!(
                "Pyroscope at {}: {}; it is tried again, and profiles that are lost are counted",
                self.address, failure.why
            ));
        }
        if !failure.is_passing {
            self.waiting.pop_front();
            self.lose(1);
        }
        let pause = failure
            .retry_after
            .map_or(self.pause, |asked| asked.clamp(self.pause, PAUSES.1));
        self.retry_at = Some(Instant::now() + pause);
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn push(&self, waiting: &QueuedProfile) -> Result<(), Failure> {
        let boundary = boundary(&waiting.profile);
        let address = format!(
            "{}&from={}&until={}",
            self.query, waiting.from_s, waiting.until_s
        );
        let request = self.agent.post(address).config();
        let request = request.timeout_global(Some(self.timeout)).build();
        let kind = format!("multipart/form-data; boundary={boundary}");
        let mut request = request.header("content-type", kind);
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let passing = |why: String| Failure {
            why,
            is_passing: true,
            retry_after: None,
        };
        let answer = request.send(form(&boundary, &waiting.profile).as_slice());
        let mut answer =
            answer.map_err(|error| passing(format!("a profile cannot be pushed: {error}")))?;
        let status = answer.status();
        let retry_after = answer.headers().get("retry-after");
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        // Read the answer to its end, so that the connection can be reused.
        let body = answer
            .body_mut()
            .with_config()
            .limit(MAX_RESPONSE_BYTES)
            .read_to_string();
        if status.is_success() {
            return Ok(());
        }
        let body = body.unwrap_or_default();
        let body: String = body.trim().chars().take(200).collect();
        let colon = if body.is_empty() { "" } else { ": " };
        Err(Failure {
            why: format!("the server answered {status}{colon}{body}"),
            is_passing: status.is_server_error() || matches!(status.as_u16(), 408 | 429),
            retry_after: retry_after.map(Duration::from_secs),
        })
    }
}

/// Makes the body of a push.
fn form(boundary: &str, profile: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(profile.len() + 1_024);
    let mut put = |name: &str, file: &str, kind: &str, content: &[u8]| {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; \
            filename=\"{file}\"\r\nContent-Type: {kind}\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    };
    put(
        "profile",
        "profile.pprof",
        "application/octet-stream",
        profile,
    );
    put(
        "sample_type_config",
        "sample_type_config.json",
        "application/json",
        type_config().as_bytes(),
    );
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

/// Returns the unit of each value, and how values of many profiles are aggregated: the sum, or for
/// the live heap the mean.
fn type_config() -> String {
    let of_spans = SPAN_TYPES.map(|of| (of, "sum"));
    let of_tasks = TASK_TYPES.map(|of| (of, "sum"));
    let of_heaps = HEAP_TYPES.map(|of| (of, "average"));
    let entry = |(of, aggregation): (SampleType, &str)| {
        // Pyroscope calls durations that are not samples lock durations.
        let units = match &*of.unit {
            "nanoseconds" => "lock_nanoseconds",
            "count" => "objects",
            unit => unit,
        };
        format!(
            "\"{0}\":{{\"units\":\"{units}\",\"display-name\":\"{0}\",\
             \"aggregation\":\"{aggregation}\",\"cumulative\":false,\"sampled\":false}}",
            of.name
        )
    };
    let entries: Vec<String> = of_spans
        .into_iter()
        .chain(of_tasks)
        .chain(of_heaps)
        .map(entry)
        .collect();
    format!("{{{}}}", entries.join(","))
}

/// Returns a boundary that does not occur in `content`.
fn boundary(content: &[u8]) -> String {
    let mut number = content.len();
    loop {
        let boundary = format!("vor-profile-{number:016x}");
        if !content
            .windows(boundary.len())
            .any(|part| part == boundary.as_bytes())
        {
            return boundary;
        }
        number += 1;
    }
}

/// Returns the name of a series: the application, and its labels in braces. A character that would
/// end a name or a value early becomes `_`.
fn series(application: &str, labels: &[(String, String)]) -> String {
    let plain = |text: &str| {
        let plain = |c: char| {
            if "{}=,".contains(c) || c.is_control() {
                '_'
            } else {
                c
            }
        };
        text.trim().chars().map(plain).collect::<String>()
    };
    let labels: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            let allowed = |c: char| {
                if c.is_ascii_alphanumeric() || c == '_' || c == '.' {
                    c
                } else {
                    '_'
                }
            };
            let name: String = name.trim().chars().map(allowed).collect();
            format!("{name}={}", plain(value))
        })
        .collect();
    format!("{}{{{}}}", plain(application), labels.join(","))
}

/// Percent-encodes a value of a query.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Encodes as RFC 4648 defines it, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let bits = (0..3).fold(0_u32, |bits, at| {
            bits << 8 | u32::from(*three.get(at).unwrap_or(&0))
        });
        for digit in 0..4 {
            if digit <= three.len() {
                out.push(char::from(DIGITS[(bits >> (18 - 6 * digit) & 63) as usize]));
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn texts_are_encoded_as_the_standards_define() {
        // The examples of RFC 4648.
        for (plain, encoded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), encoded);
        }
        assert_eq!(percent_encoded("a b{ä=~1}"), "a%20b%7B%C3%A4%3D~1%7D");
    }

    #[test]
    fn no_name_or_value_ends_a_series_early() {
        let label = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(series("shop", &[]), "shop{}");
        let labels = [label("en v", "a,b={c}"), label("host", "größe 1")];
        assert_eq!(
            series("my {shop}", &labels),
            "my _shop_{en_v=a_b__c_,host=größe 1}"
        );
    }

    #[test]
    fn a_boundary_is_not_in_its_parts() {
        let content = b"vor-profile-0000000000000020 vor-".to_vec();
        assert_eq!(content.len(), 0x21);
        let mut content = content;
        content.pop();
        assert_eq!(boundary(&content), "vor-profile-0000000000000021");
    }
}
