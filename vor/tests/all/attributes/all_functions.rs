//! Impls, traits and modules are measured as a whole, but for what is marked.

#![deny(warnings)]

use std::fmt;
use vor::{all_functions, profile, skip};

struct Frame<T>(Vec<T>);

#[all_functions]
impl<T: Clone> Frame<T> {
    const EMPTY: usize = 0;

    const fn len(&self) -> usize {
        self.0.len()
    }

    fn first(&self) -> Option<T> {
        self.0.first().cloned()
    }

    #[skip]
    fn is_empty(&self) -> bool {
        self.len() == Self::EMPTY
    }

    #[profile(name = "frame/push", args(count = self.0.len()))]
    fn push(&mut self, value: T) {
        self.0.push(value);
    }

    #[cfg_attr(unix, vor::skip)]
    #[cfg_attr(not(unix), inline)]
    fn unmeasured_on_unix(&self) -> usize {
        1
    }

    #[cfg_attr(any(), vor::skip)]
    fn measured(&self) -> usize {
        2
    }
}

#[all_functions(category = "text", color = 0x123456)]
impl<T: fmt::Debug> fmt::Display for Frame<T> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:?}", self.0)
    }
}

#[all_functions]
trait Source {
    fn read(&self) -> u32;

    fn read_twice(&self) -> u32 {
        self.read() * 2
    }
}

#[all_functions]
impl Source for &[u32] {
    fn read(&self) -> u32 {
        self.iter().sum()
    }
}

#[all_functions]
mod geometry {
    pub struct Square(pub u32);

    impl Square {
        pub fn area(&self) -> u32 {
            self.0 * sides::count() / 4 * self.0
        }
    }

    mod sides {
        pub fn count() -> u32 {
            four()
        }

        const fn four() -> u32 {
            4
        }
    }

    pub async fn later() -> u32 {
        1
    }
}

#[test]
fn functions_of_items_are_measured() {
    let mut frame = Frame(Vec::new());
    assert!(frame.is_empty());
    frame.push(1);
    assert_eq!(frame.first(), Some(1));
    assert_eq!(frame.unmeasured_on_unix() + frame.measured(), 3);
    assert_eq!(frame.to_string(), "[1]");
    assert_eq!([1, 2].as_slice().read_twice(), 6);
    assert_eq!(geometry::Square(2).area(), 4);
    let _unpolled = geometry::later();
}
