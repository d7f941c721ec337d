//! The comparison of two sides: matching scopes, their changes, and clicks.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::headless::User;
use crate::pictures;
use crate::scopes_data::{catalog_of, store};
use egui::{Pos2, Theme as Shade};
use egui_kittest::{Harness, SnapshotResults, kittest::Queryable};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId};
use vor_viz::compare::{Compare, Side};
use vor_viz::store::{Extent, FrameBlock, FrameEntry, RowBlock, Store, ThreadBlock};
use vor_viz::theme::Theme;
use vor_viz::view::Scope;

struct Shown {
    left: Store,
    right: Store,
    compare: RefCell<Compare>,
    extent: Cell<Extent>,
}

impl Shown {
    fn new(left: Store, right: Store) -> Self {
        Self {
            left,
            right,
            compare: RefCell::default(),
            extent: Cell::default(),
        }
    }

    fn sides(&self) -> [Side<'_>; 2] {
        let side = |name, store: &'_ Store| (name, store.frames().len().saturating_sub(1));
        let ((left, left_last), (right, right_last)) = (
            side("before.vor", &self.left),
            side("after.vor", &self.right),
        );
        [
            Side {
                name: left,
                store: &self.left,
                scope: Scope::Frames(0, left_last),
                spans: None,
                whole_frames: None,
            },
            Side {
                name: right,
                store: &self.right,
                scope: Scope::Frames(0, right_last),
                spans: None,
                whole_frames: None,
            },
        ]
    }

    fn harness(&self, width: f32, height: f32, shade: Shade, pixels_per_point: f32) -> Harness<'_> {
        pictures::builder()
            .with_size((width, height))
            .with_theme(shade)
            .with_pixels_per_point(pixels_per_point)
            .build_ui(|ui| {
                let [left, right] = self.sides();
                let theme = Theme::of(ui.visuals());
                let mut extent = self.extent.get();
                self.compare
                    .borrow_mut()
                    .show(ui, &left, &right, &mut extent, &theme);
                self.extent.set(extent);
            })
    }

    fn names(&self) -> Vec<String> {
        let compare = self.compare.borrow();
        let rows = &compare.merged().unwrap().rows;
        compare
            .order()
            .iter()
            .map(|&i| rows[i].name.to_string())
            .collect()
    }
}

/// Returns a store of one thread with nested spans, of sites with the given names.
fn nested(names: &[&str], frames: &[&[(usize, i64, u64, u32)]]) -> Store {
    let mut store = Store::new(100, usize::MAX);
    for (number, spans) in frames.iter().enumerate() {
        let begin_ns = number as i64 * 1_000_000;
        let mut rows: Vec<RowBlock> = Vec::new();
        for &(depth, begin, length, site) in *spans {
            rows.resize_with(rows.len().max(depth + 1), RowBlock::default);
            rows[depth].push(begin_ns.saturating_add(begin), length, SiteId(site));
        }
        store.push_block(FrameBlock {
            frame: FrameEntry {
                number: number as u64,
                begin_ns,
                end_ns: begin_ns + 1_000_000,
                ..FrameEntry::default()
            },
            catalog: catalog_of(names),
            threads: vec![ThreadBlock {
                thread: ThreadId(0),
                rows,
                ..ThreadBlock::default()
            }],
        });
    }
    store
}

