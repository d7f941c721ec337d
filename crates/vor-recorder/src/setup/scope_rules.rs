//! Tests of the rules that say which scopes are recorded, on running programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vor_capture::model::batch::SpanBatch;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};
use vor_fixtures::own_process;

use crate::drain::{self, ScopeState};
use crate::hot::args::Arg;
use crate::hot::callsite::CallSite;
use crate::hot::rules::{scope_rules, set_scopes};
use crate::hot::scope::{self, PhaseChain, Scope, open, open_cpu, open_with};
use crate::setup::Config;

/// The spans that were delivered: names with durations in ticks and number of values, and the
/// records that were dropped.
#[derive(Debug, Default)]
struct Seen {
    spans: Vec<(String, u64, usize)>,
    dropped: u64,
}

#[derive(Clone, Default)]
struct Spans(Arc<Mutex<Seen>>);

impl FrameSink for Spans {
    fn interest(&self) -> Interest {
        Interest::BATCHES
    }

    fn accept_batch(&mut self, batch: &SpanBatch) -> Result<(), vor_capture::Error> {
        let mut seen = self.0.lock().unwrap();
        for thread in &batch.threads {
            seen.dropped += thread.dropped_spans;
            for (at, site) in thread.sites.iter().enumerate() {
                let args = thread.args.iter().find(|args| args.span == at as u32);
                let name = batch.catalog.site_name(*site).to_owned();
                let values = args.map_or(0, |args| args.values.len());
                seen.spans.push((name, thread.duration_ticks[at], values));
            }
        }
        Ok(())
    }

    fn accept_frame(&mut self, _: &Arc<FrameSnapshot>) -> Result<(), vor_capture::Error> {
        Ok(())
    }
}

impl Spans {
    fn start() -> Self {
        let spans = Self::default();
        Config::new().sink("spans", spans.clone()).enable();
        spans
    }

    /// Takes the names of the spans so far, in the order in which they ended.
    fn take(&self) -> Vec<String> {
        drain::flush();
        let mut seen = self.0.lock().unwrap();
        assert_eq!(seen.dropped, 0);
        seen.spans.drain(..).map(|(name, ..)| name).collect()
    }
}

static OUTER: CallSite = CallSite::new("outer", "app::ui", "ui.rs", 1);
static INNER: CallSite = CallSite::new("inner", "app::db", "db.rs", 1).with_category("storage");
static ARGS: CallSite = CallSite::new("args", "app::db", "db.rs", 2).with_args(&["n", "text"]);
static PHASE: CallSite = CallSite::new("phase", "app::ui", "ui.rs", 3);
static CPU: CallSite = CallSite::new("cpu", "app::ui", "ui.rs", 4).with_cpu();

fn open_args(made: &AtomicU64) -> Scope<2> {
    open_with(&ARGS, || {
        made.fetch_add(1, Ordering::Relaxed);
        [1_u64.encode(), "some text".encode()]
    })
}

/// Returns recorded, counted and skipped scopes of all sites with this name.
fn numbers(states: &[ScopeState], name: &str) -> [u64; 3] {
    let of_name = states.iter().filter(|state| state.name == name);
    of_name.fold([0; 3], |[recorded, counted, skipped], state| {
        [
            recorded + state.recorded,
            counted + state.counted,
            skipped + state.skipped,
        ]
    })
}

fn numbers_of(name: &str) -> [u64; 3] {
    numbers(&drain::scopes(), name)
}

