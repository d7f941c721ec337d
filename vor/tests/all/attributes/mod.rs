//! Items that the attributes accept. They compile without a warning, and keep their meaning.

mod all_functions;
mod functions;
mod futures;
mod options;
