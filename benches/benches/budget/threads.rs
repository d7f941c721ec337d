//! Two recording threads against one: they must not slow each other.
//!
//! Time is the CPU time of each thread, because the machine may have no second core free for a
//! whole burst. Waiting for a core is not the recorder's fault, and a shared cache line would cost
//! CPU time. Bursts fit into the rings.

use std::hint::black_box;
use std::sync::Barrier;

use vor_benches::clock::thread_cpu_ns;
use vor_benches::rounds::median;

use crate::Options;
use crate::table::{Table, Target};

const ROUNDS: usize = 101;
const BURST: u32 = 50_000;

/// Measures the rate of two threads together against the rate of one.
pub fn measure(_: &Options, table: &mut Table) {
    let question = "2 threads' spans per second / one thread's";
    if std::thread::available_parallelism().map_or(1, |cores| cores.get()) < 2 {
        return table.not_measured(question, "there is one core");
    }
    vor::Config::new().enable();
    let (start, stop) = (Barrier::new(2), Barrier::new(2));
    let mut ratios = Vec::with_capacity(ROUNDS);
    std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            let mut rates = Vec::with_capacity(ROUNDS);
            burst();
            for _ in 0..ROUNDS {
                start.wait();
                rates.push(burst());
                stop.wait();
            }
            rates
        });
        burst();
        let mut pairs = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            vor::flush();
            let alone = burst();
            vor::flush();
            start.wait();
            let together = burst();
            stop.wait();
            pairs.push((alone, together));
        }
        let others = other.join().unwrap_or_default();
        let both = pairs.iter().zip(others);
        ratios.extend(both.map(|((alone, together), other)| (together + other) / alone));
    });
    vor::disable();
    table.add(question, Target::AtLeast(1.95), median(ratios), "x");
}

/// Records a burst and returns spans per nanosecond of this thread.
fn burst() -> f64 {
    let begin = thread_cpu_ns();
    for i in 0..BURST {
        vor::profile_scope!("burst");
        black_box(i);
    }
    f64::from(BURST) / (thread_cpu_ns() - begin) as f64
}
