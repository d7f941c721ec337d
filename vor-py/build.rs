//! Passes the Python version of the module to the compiler: `cfg(Py_3_12)` is set for that version
//! and later ones. The other versions are set in the same way. maturin does not check the version
//! before it compiles, so an older one is refused here.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "module")]
    {
        let version = pyo3_build_config::get().version;
        if (version.major, version.minor) < (3, 11) {
            println!("cargo::error=vor: Python {version} is not supported; use 3.11 or later");
        }
        pyo3_build_config::use_pyo3_cfgs();
    }
}