#[test]
fn each_mode_does_what_it_says() {
    own_process!();
    let spans = Spans::start();
    let made = AtomicU64::new(0);
    // Longer than a tick of a coarse clock.
    let take_time = || {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_micros(5) {}
    };
    let run = || {
        for _ in 0..10 {
            let _outer = open(&OUTER);
            let inner = open(&INNER);
            take_time();
            drop(inner);
            let args = open_args(&made);
            take_time();
            drop(args);
            let named = scope::scope("named");
            take_time();
            drop(named);
            let cpu = open_cpu(&CPU);
            take_time();
            drop(cpu);
        }
        let mut names = spans.take();
        names.sort();
        names.dedup_by(|a, b| a == b);
        (names.join(" "), made.swap(0, Ordering::Relaxed))
    };
    let all = "args cpu inner named outer";
    assert_eq!(run(), (all.to_owned(), 10));
    let cases = [
        ("inner=off", "args cpu named outer", 10),
        ("db::*=off", "cpu named outer", 0),
        ("db::*=count", "cpu named outer", 0),
        ("*=off,named=record", "named", 0),
        ("*=off,cpu=record", "cpu", 0),
        ("cpu=off", "args inner named outer", 10),
        ("named=off", "args cpu inner outer", 10),
        ("n*=count", "args cpu inner outer", 10),
        ("category:storage=off", "args cpu named outer", 10),
        ("file:ui.rs=off", "args inner named", 10),
        ("*=min:60s", "", 10),
        ("*=1/1", all, 10),
        ("*=1/4000000000", "", 0),
        ("thread:no such=off", all, 10),
        ("thread:*=off", "", 0),
        ("thread:*=off,inner=record", "inner", 0),
        ("*=count,thread:*=record", all, 10),
        ("*=off", "", 0),
        ("", all, 10),
    ];
    for (rules, names, args) in cases {
        set_scopes(rules).unwrap();
        assert_eq!(scope_rules(), rules);
        assert_eq!(run(), (names.to_owned(), args), "{rules}");
    }
    let states = drain::scopes();
    // Twice by the first rules of theirs that count, once each by those for everything.
    assert_eq!(numbers(&states, "inner")[1..], [20, 10]);
    assert_eq!(numbers(&states, "named")[1..], [20, 10]);
    assert_eq!(numbers(&states, "outer")[1..], [10, 10]);
    set_scopes("*=min:1ns").unwrap();
    assert_eq!(run(), (all.to_owned(), 10));
}

#[test]
fn bad_rules_change_nothing() {
    own_process!();
    let spans = Spans::start();
    set_scopes("inner=off").unwrap();
    assert!(set_scopes("inner=record,outer=of").unwrap_err().is_config());
    assert_eq!(scope_rules(), "inner=off");
    // One line on stderr.
    Config::new().scopes("outer=of").enable();
    drop(open(&INNER));
    drop(open(&OUTER));
    assert_eq!(spans.take(), ["outer"]);
}

#[test]
fn a_scope_that_is_open_across_a_change_ends_as_it_began() {
    own_process!();
    let spans = Spans::start();
    let modes = [
        "record",
        "count",
        "off",
        "min:60s",
        "min:1ns",
        "1/1",
        "1/4000000000+tree",
    ];
    let (mut recorded, mut counted, mut skipped) = (0, 0, 0);
    for before in modes {
        for after in modes {
            set_scopes(&format!("*={before}")).unwrap();
            let (outer, mut phases) = (open(&OUTER), PhaseChain::begin(&PHASE));
            set_scopes(&format!("*={after}")).unwrap();
            phases.next(&PHASE);
            drop((phases, outer));
            let is_recorded = matches!(before, "record" | "min:1ns" | "1/1");
            recorded += u64::from(is_recorded);
            counted += u64::from(matches!(before, "count" | "min:60s"));
            skipped += u64::from(before.ends_with("tree"));
            let names = spans.take();
            let found = names.iter().filter(|name| *name == "outer").count();
            assert_eq!(found, usize::from(is_recorded), "{before} {after}");
        }
    }
    set_scopes("").unwrap();
    let first = modes.len() as u64;
    let states = drain::scopes();
    // The drain counts by site from the first rules on.
    assert_eq!(numbers(&states, "outer"), [recorded, counted, skipped]);
    // Each chain has a phase of either mode.
    let [recorded, counted, skipped] = numbers(&states, "phase");
    assert!(recorded + counted + skipped >= 2 * first * (first - 1) - 2 * first);
    drop(open(&OUTER));
    assert_eq!(spans.take(), ["outer"]);
    assert_eq!(crate::hot::thread::open_scopes(), []);
}

#[test]
fn a_sample_takes_whole_trees_or_nothing_of_them() {
    own_process!();
    let spans = Spans::start();
    let made = AtomicU64::new(0);
    set_scopes("outer=1/10+tree").unwrap();
    const TREES: u64 = 20_000;
    for _ in 0..TREES {
        let _outer = open(&OUTER);
        drop(open_args(&made));
        let mut phases = PhaseChain::begin(&PHASE);
        phases.next(&PHASE);
        drop(phases);
        let _inner = open(&INNER);
        drop(scope::scope("named"));
        drop(open_cpu(&CPU));
    }
    let names = spans.take();
    let tree = ["args", "phase", "phase", "named", "cpu", "inner", "outer"];
    assert!(names.chunks(tree.len()).all(|chunk| chunk == tree));
    let taken = (names.len() / tree.len()) as u64;
    // Five standard deviations.
    assert!(taken.abs_diff(TREES / 10) < 5 * 43, "{taken}");
    for name in tree {
        let each = if name == "phase" { 2 } else { 1 };
        let [recorded, counted, skipped] = numbers_of(name);
        assert_eq!((recorded, counted), (each * taken, 0), "{name}");
        assert_eq!(recorded + skipped, each * TREES, "{name}");
    }
    // Without `tree`, the scopes inside are recorded.
    set_scopes("outer=1/4000000000").unwrap();
    {
        let _outer = open(&OUTER);
        drop(open(&INNER));
    }
    assert_eq!(spans.take(), ["inner"]);
    // A skipped scope that ends late does not leave the thread skipping.
    set_scopes("outer=1/4000000000+tree").unwrap();
    let around = open(&PHASE);
    let skipped = open(&OUTER);
    drop(open(&INNER));
    drop(around);
    drop(open(&INNER));
    drop(skipped);
    drop(open(&INNER));
    assert_eq!(spans.take(), ["phase", "inner", "inner"]);
}

