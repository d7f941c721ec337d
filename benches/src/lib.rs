//! Code that the benches share: the bare clock, interleaved rounds, contestants in processes, work
//! of known shape, captures, and the system's values of the process.

pub mod arguments;
pub mod captures;
pub mod clock;
pub mod contestants;
#[cfg(feature = "peers")]
pub mod peers;
pub mod process;
pub mod rounds;
pub mod spans;
pub mod work;
