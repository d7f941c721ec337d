//! Attribute macros of vor.
