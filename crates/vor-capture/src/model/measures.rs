//! Measures of a span beside its duration: CPU time and allocations.
//!
//! The set of measures is a property of the call site as recorded ([`Measures`]): a site that is
//! recorded with measures is another entry in the catalog than the same site without them. The
//! values are the last arguments of a span, under names that are reserved here, so everything that
//! shows or exports arguments shows them too. A span whose values are all 0 carries none of them:
//! most spans are never interrupted and allocate nothing, and cost nothing.
//!
//! All values include those of the spans inside, as durations do.

use std::ops::BitOr;

use super::batch::ArgValue;
use super::catalog::SiteInfo;

/// Nanoseconds that the thread did not run during the span: its duration less its CPU time.
pub const OFF_CPU_NS: &str = "off_cpu_ns";
/// Nanoseconds of CPU time in user mode, where the split is on.
pub const CPU_USER_NS: &str = "cpu_user_ns";
/// Nanoseconds of CPU time in the kernel, where the split is on.
pub const CPU_SYS_NS: &str = "cpu_sys_ns";
/// Nanoseconds of the off-CPU time in which the thread was runnable and had no processor.
pub const RUN_QUEUE_NS: &str = "run_queue_ns";
/// How often the thread got a processor again, after it was blocked or another thread ran.
pub const CONTEXT_SWITCHES: &str = "context_switches";
/// Number of allocations.
pub const ALLOC_OBJECTS: &str = "alloc_objects";
/// Bytes of them, as requested.
pub const ALLOC_BYTES: &str = "alloc_bytes";
/// Number of frees, whichever scope allocated.
pub const FREE_OBJECTS: &str = "free_objects";
/// Bytes of them.
pub const FREE_BYTES: &str = "free_bytes";

/// The measures of the spans of a call site.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Measures(u8);

impl Measures {
    /// Nothing but the duration.
    pub const NONE: Self = Self(0);
    /// CPU time: [`OFF_CPU_NS`].
    pub const CPU: Self = Self(1);
    /// CPU time in user mode and in the kernel: [`CPU_USER_NS`], [`CPU_SYS_NS`].
    pub const CPU_SPLIT: Self = Self(2);
    /// Allocations: [`ALLOC_OBJECTS`], [`ALLOC_BYTES`], [`FREE_OBJECTS`], [`FREE_BYTES`].
    pub const ALLOC: Self = Self(4);
    /// The wait for a processor: [`RUN_QUEUE_NS`]. It goes with [`CPU`](Self::CPU).
    pub const WAIT: Self = Self(8);
    /// Switches between threads: [`CONTEXT_SWITCHES`]. It goes with [`WAIT`](Self::WAIT).
    pub const SWITCHES: Self = Self(16);
    /// All that a thread waited for: [`CPU`](Self::CPU), [`WAIT`](Self::WAIT) and
    /// [`SWITCHES`](Self::SWITCHES).
    pub const WAITS: Self = Self(1 | 8 | 16);

