//! A service: workers take requests from a queue, look up a cache, and query what is missing.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use tracing::{debug_span, info, info_span, instrument};
use tracing_chrome::ChromeLayerBuilder;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

type Cache = Mutex<HashMap<u64, String>>;

#[instrument(skip(cache))]
fn handle(request: u64, cache: &Cache) -> usize {
    let key = request % 10;
    let found = {
        let _span = debug_span!("lookup", key).entered();
        cache.lock().expect("no worker panics").get(&key).cloned()
    };
    let answer = found.unwrap_or_else(|| {
        info!(key, "missed");
        let answer = query(key);
        cache
            .lock()
            .expect("no worker panics")
            .insert(key, answer.clone());
        answer
    });
    render(&answer)
}

#[instrument(level = "debug")]
fn query(key: u64) -> String {
    (0..key + 3)
        .map(|row| {
            let _span = debug_span!("row", row).entered();
            format!("{row};")
        })
        .collect()
}

fn render(answer: &str) -> usize {
    info_span!("render", bytes = answer.len()).in_scope(|| answer.split(';').count())
}

fn main() {
    let path = std::env::args().nth(1).expect("the path of the trace");
    let (layer, _guard) = ChromeLayerBuilder::new()
        .file(path)
        .include_args(true)
        .build();
    tracing_subscriber::registry().with(layer).init();

    let cache = Arc::new(Cache::default());
    let workers: Vec<_> = (0..2)
        .map(|number| {
            let (sender, requests) = mpsc::channel::<u64>();
            let cache = cache.clone();
            let worker = thread::Builder::new()
                .name(format!("worker {number}"))
                .spawn(move || {
                    requests
                        .iter()
                        .map(|request| handle(request, &cache))
                        .sum::<usize>()
                });
            (sender, worker.expect("the system has threads"))
        })
        .collect();
    for request in 0..200 {
        // All requests for a key have the same worker, so each key is queried once.
        let (sender, _) = &workers[request as usize % 10 % 2];
        sender.send(request).expect("no worker panics");
    }
    let mut rows = 0;
    for (sender, worker) in workers {
        drop(sender);
        rows += worker.join().expect("no worker panics");
    }
    eprintln!("served {rows} rows");
}
