//! Other profilers while they record, in the same run.

use vor_benches::clock::two_ticks;
use vor_benches::peers::{self, PERFETTO, PUFFIN, PUFFIN_AND_TRACING};
use vor_benches::rounds::{Loop, contest, keep_quiet};

use crate::Options;
use crate::hot::{empty, two_args};
use crate::table::{Table, Target};

const ROUNDS: usize = 401;
const SCOPES: u32 = 500;

/// Measures each peer's scope against ours and the floor.
pub fn measure(_: &Options, table: &mut Table) {
    // Puffin's scopes are on for puffin, which must not get ours as well.
    vor::Config::new().puffin(false).enable();
    let peers = peers::start();
    let discard = || {
        vor::flush();
        peers.iter().for_each(|peer| (peer.discard)());
    };
    for (kind, ours) in [("empty", empty as fn(u32)), ("2 integers", two_args)] {
        let mut contestants: Vec<Loop<'_>> = vec![Box::new(two_ticks), Box::new(ours)];
        for peer in &peers {
            contestants.push(Box::new(if kind == "empty" {
                peer.empty
            } else {
                peer.two_args
            }));
        }
        let mut times = contest(ROUNDS, SCOPES, &mut contestants, 4, &mut { discard });
        keep_quiet(&mut times);
        for peer in &peers {
            (peer.discard)();
            if !(peer.has_recorded)() {
                table.not_measured(peer.name, "it has recorded nothing");
            }
        }
        for (peer, theirs) in peers.iter().zip(&times[2..]) {
            let least = match peer.name {
                PUFFIN | PUFFIN_AND_TRACING => 3.0,
                PERFETTO if !cfg!(feature = "peers-fastant") => 3.0,
                PERFETTO if kind == "empty" => 1.1,
                PERFETTO => 1.3,
                _ => 1.0,
            };
            let note = format!(
                "{:.1} ns, {:.2} x the floor; its data: {}",
                theirs.median_ns(),
                theirs.ratio_to(&times[0]),
                peer.data
            );
            let question = format!("{} / vor, {kind}", peer.name);
            table.add_noted(
                question,
                Target::AtLeast(least),
                theirs.ratio_to(&times[1]),
                "x",
                note,
            );
        }
    }
    let peer = peers::perfetto_with_room();
    let mut contestants: [Loop<'_>; 4] = [
        Box::new(empty),
        Box::new(peer.empty),
        Box::new(two_args),
        Box::new(peer.two_args),
    ];
    let discard = || {
        vor::flush();
        (peer.discard)();
    };
    discard();
    let times = contest(ROUNDS, SCOPES, &mut contestants, 4, &mut { discard });
    for (kind, ours, theirs) in [
        ("empty", &times[0], &times[1]),
        ("2 integers", &times[2], &times[3]),
    ] {
        let note = format!("{:.1} ns", theirs.median_ns());
        let question = format!("{} / vor, {kind}", peer.name);
        table.add_noted(question, Target::None, theirs.ratio_to(ours), "x", note);
    }
    vor::disable();
}

/// Measures a `tracing` span. `tracing` says for the rest of the process that a subscriber wants
/// everything, so each scope of vor would be one of its spans.
pub fn measure_tracing(_: &Options, table: &mut Table) {
    peers::with_tracing_chrome(|peer| {
        let mut contestants: [Loop<'_>; 3] = [
            Box::new(two_ticks),
            Box::new(peer.empty),
            Box::new(peer.two_args),
        ];
        let times = contest(
            ROUNDS / 10,
            SCOPES,
            &mut contestants,
            usize::MAX,
            &mut || {},
        );
        for (kind, theirs) in [("empty", &times[1]), ("2 integers", &times[2])] {
            let question = format!("{} / two clock reads, {kind}", peer.name);
            table.add(question, Target::None, theirs.ratio_to(&times[0]), "x");
        }
    });
}
