//! The time in which a file has not grown: long enough, and its writer may be gone.

use std::time::{Duration, Instant};

/// How long no data may arrive before the state of the recorder is checked.
const QUIET: Duration = Duration::from_secs(1);

/// Measures how long a file has not grown.
#[derive(Debug)]
pub(crate) struct Quiet {
    since: Instant,
}

impl Quiet {
    pub(crate) fn begin(now: Instant) -> Self {
        Self { since: now }
    }

    /// Takes what the last look at the file has shown. Returns whether the state of the recorder is
    /// to be checked, which begins the time anew.
    pub(crate) fn look(&mut self, has_grown: bool, now: Instant) -> bool {
        let is_over = !has_grown && now.duration_since(self.since) >= QUIET;
        if has_grown || is_over {
            self.since = now;
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_has_not_grown_for_a_second_is_quiet_each_second() {
        let begin = Instant::now();
        let mut quiet = Quiet::begin(begin);
        let mut look = |has_grown, ms| quiet.look(has_grown, begin + Duration::from_millis(ms));
        assert!(!look(false, 0) && !look(false, 999) && look(false, 1000));
        assert!(!look(false, 1001) && !look(false, 1999) && look(false, 2001));
        assert!(!look(true, 3500) && !look(false, 4499) && look(false, 4500));
    }
}
