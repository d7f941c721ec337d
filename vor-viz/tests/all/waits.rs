//! Waits in tables and lists: times of calls that the frames cut, and the holders of locks.

use std::cell::Cell;
use std::sync::Arc;

use egui::{Color32, Theme as Shade, vec2};
use egui_kittest::{Harness, kittest::Queryable};
use proptest::prelude::*;
use vor_capture::filled;
use vor_capture::model::batch::{ArgValue, SpanArgs, ThreadBatch};
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo, ThreadId, ThreadInfo};
use vor_capture::model::frame::{FrameSnapshot, TreeBuilder};
use vor_capture::model::measures::Measures;
use vor_capture::model::waits;
use vor_viz::bars::Thresholds;
use vor_viz::find::{Listed, Order};
use vor_viz::flame::ColorBy;
use vor_viz::panel::{Panel, Tab};
use vor_viz::scopes::{Job, ScopeRow, ScopeSums};
use vor_viz::store::{Extent, FrameBlock, OffCpu, PixelScale, RowPixels, Store};
use vor_viz::theme::{Theme, WaitMeaning};
use vor_viz::view::SpanRef;

use crate::pictures;

const MS: u64 = 1_000_000;

pub const ANSWER: SiteId = SiteId(1);
pub const CACHE: SiteId = SiteId(2);
pub const RECEIVE: SiteId = SiteId(3);
pub const READ: SiteId = SiteId(4);
pub const COMPUTE: SiteId = SiteId(5);
pub const PARSE: SiteId = SiteId(6);
pub const PLAIN: SiteId = SiteId(7);

fn catalog() -> Arc<Catalog> {
    let site = |name: &'static str, category: &'static str, args: Vec<&'static str>| {
        Some(Arc::new(filled!(SiteInfo {
            name: name.into(),
            category: category.into(),
            arg_names: args.into_iter().map(Into::into).collect(),
        })))
    };
    let measured =
        |name: &'static str, measures: Measures| site(name, "", measures.arg_names().collect());
    let thread = |name: &str| {
        Some(Arc::new(filled!(ThreadInfo {
            os_id: 1,
            name: name.to_owned(),
        })))
    };
    Arc::new(filled!(Catalog {
        sites: Arc::new(vec![
            measured("answer", Measures::WAITS),
            site("wait: cache", waits::HELD, waits::ARG_NAMES.to_vec()),
            site("wait: jobs to receive", waits::NO_HOLDER, Vec::new()),
            measured("read_file", Measures::WAITS),
            measured("compute", Measures::WAITS),
            measured("parse", Measures::CPU),
            measured("plain", Measures::NONE),
        ]),
        threads: Arc::new(["main", "worker 0", "evictor"].map(thread).to_vec()),
    }))
}

/// A span of a thread: begin and duration in milliseconds, call site and arguments.
type Given<'a> = (u32, f64, f64, SiteId, &'a [ArgValue]);

fn number(value: u64) -> ArgValue {
    ArgValue::U64(value)
}

fn held_by(scope: &str, thread: &str) -> Vec<ArgValue> {
    ["cache", thread, scope]
        .map(|text| ArgValue::Str(text.into()))
        .to_vec()
}

/// Returns four frames of 10 ms. An answer is open in all of them: it ran for 12 of its 30 ms,
/// queued for 3 and was blocked for 15. Each frame has four waits for a lock.
pub fn store() -> Store {
    let catalog = catalog();
    let mut store = Store::new(10, usize::MAX);
    let [evict, load, gone] = [
        held_by("evict", "evictor"),
        held_by("load", "main"),
        held_by("", "released meanwhile"),
    ];
    let blocked = [number(2 * MS), number(MS / 5), number(2)];
    let queued = [number(2 * MS), number(9 * MS / 5), number(3)];
    let off_cpu = [number(2 * MS)];
    let answer = [number(18 * MS), number(3 * MS), number(9)];
    for index in 0..4_u64 {
        let at = index as f64 * 10.0;
        let mut spans: Vec<Given<'_>> = vec![
            (1, at + 0.5, 0.8, CACHE, &evict),
            (1, at + 1.6, 0.9, CACHE, &load),
            (1, at + 2.8, 0.2, CACHE, &gone),
            (1, at + 3.2, 1.0, CACHE, &evict),
            (1, at + 4.5, 2.0, RECEIVE, &[]),
            (1, at + 7.0, 2.4, PLAIN, &[]),
            (2, at + 0.2, 2.2, READ, &blocked),
            (2, at + 2.5, 2.2, READ, &queued),
            (2, at + 4.8, 2.2, COMPUTE, &[]),
            (2, at + 7.2, 2.2, PARSE, &off_cpu),
        ];
        if index == 3 {
            spans.push((0, 5.0, 30.0, ANSWER, &answer));
        }
        let mut builder = TreeBuilder::new(100);
        for thread in 0..3 {
            let own: Vec<_> = spans.iter().filter(|span| span.0 == thread).collect();
            let ticks = |ms: f64| (ms * MS as f64).round() as u64;
            let args = own
                .iter()
                .enumerate()
                .filter(|(_, span)| !span.4.is_empty());
            builder.add(&filled!(ThreadBatch {
                thread: ThreadId(thread),
                start_ticks: own.iter().map(|span| ticks(span.1)).collect(),
                duration_ticks: own.iter().map(|span| ticks(span.2)).collect(),
                sites: own.iter().map(|span| span.3).collect(),
                args: args
                    .map(|(at, span)| filled!(SpanArgs {
                        span: at as u32,
                        values: span.4.to_vec(),
                    }))
                    .collect(),
            }));
        }
        let frame = filled!(FrameSnapshot {
            catalog: Arc::clone(&catalog),
            index,
            start_ticks: index * 10 * MS,
            end_ticks: (index + 1) * 10 * MS,
            span_count: spans.len() as u64,
            threads: builder.finish().threads,
        });
        store.push_block(FrameBlock::new(&frame, 0));
    }
    store
}

