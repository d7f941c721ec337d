#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vor_fixtures::any_input::pieces(bytes));
