//! Arguments of scopes.

/// Longest text of an argument or message that is kept, in bytes; the rest is cut at a character boundary.
pub const MAX_STR_BYTES: usize = 400;
