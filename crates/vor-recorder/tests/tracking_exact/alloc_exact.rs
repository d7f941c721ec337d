//! The scopes that allocated the live heap, of every object.

#![cfg(not(feature = "off"))]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::cell::RefCell;
use std::hint::black_box;

use vor_capture::model::heap::{HeapMode, HeapSnapshot};
use vor_fixtures::own_process;
#[cfg(unix)]
use vor_fixtures::process::{child, role, run};
#[cfg(unix)]
use vor_fixtures::test_name;
use vor_recorder::allocations::untracked;
use vor_recorder::heap::heap_snapshot;
use vor_recorder::hot::scope::scope;
use vor_recorder::setup::Config;
use vor_recorder::{profile_phase, profile_scope};

/// Returns the live objects and bytes of the scopes with this name and of the scopes within.
fn in_use(name: &str) -> (u64, u64) {
    in_use_of(&heap_snapshot(), name)
}

fn in_use_of(snapshot: &HeapSnapshot, name: &str) -> (u64, u64) {
    assert_eq!(snapshot.mode, HeapMode::Exact);
    let within = snapshot
        .stacks
        .iter()
        .filter(|stack| stack.scopes.iter().any(|scope| scope.info.name == name));
    within.fold((0, 0), |(objects, bytes), stack| {
        assert_eq!(
            stack.bytes_interval(),
            stack.inuse_bytes..=stack.inuse_bytes
        );
        (objects + stack.inuse_objects, bytes + stack.inuse_bytes)
    })
}

#[test]
fn a_leak_is_found_in_the_stack_that_allocated_it() {
    own_process!();
    Config::new().enable();
    let before = heap_snapshot();
    {
        profile_scope!("request of the leak");
        profile_scope!("parse of the leak");
        drop(black_box(vec![1_u8; 5000]));
        std::mem::forget(black_box(vec![1_u8; 777]));
        std::mem::forget(black_box(Box::new(1_u64)));
    }
    let after = heap_snapshot();
    let changes = after.difference(&before);
    let leak = changes
        .iter()
        .find(|change| {
            change
                .scopes
                .last()
                .is_some_and(|scope| scope.info.name == "parse of the leak")
        })
        .unwrap();
    assert_eq!(
        (leak.inuse_objects, leak.inuse_bytes, leak.bytes_error),
        (2, 785, 0.0)
    );
    let names: Vec<_> = leak.scopes.iter().map(|scope| &*scope.info.name).collect();
    assert_eq!(names, ["request of the leak", "parse of the leak"]);
    assert!(leak.scopes[1].info.file.ends_with("alloc_exact.rs"));
    // The reverse difference has the freed objects.
    let gone = before.difference(&after);
    let gone = gone
        .iter()
        .find(|change| change.scopes == leak.scopes)
        .unwrap();
    assert_eq!((gone.inuse_objects, gone.inuse_bytes), (-2, -785));
}

#[test]
fn live_bytes_do_not_drift_when_vectors_grow() {
    own_process!();
    Config::new().enable();
    let mut aligned: Vec<u128> = Vec::new();
    let mut plain: Vec<u8> = Vec::new();
    for i in 0..100_000_u64 {
        profile_scope!("growing");
        aligned.push(u128::from(i));
        plain.push(i as u8);
        if i.is_multiple_of(1000) {
            plain.shrink_to_fit();
        }
    }
    assert!(
        aligned
            .iter()
            .enumerate()
            .all(|(i, value)| *value == i as u128)
    );
    assert_eq!(
        in_use("growing"),
        (2, (aligned.capacity() * 16 + plain.capacity()) as u64)
    );
    drop((aligned, plain));
    assert_eq!(in_use("growing"), (0, 0));
}

#[test]
fn an_object_belongs_to_its_allocating_scope_wherever_it_is_freed() {
    own_process!();
    Config::new().enable();
    let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<u8>>(0);
    let maker = std::thread::spawn(move || {
        for i in 0..100 {
            profile_scope!("maker");
            let object = vec![0_u8; 1000 + i];
            sender.send(object).unwrap();
        }
    });
    let kept: Vec<Vec<u8>> = receiver
        .iter()
        .enumerate()
        .filter(|(i, _)| i % 4 == 0)
        .map(|(_, object)| object)
        .collect();
    maker.join().unwrap();
    let bytes = kept.iter().map(|object| object.len() as u64).sum::<u64>();
    // The channel's own objects are freed with it.
    drop(receiver);
    let (objects, in_use_bytes) = in_use("maker");
    assert_eq!((objects, in_use_bytes), (25, bytes));
    std::thread::spawn(move || drop(kept)).join().unwrap();
    assert_eq!(in_use("maker"), (0, 0));
}

