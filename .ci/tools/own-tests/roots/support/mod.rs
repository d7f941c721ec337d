//! Recording, in a process that has the variable OWN_TESTS_CAPTURE.

#[ctor::ctor]
fn record() {
    if let Some(path) = std::env::var_os("OWN_TESTS_CAPTURE") {
        vor::Config::new().capture(path).enable();
    }
}