fn row(store: &Store, frames: (usize, usize), extent: Extent, site: SiteId) -> Option<ScopeRow> {
    let mut job: Job<ScopeSums> = Job::default();
    job.finish(store, Some(frames.into()), &extent);
    let rows = &job.output().unwrap().rows;
    rows.iter().find(|row| row.site == site).cloned()
}

/// Returns a panel with a tab.
fn panel(tab: Tab, shade: Shade, change: impl FnOnce(&mut Panel)) -> Harness<'static, Panel> {
    panel_of(store(), tab, shade, change)
}

/// Returns a panel of a store with a tab.
pub fn panel_of(
    store: Store,
    tab: Tab,
    shade: Shade,
    change: impl FnOnce(&mut Panel),
) -> Harness<'static, Panel> {
    let show = |ui: &mut egui::Ui, panel: &mut Panel| {
        egui::CentralPanel::default().show(ui, |ui| panel.show(ui, &[]));
    };
    let mut panel = Panel::new(store, Thresholds::default());
    panel.set_tab(tab);
    change(&mut panel);
    let mut harness = pictures::builder()
        .with_size(vec2(1500.0, 700.0))
        .with_theme(shade)
        .build_ui_state(show, panel);
    harness.run();
    harness
}

/// Copies the shown rows, and returns them.
pub fn copied(harness: &mut Harness<'_, Panel>) -> Vec<String> {
    harness.get_by_label("CSV").click();
    harness.step();
    let commands = &harness.output().platform_output.commands;
    let text = commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    text.unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn a_call_that_the_frames_cut_counts_in_proportion_and_the_hover_says_so() {
    let store = store();
    let times = |row: &ScopeRow| (row.cpu_ns(), row.waits_ns(), row.switches(), row.estimates);
    let cut = row(&store, (1, 1), Extent::Clipped, ANSWER).unwrap();
    let expected = (Some(4 * MS), Some([MS, 5 * MS]), None, 1);
    assert_eq!(times(&cut), expected);
    let last = row(&store, (3, 3), Extent::Clipped, ANSWER).unwrap();
    let expected = (Some(2 * MS), Some([MS / 2, 5 * MS / 2]), Some(9), 1);
    assert_eq!(times(&last), expected);
    let whole = (Some(12 * MS), Some([3 * MS, 15 * MS]), Some(9), 0);
    let all = row(&store, (0, 3), Extent::Clipped, ANSWER).unwrap();
    assert_eq!(times(&all), whole);
    let last = row(&store, (3, 3), Extent::Whole, ANSWER).unwrap();
    assert_eq!(times(&last), whole);
    assert!(row(&store, (1, 1), Extent::Whole, ANSWER).is_none());

    let note = "cpu, queued and blocked are estimates: 1 call that goes beyond these frames counts \
        in proportion to the time within.";
    for (frame, has_note) in [(Some(1), true), (None, false)] {
        let mut harness = panel(Tab::Scopes, Shade::Dark, |panel| {
            let id = frame.map(|frame| panel.store().id_at(frame));
            id.into_iter().for_each(|id| panel.view_mut().pin(id));
        });
        harness.get_by_label("scope answer").hover();
        harness.run();
        harness.run();
        assert_eq!(
            harness.query_by_label(note).is_some(),
            has_note,
            "{frame:?}"
        );
    }
}

#[test]
fn rows_of_waits_have_their_most_frequent_holder() {
    let store = store();
    let holder = |site| {
        let row = row(&store, (0, 3), Extent::Clipped, site).unwrap();
        row.holder
            .map(|(holder, waits)| (holder.to_string(), waits))
    };
    assert_eq!(holder(CACHE), Some(("evict on evictor".to_owned(), 8)));
    for site in [ANSWER, RECEIVE, PLAIN] {
        assert_eq!(holder(site), None);
    }
    let slowest = row(&store, (0, 3), Extent::Clipped, CACHE).unwrap().slowest;
    let of = |call: &vor_viz::scopes::SlowCall| {
        let holder = call.holder.as_ref().map(ToString::to_string);
        (call.span.duration_ns, holder)
    };
    let slowest: Vec<_> = slowest.iter().map(of).collect();
    let calls = |ns: u64, holder: &str| vec![(ns, Some(holder.to_owned())); 4];
    let expected = [
        calls(MS, "evict on evictor"),
        calls(900_000, "load on main"),
        calls(800_000, "evict on evictor"),
    ];
    assert_eq!(slowest, expected.concat()[..10]);
}

#[test]
fn holders_have_a_column_in_the_table() {
    for shade in [Shade::Dark, Shade::Light] {
        let mut harness = panel(Tab::Scopes, shade, |_| {});
        harness.get_by_label("sort by held by").click();
        harness.run();
        harness.get_by_label("scope wait: cache").click();
        harness.run();
        let table = harness.state().scopes();
        let first = &table.rows().unwrap().rows[table.order()[0]];
        assert_eq!(first.site, CACHE);
        let rows = copied(&mut harness);
        let titles: Vec<&str> = rows[0].split(',').collect();
        assert_eq!(titles[19..], ["held_by", "held_by_waits"]);
        assert!(rows[1].ends_with(",evict on evictor,8"), "{}", rows[1]);
        assert!(rows[2].ends_with(",,"), "{}", rows[2]);
    }
}

#[test]
fn waits_are_listed_by_their_holders() {
    for (clicks, names) in [
        (
            1,
            ["evict on evictor", "load on main", "released meanwhile"],
        ),
        (
            2,
            ["released meanwhile", "load on main", "evict on evictor"],
        ),
    ] {
        let mut harness = panel(Tab::Find, Shade::Dark, |panel| {
            panel.find_mut().list(Listed::Calls(CACHE));
        });
        for _ in 0..clicks {
            harness.get_by_label("sort by held by").click();
            harness.run();
        }
        let found = harness.state().find().found().unwrap();
        let mut holders: Vec<&str> = found.listed.iter().map(|call| &*call.holder).collect();
        assert_eq!(holders.len(), 16);
        holders.dedup();
        assert_eq!(holders, names);
        let rows = copied(&mut harness);
        assert!(rows[0].ends_with(",arguments,held_by"), "{}", rows[0]);
        assert!(rows[1].ends_with(names[0]), "{}", rows[1]);
    }
    let mut harness = panel(Tab::Find, Shade::Dark, |panel| {
        panel.find_mut().set_order(Order::Holder);
        panel.find_mut().list(Listed::Calls(READ));
    });
    harness.run();
    assert!(harness.query_by_label("sort by held by").is_none());
    assert_eq!(harness.state().find().found().unwrap().count, 8);
}

#[test]
fn the_chart_colours_spans_by_what_their_threads_did() {
    for shade in [Shade::Dark, Shade::Light] {
        let mut harness = panel(Tab::Metrics, shade, |panel| {
            panel.chart_mut().set_color_by(ColorBy::Wait);
        });
        harness.get_by_label("what colours tell").hover();
        harness.run();
        harness.run();
        for meaning in WaitMeaning::ALL {
            harness.get_by_label(meaning.text());
        }
        let theme = Theme::of(&harness.ctx.style_of(harness.ctx.theme()).visuals);
        harness.hover_at(egui::pos2(1400.0, 600.0));
        harness.run();
        let picture = harness.render().unwrap();
        let shows = |meaning: WaitMeaning| {
            let [r, g, b, _] = theme.wait(meaning).to_array();
            picture
                .pixels()
                .filter(|pixel| pixel.0[..3] == [r, g, b])
                .count()
                > 100
        };
        let shown = WaitMeaning::ALL.map(shows);
        assert_eq!(shown, [true; 7], "{shade:?}");
    }
}

proptest! {
    /// A pixel has the state of the span whose call site it has, at any zoom.
    #[test]
    fn a_pixel_has_the_state_of_its_span(
        spans in prop::collection::vec((0..200_u64, 1..3_000_u64, 0..6_u64), 1..300),
        frames in 1..5_usize,
        (from, zoom) in (0.0..1.0_f64, 0.0..1.0_f64),
        // In a few pixels, one shows the longest of hundreds.
        width in prop_oneof![1..4_usize, 4..500_usize],
    ) {
        let site = |i: usize| {
            let args = Measures::WAITS.arg_names();
            Some(Arc::new(filled!(SiteInfo {
                name: format!("s{i}").into(),
                arg_names: args.map(Into::into).collect(),
            })))
        };
        let catalog = Arc::new(filled!(Catalog {
            sites: Arc::new((0..spans.len()).map(site).collect()),
        }));
        let mut store = Store::new(10, usize::MAX);
        let (mut at, mut number) = (0, 0);
        for part in spans.chunks(spans.len().div_ceil(frames)) {
            let mut batch = filled!(ThreadBatch { thread: ThreadId(0) });
            for &(gap, duration, sixths) in part {
                batch.start_ticks.push(at + gap);
                batch.duration_ticks.push(duration);
                number += 1;
                batch.sites.push(SiteId(number));
                at += gap + duration;
                let off_cpu = duration * sixths / 5;
                if sixths > 0 {
                    let queued = if number.is_multiple_of(2) { off_cpu } else { 0 };
                    batch.args.push(filled!(SpanArgs {
                        span: batch.sites.len() as u32 - 1,
                        values: [off_cpu, queued, 1].map(ArgValue::U64).to_vec(),
                    }));
                }
            }
            let mut builder = TreeBuilder::new(10_000);
            builder.add(&batch);
            let frame = filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                end_ticks: at,
                threads: builder.finish().threads,
            });
            store.push_block(FrameBlock::new(&frame, 0));
        }
        let expected = |site: SiteId| {
            let (_, duration, sixths) = spans[site.0 as usize - 1];
            let off_cpu = duration * sixths / 5;
            let state = match site.0.is_multiple_of(2) {
                true => OffCpu::Queued,
                false => OffCpu::Blocked,
            };
            (off_cpu > duration - off_cpu).then_some(state)
        };
        let begin = from * at as f64;
        let length = (4.0 * at as f64 * zoom.powi(2)).max(10.0);
        let scale = PixelScale::new(begin, begin + length, width);
        let mut colors = vec![Color32::TRANSPARENT; width];
        let wrong = Cell::new(None);
        let mut wide = Vec::new();
        store.tracks()[0].rows[0].paint(
            &scale,
            None,
            |site, _, off_cpu| {
                if off_cpu != expected(site) {
                    wrong.set(Some((site, off_cpu)));
                }
                Color32::WHITE
            },
            RowPixels { colors: &mut colors, wide: &mut wide },
        );
        prop_assert_eq!(wrong.get(), None);
        prop_assert!(wide.iter().all(|wide| wide.off_cpu == expected(wide.span.site)));
    }
}

