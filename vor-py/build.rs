//! Passes the Python version of the module to the compiler: `cfg(Py_3_12)` is set for that version
//! and later ones. The other versions are set in the same way.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "module")]
    pyo3_build_config::use_pyo3_cfgs();
}