#[test]
fn only_long_scopes_are_recorded_and_the_sums_have_the_others() {
    own_process!();
    let spans = Spans::start();
    set_scopes("outer=min:2ms").unwrap();
    let mut long = 0;
    for turn in 0..200 {
        let scope = open(&OUTER);
        let begun = Instant::now();
        if turn % 20 == 0 {
            std::thread::sleep(Duration::from_millis(3));
        }
        let is_long = begun.elapsed() >= Duration::from_millis(2);
        drop(scope);
        long += u64::from(is_long);
    }
    let [recorded, counted, _] = numbers_of("outer");
    // A thread that lost its core between the two clocks may make one longer.
    assert!((long..long + 5).contains(&recorded), "{recorded} {long}");
    assert_eq!(recorded + counted, 200);
    let bound = crate::clock::approximate_ticks(2_000_000);
    drain::flush();
    let seen = spans.0.lock().unwrap();
    assert!(seen.spans.iter().all(|(_, ticks, _)| *ticks >= bound));
}

#[test]
fn a_rule_measures_the_scopes_that_it_matches() {
    own_process!();
    let spans = Spans::start();
    set_scopes("inner=cpu").unwrap();
    for _ in 0..8 {
        let _outer = open(&OUTER);
        let _inner = open(&INNER);
        std::thread::sleep(Duration::from_millis(2));
    }
    drain::flush();
    let values = |name: &str| {
        let seen = spans.0.lock().unwrap();
        let found = seen.spans.iter().filter(|(found, ..)| found == name);
        found.map(|found| found.2).collect::<Vec<_>>()
    };
    assert_eq!(values("outer"), [0; 8]);
    let measured = usize::from(crate::clock::cpu::source() != crate::clock::cpu::Source::None);
    let inner = values("inner");
    if vor_fixtures::process::is_emulated() {
        // One of ten spans has no value there.
        assert_eq!(inner.iter().max(), Some(&measured), "{inner:?}");
    } else {
        assert_eq!(inner, [measured; 8]);
    }
}

/// A generator of random numbers, for the order of the flips.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Opens scopes on eight threads while another flips the rules, and checks that each executed scope
/// was recorded, counted or skipped. `is_off_in` tells whether scopes may be off, of which vor
/// counts nothing; then the guards tell.
fn flip(modes: &[&str], is_off_in: bool) {
    const THREADS: usize = 8;
    const FLIPS: u64 = 120;
    let spans = Spans::start();
    let names = ["outer", "inner", "args", "phase", "named"];
    let per_turn = [1, 2, 1, 2, 1];
    // Spans are counted by site from the first rules on.
    set_scopes("*=record").unwrap();
    let nothing: Arc<[AtomicU64; 5]> = Arc::default();
    let flips = AtomicU64::new(0);
    let turns = AtomicU64::new(0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            for flip in 1..=FLIPS {
                let rules: Vec<String> =
                    ["outer", "inner", "a*", "ui::phase", "named", "thread:odd"]
                        .iter()
                        .filter_map(|pattern| {
                            let mode = modes.get(random.below(modes.len() + 1))?;
                            Some(format!("{pattern}={mode}"))
                        })
                        .collect();
                set_scopes(&rules.join(",")).unwrap();
                // The others run between two flips, however few cores there are.
                let seen = turns.load(Ordering::Relaxed);
                while turns.load(Ordering::Relaxed) < seen + 100 {
                    std::thread::yield_now();
                }
                flips.store(flip, Ordering::Relaxed);
            }
        });
        for number in 0..THREADS {
            let nothing = Arc::clone(&nothing);
            let name = if number % 2 == 0 { "even" } else { "odd" };
            let thread = std::thread::Builder::new().name(name.into());
            let (flips, turns) = (&flips, &turns);
            let work = move || {
                let made = AtomicU64::new(0);
                let count = |at: usize, leaves_nothing: bool| {
                    nothing[at].fetch_add(u64::from(leaves_nothing), Ordering::Relaxed);
                };
                while flips.load(Ordering::Relaxed) < FLIPS {
                    let outer = open(&OUTER);
                    count(0, outer.leaves_nothing());
                    for _ in 0..2 {
                        let inner = open(&INNER);
                        count(1, inner.leaves_nothing());
                    }
                    let args = open_args(&made);
                    count(2, args.leaves_nothing());
                    let mut phases = PhaseChain::begin(&PHASE);
                    count(3, phases.leaves_nothing());
                    phases.next(&PHASE);
                    count(3, phases.leaves_nothing());
                    drop(phases);
                    let named = scope::scope("named");
                    count(4, named.leaves_nothing());
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            };
            thread.spawn_scoped(threads, work).unwrap();
        }
    });
    let states = drain::scopes();
    let mut seen: HashMap<String, u64> = HashMap::new();
    for name in spans.take() {
        *seen.entry(name).or_default() += 1;
    }
    for (at, name) in names.into_iter().enumerate() {
        let [recorded, counted, skipped] = numbers(&states, name);
        let nothing = nothing[at].load(Ordering::Relaxed);
        let executed = turns.load(Ordering::Relaxed) * per_turn[at];
        assert_eq!(recorded, seen[name], "{name}");
        assert_eq!(recorded + counted + nothing, executed, "{name}");
        assert!(recorded > 0 && counted > 0 && skipped > 0, "{name}");
        match is_off_in {
            true => assert!(skipped < nothing, "{name}: {skipped} {nothing}"),
            false => assert_eq!(recorded + counted + skipped, executed, "{name}"),
        }
    }
}

