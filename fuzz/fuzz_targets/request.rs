#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    vor_recorder::sinks::live::check_any_request(bytes);
    vor_recorder::sinks::live::check_any_upgrade(bytes);
});
