//! Declarations read back unchanged, twice, and never exceed their tables.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking"
)]

use std::borrow::Cow;
use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::format::{
    MAX_COLUMNS, MAX_DECLARED_ID, MAX_FRAME_SETS, RecordHead, RecordRef, decode_payload,
};
use vor_capture::model::catalog::{
    Catalog, Column, MachineInfo, MetricColumn, ProcessInfo, SiteId, SiteInfo, ThreadId, ThreadInfo,
};
use vor_capture::model::timeline::{ClockSnapshot, ClockSync};

use crate::round_trip::{HEADER, sealed, text, through};

prop_compose! {
    fn site()(
        names in (text(), text(), text(), text()),
        line: u32,
        color: Option<u32>,
        arg_names in vec(text(), 0..4),
    ) -> SiteInfo {
        filled!(SiteInfo {
            name: Cow::Owned(names.0),
            module_path: Cow::Owned(names.1),
            file: Cow::Owned(names.2),
            line,
            category: Cow::Owned(names.3),
            color,
            arg_names: arg_names.into_iter().map(Cow::Owned).collect(),
        })
    }
}

proptest! {
    #[test]
    fn declarations_come_twice(
        first in 1..1000_u32,
        sites in vec(proptest::option::of(site()), 0..6),
        threads in vec((any::<u64>(), text()), 1..6),
        columns in vec((text(), text(), any::<bool>()), 1..6),
        names in vec(text(), 1..4),
        sync: (u64, i64, u64, i64),
        process in (any::<u32>(), text(), text()),
        machine in (
            text(),
            text(),
            any::<bool>(),
            proptest::option::of((any::<u64>(), any::<i64>(), any::<i64>())),
        ),
    ) {
        let sites: Vec<_> = sites.into_iter().map(|site| site.map(Arc::new)).collect();
        let threads: Vec<_> = threads
            .into_iter()
            .map(|(os_id, name)| Some(Arc::new(filled!(ThreadInfo { os_id, name }))))
            .collect();
        let columns: Vec<_> = columns
            .into_iter()
            .map(|(name, unit, system)| {
                filled!(Column {
                    metric: MetricColumn { name, unit },
                    system
                })
            })
            .collect();
        let sync = filled!(ClockSync {
            ticks: sync.0,
            unix_ns: sync.1,
            rate: sync.2,
            wall_ns: sync.3
        });
        let process = filled!(ProcessInfo {
            pid: process.0,
            name: process.1,
            recorder: process.2
        });
        let (host, boot_id, hardware_ticks, clocks) = machine;
        let clocks = clocks.map(|(ticks, monotonic_ns, boottime_ns)| {
            filled!(ClockSnapshot {
                ticks,
                monotonic_ns,
                boottime_ns
            })
        });
        let machine = filled!(MachineInfo {
            host,
            boot_id,
            hardware_ticks,
            clocks
        });
        let declarations = [
            RecordRef::Process(&process),
            RecordRef::Machine(&machine),
            RecordRef::Sites {
                first: SiteId(first),
                sites: &sites,
            },
            RecordRef::Threads {
                first: ThreadId(0),
                threads: &threads,
            },
            RecordRef::Columns {
                first: 0,
                columns: &columns,
            },
            RecordRef::FrameSets {
                first: 0,
                names: &names,
            },
            RecordRef::Clock(&sync),
        ];
        let mut catalog = Catalog::default();
        for declaration in declarations {
            let records = through(declaration, 700);
            for twice in records.chunks(2) {
                prop_assert_eq!(&twice[0], &twice[1]);
            }
            for record in records {
                prop_assert!(record.declare_into(&mut catalog));
            }
        }
        for (i, site) in sites.iter().enumerate() {
            prop_assert_eq!(catalog.site(SiteId(first + i as u32)), site.as_deref());
        }
        prop_assert_eq!(&*catalog.threads, &threads);
        prop_assert_eq!(&*catalog.columns, &columns);
        prop_assert_eq!(&*catalog.frame_sets, &names);
        prop_assert_eq!(catalog.timeline.syncs(), &[sync][..]);
        prop_assert_eq!(&*catalog.process, &process);
        prop_assert_eq!(&*catalog.machine, &machine);
    }
}

/// The ids that a table accepts, and those that it refuses.
#[test]
fn a_declaration_beyond_its_table_is_refused() {
    // Kind, cap, and one entry of that kind.
    let tables: [(u8, u32, &[u8]); 4] = [
        (2, MAX_DECLARED_ID, &[0; 7]),
        (3, MAX_DECLARED_ID, &[0; 2]),
        (4, MAX_COLUMNS, &[0; 3]),
        (5, MAX_FRAME_SETS, &[0; 1]),
    ];
    for (kind, cap, entry) in tables {
        for (first, fits) in [(cap - 1, true), (cap, false), (u32::MAX, false)] {
            let mut payload: Vec<u8> = (0..5)
                .map(|i| (first >> (7 * i)) as u8 & 0x7f | if i < 4 { 0x80 } else { 0 })
                .collect();
            payload.push(1);
            payload.extend_from_slice(entry);
            let bytes = sealed(0, kind, 0, &payload);
            let head = RecordHead::parse(&HEADER, &bytes).unwrap();
            match decode_payload(&HEADER, &head, &payload) {
                Ok(record) => assert!(fits && record.is_some(), "kind {kind}, id {first}"),
                Err(error) => {
                    assert!(
                        !fits && error.is_corrupt(),
                        "kind {kind}, id {first}: {error}"
                    );
                    assert!(error.to_string().contains(&cap.to_string()), "{error}");
                }
            }
        }
    }
}