#[test]
fn sides_match_by_name_and_are_compared_per_frame() {
    let left = nested(
        &["outer", "inner", "gone"],
        &[
            &[(0, 100, 50_000, 1), (1, 200, 10_000, 2)],
            &[(0, 100, 70_000, 1), (1, 200, 2_000, 3)],
        ],
    );
    // Other ids, and half as many frames; two call sites have the same name.
    let right = nested(
        &["new", "inner", "outer", "inner"],
        &[&[
            (0, 100, 90_000, 3),
            (1, 200, 10_000, 2),
            (1, 20_000, 5_000, 4),
            (1, 30_000, 4_000, 1),
        ]],
    );
    let shown = Shown::new(left, right);
    let [a, b] = shown.sides();
    shown.compare.borrow_mut().finish(&a, &b, Extent::Clipped);
    let compare = shown.compare.borrow();
    let merged = compare.merged().unwrap();
    assert_eq!(merged.rows.len(), 4);
    let row = |name: &str| merged.rows.iter().find(|row| &*row.name == name).unwrap();
    assert_eq!(row("outer").change_ns(), 30_000.0);
    assert_eq!(row("outer").change_part(), Some(0.5));
    let [left, right] = row("inner").sides.map(Option::unwrap);
    assert_eq!((left.frame_ns, left.frame_count), (5_000.0, 0.5));
    assert_eq!(
        (right.frame_ns, right.frame_count, right.mean_ns),
        (15_000.0, 2.0, 7_500.0)
    );
    assert_eq!(row("gone").sides[1], None);
    assert_eq!(
        (row("gone").change_ns(), row("gone").relation()),
        (-1_000.0, -1.0)
    );
    assert_eq!(
        (row("new").change_part(), row("new").relation()),
        (None, 1.0)
    );
    // Both stacks of inner scopes are one, although their call sites differ.
    let tree = &merged.tree;
    assert_eq!(tree.nodes().len(), 5);
    let outer = tree.children(0).next().unwrap();
    assert_eq!(
        tree.node(outer).unwrap().sums.frame_ns,
        [60_000.0, 90_000.0]
    );
    let inner = tree.children(outer).next().unwrap();
    assert_eq!(tree.node(inner).unwrap().sums.frame_ns, [5_000.0, 15_000.0]);
}

#[test]
fn a_recursive_call_adds_nothing_to_the_call_around_it() {
    let recursive = || {
        nested(
            &["walk"],
            &[&[(0, 100, 50_000, 1), (1, 200, 40_000, 1), (2, 300, 9_000, 1)]],
        )
    };
    let shown = Shown::new(recursive(), recursive());
    let [a, b] = shown.sides();
    shown.compare.borrow_mut().finish(&a, &b, Extent::Clipped);
    let compare = shown.compare.borrow();
    let rows = &compare.merged().unwrap().rows;
    assert_eq!(rows.len(), 1);
    for side in rows[0].sides.map(Option::unwrap) {
        assert_eq!(
            (side.frame_ns, side.frame_count, side.mean_ns),
            (50_000.0, 3.0, 33_000.0)
        );
    }
}

#[test]
fn a_scope_around_the_frames_of_a_side_is_on_both_sides() {
    // `outer` begins in the first of four frames, and ends in the last one.
    let store = || {
        nested(
            &["outer", "inner"],
            &[
                &[(0, 100_000, 300_000, 2)],
                &[(0, 100_000, 300_000, 2)],
                &[(0, 100_000, 300_000, 2)],
                &[(0, -2_990_000, 3_900_000, 1), (1, 100_000, 300_000, 2)],
            ],
        )
    };
    let shown = Shown::new(store(), store());
    let [a, b] = shown.sides();
    let (a, b) = (
        Side {
            scope: Scope::Frames(1, 1),
            spans: None,
            whole_frames: None,
            ..a
        },
        Side {
            scope: Scope::Frames(3, 3),
            spans: None,
            whole_frames: None,
            ..b
        },
    );
    let changes = |extent| {
        shown.compare.borrow_mut().finish(&a, &b, extent);
        let compare = shown.compare.borrow();
        let merged = compare.merged().unwrap();
        let mut rows: Vec<_> = merged
            .rows
            .iter()
            .map(|row| {
                let sides = row.sides.map(|side| side.map(|side| side.frame_ns));
                (row.name.to_string(), sides)
            })
            .collect();
        rows.sort_by(|one, other| one.0.cmp(&other.0));
        (rows, merged.tree.nodes().len())
    };
    let inner = ("inner".to_owned(), [Some(300_000.0), Some(300_000.0)]);
    let outer = ("outer".to_owned(), [Some(1_000_000.0), Some(910_000.0)]);
    // The root, `outer`, and `inner` in it.
    assert_eq!(changes(Extent::Clipped), (vec![inner.clone(), outer], 3));
    let outer = ("outer".to_owned(), [None, Some(3_900_000.0)]);
    assert_eq!(changes(Extent::Whole), (vec![inner, outer], 4));
}

