//! A cache under one lock: who waits for it, and who holds it meanwhile.
//!
//! ```text
//! cargo run --release --example locks --features locks
//! ```
//!
//! Four workers answer requests from a cache, and one thread removes old pages from it. It holds
//! the lock while it writes each page back, so requests wait for it. `vor locks` shows that.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use vor::sync::Mutex;
use vor_examples::Outcome;

const WORKERS: usize = 4;
const REQUESTS: u64 = 200;
const PAGES: u64 = 64;
/// Rounds of the thread that removes pages.
const EVICTIONS: usize = 10;
/// Time to write a page back.
const WRITE_BACK: Duration = Duration::from_micros(200);
/// Time between two requests of a worker.
const PAUSE: Duration = Duration::from_micros(300);
/// Time between two evictions.
const EVICTION_PAUSE: Duration = Duration::from_millis(4);

/// Pages by number. A lock in a static has a name, so that reports show it.
static CACHE: Mutex<BTreeMap<u64, Vec<u8>>> = Mutex::named("cache", BTreeMap::new());

#[vor::profile]
fn answer(request: u64) -> usize {
    look_up(request * 7 % PAGES)
}

#[vor::profile]
fn look_up(page: u64) -> usize {
    // Poisoned if the other thread has panicked, and then the pages are still whole.
    let mut cache = CACHE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    cache.entry(page).or_insert_with(|| render(page)).len()
}

#[vor::profile]
fn render(page: u64) -> Vec<u8> {
    vec![page as u8; 4096]
}

/// Removes half of the pages. The lock is held during all of it, which is the mistake.
#[vor::profile]
fn evict() -> usize {
    let mut cache = CACHE
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    let old: Vec<u64> = cache.keys().copied().step_by(2).collect();
    for page in &old {
        thread::sleep(WRITE_BACK);
        cache.remove(page);
    }
    old.len()
}

fn main() -> ExitCode {
    vor_examples::run(serve)
}

fn serve(out: &mut dyn Write) -> Outcome {
    vor_examples::config("locks").spans(true).enable();
    let (answered, evicted) = run();
    vor::frame_mark();
    vor::flush();
    writeln!(
        out,
        "{answered} requests answered, {evicted} pages evicted."
    )?;
    // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
    if let Some(capture) = vor::capture_path() {
        writeln!(out, "Who waited for the cache, and who held it:")?;
        writeln!(out, "  {}", vor_examples::command_line("locks", &capture))?;
    }
    Ok(())
}

/// Returns how many requests were answered and how many pages were evicted.
fn run() -> (usize, usize) {
    thread::scope(|threads| {
        let answer_all = || {
            let answer_later = |request: &u64| {
                thread::sleep(PAUSE);
                answer(*request) > 0
            };
            (0..REQUESTS).filter(answer_later).count()
        };
        let worker = |number: usize| {
            let builder = thread::Builder::new().name(format!("worker-{number}"));
            builder.spawn_scoped(threads, answer_all)
        };
        let workers: Vec<_> = (1..=WORKERS)
            .filter_map(|number| worker(number).ok())
            .collect();
        let evict_often = || {
            let evict_later = |_| {
                thread::sleep(EVICTION_PAUSE);
                evict()
            };
            (0..EVICTIONS).map(evict_later).sum()
        };
        let builder = thread::Builder::new().name("evictor".into());
        let evictor = builder.spawn_scoped(threads, evict_often);
        let answered = workers.into_iter().filter_map(|worker| worker.join().ok());
        let answered = answered.sum();
        let evicted = evictor.ok().and_then(|evictor| evictor.join().ok());
        (answered, evicted.unwrap_or(0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capture_has_waits_for_the_evictor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        let (answered, evicted) = run();
        assert_eq!(answered, WORKERS * REQUESTS as usize);
        vor::frame_mark();
        vor::flush();
        let mut holders = Vec::new();
        let mut reader = vor::Reader::open(&path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let vor::capture::Event::Batch(batch) = event else {
                continue;
            };
            for args in batch.threads.iter().flat_map(|thread| &thread.args) {
                let texts = args.values.iter().map(|value| format!("{value:?}"));
                holders.push(texts.collect::<Vec<_>>().join(" "));
            }
        }
        assert!(evicted > 0);
        let evictor = ["cache", "evictor", "evict"].map(|name| format!("Str({name:?})"));
        assert!(holders.contains(&evictor.join(" ")), "{holders:?}");
    }
}
