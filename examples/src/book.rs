//! The code in README and in the book compiles, and runs if it may.
//!
//! `.ci/book` checks that each page with code in Rust is here.

/// Makes doctests of pages. A feature brings what the code of its pages needs.
macro_rules! pages {
    ($($(#[$gate:meta])? $name:ident = $path:literal;)+) => {
        $(
            $(#[$gate])?
            #[doc = include_str!(concat!("../../", $path))]
            struct $name;
        )+
    };
}

pages! {
    Readme = "README.md";
    Cost = "docs/cost.md";
    Cpu = "docs/cpu.md";
    Heap = "docs/heap.md";
    Instrument = "docs/instrument.md";
    Metrics = "docs/metrics.md";
    Read = "docs/read.md";
    #[cfg(all(feature = "locks", feature = "tokio"))]
    Locks = "docs/locks.md";
    Dumps = "docs/dumps.md";
    Recover = "docs/recover.md";
    Scopes = "docs/scopes.md";
    #[cfg(feature = "book")]
    Live = "docs/live.md";
    Segments = "docs/segments.md";
    Record = "docs/record.md";
    #[cfg(feature = "book")]
    Ship = "docs/ship.md";
    Sinks = "docs/sinks.md";
    FromFastrace = "docs/migrate/fastrace.md";
    FromHotpath = "docs/migrate/hotpath.md";
    FromPuffin = "docs/migrate/puffin.md";
    FromTracy = "docs/migrate/tracy.md";
    CiGate = "docs/tutorials/ci-gate.md";
    FrameLoop = "docs/tutorials/frame-loop.md";
    HotLoop = "docs/tutorials/hot-loop.md";
    Leak = "docs/tutorials/leak.md";
    BenchParts = "docs/tutorials/bench.md";
    LastSeconds = "docs/tutorials/last-seconds.md";
    #[cfg(feature = "locks")]
    Lock = "docs/tutorials/lock.md";
    #[cfg(all(feature = "axum", feature = "rayon", feature = "tokio"))]
    Adapters = "docs/adapters.md";
    #[cfg(feature = "book")]
    Benchmarks = "docs/benchmarks.md";
    #[cfg(feature = "book")]
    Panel = "docs/panel.md";
    #[cfg(feature = "book")]
    Platforms = "docs/platforms.md";
    #[cfg(feature = "book")]
    Profiling = "docs/profiling.md";
    #[cfg(feature = "book")]
    FromTracingChrome = "docs/migrate/tracing-chrome.md";
    #[cfg(feature = "book")]
    Server = "docs/tutorials/server.md";
}