#[test]
fn phases_deep_stacks_and_closed_scopes_are_distinguished() {
    own_process!();
    Config::new().enable();
    let mut kept = Vec::with_capacity(1000);
    {
        profile_scope!("around the phases");
        let mut phases = profile_phase!("first phase");
        kept.push(vec![0_u8; 100]);
        profile_phase!(phases, "second phase");
        kept.push(vec![0_u8; 200]);
        {
            profile_scope!("in the second phase");
            kept.push(vec![0_u8; 300]);
        }
        kept.push(vec![0_u8; 400]);
        profile_phase!(phases, "first phase");
        kept.push(vec![0_u8; 500]);
        drop(phases);
        kept.push(vec![0_u8; 600]);
    }
    assert_eq!(in_use("first phase"), (2, 600));
    assert_eq!(in_use("second phase"), (3, 900));
    assert_eq!(in_use("in the second phase"), (1, 300));
    assert_eq!(in_use("around the phases"), (6, 2100));
    let deep: Vec<_> = (0..200)
        .map(|i| {
            scope(if i == 127 {
                "the last that is kept"
            } else {
                "deep"
            })
        })
        .collect();
    // The guards' vector was allocated in scopes as well.
    let (objects, bytes) = in_use("the last that is kept");
    kept.push(vec![0_u8; 700]);
    assert_eq!(in_use("the last that is kept"), (objects + 1, bytes + 700));
    drop(deep);
    // Scopes closed in another order than they were opened in.
    let outer = scope("closed first");
    let inner = scope("closed last");
    drop(outer);
    kept.push(vec![0_u8; 800]);
    drop(inner);
    assert_eq!((in_use("closed first").0, in_use("closed last").0), (0, 0));
}

#[test]
fn untracked_objects_and_those_outside_of_scopes_belong_to_no_scope() {
    own_process!();
    Config::new().enable();
    let (kept, freed) = {
        profile_scope!("partly untracked");
        let tracked = vec![0_u8; 1100];
        let kept = untracked(|| vec![0_u8; 1200]);
        (kept, tracked)
    };
    assert_eq!(in_use("partly untracked"), (1, 1100));
    // A tracked object is removed wherever it is freed.
    untracked(|| drop(freed));
    assert_eq!(in_use("partly untracked"), (0, 0));
    drop(kept);
    assert_eq!(in_use("partly untracked"), (0, 0));
}

thread_local! {
    static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
}

/// Allocates and frees when its thread ends.
struct Late(Vec<u8>);

impl Drop for Late {
    fn drop(&mut self) {
        std::mem::forget(black_box(vec![0_u8; self.0.len() + 1]));
        drop(black_box(vec![0_u8; 50]));
    }
}

/// Freed after the thread's counters are gone.
#[cfg(unix)]
static VERY_LATE: std::sync::Mutex<Vec<Vec<u8>>> = std::sync::Mutex::new(Vec::new());

#[cfg(unix)]
extern "C" fn very_late(_: *mut std::ffi::c_void) {
    drop(VERY_LATE.lock().unwrap().pop());
    std::mem::forget(black_box(vec![0_u8; 60]));
    drop(black_box(vec![0_u8; 50]));
}

#[test]
fn threads_leave_their_objects_to_the_process_and_destructors_free_them() {
    own_process!();
    Config::new().enable();
    for _ in 0..50 {
        let work = || {
            profile_scope!("ended thread");
            std::mem::forget(black_box(Box::new([0_u8; 40])));
            LATE.set(Some(Late(vec![0_u8; 2000])));
            #[cfg(unix)]
            {
                let object = vec![0_u8; 3000];
                untracked(|| VERY_LATE.lock().unwrap().push(object));
                vor_fixtures::late::at_the_very_end(very_late);
            }
        };
        std::thread::spawn(work).join().unwrap();
    }
    assert_eq!(in_use("ended thread"), (50, 50 * 40));
}

#[cfg(unix)]
#[test]
fn a_forks_child_goes_on() {
    own_process!();
    Config::new().enable();
    let kept: Vec<Vec<u8>> = (0..50)
        .map(|i| {
            profile_scope!("before the fork");
            vec![0_u8; 100 + i]
        })
        .collect();
    let expected = in_use("before the fork");
    assert!(expected.0 >= 50);
    crate::alloc_fork::torture(40, || assert_eq!(in_use("before the fork"), expected));
    drop(kept);
}

/// Allocates at the very end of a process: in destructors of thread-locals of its first thread, and
/// after them.
#[cfg(unix)]
#[test]
#[expect(unsafe_code, reason = "exit handlers belong to the C library")]
fn allocations_at_exit_work() {
    extern "C" fn at_exit() {
        let all: Vec<Box<usize>> = (0..1000).map(Box::new).collect();
        assert_eq!(black_box(all).len(), 1000);
    }
    if role().is_some() {
        LATE.set(Some(Late(vec![0_u8; 3000])));
        // SAFETY: the handler does not unwind in a test that passes, and lives as long as the
        // program.
        unsafe { libc::atexit(at_exit) };
        std::process::exit(7);
    }
    let output = run(&mut child(test_name!(), "exits"));
    assert_eq!(output.status.code(), Some(7), "{output:?}");
}
