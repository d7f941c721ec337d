//! A service that can be watched while it runs: `vor top PID` in another terminal.
//!
//! Two workers share a cache. The program ends after the number of seconds in its argument, or
//! after a minute.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use vor::sync::Mutex;

/// Stands for work that takes about so many microseconds.
fn work(us: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_micros(us) {
        black_box(us);
    }
}

fn request(cache: &Mutex<Vec<u64>>, number: u64) {
    vor::profile_scope!("request");
    {
        vor::profile_scope!("parse");
        work(100);
    }
    {
        vor::profile_scope!("look up");
        let mut cache = cache
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        work(200);
        cache.push(number);
        if cache.len() > 1000 {
            cache.clear();
        }
    }
    vor::profile_scope!("answer");
    thread::sleep(Duration::from_micros(500));
}

fn main() -> Result<(), vor::Error> {
    let seconds = std::env::args().nth(1).and_then(|text| text.parse().ok());
    let length = Duration::from_secs(seconds.unwrap_or(60));
    // The variables `VOR_…` apply, too.
    vor::Config::from_env().listen("unix".parse()?).enable();
    let pid = std::process::id();
    if let Some(address) = vor::live::listening() {
        println!("watch me: vor top {pid}, vor tail {pid}, vor view {pid} ({address})");
    }
    let cache = Mutex::named("cache", Vec::new());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for worker in 0..2 {
            let (cache, is_over) = (&cache, &is_over);
            let serve = move || {
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    request(cache, number);
                    number += 2;
                }
            };
            let builder = thread::Builder::new().name(format!("worker-{worker}"));
            if builder.spawn_scoped(scope, serve).is_err() {
                break;
            }
        }
        let begun = Instant::now();
        while begun.elapsed() < length {
            thread::sleep(Duration::from_millis(50));
            vor::record_metric("queue", begun.elapsed().as_secs_f64() % 7.0);
            vor::frame_mark();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    Ok(())
}