/// Returns a catalog of sites with names and module paths.
fn catalog_of_modules(sites: &[(&str, &str)]) -> Arc<Catalog> {
    let names: Vec<&str> = sites.iter().map(|site| site.0).collect();
    let mut catalog = Catalog::clone(&catalog_of(&names));
    let with_module = |(site, module): (&Option<Arc<SiteInfo>>, &str)| {
        let mut site = SiteInfo::clone(site.as_deref()?);
        site.module_path = module.to_owned().into();
        Some(Arc::new(site))
    };
    let modules = sites.iter().map(|site| site.1);
    let sites = catalog.sites.iter().zip(modules).map(with_module);
    catalog.sites = Arc::new(sites.collect());
    Arc::new(catalog)
}

#[test]
fn a_scope_that_moved_to_another_module_is_on_both_sides() {
    let side = |sites: &[(&str, &str)]| {
        let names: Vec<&str> = sites.iter().map(|site| site.0).collect();
        let spans: Vec<(usize, i64, u64, u32)> = (0..sites.len())
            .map(|i| (0, i as i64 * 1_000, 100, i as u32 + 1))
            .collect();
        let mut store = nested(&names, &[&spans]);
        store.set_catalog(catalog_of_modules(sites));
        store
    };
    let left = side(&[
        ("walk", "slow"),
        ("read", "slow::io"),
        ("read", "common"),
        ("run", "slow::a"),
        ("run", "slow::b"),
    ]);
    let right = side(&[
        ("run", "fast::c"),
        ("read", "common"),
        ("read", "fast::io"),
        ("walk", "fast"),
    ]);
    let shown = Shown::new(left, right);
    let [a, b] = shown.sides();
    shown.compare.borrow_mut().finish(&a, &b, Extent::Clipped);
    let compare = shown.compare.borrow();
    let merged = compare.merged().unwrap();
    let mut rows: Vec<_> = merged
        .rows
        .iter()
        .map(|row| {
            let sides = row.sides.map(|side| side.is_some());
            (&*row.name, &*row.module_path, sides)
        })
        .collect();
    rows.sort_unstable();
    // One `run` cannot be told from the other.
    assert_eq!(
        rows,
        [
            ("read", "common", [true, true]),
            ("read", "slow::io", [true, true]),
            ("run", "fast::c", [false, true]),
            ("run", "slow::a", [true, false]),
            ("run", "slow::b", [true, false]),
            ("walk", "slow", [true, true]),
        ]
    );
    assert_eq!(merged.tree.nodes().len(), 7, "stacks match like rows");
}

#[test]
fn a_box_names_the_side_of_a_stack_that_is_only_on_one() {
    let left = nested(
        &["outer", "instant", "moved", "gone"],
        &[&[
            (0, 1_000, 400_000, 1),
            (1, 1_000, 0, 2),
            (1, 2_000, 90_000, 3),
            (1, 100_000, 90_000, 4),
        ]],
    );
    let right = nested(
        &["outer", "instant", "moved", "new"],
        &[&[
            (0, 1_000, 400_000, 1),
            (1, 2_000, 90_000, 2),
            (1, 100_000, 90_000, 4),
            (0, 500_000, 90_000, 3),
        ]],
    );
    let shown = Shown::new(left, right);
    let mut user = User::new(1, egui::vec2(1600.0, 600.0), 1.0, true);
    let mut texts = Vec::new();
    for _ in 0..4 {
        let pass = user.idle_pass(|ui| {
            let [left, right] = shown.sides();
            let theme = Theme::of(ui.visuals());
            let mut extent = Extent::Clipped;
            let mut compare = shown.compare.borrow_mut();
            compare.show(ui, &left, &right, &mut extent, &theme);
        });
        texts = pass.texts();
    }
    for expected in [
        "outer 0.0 %",
        // It takes no time on the left side, but it is there.
        "instant +90.0 µs",
        "moved here only in A",
        "moved here only in B",
        "gone only in A",
        "new only in B",
    ] {
        assert!(
            texts.iter().any(|text| text == expected),
            "{expected}: {texts:?}"
        );
    }
}

