//! Tests of shipping, against folders and stores that fail.

/// Ends the process at the point that the environment names, as a SIGKILL would.
pub(super) fn crash_point() {}
