//! Parses every given source with each parser in turn: the unchanged one, the one with clock reads
//! in its functions, and the one with scopes.
//!
//! `driver SECONDS CAPTURE FILE…` prints one `key value` per line, like the children of the budget.

use std::hint::black_box;
use std::time::{Duration, Instant};

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds: f64 = args
        .next()
        .and_then(|text| text.parse().ok())
        .expect("a number of seconds");
    let capture = args.next().expect("the path of the capture");
    let sources: Vec<String> = args
        .map(|path| std::fs::read_to_string(path).expect("a source"))
        .collect();
    vor::Config::new().capture(capture).enable();

    let (mut bare_ns, mut clock_ratios, mut ratios, mut wall_ratios) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let begin = Instant::now();
    let mut rounds = 0_u64;
    while begin.elapsed() < Duration::from_secs_f64(seconds) {
        let (mut cpu, mut wall) = ([0.0; 3], [0.0; 3]);
        for (kind, parse) in [parse_bare as fn(&str) -> bool, parse_clocked, parse_scoped]
            .into_iter()
            .enumerate()
        {
            let (begin, begin_cpu) = (Instant::now(), vor_benches::clock::thread_cpu_ns());
            for source in &sources {
                assert!(parse(source), "the parser parses its own sources");
            }
            cpu[kind] = (vor_benches::clock::thread_cpu_ns() - begin_cpu) as f64;
            wall[kind] = begin.elapsed().as_nanos() as f64;
        }
        vor::frame_mark();
        rounds += 1;
        bare_ns.push(cpu[0]);
        clock_ratios.push(cpu[1] / cpu[0]);
        ratios.push(cpu[2] / cpu[0]);
        wall_ratios.push(wall[2] / wall[0]);
    }
    vor::flush();
    println!("rounds {rounds}");
    println!("bare_ns {}", vor_benches::rounds::median(bare_ns));
    println!("clock_ratio {}", vor_benches::rounds::median(clock_ratios));
    println!("ratio {}", vor_benches::rounds::median(ratios));
    println!("wall_ratio {}", vor_benches::rounds::median(wall_ratios));
}

#[inline(never)]
fn parse_bare(source: &str) -> bool {
    black_box(syn_bare::parse_file(black_box(source))).is_ok()
}

#[inline(never)]
fn parse_clocked(source: &str) -> bool {
    black_box(syn_clock::parse_file(black_box(source))).is_ok()
}

#[inline(never)]
fn parse_scoped(source: &str) -> bool {
    black_box(syn_scoped::parse_file(black_box(source))).is_ok()
}
