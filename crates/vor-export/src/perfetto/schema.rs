//! Numbers of the used fields and values of Perfetto's published schema (`protos/perfetto/trace` in
//! its repository).

/// `Trace.packet`.
pub(super) const PACKET: u32 = 1;

pub(super) mod packet {
    pub const FTRACE_EVENTS: u32 = 1;
    pub const CLOCK_SNAPSHOT: u32 = 6;
    pub const TIMESTAMP: u32 = 8;
    pub const SEQUENCE_ID: u32 = 10;
    pub const TRACK_EVENT: u32 = 11;
    pub const INTERNED_DATA: u32 = 12;
    pub const SEQUENCE_FLAGS: u32 = 13;
    pub const TIMESTAMP_CLOCK_ID: u32 = 58;
    pub const DEFAULTS: u32 = 59;
    pub const TRACK_DESCRIPTOR: u32 = 60;
    pub const FIRST_ON_SEQUENCE: u32 = 87;

    /// `sequence_flags`: clears the interned texts.
    pub const STATE_CLEARED: u64 = 1;
    /// `sequence_flags`: the packet refers to interned texts.
    pub const NEEDS_STATE: u64 = 2;
}

pub(super) mod event {
    pub const CATEGORY_IIDS: u32 = 3;
    pub const DEBUG_ANNOTATIONS: u32 = 4;
    pub const LEGACY: u32 = 6;
    pub const TYPE: u32 = 9;
    pub const NAME_IID: u32 = 10;
    pub const TRACK_UUID: u32 = 11;
    pub const CATEGORIES: u32 = 22;
    pub const NAME: u32 = 23;
    pub const COUNTER_VALUE: u32 = 30;
    pub const SOURCE_LOCATION_IID: u32 = 34;
    pub const DOUBLE_COUNTER_VALUE: u32 = 44;

    pub const BEGIN: u64 = 1;
    pub const END: u64 = 2;
    pub const INSTANT: u64 = 3;
    pub const COUNTER: u64 = 4;
}

/// `TrackEvent.LegacyEvent`.
pub(super) mod legacy {
    pub const PHASE: u32 = 2;
    pub const UNSCOPED_ID: u32 = 6;
    pub const BIND_TO_ENCLOSING: u32 = 12;
}

/// `DebugAnnotation`.
pub(super) mod annotation {
    pub const NAME_IID: u32 = 1;
    pub const BOOL: u32 = 2;
    pub const UINT: u32 = 3;
    pub const INT: u32 = 4;
    pub const DOUBLE: u32 = 5;
    pub const STRING: u32 = 6;
    pub const NAME: u32 = 10;
}

/// `InternedData`, whose entries are an iid (1) and a text (2); a location also has a line (4).
pub(super) mod interned {
    pub const CATEGORIES: u32 = 1;
    pub const EVENT_NAMES: u32 = 2;
    pub const ANNOTATION_NAMES: u32 = 3;
    pub const SOURCE_LOCATIONS: u32 = 4;

    pub const IID: u32 = 1;
    pub const TEXT: u32 = 2;
    pub const LINE: u32 = 4;
}

/// `TrackDescriptor`.
pub(super) mod track {
    pub const UUID: u32 = 1;
    pub const NAME: u32 = 2;
    pub const PROCESS: u32 = 3;
    pub const THREAD: u32 = 4;
    pub const PARENT_UUID: u32 = 5;
    pub const COUNTER: u32 = 8;
    pub const CHILD_ORDERING: u32 = 11;
    pub const SIBLING_ORDER_RANK: u32 = 12;

    /// `ChildTracksOrdering`: by rank.
    pub const EXPLICIT: u64 = 3;
    /// `ProcessDescriptor`.
    pub const PROCESS_PID: u32 = 1;
    pub const PROCESS_NAME: u32 = 6;
    /// `ThreadDescriptor`.
    pub const THREAD_PID: u32 = 1;
    pub const THREAD_TID: u32 = 2;
    pub const THREAD_NAME: u32 = 5;
    /// `CounterDescriptor`.
    pub const COUNTER_UNIT: u32 = 3;
    pub const COUNTER_MULTIPLIER: u32 = 4;
    pub const COUNTER_INCREMENTAL: u32 = 5;
    pub const COUNTER_UNIT_NAME: u32 = 6;
}

/// `ClockSnapshot` and its `Clock`.
pub(super) mod clock {
    pub const CLOCKS: u32 = 1;
    pub const PRIMARY: u32 = 2;
    pub const ID: u32 = 1;
    pub const TIMESTAMP: u32 = 2;
    pub const INCREMENTAL: u32 = 3;

    pub const REALTIME: u64 = 1;
    pub const MONOTONIC: u64 = 3;
    pub const BOOTTIME: u64 = 6;
    /// The first number of a sequence's own clocks.
    pub const OF_SEQUENCE: u64 = 64;
}

/// `FtraceEventBundle`, its `FtraceEvent`, `SchedSwitchFtraceEvent` and `SchedWakingFtraceEvent`.
pub(super) mod ftrace {
    pub const CPU: u32 = 1;
    pub const EVENT: u32 = 2;

    pub const TIMESTAMP: u32 = 1;
    pub const PID: u32 = 2;
    pub const SWITCH: u32 = 4;
    pub const WAKING: u32 = 20;

    pub const PREV_COMM: u32 = 1;
    pub const PREV_PID: u32 = 2;
    pub const PREV_PRIO: u32 = 3;
    pub const PREV_STATE: u32 = 4;
    pub const NEXT_COMM: u32 = 5;
    pub const NEXT_PID: u32 = 6;
    pub const NEXT_PRIO: u32 = 7;

    pub const COMM: u32 = 1;
    pub const WOKEN_PID: u32 = 2;
    pub const PRIO: u32 = 3;
    pub const SUCCESS: u32 = 4;
    pub const TARGET_CPU: u32 = 5;
}
