//! From ticks to wall-clock time, for readers of a recording.

/// One point at which the tick counter was compared with the wall clock.
///
/// From its tick on, until the next one's, time runs as `unix_ns + (ticks - self.ticks) * rate /
/// 2^40`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSync {
    /// The tick at which this point takes effect.
    pub ticks: u64,
    /// The time assigned to that tick, in nanoseconds since 1970. It continues the previous point's
    /// line without a step.
    pub unix_ns: i64,
    /// Nanoseconds per tick, in units of 2^-40.
    pub rate: u64,
    /// Reading of the system's wall clock at that tick; the difference to `unix_ns` is the error
    /// being corrected.
    pub wall_ns: i64,
}

impl ClockSync {
    /// Returns the wall-clock time that this point alone assigns to a tick, in nanoseconds since
    /// 1970.
    #[must_use]
    pub fn unix_ns_at(&self, ticks: u64) -> i64 {
        let delta = i128::from(ticks) - i128::from(self.ticks);
        // Both factors may have 64 bits in a damaged capture; the product saturates, and so does
        // the sum.
        let elapsed = delta.saturating_mul(i128::from(self.rate)) >> RATE_BITS;
        let ns = i128::from(self.unix_ns) + elapsed;
        i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
    }
}

/// Readings of the clocks of Linux at a tick. They put recordings of other programs on the same
/// machine on the same time axis.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockSnapshot {
    /// The tick.
    pub ticks: u64,
    /// `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: i64,
    /// `CLOCK_BOOTTIME`, in nanoseconds.
    pub boottime_ns: i64,
}

/// Fraction bits of [`ClockSync::rate`].
pub const RATE_BITS: u32 = 40;

/// A continuous, monotonic map from ticks to wall-clock time: straight lines between [`ClockSync`]
/// points.
///
/// A tick is always mapped by the point at or before it, so later points do not change the result:
/// a live sink and a reader of the capture agree to the nanosecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    syncs: Vec<ClockSync>,
}

impl Timeline {
    /// Adds a point. A point at an earlier or the same tick than the last is ignored and `false`
    /// returned.
    pub fn push(&mut self, sync: ClockSync) -> bool {
        if self
            .syncs
            .last()
            .is_some_and(|last| sync.ticks <= last.ticks)
        {
            return false;
        }
        self.syncs.push(sync);
        true
    }

    /// Removes every other point of the older half but the first, so that a run of months has
    /// bounded memory. The points that stay get the rate that leads to the next one, so times in
    /// between change by little: as much as the rate of the clock did.
    pub fn thin(&mut self) {
        let old = self.syncs.len() / 2;
        let mut at = 0;
        self.syncs.retain(|_| {
            at += 1;
            at % 2 == 1 || at > old
        });
        let old = old.div_ceil(2).min(self.syncs.len().saturating_sub(1));
        for at in 0..old {
            let (sync, next) = (self.syncs[at], self.syncs[at + 1]);
            let ticks = i128::from(next.ticks) - i128::from(sync.ticks);
            let ns = i128::from(next.unix_ns) - i128::from(sync.unix_ns);
            let rate = (ns << RATE_BITS).checked_div(ticks).unwrap_or_default();
            if let Ok(rate) = u64::try_from(rate) {
                self.syncs[at].rate = rate;
            }
        }
    }

    /// Returns the points, ascending by tick.
    #[must_use]
    pub fn syncs(&self) -> &[ClockSync] {
        &self.syncs
    }

    /// Returns the wall-clock time of a tick, in nanoseconds since 1970. An empty timeline takes
    /// ticks for nanoseconds.
    #[must_use]
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        let sync = match self.syncs.last() {
            None => return i64::try_from(ticks).unwrap_or(i64::MAX),
            Some(last) if ticks >= last.ticks => last,
            Some(_) => {
                let after = self.syncs.partition_point(|sync| sync.ticks <= ticks);
                &self.syncs[after.saturating_sub(1)]
            }
        };
        sync.unix_ns_at(ticks)
    }

    /// Returns the duration in nanoseconds of a span that starts at `start_ticks` and lasts
    /// `duration_ticks`: the difference of its mapped ends.
    #[must_use]
    pub fn duration_ns(&self, start_ticks: u64, duration_ticks: u64) -> u64 {
        let end = start_ticks.saturating_add(duration_ticks);
        u64::try_from(i128::from(self.unix_ns(end)) - i128::from(self.unix_ns(start_ticks)))
            .unwrap_or(0)
    }
}

/// Most ticks behind a point that are mapped without a search for another one: over a year of any
/// counter.
const MAPPED_TICKS: u64 = 1 << 56;

/// Maps many ticks that are near one another: it caches the point that it used last.
#[derive(Clone, Copy, Debug)]
pub struct TickMapper<'a> {
    timeline: &'a Timeline,
    /// The current point, and the ticks that it maps.
    sync: ClockSync,
    from: u64,
    to: u64,
}

impl<'a> TickMapper<'a> {
    /// Makes a mapper that agrees with `timeline` for every tick.
    #[must_use]
    pub fn new(timeline: &'a Timeline) -> Self {
        Self {
            timeline,
            sync: ClockSync::default(),
            from: 1,
            to: 0,
        }
    }

    /// Like [`Timeline::unix_ns`].
    #[inline]
    #[must_use]
    pub fn unix_ns(&mut self, ticks: u64) -> i64 {
        if ticks < self.from || ticks > self.to {
            return self.unix_ns_slow(ticks);
        }
        let elapsed = (u128::from(ticks - self.from) * u128::from(self.sync.rate)) >> RATE_BITS;
        // Both ends of the range fit, so what lies between does.
        self.sync.unix_ns + elapsed as i64
    }

    #[cold]
    fn unix_ns_slow(&mut self, ticks: u64) -> i64 {
        let after = self
            .timeline
            .syncs
            .partition_point(|sync| sync.ticks <= ticks);
        if let Some(sync) = after
            .checked_sub(1)
            .and_then(|at| self.timeline.syncs.get(at))
        {
            let next = self
                .timeline
                .syncs
                .get(after)
                .map_or(u64::MAX, |next| next.ticks - 1);
            let to = next.min(sync.ticks.saturating_add(MAPPED_TICKS));
            // Where the end of the range does not fit an `i64`, each tick is mapped by itself.
            if sync.unix_ns_at(to) < i64::MAX {
                (self.sync, self.from, self.to) = (*sync, sync.ticks, to);
            }
        }
        self.timeline.unix_ns(ticks)
    }
}
