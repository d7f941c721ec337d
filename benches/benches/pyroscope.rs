//! The effect of a broken server on a program that pushes profiles to it: the CPU time of a thread
//! for the same work, relative to the time without pushes. The server works, is absent, stalls,
//! resets or refuses.
//!
//! The phases alternate, and the results are ratios within a round, so other load on the machine
//! affects all of them.

use std::hint::black_box;
use std::net::TcpListener;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vor_benches::clock::thread_cpu_ns;
use vor_benches::rounds::median;
use vor_recorder::sinks::pyroscope::PyroscopeSink;

use vor_fixtures::server::{FINE, Mode, Server};

const ROUNDS: usize = 9;
/// The duration of a phase, which is long enough for a retry of a failed push.
const STRETCH: Duration = Duration::from_millis(1_500);
/// Scopes between two checks of the time.
const SCOPES: u64 = 5_000;

/// The server of a phase.
enum To {
    Nobody,
    /// An address without a listener.
    Nothing,
    Server(Mode),
}

/// The result of a phase.
struct Stretch {
    /// CPU time per scope.
    cpu_ns: f64,
    sent: u64,
    lost: u64,
}

/// Works for a while, with a scope around each small part.
fn work() -> f64 {
    let (begin, begin_ns) = (Instant::now(), thread_cpu_ns());
    let mut scopes = 0;
    while begin.elapsed() < STRETCH {
        for n in 0..SCOPES {
            vor::profile_scope!("query");
            black_box((0..200).fold(n, |sum, i| black_box(sum ^ i)));
        }
        scopes += SCOPES;
    }
    (thread_cpu_ns() - begin_ns) as f64 / scopes as f64
}

fn stretch(to: &To) -> Stretch {
    let url = match to {
        To::Nobody => {
            let cpu_ns = work();
            return Stretch {
                cpu_ns,
                sent: 0,
                lost: 0,
            };
        }
        To::Nothing => {
            // A port that was free a moment ago.
            let address =
                TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            address.map_or_else(
                |_| "http://127.0.0.1:1".to_owned(),
                |address| format!("http://{address}"),
            )
        }
        To::Server(mode) => Server::start(mode.clone()).url,
    };
    let sink = vor_capture::filled!(PyroscopeSink {
        url,
        application: "bench".to_owned(),
        interval: Duration::from_millis(20),
        timeout: Duration::from_millis(300),
        ..PyroscopeSink::default()
    });
    let (sink, counts) = sink.build().unwrap_or_else(|error| panic!("{error}"));
    vor_recorder::setup::enable();
    let _pushing = vor_recorder::drain::add_sink("Pyroscope", sink);
    let cpu_ns = work();
    Stretch {
        cpu_ns,
        sent: counts.sent_profiles(),
        lost: counts.lost_profiles(),
    }
}

fn main() -> ExitCode {
    let is_test = std::env::args().any(|arg| arg == "--test" || arg == "--list");
    vor::Config::new().enable();
    let status = |status, headers| To::Server(Mode::Status(status, headers));
    let all = [
        ("nothing is pushed", To::Nobody),
        ("well", To::Server(FINE)),
        ("not there", To::Nothing),
        ("stalls", To::Server(Mode::Stall)),
        ("resets", To::Server(Mode::Reset)),
        ("500", status("500 Internal Server Error", "")),
        ("429", status("429 Too Many Requests", "Retry-After: 1\r\n")),
    ];
    let mut ratios = vec![Vec::new(); all.len()];
    let mut counts = vec![(0, 0); all.len()];
    let mut bare = Vec::new();
    for _ in 0..if is_test { 1 } else { ROUNDS } {
        let stretches: Vec<Stretch> = all.iter().map(|(_, to)| stretch(to)).collect();
        bare.push(stretches[0].cpu_ns);
        for (at, stretch) in stretches.iter().enumerate() {
            ratios[at].push(stretch.cpu_ns / stretches[0].cpu_ns);
            counts[at].0 += stretch.sent;
            counts[at].1 += stretch.lost;
        }
    }
    println!(
        "a scope and its work take {:.0} ns of CPU time; over that, a profile pushed every 20 ms:",
        median(bare)
    );
    for (((name, _), ratios), (sent, lost)) in all.iter().zip(ratios).zip(counts) {
        println!(
            "  {name:<18} × {:.3}   {sent} sent, {lost} lost",
            median(ratios)
        );
    }
    ExitCode::SUCCESS
}
