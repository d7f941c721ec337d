//! Scopes on the threads of a rayon pool, under their names.
//!
//! ```text
//! cargo run --release --example rayon_pool --features rayon
//! ```
//!
//! vor takes the name of a thread from the standard library. rayon leaves its threads without one,
//! so a pool names them with `thread_name`. Nothing else is needed.

use std::process::ExitCode;

use rayon::iter::{IntoParallelIterator as _, ParallelIterator as _};
use vor_examples::Generator;

const THREADS: usize = 3;
const PARTS: u64 = 60;

fn main() -> ExitCode {
    vor_examples::run(|out| {
        vor_examples::config("rayon-pool").spans(true).enable();
        let sum = add_up()?;
        vor::frame_mark();
        vor::flush();
        writeln!(out, "{PARTS} parts on {THREADS} threads: {sum}")?;
        // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
        if let Some(capture) = vor::capture_path() {
            vor_examples::print_how_to_open(out, &capture)?;
        }
        Ok(())
    })
}

fn add_up() -> Result<u64, rayon::ThreadPoolBuildError> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(THREADS)
        .thread_name(|index| format!("rayon {index}"))
        .build()?;
    vor::profile_scope!("add up");
    // Only one part waits for its own thread, so that each thread has one; the others are stolen.
    let ready = std::sync::Barrier::new(THREADS);
    pool.broadcast(|context| {
        vor::profile_scope!("begin", thread = context.index());
        ready.wait();
    });
    Ok(pool.install(|| (0..PARTS).into_par_iter().map(part).sum()))
}

#[vor::profile(args(number))]
fn part(number: u64) -> u64 {
    let mut generator = Generator::new(number);
    (0..20_000).fold(0, |sum, _| sum ^ generator.bits()) >> 40
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vor::capture::{Event, Reader};

    use super::*;

    #[test]
    fn the_scopes_of_a_pool_are_on_its_named_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        add_up().unwrap();
        vor::close_capture();

        let mut counts: BTreeMap<(String, String), u64> = BTreeMap::new();
        let mut reader = Reader::open(&path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let Event::Batch(batch) = event else { continue };
            for thread in &batch.threads {
                let info = batch.catalog.thread(thread.thread).unwrap();
                for site in &thread.sites {
                    let name = batch.catalog.site_name(*site).to_owned();
                    *counts.entry((name, info.name.clone())).or_default() += 1;
                }
            }
        }
        let parts = counts.iter().filter(|((name, _), _)| name == "part");
        assert_eq!(parts.clone().map(|(_, count)| count).sum::<u64>(), PARTS);
        let is_of_pool = |name: &str| (0..THREADS).any(|index| name == format!("rayon {index}"));
        assert!(
            parts.clone().all(|((_, thread), _)| is_of_pool(thread)),
            "{counts:?}"
        );
        for index in 0..THREADS {
            let begin = ("begin".to_owned(), format!("rayon {index}"));
            assert_eq!(counts.get(&begin), Some(&1), "{counts:?}");
        }
    }
}
