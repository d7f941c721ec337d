//! A memory leak, found by scope: the sessions of a small server, which are never dropped.
//!
//! ```text
//! cargo run --release --example heap
//! ```
//!
//! The program's allocator knows the scopes that allocated each live object. One snapshot follows
//! the first requests, another one many more. Their difference is the memory that the requests
//! between them left behind, so the leak has a stack of scopes and a size.

use std::collections::HashMap;
use std::io::Write;
use std::process::ExitCode;

use vor_examples::Outcome;

/// Tracks every object. In production, `.sampled(vor::heap::DEFAULT_SAMPLE_BYTES)` estimates the
/// same at a fraction of the cost.
#[global_allocator]
static ALLOCATOR: vor::heap::TrackingAllocator = vor::heap::TrackingAllocator::system().exact();

const REPLY_BYTES: usize = 4096;
const SESSION_BYTES: usize = 1000;
const WARM_UP_REQUESTS: u64 = 100;
const REQUESTS: u64 = 1000;

/// A cache of pages, which is bounded, and the sessions, which leak.
#[derive(Default)]
struct Server {
    pages: HashMap<u64, Vec<u8>>,
    sessions: HashMap<u64, Box<[u8; SESSION_BYTES]>>,
}

impl Server {
    #[vor::profile]
    fn answer(&mut self, request: u64) -> usize {
        self.remember(request);
        self.page(request % 16)
    }

    /// Allocates one object per request, and never frees it.
    #[vor::profile]
    fn remember(&mut self, request: u64) {
        self.sessions.insert(request, Box::new([0; SESSION_BYTES]));
    }

    /// Replaces the one object of a page.
    #[vor::profile]
    fn page(&mut self, page: u64) -> usize {
        let render = || vec![page as u8; REPLY_BYTES];
        let fresh = render();
        self.pages.insert(page, fresh).map_or(0, |old| old.len())
    }
}

fn main() -> ExitCode {
    vor_examples::run(serve)
}

fn serve(out: &mut dyn Write) -> Outcome {
    vor::enable();
    let mut server = Server::default();
    server
        .sessions
        .reserve((WARM_UP_REQUESTS + REQUESTS) as usize);
    let answer = |server: &mut Server, requests: std::ops::Range<u64>| {
        for request in requests {
            server.answer(request);
            vor::frame_mark();
        }
    };
    answer(&mut server, 0..WARM_UP_REQUESTS);
    let warm = vor::heap::heap_snapshot();
    answer(&mut server, WARM_UP_REQUESTS..WARM_UP_REQUESTS + REQUESTS);
    let later = vor::heap::heap_snapshot();

    writeln!(out, "live heap by allocating scopes:")?;
    writeln!(out, "{:>12} {:>8}", "bytes", "objects")?;
    for stack in later.stacks.iter().take(5) {
        let (objects, bytes) = (stack.inuse_objects as i64, stack.inuse_bytes as i64);
        writeln!(out, "{:>12} {:>8}  {}", bytes, objects, path(&stack.scopes))?;
    }
    writeln!(out, "\ngrowth over {REQUESTS} requests:")?;
    writeln!(out, "{:>12} {:>8}", "bytes", "objects")?;
    for leak in later
        .difference(&warm)
        .iter()
        .filter(|change| change.inuse_bytes > 0)
    {
        let (bytes, objects) = (leak.inuse_bytes, leak.inuse_objects);
        writeln!(out, "{bytes:>+12} {objects:>+8}  {}", path(&leak.scopes))?;
    }
    Ok(())
}

fn path(scopes: &[vor::heap::HeapScope]) -> String {
    let names: Vec<&str> = scopes.iter().map(|scope| &*scope.info.name).collect();
    if names.is_empty() {
        "(outside of all scopes)".into()
    } else {
        names.join(" > ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leak_is_exact_to_the_byte_and_the_cache_does_not_grow() {
        let mut out = Vec::new();
        serve(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let (_, leaks) = text.split_once("growth over").unwrap();
        let leak = format!(
            "{:>+12} {:>+8}  ",
            REQUESTS as i64 * SESSION_BYTES as i64,
            REQUESTS as i64
        );
        let lines: Vec<&str> = leaks
            .lines()
            .filter(|line| line.contains("answer"))
            .collect();
        assert_eq!(lines.len(), 1, "{text}");
        assert!(
            lines[0].starts_with(&leak) && lines[0].ends_with("remember"),
            "{text}"
        );
    }
}
