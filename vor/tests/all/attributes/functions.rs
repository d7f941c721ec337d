//! Functions of every kind keep their signature, their attributes and their meaning.

#![deny(warnings, missing_docs)]
#![allow(
    unsafe_code,
    clippy::boxed_local,
    reason = "attributes accept all functions"
)]

use std::fmt::Display;
use std::ops::Add;
use std::panic::Location;

/// Adds.
#[vor::profile]
#[must_use]
pub fn add<T: Add<Output = T>>(x: T, y: T) -> T {
    x + y
}

#[vor::profile]
unsafe fn read(pointer: *const u8) -> u8 {
    // SAFETY: the caller passes a pointer to a live byte.
    unsafe { *pointer }
}

#[vor::profile]
extern "C" fn callback(x: i32) -> i32 {
    x + 1
}

#[vor::profile]
fn numbers<'a>(text: &'a str, least: u32) -> impl Iterator<Item = u32> + use<'a> {
    text.split(' ')
        .filter_map(|word| word.parse().ok())
        .filter(move |number| *number >= least)
}

#[vor::profile]
fn show(value: impl Display) -> String {
    value.to_string()
}

#[vor::profile]
fn choose(first: bool) -> Box<dyn Display> {
    if first {
        return Box::new(1);
    }
    Box::new("two")
}

#[vor::profile]
fn never(stop: bool) -> ! {
    if stop {
        panic!("stopped");
    }
    loop {
        std::thread::park();
    }
}

#[vor::profile]
#[track_caller]
fn caller() -> u32 {
    Location::caller().line()
}

#[vor::profile]
const fn square(x: u32) -> u32 {
    x * x
}

const NINE: u32 = square(3);

#[vor::profile]
fn items_first() -> usize {
    const LEN: usize = 2;
    macro_rules! twice {
        ($x:expr) => {
            $x * 2
        };
    }
    twice!(LEN)
}

#[vor::profile]
fn inner_attributes() -> u32 {
    #![allow(unused_variables, reason = "an attribute inside the body")]
    let unused = 1;
    2
}

#[vor::profile]
fn early(x: Option<u32>) -> Option<u32> {
    let x = x?;
    if x > 2 {
        return None;
    }
    Some(x)
}

#[vor::profile]
fn r#try() -> u32 {
    3
}

macro_rules! define {
    ($name:ident, $argument:ident) => {
        #[vor::profile(args($argument))]
        fn $name($argument: u32) -> u32 {
            $argument + 1
        }
    };
}

define!(defined, argument);

struct Stack(Vec<u32>);

impl Stack {
    #[vor::profile]
    fn push(&mut self, x: u32) -> &mut Self {
        self.0.push(x);
        self
    }

    #[vor::profile]
    fn into_top(self: Box<Self>) -> Option<u32> {
        self.0.last().copied()
    }
}

impl Iterator for Stack {
    type Item = u32;

    #[vor::profile]
    fn next(&mut self) -> Option<u32> {
        self.0.pop()
    }
}

#[test]
fn functions_keep_their_meaning() {
    assert_eq!(add(1, 2), 3);
    let byte = 7;
    // SAFETY: the byte is alive.
    assert_eq!(unsafe { read(&byte) }, 7);
    let pointer: extern "C" fn(i32) -> i32 = callback;
    assert_eq!(pointer(1), 2);
    assert_eq!(numbers("1 x 3", 2).collect::<Vec<_>>(), [3]);
    assert_eq!(show(1), "1");
    assert_eq!(
        choose(false).to_string() + &choose(true).to_string(),
        "two1"
    );
    let here = line!();
    assert_eq!(caller(), here + 1);
    assert_eq!(NINE, 9);
    assert_eq!(items_first(), 4);
    assert_eq!(inner_attributes(), 2);
    assert_eq!(
        (early(None), early(Some(1)), early(Some(3))),
        (None, Some(1), None)
    );
    assert_eq!(r#try(), 3);
    assert_eq!(defined(1), 2);
    let mut stack = Box::new(Stack(Vec::new()));
    assert_eq!(stack.push(1).push(2).next(), Some(2));
    assert_eq!(stack.into_top(), Some(1));
    let stopped = std::panic::catch_unwind(|| never(true));
    assert_eq!(stopped.unwrap_err().downcast_ref(), Some(&"stopped"));
}
