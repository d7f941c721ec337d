//! callsite
