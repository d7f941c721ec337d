//! A running program that is watched: what a span costs the drain without a client and with one,
//! and what a mark costs while clients come and go.
//!
//! Each child records scopes of 200 to 800 ns of work for some seconds, without a break. It does
//! not listen (`silent`), listens without a client (`listening`), or has one client that reads
//! everything in a process of its own (`client`). With `crowd`, clients join a hundred times a
//! second, and one of them reads a kilobyte a second. The contestants take turns; the medians of
//! their rounds are compared.
//!
//! `-- --seconds N` records for N seconds in each child (default 4), `-- --rounds N` takes N rounds
//! (default 5).

use std::env;
use std::hint::black_box;
use std::io::Read;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use vor::live::{Address, Choice, connect};
use vor_benches::arguments::number;
use vor_benches::contestants;
use vor_benches::process::peak_resident_kib;
use vor_benches::work::{Sequence, chain};

/// Names the contestant of a child, or the client of one.
const CHILD: &str = "VOR_BENCH_LIVE";
const CONTESTANTS: [&str; 4] = ["silent", "listening", "client", "crowd"];
const SPANS_PER_FRAME: u64 = 1_000;

type Failure = Box<dyn std::error::Error>;

/// Returns the CPU time of the threads of this process with this name.
fn cpu_ns(name: &str) -> Result<u64, Failure> {
    let mut sum = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let folder = task?.path();
        let is_it =
            std::fs::read_to_string(folder.join("comm")).is_ok_and(|comm| comm.trim() == name);
        if is_it && let Ok(text) = std::fs::read_to_string(folder.join("schedstat")) {
            let ns = text.split(' ').next().ok_or("schedstat is empty")?;
            sum += ns.parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn start(role: &str, folder: &Path) -> Result<std::process::Child, Failure> {
    let child = Command::new(env::current_exe()?)
        .env(CHILD, role)
        .arg("--folder")
        .arg(folder)
        .stdout(Stdio::null())
        .spawn()?;
    Ok(child)
}

/// Reads as a client does, until the program ends.
fn watch(role: &str, folder: &Path) -> Result<(), Failure> {
    let address = Address::Unix(folder.join("s"));
    let mut chunk = vec![0; 64 << 10];
    match role {
        "reader" => {
            let mut stream = connect(&address, Choice::All, None)?;
            while stream.read(&mut chunk)? > 0 {}
        }
        "slow" => {
            let mut stream = connect(&address, Choice::All, None)?;
            while stream.read(&mut chunk[..10])? > 0 {
                thread::sleep(Duration::from_millis(10));
            }
        }
        _ => {
            let begin = Instant::now();
            for join in 0.. {
                let at = Duration::from_millis(10) * join;
                thread::sleep(at.saturating_sub(begin.elapsed()));
                drop(connect(&address, Choice::All, None)?);
            }
        }
    }
    Ok(())
}

fn record(contestant: &str, folder: &Path, length: Duration) -> Result<(), Failure> {
    let config = vor::Config::new();
    match contestant {
        "silent" => config.enable(),
        _ => {
            let address = format!("unix:{}", folder.join("s").display());
            config.listen(address.parse()?).enable();
        }
    }
    let clients: &[&str] = match contestant {
        "client" => &["reader"],
        "crowd" => &["slow", "joins"],
        _ => &[],
    };
    let mut children = Vec::new();
    for client in clients {
        children.push(start(client, folder)?);
    }
    // The clients have joined by then.
    thread::sleep(Duration::from_millis(300));
    let mut random = Sequence::new(7);
    let (mut spans, mut marks) = (0, Vec::new());
    let (drain_ns, client_ns) = (cpu_ns("vor-drain")?, cpu_ns("vor-client")?);
    let begin = Instant::now();
    while begin.elapsed() < length {
        for i in 0..SPANS_PER_FRAME {
            let steps = 100 + random.below(300);
            vor::profile_scope!("step");
            black_box(chain(i, steps as u32));
        }
        spans += SPANS_PER_FRAME;
        let before = Instant::now();
        vor::frame_mark();
        marks.push(before.elapsed().as_nanos() as f64);
    }
    let drain_ns = cpu_ns("vor-drain")? - drain_ns;
    let client_ns = cpu_ns("vor-client")?.saturating_sub(client_ns);
    marks.sort_by(f64::total_cmp);
    println!("drain_ns {}", drain_ns as f64 / spans as f64);
    println!("client_ns {}", client_ns as f64 / spans as f64);
    println!("spans {spans}");
    println!("mark_ns {}", marks[marks.len() / 2]);
    println!("mark_p99_ns {}", marks[marks.len() * 99 / 100]);
    if let Some(kib) = peak_resident_kib() {
        println!("peak_mb {}", kib as f64 * 1024.0 / 1e6);
    }
    for mut child in children {
        child.kill()?;
        child.wait()?;
    }
    Ok(())
}

fn compare(seconds: u64, rounds: u64) -> Result<(), Failure> {
    let found = contestants::rounds(CHILD, &CONTESTANTS, seconds, rounds)?;
    let of = |contestant: &str, key: &str| found.median(contestant, key);
    println!("{rounds} rounds of {seconds} s each, medians; CPU time per span");
    for contestant in CONTESTANTS {
        println!(
            "{contestant:<9} drain {:6.2} ns, client's thread {:6.2} ns, {:5.1} M spans, \
            mark {:6.0} ns (p99 {:6.0} ns), peak {:5.1} MB",
            of(contestant, "drain_ns"),
            of(contestant, "client_ns"),
            of(contestant, "spans") / 1e6,
            of(contestant, "mark_ns"),
            of(contestant, "mark_p99_ns"),
            of(contestant, "peak_mb"),
        );
    }
    let beyond = |contestant| of(contestant, "drain_ns") - of("silent", "drain_ns");
    println!(
        "the drain beyond silence: {:.2} ns without a client, {:.2} ns with one",
        beyond("listening"),
        beyond("client"),
    );
    Ok(())
}

fn run() -> Result<(), Failure> {
    let seconds = number("--seconds", 4)?;
    match env::var(CHILD) {
        Ok(role) => {
            let mut args = env::args().skip_while(|arg| arg != "--folder").skip(1);
            let folder = args.next().ok_or("--folder needs a path")?;
            let folder = Path::new(&folder);
            match CONTESTANTS.contains(&role.as_str()) {
                true => record(&role, folder, Duration::from_secs(seconds)),
                // It ends with the program that it watches.
                false => {
                    let _ = watch(&role, folder);
                    Ok(())
                }
            }
        }
        Err(_) => compare(seconds, number("--rounds", 5)?),
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("live: {error}");
            ExitCode::FAILURE
        }
    }
}
