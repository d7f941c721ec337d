//! A server on the loopback address acts as Pyroscope and parses its requests. Then it refuses,
//! stalls, resets and fails, and the program runs on.

#![cfg(feature = "pyroscope")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vor_export::collapsed::CollapsedExporter;
use vor_fixtures::pprof::Profile;
use vor_fixtures::process::{self, run_to_success, vor_lines};
use vor_fixtures::server::{FINE, Mode, Request, Server, broken_answers};
use vor_fixtures::{own_process, test_name};
use vor_recorder::drain::SinkHandle;
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::pyroscope::{Auth, PyroscopeCounts, PyroscopeSink};
use vor_recorder::{drain, profile_scope, setup};

fn work(turn: u64) {
    profile_scope!(
        "request",
        route = if turn.is_multiple_of(2) { "/a" } else { "/b" }
    );
    for _ in 0..3 {
        profile_scope!("query");
        std::hint::black_box((0..500_u64).sum::<u64>());
    }
}

/// Works until `is_enough`; fails after a time that is long enough for any machine.
fn work_until(what: &str, mut is_enough: impl FnMut() -> bool) -> u64 {
    let begin = Instant::now();
    let mut turns = 0;
    while !is_enough() {
        work(turns);
        turns += 1;
        std::thread::sleep(Duration::from_millis(1));
        assert!(
            begin.elapsed() < Duration::from_secs(120),
            "no {what} in time"
        );
    }
    turns
}

/// Starts to push. Dropping the handle ends it.
fn start(sink: PyroscopeSink) -> (SinkHandle, PyroscopeCounts) {
    let (sink, counts) = sink.build().unwrap();
    setup::enable();
    (drain::add_sink("Pyroscope", sink), counts)
}

fn sink(url: &str) -> PyroscopeSink {
    vor_capture::filled!(PyroscopeSink {
        url: url.to_owned(),
        application: "shop".to_owned(),
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(300),
        ..PyroscopeSink::default()
    })
}

fn profile(request: &Request) -> Profile {
    vor_fixtures::pprof::read(&vor_fixtures::server::form(request)["profile"].1)
}

#[test]
fn pushes_follow_the_documentation_and_add_up_to_the_run_time() {
    own_process!();
    let server = Server::start(FINE);
    Config::new().enable();
    let folder = tempfile::tempdir().unwrap();
    let collapsed = folder.path().join("run.collapsed");
    let file = std::fs::File::create(&collapsed).unwrap();
    let whole = drain::add_sink(
        "collapsed stacks",
        CollapsedExporter::new(file).without_threads(),
    );
    let pushing = vor_capture::filled!(PyroscopeSink {
        labels: vec![
            ("env".into(), "test 1".into()),
            ("region".into(), "eu,1".into()),
        ],
        auth: Auth::Basic {
            user: "17".into(),
            password: "geheim".into(),
        },
        tenant: Some("team-a".into()),
        span_labels: vec!["route".into()],
        ..sink(&format!("{}/base/", server.url))
    });
    let (pushing, counts) = start(pushing);
    {
        // Open all the time, and therefore in every profile.
        profile_scope!("program");
        work_until("five pushes", || counts.sent_profiles() >= 5);
    }
    drop(pushing);
    drop(whole);

    let requests = server.requests();
    assert!(requests.len() >= 5);
    let mut total = 0;
    let mut routes = std::collections::BTreeSet::new();
    let mut last_until = 0;
    for request in &requests {
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("POST", "/base/ingest")
        );
        let query = |name: &str| request.query[name].as_str();
        assert_eq!(query("name"), "shop{env=test 1,region=eu_1}");
        assert_eq!((query("format"), query("spyName")), ("pprof", "vor"));
        let [from, until] = ["from", "until"].map(|name| query(name).parse::<i64>().unwrap());
        assert!(from < until && until >= last_until && from > 1_700_000_000);
        last_until = until;
        assert_eq!(request.headers["authorization"], "Basic MTc6Z2VoZWlt");
        assert_eq!(request.headers["x-scope-orgid"], "team-a");
        let form = vor_fixtures::server::form(request);
        assert_eq!(
            form.keys().collect::<Vec<_>>(),
            ["profile", "sample_type_config"]
        );
        let config: serde_json::Value =
            serde_json::from_slice(&form["sample_type_config"].1).unwrap();
        let profile = profile(request);
        for (name, _) in &profile.types {
            assert!(config[name]["units"].is_string() && config[name]["cumulative"] == false);
        }
        assert_eq!(profile.type_names(), ["wall"]);
        assert!(profile.duration_nanos > 0);
        assert!((from..until).contains(&(profile.time_nanos / 1_000_000_000)));
        for sample in &profile.samples {
            assert_eq!(
                sample.names()[0],
                "program",
                "the outermost scope is in every profile"
            );
            total += sample.values[0];
            routes.extend(sample.labels.get("route").cloned());
        }
    }
    assert_eq!(routes.into_iter().collect::<Vec<_>>(), ["/a", "/b"]);
    let whole = std::fs::read_to_string(&collapsed).unwrap();
    let lines = whole.lines().map(|line| line.rsplit_once(' ').unwrap().1);
    let whole: i64 = lines.map(|ns| ns.parse::<i64>().unwrap()).sum();
    // The clock's rate is adjusted during the run, and shares of durations are rounded.
    assert!((whole - total).abs() <= whole / 1_000, "{total} of {whole}");
}

