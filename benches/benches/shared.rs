//! A scope whose ring is in shared memory, beside one whose ring is not, in the same rounds.
//!
//! A thread gets its ring when it first records. So one thread records before the file of shared
//! memory begins and one afterwards, and both run the same loop in turn.
//!
//! `-- --rounds N` sets the number of rounds (default 4000).

use std::hint::black_box;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant;

use vor_recorder::drain::recovery::Remains;

/// Scopes of one measurement: some tens of microseconds.
const SCOPES: u32 = 2000;

#[inline(never)]
fn run() -> f64 {
    let begin = Instant::now();
    for i in 0..SCOPES {
        vor::profile_scope!("scope");
        black_box(i);
    }
    begin.elapsed().as_nanos() as f64 / f64::from(SCOPES)
}

/// A thread that runs the loop when asked to.
struct Contestant {
    ask: Sender<()>,
    answer: Receiver<f64>,
}

impl Contestant {
    fn start() -> Self {
        let (ask, asked) = channel();
        let (answers, answer) = channel();
        std::thread::spawn(
            move || {
                while asked.recv().is_ok() && answers.send(run()).is_ok() {}
            },
        );
        let this = Self { ask, answer };
        // It has its ring from now on.
        this.ns();
        this
    }

    /// Returns the nanoseconds of a scope.
    fn ns(&self) -> f64 {
        let _ = self.ask.send(());
        self.answer.recv().unwrap_or(f64::NAN)
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    let at = args.iter().position(|arg| arg == "--rounds");
    let rounds = at.map_or(Some(4000), |at| args.get(at + 1)?.parse().ok());
    let Some(rounds) = rounds.filter(|rounds| *rounds > 0) else {
        eprintln!("shared: --rounds needs a number above 0");
        return ExitCode::from(2);
    };
    vor::Config::new().enable();
    let private = Contestant::start();
    vor::Config::new().shared_memory(true).enable();
    let shared = Contestant::start();
    if let Err(error) = Remains::of_process(std::process::id()) {
        eprintln!("shared: {error}");
        return ExitCode::FAILURE;
    }
    let pairs: Vec<_> = (0..rounds).map(|_| (private.ns(), shared.ns())).collect();
    let private_ns = median(pairs.iter().map(|pair| pair.0).collect());
    let shared_ns = median(pairs.iter().map(|pair| pair.1).collect());
    let ratio = median(pairs.iter().map(|pair| pair.1 / pair.0).collect());
    println!("shared: {rounds} rounds of {SCOPES} scopes, medians");
    println!("shared: private ring  {private_ns:6.2} ns");
    println!("shared: shared memory {shared_ns:6.2} ns, {ratio:.3} times");
    ExitCode::SUCCESS
}