    /// Returns whether all of `other` is measured.
    #[inline]
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether nothing but the duration is measured.
    #[inline]
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Returns the measures of both.
    #[inline]
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns these without `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns the measures as bits, for an atomic or a table.
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// Returns the measures of [`bits`](Self::bits).
    #[doc(hidden)]
    #[inline]
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits & 31)
    }

    /// Returns the names under which the values are recorded, in their order.
    #[inline]
    pub fn arg_names(self) -> impl Iterator<Item = &'static str> {
        let groups: [(Self, &[&str]); 5] = [
            (Self::CPU, &[OFF_CPU_NS]),
            (Self::CPU_SPLIT, &[CPU_USER_NS, CPU_SYS_NS]),
            (
                Self::ALLOC,
                &[ALLOC_OBJECTS, ALLOC_BYTES, FREE_OBJECTS, FREE_BYTES],
            ),
            (Self::WAIT, &[RUN_QUEUE_NS]),
            (Self::SWITCHES, &[CONTEXT_SWITCHES]),
        ];
        groups
            .into_iter()
            .filter(move |(group, _)| self.has(*group))
            .flat_map(|(_, names)| names.iter().copied())
    }

    /// Returns what is measured at a call site, by the names of its arguments.
    #[must_use]
    pub fn of(site: &SiteInfo) -> Self {
        let has = |name: &str| site.arg_names.iter().any(|arg| arg == name);
        let mut measures = Self::NONE;
        for (group, name) in [
            (Self::CPU, OFF_CPU_NS),
            (Self::CPU_SPLIT, CPU_USER_NS),
            (Self::ALLOC, ALLOC_BYTES),
            (Self::WAIT, RUN_QUEUE_NS),
            (Self::SWITCHES, CONTEXT_SWITCHES),
        ] {
            if has(name) {
                measures = measures.union(group);
            }
        }
        measures
    }
}

impl BitOr for Measures {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        self.union(other)
    }
}

/// The measured values of one span, 0 where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// See [`OFF_CPU_NS`].
    pub off_cpu_ns: u64,
    /// See [`CPU_USER_NS`].
    pub cpu_user_ns: u64,
    /// See [`CPU_SYS_NS`].
    pub cpu_sys_ns: u64,
    /// See [`ALLOC_OBJECTS`].
    pub alloc_objects: u64,
    /// See [`ALLOC_BYTES`].
    pub alloc_bytes: u64,
    /// See [`FREE_OBJECTS`].
    pub free_objects: u64,
    /// See [`FREE_BYTES`].
    pub free_bytes: u64,
    /// See [`RUN_QUEUE_NS`].
    pub run_queue_ns: u64,
    /// See [`CONTEXT_SWITCHES`].
    pub context_switches: u64,
}

impl Measured {
    /// Reads the values of a span of `site` from its arguments.
    #[must_use]
    pub fn of(site: &SiteInfo, args: &[ArgValue]) -> Self {
        let mut measured = Self::default();
        for (name, value) in site.arg_names.iter().zip(args) {
            if let (Some(field), &ArgValue::U64(value)) = (measured.field(name), value) {
                *field = value;
            }
        }
        measured
    }

    fn field(&mut self, name: &str) -> Option<&mut u64> {
        Some(match name {
            OFF_CPU_NS => &mut self.off_cpu_ns,
            CPU_USER_NS => &mut self.cpu_user_ns,
            CPU_SYS_NS => &mut self.cpu_sys_ns,
            ALLOC_OBJECTS => &mut self.alloc_objects,
            ALLOC_BYTES => &mut self.alloc_bytes,
            FREE_OBJECTS => &mut self.free_objects,
            FREE_BYTES => &mut self.free_bytes,
            RUN_QUEUE_NS => &mut self.run_queue_ns,
            CONTEXT_SWITCHES => &mut self.context_switches,
            _ => return None,
        })
    }

    /// Divides the time off the CPU, or `off_cpu_ns` where that is clipped, into that in which the
    /// thread was runnable and that in which it was blocked, all in nanoseconds.
    #[must_use]
    pub fn queued_and_blocked_ns(&self, off_cpu_ns: u64) -> [u64; 2] {
        let queued_ns = self.run_queue_ns.min(off_cpu_ns);
        [queued_ns, off_cpu_ns - queued_ns]
    }

    /// Returns the sum of both, or the largest number there is.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Weight::plus(self, other)
    }

    /// Returns these without `other`, at least 0: the values of a span without the spans inside.
    #[must_use]
    pub fn less(self, other: Self) -> Self {
        Weight::less(self, other)
    }
}

/// Numbers of a span that include those of the spans inside: its duration, or its measured values.
pub(crate) trait Weight: Copy + Default {
    /// Combines each number with the one in its place.
    #[must_use]
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self;

    /// Returns the sum of both, or the largest number there is.
    #[must_use]
    #[inline]
    fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// Returns it without `other`, at least 0.
    #[must_use]
    #[inline]
    fn less(self, other: Self) -> Self {
        self.each(other, u64::saturating_sub)
    }
}

impl Weight for u64 {
    #[inline]
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        with(self, other)
    }
}

impl Weight for Measured {
    fn each(self, other: Self, with: impl Fn(u64, u64) -> u64) -> Self {
        Self {
            off_cpu_ns: with(self.off_cpu_ns, other.off_cpu_ns),
            cpu_user_ns: with(self.cpu_user_ns, other.cpu_user_ns),
            cpu_sys_ns: with(self.cpu_sys_ns, other.cpu_sys_ns),
            alloc_objects: with(self.alloc_objects, other.alloc_objects),
            alloc_bytes: with(self.alloc_bytes, other.alloc_bytes),
            free_objects: with(self.free_objects, other.free_objects),
            free_bytes: with(self.free_bytes, other.free_bytes),
            run_queue_ns: with(self.run_queue_ns, other.run_queue_ns),
            context_switches: with(self.context_switches, other.context_switches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_identify_measures_and_values() {
        let all = Measures::WAITS | Measures::ALLOC;
        assert_eq!(Measures::from_bits(all.bits()), all);
        assert_eq!(all.without(Measures::ALLOC), Measures::WAITS);
        let mut site = SiteInfo {
            arg_names: vec!["bytes".into()],
            ..SiteInfo::default()
        };
        assert_eq!(Measures::of(&site), Measures::NONE);
        site.arg_names.extend(all.arg_names().map(Into::into));
        assert_eq!(Measures::of(&site), all);
        let args = [9, 5, 2, 128, 1, 64, 3, 7].map(ArgValue::U64);
        let expected = Measured {
            off_cpu_ns: 5,
            alloc_objects: 2,
            alloc_bytes: 128,
            free_objects: 1,
            free_bytes: 64,
            run_queue_ns: 3,
            context_switches: 7,
            ..Measured::default()
        };
        assert_eq!(Measured::of(&site, &args), expected);
        // A span that measured nothing has only its own argument.
        assert_eq!(Measured::of(&site, &args[..1]), Measured::default());
        assert_eq!(expected.plus(expected).less(expected), expected);
    }
}
