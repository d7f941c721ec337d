//! Work in nested scopes on several threads, which tests of outputs record.

use vor_recorder::hot::scope;
use vor_recorder::profile_scope;

/// Does the same work on this thread and on others, which are called `worker 1` and so on.
pub(crate) fn on_threads(threads: u64, work: fn() -> u64) {
    std::thread::scope(|others| {
        for i in 1..threads {
            let builder = std::thread::Builder::new().name(format!("worker {i}"));
            builder.spawn_scoped(others, work).unwrap();
        }
        work();
    });
}

/// Opens the scopes inside a turn: one whose name is made at run time, and a recursive one.
pub(crate) fn inside_turn(turn: u64) -> u64 {
    let _named = scope::scope(if turn.is_multiple_of(3) {
        "by \"name\""
    } else {
        "größe"
    });
    descend(turn % 5)
}

fn descend(levels: u64) -> u64 {
    profile_scope!("descend", levels = levels);
    if levels == 0 {
        1
    } else {
        1 + descend(levels - 1)
    }
}
