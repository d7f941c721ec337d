//! Python bindings of vor. The module itself comes with the package `vor`; nothing is bound yet.