#[test]
fn each_scope_is_recorded_or_counted_or_skipped_while_rules_flip() {
    own_process!();
    flip(
        &[
            "record", "count", "min:1us", "min:60s", "1/3", "1/3+tree", "cpu",
        ],
        false,
    );
}

#[test]
fn each_scope_that_is_not_off_is_accounted_for_while_rules_flip() {
    own_process!();
    flip(
        &["record", "count", "off", "min:1us", "1/3", "1/3+tree"],
        true,
    );
}

#[test]
fn rules_for_ten_thousand_sites_choose_theirs() {
    own_process!();
    let _spans = Spans::start();
    let sites: Vec<&'static CallSite> = (0..10_000)
        .map(|number| {
            let name: &'static str = format!("site {number}").leak();
            let module: &'static str = format!("app::module_{}", number % 100).leak();
            &*Box::leak(Box::new(CallSite::new(
                name,
                module,
                "src/module.rs",
                number,
            )))
        })
        .collect();
    sites.iter().for_each(|site| drop(open(site)));
    let rules = "*=record, module_7::*=count, site 12*=off, name:site 99=min:50us, x=1/100";
    set_scopes(rules).unwrap();
    let states = drain::scopes();
    let of = |mode: &str| {
        states
            .iter()
            .filter(|state| state.mode.to_string() == mode)
            .count()
    };
    assert_eq!((of("count"), of("off"), of("min:50us")), (99, 111, 1));
}

#[test]
fn a_scope_over_its_budget_is_counted_and_recorded_again_later() {
    own_process!();
    let spans = Spans::default();
    let config = Config::new().sink("spans", spans.clone());
    config.scope_budget(0.0001).enable();
    let mode = |name: &str| {
        let states = drain::scopes();
        let state = states.iter().find(|state| state.name == name);
        state.map(|state| (state.mode.to_string(), state.over_budget))
    };
    let wait_for = |name: &str, mode_text: &str, busy: bool| {
        let begun = Instant::now();
        let is_over = mode_text == "count";
        while mode(name) != Some((mode_text.to_owned(), is_over)) {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "{:?}",
                mode(name)
            );
            if busy {
                (0..10_000).for_each(|_| drop(open(&INNER)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    drop(open(&OUTER));
    // It takes 2 % of a core at least.
    wait_for("inner", "count", true);
    assert_eq!(mode("outer"), Some(("record".to_owned(), false)));
    spans.take();
    drop(open(&INNER));
    drop(open(&OUTER));
    assert_eq!(spans.take(), ["outer"]);
    wait_for("inner", "record", false);
    drop(open(&INNER));
    assert_eq!(spans.take(), ["inner"]);
    let catalog = drain::catalog().unwrap();
    let modes: Vec<_> = catalog.scope_modes.after(None).collect();
    let texts: Vec<_> = modes.iter().map(|change| change.mode.to_string()).collect();
    assert_eq!(texts, ["count", "record"]);
    assert!(modes[0].ticks < modes[1].ticks);
}
