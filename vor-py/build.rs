//! Tells the compiler which Python the module is for: `Py_3_12` and its like are set where it is at
//! least that version.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "module")]
    pyo3_build_config::use_pyo3_cfgs();
}
