//! One macro that makes a channel of any kind.

/// The kinds of channels, with one set of names for their constructors.
pub mod of {
    /// The channels of the standard library.
    pub mod std {
        pub use crate::locks::channel::{
            named, named_with_flows, sync_named as bounded_named,
            sync_named_with_flows as bounded_named_with_flows,
        };
    }

    #[cfg(feature = "crossbeam")]
    pub use crate::locks::channel::crossbeam;
    #[cfg(feature = "flume")]
    pub use crate::locks::channel::flume;

    /// The channels of `tokio::sync::mpsc`.
    #[cfg(feature = "tokio")]
    pub mod tokio {
        pub use crate::locks::tokio::mpsc::{
            named as bounded_named, named_with_flows as bounded_named_with_flows,
            unbounded_named as named, unbounded_named_with_flows as named_with_flows,
        };
    }
}

/// Makes a channel with a name: `channel!("jobs")`, or `channel!("jobs", 64)` with room for 64
/// messages.
///
/// With `flows`, an arrow points from the scope that sends a message to the one that receives it.
/// With `of = crossbeam`, `of = flume` or `of = tokio`, it is a channel of that crate, which needs
/// the feature of that name; without, it is one of the standard library.
///
/// # Examples
///
/// ```
/// # mod vor { pub mod sync { pub use vor_recorder::__vor_channel as channel; } }
/// let (sender, receiver) = vor::sync::channel!("jobs");
/// sender.send(1).unwrap();
/// assert_eq!(receiver.recv(), Ok(1));
///
/// let (sender, receiver) = vor::sync::channel!("images", 64, flows);
/// sender.send("a").unwrap();
/// assert_eq!(receiver.recv(), Ok("a"));
/// # #[cfg(feature = "crossbeam")] {
///
/// let (sender, receiver) = vor::sync::channel!("pages", flows, of = crossbeam);
/// sender.send(1).unwrap();
/// assert_eq!(receiver.clone().recv(), Ok(1));
/// # }
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! __vor_channel {
    ($name:expr) => {
        $crate::__vor_channel!($name, of = std)
    };
    ($name:expr, flows) => {
        $crate::__vor_channel!($name, flows, of = std)
    };
    ($name:expr, of = $kind:ident) => {
        $crate::locks::channel::make::of::$kind::named($name)
    };
    ($name:expr, flows, of = $kind:ident) => {
        $crate::locks::channel::make::of::$kind::named_with_flows($name)
    };
    ($name:expr, $bound:expr) => {
        $crate::__vor_channel!($name, $bound, of = std)
    };
    ($name:expr, $bound:expr, flows) => {
        $crate::__vor_channel!($name, $bound, flows, of = std)
    };
    ($name:expr, $bound:expr, of = $kind:ident) => {
        $crate::locks::channel::make::of::$kind::bounded_named($name, $bound)
    };
    ($name:expr, $bound:expr, flows, of = $kind:ident) => {
        $crate::locks::channel::make::of::$kind::bounded_named_with_flows($name, $bound)
    };
}