#[test]
fn the_largest_change_comes_first_and_titles_sort() {
    let shown = Shown::new(store(30, 1, 0), store(40, 2, 80));
    let mut harness = shown.harness(1200.0, 600.0, Shade::Dark, 1.0);
    harness.run();
    let change = |i: usize| {
        let compare = shown.compare.borrow();
        compare.merged().unwrap().rows[compare.order()[i]]
            .change_ns()
            .abs()
    };
    assert!((1..shown.names().len()).all(|i| change(i - 1) >= change(i)));
    let slower = &shown.names()[..4];
    assert!(
        ["collide", "physics", "update"]
            .iter()
            .all(|name| slower.contains(&(*name).to_owned())),
        "{slower:?}"
    );
    harness.get_by_label("sort by name").click();
    harness.run();
    assert!(shown.names().is_sorted());
    harness.get_by_label("sort by B calls").click();
    harness.run();
    assert_eq!(shown.names()[0], "draw");
    harness.get_by_label("filter compared scopes").focus();
    harness.run();
    harness
        .get_by_label("filter compared scopes")
        .type_text("UPD");
    harness.run();
    assert_eq!(shown.names(), ["update"]);
    harness.get_by_label("compared scope update").click();
    harness.run();
}

#[test]
fn a_click_zooms_into_the_stacks_of_both_sides() {
    let shown = Shown::new(store(30, 1, 0), store(40, 2, 80));
    let mut harness = shown.harness(1200.0, 600.0, Shade::Dark, 1.0);
    harness.run();
    let rect = harness.get_by_label("icicle of both sides").rect();
    let at = Pos2::new(rect.left() + 50.0, rect.top() + 19.0 + 9.0);
    harness.hover_at(at);
    harness.run();
    harness.drag_at(at);
    harness.drop_at(at);
    harness.run();
    assert_eq!(shown.compare.borrow().zoomed_to(), ["frame"]);
    harness.get_by_label("all").click();
    harness.run();
    assert!(shown.compare.borrow().zoomed_to().is_empty());
}

#[test]
fn hostile_and_empty_sides_neither_panic_nor_hang() {
    let extremes: &[(usize, i64, u64, u32)] = &[
        (0, i64::MIN, u64::MAX, u32::MAX),
        (0, 0, 0, 0),
        (0, i64::MAX, u64::MAX, 1),
        (1, 0, 0, 1),
    ];
    let hostile = || nested(&["a"], &[extremes, extremes]);
    for (left, right) in [
        (hostile(), hostile()),
        (hostile(), Store::new(1, 1)),
        (Store::new(1, 1), hostile()),
        (Store::new(1, 1), Store::new(1, 1)),
        (hostile(), nested(&["a"], &[&[(0, 5, 0, 1)]])),
    ] {
        let shown = Shown::new(left, right);
        let mut harness = shown.harness(500.0, 400.0, Shade::Light, 1.0);
        harness.run();
        let complete = shown
            .sides()
            .iter()
            .all(|side| !side.store.frames().is_empty());
        assert_eq!(shown.compare.borrow().merged().is_some(), complete);
    }
}

#[test]
fn pictures() {
    let mut results = SnapshotResults::new();
    // One scope is new, and one is gone.
    let mut left = store(30, 1, 0);
    let mut right = store(40, 2, 70);
    let renamed = |store: &mut Store, from: &str, to: &str| {
        let names: Vec<&str> = crate::scopes_data::NAMES
            .iter()
            .map(|name| if *name == from { to } else { *name })
            .collect();
        store.set_catalog(catalog_of(&names));
        Arc::clone(store.catalog())
    };
    renamed(&mut left, "cull", "cull (old)");
    renamed(&mut right, "cull", "cull in clusters");
    let shown = Shown::new(left, right);
    for (shade, name, pixels_per_point) in
        [(Shade::Dark, "dark", 1.0), (Shade::Light, "light", 2.0)]
    {
        let mut harness = shown.harness(1240.0, 560.0, shade, pixels_per_point);
        harness.run();
        harness.snapshot(format!("compare_{name}"));
        results.extend_harness(&mut harness);
    }
}