/// Waits until profiles are lost, lets the server accept again, and waits until it accepts some.
fn lose_then_recover(server: &Server, counts: &PyroscopeCounts) {
    let begin = Instant::now();
    work_until("lost profiles", || counts.lost_profiles() >= 5);
    // The first pause is one second, and each pause is longer than the previous one.
    let most = 2 + begin.elapsed().as_secs();
    assert!(
        server.attempts() <= most,
        "{} of at most {most}",
        server.attempts()
    );
    assert_eq!(counts.sent_profiles(), 0);
    server.set(FINE);
    work_until("profiles that get through", || counts.sent_profiles() >= 5);
}

fn fails_for_a_while(mode: Mode) {
    let server = Server::start(mode);
    let (pushing, counts) = start(sink(&server.url));
    lose_then_recover(&server, &counts);
    let sent = counts.sent_profiles();
    drop(pushing);
    assert!(server.accepted().len() as u64 >= sent);
    assert!(
        server
            .accepted()
            .iter()
            .all(|request| !profile(request).samples.is_empty())
    );
}

#[test]
fn a_server_with_a_fault_is_tried_again() {
    own_process!();
    fails_for_a_while(Mode::Status("500 Internal Server Error", ""));
}

#[test]
fn a_server_with_too_many_requests_gets_the_pause_that_it_sets() {
    own_process!();
    fails_for_a_while(Mode::Status("429 Too Many Requests", "Retry-After: 2\r\n"));
}

#[test]
fn a_server_that_stalls_delays_nothing() {
    own_process!();
    fails_for_a_while(Mode::Stall);
}

#[test]
fn a_server_that_resets_is_tried_again() {
    own_process!();
    fails_for_a_while(Mode::Reset);
}

#[test]
fn a_server_may_answer_anything() {
    own_process!();
    let servers = broken_answers().into_iter().map(|answer| {
        let server = Server::start(Mode::Bytes(answer));
        let (pushing, counts) = start(sink(&server.url));
        (server, pushing, counts)
    });
    let servers: Vec<_> = servers.collect();
    // Some clients accept an answer whose body is broken.
    let has_ended = |counts: &PyroscopeCounts| counts.lost_profiles() + counts.sent_profiles() > 0;
    work_until("end of a push", || {
        servers.iter().all(|(_, _, counts)| has_ended(counts))
    });
    for (server, _, _) in &servers {
        server.set(FINE);
    }
    work_until("profiles that get through", || {
        servers
            .iter()
            .all(|(server, _, _)| !server.accepted().is_empty())
    });
}

#[test]
fn a_profile_refused_for_good_is_lost_immediately() {
    own_process!();
    let server = Server::start(Mode::Status("401 Unauthorized", ""));
    let (_pushing, counts) = start(sink(&server.url));
    work_until("a refusal", || counts.lost_profiles() >= 1);
    let refused = server.requests().len() as u64;
    assert!(refused >= 1);
    assert_eq!(counts.sent_profiles(), 0);
}

const SERVER: &str = "VOR_TEST_PYROSCOPE";

/// Runs one test of this program in a process of its own, with a variable that the test reads.
/// Returns its stderr.
fn child(test: &str, url: &str) -> String {
    let output = run_to_success(process::child(test, "child").env(SERVER, url));
    let ours = vor_lines(&output);
    ours.iter().map(|line| format!("{line}\n")).collect()
}