#[test]
fn the_details_of_a_span_have_the_parts_of_its_time() {
    for (site, names, texts) in [
        (
            ANSWER,
            &["ran", "queued", "blocked"][..],
            &["12.0 ms (40.0 %)", "3.00 ms (10.0 %)", "15.0 ms (50.0 %)"][..],
        ),
        (
            COMPUTE,
            &["ran", "queued", "blocked"],
            &["2.20 ms (100.0 %)", "0 ns (0.0 %)"],
        ),
        (
            PARSE,
            &["ran", "off the CPU"],
            &["200 µs (9.1 %)", "2.00 ms (90.9 %)"],
        ),
        (PLAIN, &[], &[]),
    ] {
        let mut harness = panel(Tab::Metrics, Shade::Dark, |panel| {
            let tracks = panel.store().tracks().iter();
            let rows = tracks.map(|track| (track.id, &track.rows[0]));
            let mut spans = rows.flat_map(|(track, row)| {
                let spans = row.spans(i64::MIN, i64::MAX);
                spans.map(move |span| SpanRef {
                    track,
                    row: 0,
                    span,
                })
            });
            let focus = spans.find(|focus| focus.span.site == site);
            drop(spans);
            panel.view_mut().focus = focus;
        });
        harness.run();
        for name in ["ran", "queued", "blocked", "off the CPU"] {
            let is_shown = harness.query_by_label(name).is_some();
            assert_eq!(is_shown, names.contains(&name), "{name} of {site:?}");
        }
        // They stand for the values as they were recorded.
        for value in ["off_cpu_ns =", "run_queue_ns ="] {
            assert!(
                harness.query_by_label(value).is_none(),
                "{value} of {site:?}"
            );
        }
        for text in texts {
            assert!(harness.query_all_by_label(text).count() > 0, "{text}");
        }
    }
}
