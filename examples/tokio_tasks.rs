//! A task that blocks its worker, found by the delays of the others.
//!
//! ```text
//! cargo run --release --example tokio_tasks --features tokio
//! ```
//!
//! Twenty tasks tick every millisecond on one worker. One more task computes for 30 ms without an
//! `.await`, again and again. The delay of a poll says how long its task was ready and not polled:
//! it is long while the worker computes. The numbers of the runtime are metrics of each frame.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use vor::tokio::{named, watch};

const TICKING: usize = 20;
const TICKS: usize = 80;
/// How long the task that blocks computes, and how long it waits in between.
const COMPUTES: Duration = Duration::from_millis(30);
const WAITS: Duration = Duration::from_millis(70);
/// The time of a frame: a server has no frames of its own.
const FRAME: Duration = Duration::from_millis(50);

fn main() -> ExitCode {
    vor_examples::run(|out| {
        vor_examples::config("tokio-tasks").spans(true).enable();
        run()?;
        vor::flush();
        // None if `VOR_RECORD` names a path that cannot be written, which vor has reported.
        if let Some(capture) = vor::capture_path() {
            writeln!(
                out,
                "The metric poll_delay.max is high in the frames of `compute`."
            )?;
            vor_examples::print_how_to_open(out, &capture)?;
        }
        Ok(())
    })
}

fn run() -> std::io::Result<()> {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_time()
        .build()?;
    let _rows = watch("tokio", runtime.handle());
    let frames = runtime.spawn(async {
        let mut interval = tokio::time::interval(FRAME);
        loop {
            interval.tick().await;
            vor::frame_mark();
        }
    });
    let blocks = runtime.spawn(named("compute", async {
        loop {
            compute();
            tokio::time::sleep(WAITS).await;
        }
    }));
    let ticking: Vec<_> = (0..TICKING)
        .map(|_| runtime.spawn(named("tick", tick())))
        .collect();
    runtime.block_on(async {
        for task in ticking {
            // It has no result, and cannot fail.
            let _ = task.await;
        }
    });
    blocks.abort();
    frames.abort();
    vor::frame_mark();
    Ok(())
}

async fn tick() {
    for _ in 0..TICKS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[vor::profile]
fn compute() {
    let start = Instant::now();
    while start.elapsed() < COMPUTES {
        std::hint::spin_loop();
    }
}

#[cfg(test)]
mod tests {
    use vor::capture::{ArgValue, Event, Reader};

    use super::*;

    #[test]
    fn the_delays_show_the_task_that_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.vor");
        vor::Config::new().capture(&path).enable();
        run().unwrap();
        vor::close_capture();

        let (mut largest_us, mut tasks, mut frames) = (0.0_f64, Vec::new(), Vec::new());
        let mut reader = Reader::open(&path).unwrap();
        while let Some(event) = reader.next_event().unwrap() {
            let batch = match event {
                Event::Frame(recovered) => {
                    frames.push(recovered.frame);
                    continue;
                }
                Event::Batch(batch) => batch,
                _ => continue,
            };
            for thread in &batch.threads {
                let name = |site| batch.catalog.site_name(site);
                let ended = thread
                    .async_spans
                    .iter()
                    .filter(|task| name(task.site) == "tick");
                tasks.extend(ended.map(|task| task.id));
                for args in &thread.args {
                    let site = thread.sites[args.span as usize];
                    if let ("tick", [ArgValue::F64(delay_us)]) = (name(site), &args.values[..]) {
                        largest_us = largest_us.max(*delay_us);
                    }
                }
            }
        }
        assert_eq!(tasks.len(), TICKING);
        // The ticks that fall into a computation wait for most of it.
        assert!(
            largest_us >= COMPUTES.as_secs_f64() * 1e6 / 2.0,
            "{largest_us}"
        );
        let row = |name: &str| {
            frames
                .iter()
                .filter_map(|frame| frame.metric(name))
                .fold(0.0, f64::max)
        };
        assert!(
            row("poll_delay.max") >= largest_us * 0.99,
            "{}",
            row("poll_delay.max")
        );
        assert_eq!(row("tokio_workers"), 1.0);
        assert!(
            row("tokio_tasks") >= TICKING as f64,
            "{}",
            row("tokio_tasks")
        );
        assert!(row("tokio_busy") > 0.0);
    }
}
