//! vor
