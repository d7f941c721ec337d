//! The time that new rules for scopes take in a program with 10 000 call sites.
//!
//! Two lists of rules take turns, so that each time all sites get a mode again.

#![expect(clippy::unwrap_used, reason = "the rules are right")]

use std::time::Instant;

use vor_benches::rounds::median;

const SITES: usize = 10_000;
const ROUNDS: usize = 400;

fn main() {
    vor::Config::new().enable();
    for site in 0..SITES {
        let module = ["db", "render", "net", "app::jobs", "audio"][site % 5];
        drop(vor::scope(&format!("{module}::scope{site}")));
    }
    vor::flush();
    let long: Vec<String> = (0..20)
        .map(|i| format!("scope{i}*=count, *e{i}99=off, net::*{i}*=1/100"))
        .collect();
    for (name, one, other) in [
        ("one rule", "render::*=off", ""),
        (
            "five rules",
            "*=record, db::*=count, render::tile=off, lock=min:50us, x=1/100",
            "*=record",
        ),
        (
            "five with wildcards",
            "*9=off, *77*=count, db::*5=off, *z=off, n*1=1/9",
            "",
        ),
        ("60 rules", &*long.join(", "), ""),
    ] {
        let mut times_us = Vec::with_capacity(ROUNDS);
        for round in 0..ROUNDS {
            let rules = if round % 2 == 0 { one } else { other };
            let begin = Instant::now();
            vor::set_scopes(rules).unwrap();
            if round % 2 == 0 {
                times_us.push(begin.elapsed().as_secs_f64() * 1e6);
            }
        }
        let most_us = times_us.iter().copied().fold(0.0, f64::max);
        let median_us = median(times_us);
        println!("rules: {SITES} sites, {name}: {median_us:.0} µs, {most_us:.0} µs at most");
    }
}