#[test]
fn a_missing_server_is_reported_once_and_the_losses_at_the_end() {
    if let Ok(url) = std::env::var(SERVER) {
        let (_pushing, counts) = start(sink(&url));
        work_until("lost profiles", || counts.lost_profiles() >= 5);
        return;
    }
    // No test listens at this port. A free one may be another test's a moment later.
    let gone = "127.0.0.1:1";
    let stderr = child(test_name!(), &format!("http://{gone}"));
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{stderr}");
    let begin = format!("vor: Pyroscope at http://{gone}: ");
    assert!(
        lines[0].starts_with(&format!("{begin}a profile cannot be pushed: ")),
        "{stderr}"
    );
    let lost = lines[1].strip_prefix(&begin).unwrap();
    let lost = lost.strip_suffix(" profiles were lost").unwrap();
    // The waiting profiles are lost as well.
    assert!(lost.parse::<u64>().unwrap() >= 5 + 12, "{stderr}");
}

#[test]
fn an_invalid_address_is_reported_and_nothing_else_happens() {
    if let Ok(url) = std::env::var(SERVER) {
        let _pushing = sink(&url).install();
        for turn in 0..10 {
            work(turn);
        }
        return;
    }
    for url in [
        "localhost:4040",
        "ftp://host",
        "",
        "http://",
        "https://user:secret@host",
        "ftp://user:secret@host",
        "http://ho st",
    ] {
        let stderr = child(test_name!(), url);
        assert_eq!(stderr.lines().count(), 1, "{url}: {stderr}");
        assert!(
            (stderr.contains("is not an address such as") || stderr.contains("set `auth` instead"))
                && stderr.ends_with("; no profiles are pushed\n"),
            "{stderr}"
        );
        assert!(!stderr.contains("secret"));
    }
}

/// A TLS server of openssl, which ends with the test. An authority signs its certificate, and only
/// programs with that authority's certificate trust it.
struct TlsServer {
    process: std::process::Child,
    url: String,
}

impl Drop for TlsServer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn openssl(folder: &Path, line: &str) -> bool {
    let mut command = Command::new("openssl");
    let done = command.args(line.split(' ')).current_dir(folder).output();
    done.is_ok_and(|output| output.status.success())
}

fn tls_server(folder: &Path) -> Option<TlsServer> {
    let names = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth\n";
    std::fs::write(folder.join("names"), names).unwrap();
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    let is_made = openssl(
        folder,
        &format!("req -x509 {key} -keyout ca.key -out ca.pem -days 9 -subj /CN=authority"),
    ) && openssl(
        folder,
        &format!("req {key} -keyout key.pem -out csr.pem -subj /CN=localhost"),
    ) && openssl(
        folder,
        "x509 -req -in csr.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 9 \
        -extfile names",
    );
    if !is_made {
        return None;
    }
    let address = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let mut process = Command::new("openssl")
        .args([
            "s_server", "-quiet", "-cert", "cert.pem", "-key", "key.pem", "-accept",
        ])
        .arg(address.to_string())
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut answers, mut stderr) = (
        process.stdin.take().unwrap(),
        process.stdout.take().unwrap(),
    );
    std::thread::spawn(move || {
        let mut request = Vec::new();
        let mut piece = [0; 4_096];
        while let Ok(bytes @ 1..) = stderr.read(&mut piece) {
            request.extend_from_slice(&piece[..bytes]);
            // The end of a form.
            if request.starts_with(b"POST /ingest?") && request.ends_with(b"--\r\n") {
                request.clear();
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                answers
                    .write_all(answer)
                    .and_then(|()| answers.flush())
                    .unwrap();
            }
        }
    });
    let begin = Instant::now();
    while std::net::TcpStream::connect(address).is_err() {
        assert!(
            begin.elapsed() < Duration::from_secs(60),
            "openssl does not listen"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(TlsServer {
        process,
        url: format!("https://localhost:{}", address.port()),
    })
}

#[test]
fn tls_trusts_the_given_certificates_and_no_others() {
    own_process!();
    let folder = tempfile::tempdir().unwrap();
    let Some(server) = tls_server(folder.path()) else {
        vor_fixtures::skip("TLS", "openssl is missing");
        return;
    };
    let of = |certificates: Option<&str>| {
        vor_capture::filled!(PyroscopeSink {
            certificates: certificates.map(|name| folder.path().join(name)),
            timeout: Duration::from_secs(5),
            ..sink(&server.url)
        })
    };
    let (untrusted, counts) = start(of(None));
    work_until("lost profiles", || counts.lost_profiles() >= 5);
    assert_eq!(counts.sent_profiles(), 0);
    drop(untrusted);
    let (trusted, counts) = start(of(Some("ca.pem")));
    work_until("pushes", || counts.sent_profiles() >= 3);
    drop(trusted);
    for (unusable, why) in [
        ("missing.pem", "missing.pem: "),
        ("names", "names: no certificate in it"),
    ] {
        let error = of(Some(unusable)).build().err().unwrap();
        assert!(error.to_string().contains(why), "{error}");
    }
}
