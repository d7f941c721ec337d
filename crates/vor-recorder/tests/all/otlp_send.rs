//! A server on the loopback address acts as an OpenTelemetry collector and parses its requests.
//! Then it fails, and the program runs on.

#![cfg(feature = "otlp")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vor_fixtures::own_process;
use vor_fixtures::server::{FINE, Mode, Server, broken_answers};
use vor_fixtures::wire::{self, messages, one, text};
use vor_recorder::drain::SinkHandle;
use vor_recorder::setup::Config;
use vor_recorder::sinks::Sink as _;
use vor_recorder::sinks::otlp::{OtlpCounts, OtlpSink};
use vor_recorder::{drain, metrics, profile_scope, setup};

fn frame(turn: u64) {
    {
        profile_scope!("request", turn = turn, route = "/a", ok = true);
        profile_scope!("between");
        profile_scope!("query");
    }
    metrics::record_metric("loss", 0.25);
    drain::frame_mark();
}

/// Starts to send. Dropping the handle ends it.
fn start(sink: OtlpSink) -> (SinkHandle, OtlpCounts) {
    let (sink, counts) = sink.build().unwrap();
    setup::enable();
    (drain::add_sink("OpenTelemetry", sink), counts)
}

fn work_until(sent: &OtlpCounts, is_enough: impl Fn(&OtlpCounts) -> bool) {
    let begin = Instant::now();
    let mut turn = 0;
    while !is_enough(sent) {
        frame(turn);
        turn += 1;
        std::thread::sleep(Duration::from_millis(2));
        assert!(begin.elapsed() < Duration::from_secs(120), "took too long");
    }
}

fn sink(url: &str) -> OtlpSink {
    vor_capture::filled!(OtlpSink {
        endpoint: url.to_owned(),
        service: "shop".into(),
        headers: vec![("x-token".into(), "geheim".into())],
        spans: vec!["request".into(), "query".into()],
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
    })
}

fn unix_ns() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos() as u64
}

#[test]
fn a_collector_gets_the_metrics_and_the_chosen_spans() {
    own_process!();
    let server = Server::start(FINE);
    let begin = unix_ns() - 1_000_000;
    Config::new().enable();
    let (sending, sent) = start(sink(&server.url));
    work_until(&sent, |sent| {
        let metrics = server
            .accepted()
            .iter()
            .filter(|it| it.path == "/v1/metrics")
            .count();
        sent.sent_spans() >= 20 && metrics >= 2
    });
    assert_eq!((sent.lost_spans(), sent.failed_requests()), (0, 0));
    drop(sending);
    let end = unix_ns() + 1_000_000;

    let (mut spans, mut gauges, mut frames) = (0, 0, 0);
    for request in server.accepted() {
        assert_eq!(request.method, "POST");
        assert_eq!(request.headers["content-type"], "application/x-protobuf");
        assert_eq!(request.headers["x-token"], "geheim");
        let all = vor_fixtures::wire::fields(&request.body);
        for of_resource in messages(&all, 1) {
            let resource = &messages(&of_resource, 1)[0];
            let pairs: BTreeMap<String, String> = messages(resource, 1)
                .iter()
                .map(|pair| (text(pair, 1), text(&messages(pair, 2)[0], 1)))
                .collect();
            assert_eq!(pairs["service.name"], "shop");
            for scope in messages(&of_resource, 2) {
                if request.path == "/v1/traces" {
                    spans += check_spans(&messages(&scope, 2), begin, end);
                    continue;
                }
                assert_eq!(request.path, "/v1/metrics");
                for metric in messages(&scope, 2) {
                    match text(&metric, 1).as_str() {
                        "loss" => {
                            let point = &messages(&messages(&metric, 5)[0], 1)[0];
                            assert_eq!(f64::from_bits(one(point, 4)), 0.25);
                            gauges += 1;
                        }
                        "vor.frame.duration" => {
                            assert_eq!(text(&metric, 3), "ms");
                            let point = &messages(&messages(&metric, 9)[0], 1)[0];
                            assert!(f64::from_bits(one(point, 5)) > 0.0);
                            frames = one(point, 4);
                        }
                        _ => {}
                    }
                }
            }
        }
    }
    assert!(
        spans >= 20 && gauges >= 2 && frames >= 10,
        "{spans} {gauges} {frames}"
    );
}

/// A span of a request, as sent.
type Message<'a> = Vec<(u64, wire::Field<'a>)>;

fn check_spans(spans: &[Message<'_>], begin: u64, end: u64) -> usize {
    let id = |span: &Message<'_>, field| vor_fixtures::wire::bytes(span, field).to_vec();
    let by_id: BTreeMap<Vec<u8>, &Message<'_>> =
        spans.iter().map(|span| (id(span, 2), span)).collect();
    assert_eq!(by_id.len(), spans.len(), "every id is unique");
    for span in spans {
        assert_eq!((id(span, 1).len(), id(span, 2).len()), (16, 8));
        let [from, until] = [7, 8].map(|field| one(span, field));
        assert!(begin <= from && from <= until && until <= end);
        let attributes: BTreeMap<String, Message<'_>> = messages(span, 9)
            .into_iter()
            .map(|pair| (text(&pair, 1), messages(&pair, 2).swap_remove(0)))
            .collect();
        match text(span, 5).as_str() {
            "request" => {
                assert!(id(span, 4).is_empty(), "the root of a trace");
                assert_eq!(text(&attributes["route"], 1), "/a");
                assert_eq!(one(&attributes["ok"], 2), 1);
                assert!(attributes.contains_key("turn"));
            }
            "query" => {
                // The spans in between were not chosen and are left out.
                let parent = by_id[&id(span, 4)];
                assert_eq!(text(parent, 5), "request");
                assert_eq!(id(parent, 1), id(span, 1), "the same trace");
                assert!(one(parent, 7) <= from && until <= one(parent, 8));
            }
            other => panic!("`{other}` was not chosen"),
        }
    }
    spans.len()
}

#[test]
fn spans_lost_to_a_failing_collector_are_counted_until_it_recovers() {
    own_process!();
    for mode in [
        Mode::Status("503 Service Unavailable", ""),
        Mode::Stall,
        Mode::Reset,
    ] {
        let server = Server::start(mode);
        let (_sending, sent) = start(sink(&server.url));
        work_until(&sent, |sent| {
            sent.lost_spans() >= 20 && sent.failed_requests() >= 2
        });
        assert_eq!(sent.sent_spans(), 0);
        server.set(FINE);
        work_until(&sent, |sent| sent.sent_spans() >= 20);
    }
}

#[test]
fn a_collector_may_answer_anything() {
    own_process!();
    for answer in broken_answers() {
        let server = Server::start(Mode::Bytes(answer));
        let (_sending, sent) = start(sink(&server.url));
        work_until(&sent, |_| server.attempts() >= 2);
        server.set(FINE);
        let sent_before = sent.sent_spans();
        work_until(&sent, |sent| sent.sent_spans() >= sent_before + 20);
    }
}

#[test]
fn an_invalid_address_costs_nothing() {
    own_process!();
    for url in [
        "localhost:4318",
        "",
        "ftp://host",
        "http://user:secret@host",
    ] {
        let error = sink(url).build().err().unwrap();
        assert!(error.is_config(), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
        // The program runs on with recording on.
        let guard = sink(url).install();
        frame(1);
        drop(guard);
    }
}
