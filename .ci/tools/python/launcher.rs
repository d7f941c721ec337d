//! Runs an interpreter in a program that has the runtime of a sanitizer, which the module needs.
//!
//! The arguments are those of Python.

use std::ffi::{CString, c_char, c_int};

unsafe extern "C" {
    fn Py_BytesMain(count: c_int, arguments: *mut *mut c_char) -> c_int;
}

fn main() {
    let arguments = std::env::args_os().map(|argument| {
        let argument = CString::new(argument.into_encoded_bytes());
        argument.expect("an argument has no zero byte").into_raw()
    });
    let mut arguments: Vec<*mut c_char> = arguments.collect();
    let count = arguments.len() as c_int;
    arguments.push(std::ptr::null_mut());
    // SAFETY: The strings end with zero, the array with null, and both live until the process ends.
    std::process::exit(unsafe { Py_BytesMain(count, arguments.as_mut_ptr()) });
}
