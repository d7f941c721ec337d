//! The palette, the sizes of text and the components in both themes, on one page; and the rules
//! that they follow.

use egui::{Align2, Color32, FontId, Rect, RichText, Sense, Ui, Vec2, pos2, vec2};
use egui_kittest::{Harness, kittest::Queryable};
use vor_viz::flame::FlameChart;
use vor_viz::palette::vision::most_similar;
use vor_viz::palette::{SCOPES, contrast, text_on};
use vor_viz::plots::{MetricRow, Plots};
use vor_viz::scopes::ScopeTable;
use vor_viz::store::{FrameEntry, Series, Store, TrackKind};
use vor_viz::theme::{Theme, UNIT, WaitMeaning, space, text};
use vor_viz::view::View;

use crate::pictures;
use crate::scopes_data::{site, store};

/// The parts that show data, with some frames of an invented program.
struct Charts {
    store: Store,
    view: View,
    flame: FlameChart,
    plots: Plots,
    table: ScopeTable,
}

impl Charts {
    fn new() -> Self {
        let mut table = ScopeTable::default();
        table.select(site("draw"), TrackKind::Scopes);
        Self {
            store: store(60, 1, 0),
            view: View::default(),
            flame: FlameChart::default(),
            plots: Plots::default(),
            table,
        }
    }

    fn show(&mut self, ui: &mut Ui, theme: &Theme) {
        let Self {
            store,
            view,
            flame,
            plots,
            table,
        } = self;
        view.begin_pass(store);
        section(ui, "A flame chart");
        flame.show(ui, 40.0 * UNIT, store, view, theme, &|_, _| None);
        section(ui, "A plot of a metric");
        let length = |index: usize| {
            let frame = store.frames().get(index);
            frame.map_or(f64::NAN, FrameEntry::duration_ms)
        };
        let row = MetricRow {
            name: "frame_ms",
            unit: "ms",
            integer: false,
            description: "",
            values: &length,
            series: Series::Unknown,
        };
        plots.show(ui, store, view, theme, &[row]);
        section(ui, "A table, a histogram and the slowest calls");
        table.show(ui, store, view, theme);
    }
}

/// Writes a text in the middle of a coloured box.
fn swatch(ui: &mut Ui, size: Vec2, color: Color32, name: &str, ink: Color32) {
    let (rect, _) = ui.allocate_exact_size(size, Sense::hover());
    ui.painter().rect_filled(rect, 0.0, color);
    let (middle, font) = (rect.center(), FontId::proportional(text::SMALL));
    ui.painter()
        .text(middle, Align2::CENTER_CENTER, name, font, ink);
}

fn section(ui: &mut Ui, name: &str) {
    ui.add_space(2.0 * UNIT);
    ui.label(RichText::new(name).heading());
}

fn page(ui: &mut Ui, charts: &mut Charts) {
    let theme = Theme::of(ui.visuals());
    theme.dress(ui);
    let small = vec2(66.0, 5.0 * UNIT);
    section(ui, "Scopes and threads");
    let names = [
        "render",
        "physics",
        "audio",
        "decode",
        "network",
        "parse",
        "sort",
        "draw",
        "upload",
        "script",
        "path_find",
        "gc",
    ];
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 1.0;
        for (color, name) in SCOPES.into_iter().zip(names) {
            swatch(ui, small, color, name, text_on(color));
        }
    });
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 1.0;
        for (color, name) in SCOPES.into_iter().zip(names) {
            let color = theme.dimmed(color);
            swatch(ui, small, color, name, text_on(color));
        }
    });
    ui.weak("Below: beside a search.");
    section(ui, "Durations");
    ui.horizontal(|ui| {
        ui.spacing_mut().item_spacing.x = 1.0;
        let names = [
            "100 ns", "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms",
        ];
        for (i, name) in names.into_iter().enumerate() {
            let color = theme.duration(10_u64.pow(2 + i as u32));
            swatch(ui, small, color, name, text_on(color));
        }
    });
    section(ui, "Meaning");
    ui.horizontal(|ui| {
        for (color, ink, name) in [
            (theme.good, theme.good_text, "good, faster"),
            (theme.warn, theme.warn_text, "above the budget"),
            (theme.bad, theme.bad_text, "slow, lost"),
            (theme.line, theme.text, "value"),
        ] {
            swatch(ui, vec2(5.0 * UNIT, 5.0 * UNIT), color, "", ink);
            ui.label(RichText::new(name).color(ink));
        }
    });
    let (rect, _) = ui.allocate_exact_size(vec2(800.0, 10.0 * UNIT), Sense::hover());
    ui.painter().rect_filled(rect, 0.0, theme.ground);
    for i in 0..60 {
        let height = UNIT * (3.0 + ((i * 7) % 5) as f32 + if i % 13 == 5 { 3.0 } else { 0.0 });
        let color = match height {
            height if height > 6.5 * UNIT => theme.bad,
            height if height > 5.5 * UNIT => theme.warn,
            _ => theme.good,
        };
        let left = rect.left() + i as f32 * 13.0;
        let bar = Rect::from_min_max(
            pos2(left, rect.bottom() - height),
            pos2(left + 11.0, rect.bottom()),
        );
        ui.painter().rect_filled(bar, 0.0, color);
    }
    section(ui, "Text");
    ui.horizontal(|ui| {
        ui.label(RichText::new("A title").heading());
        ui.label("A sentence of usual text, 12.3 ms.");
        ui.label(RichText::new("A note on a chart, 12.3 ms.").small());
        ui.weak("Less weight.");
        ui.code("VOR_RECORD=run.vor");
    });
    section(ui, "Parts");
    ui.horizontal(|ui| {
        _ = ui.button("Button");
        ui.add_enabled(false, egui::Button::new("Not now"));
        _ = ui.small_button("Small");
        _ = ui.selectable_label(true, "chosen");
        _ = ui.selectable_label(false, "other");
        ui.checkbox(&mut true, "on");
        ui.checkbox(&mut false, "off");
        let mut typed = "typed".to_owned();
        let field = egui::TextEdit::singleline(&mut typed).desired_width(80.0);
        ui.add(field).accessible_name("typed");
        let mut empty = String::new();
        let field = egui::TextEdit::singleline(&mut empty).hint_text("a hint");
        ui.add(field.desired_width(80.0)).accessible_name("empty");
        ui.hyperlink_to("a link", "https://example.org");
        // At the right edge, the open menu covers little.
        ui.menu_button("A menu", |ui| {
            _ = ui.button("A command");
            ui.add_enabled(false, egui::Button::new("Not now"));
            ui.checkbox(&mut true, "A switch");
        });
    });
    charts.show(ui, &theme);
}

fn looks(dark: bool) {
    let mut harness: Harness<'_, Charts> = pictures::builder()
        .with_size(vec2(860.0, 1200.0))
        .with_max_steps(40)
        .build_ui_state(page, Charts::new());
    harness.ctx.set_theme(if dark {
        egui::Theme::Dark
    } else {
        egui::Theme::Light
    });
    harness.run();
    harness.get_by_label("A menu").click();
    harness.run();
    for part in [
        "A command",
        "plot frame_ms",
        "histogram of draw",
        "collapse main",
    ] {
        let rect = harness.get_by_label(part).rect();
        assert!(
            rect.is_positive() && rect.bottom() <= 1200.0,
            "{part}: {rect}"
        );
    }
    harness.snapshot(if dark { "looks_dark" } else { "looks_light" });
}

#[test]
fn the_page_of_the_dark_theme() {
    looks(true);
}

#[test]
fn the_page_of_the_light_theme() {
    looks(false);
}

fn both() -> [(Theme, egui::Visuals); 2] {
    [egui::Visuals::dark(), egui::Visuals::light()].map(|visuals| (Theme::of(&visuals), visuals))
}

#[test]
fn every_text_has_contrast() {
    for (theme, visuals) in both() {
        let grounds = [
            theme.ground,
            visuals.panel_fill,
            visuals.window_fill,
            visuals.extreme_bg_color,
        ];
        let inks = [
            theme.text,
            theme.weak_text,
            theme.good_text,
            theme.warn_text,
            theme.bad_text,
            theme.line,
        ];
        for ground in grounds {
            for ink in inks {
                let found = contrast(ink, ground);
                assert!(found >= 4.5, "{found}: {ink:?} on {ground:?}");
            }
        }
        let code = contrast(theme.text, visuals.code_bg_color);
        assert!(code >= 4.5, "{code}: code");
        let chosen = visuals.selection;
        let found = contrast(chosen.stroke.color, chosen.bg_fill);
        assert!(found >= 4.5, "{found}: chosen");
        // On coloured spans, and on those that a search does not want.
        let durations = (0..12).map(|power| theme.duration(10_u64.pow(power)));
        let colors = SCOPES.into_iter().chain(durations);
        for color in colors.chain([theme.good, theme.warn, theme.bad]) {
            for ground in [color, theme.dimmed(color)] {
                let found = contrast(text_on(ground), ground);
                assert!(found >= 4.5, "{found} on {ground:?}");
            }
        }
    }
}

#[test]
fn meanings_differ_in_each_kind_of_colour_vision() {
    for (theme, _) in both() {
        let (found, where_it_is) = most_similar(&[theme.good, theme.warn, theme.bad]);
        assert!(found >= 0.12, "{found}: {where_it_is}");
        let waits = WaitMeaning::ALL.map(|meaning| theme.wait(meaning));
        let (found, where_it_is) = most_similar(&waits);
        assert!(found >= 0.098, "{found}: {where_it_is}");
        for color in waits {
            for ground in [color, theme.dimmed(color)] {
                let found = contrast(text_on(ground), ground);
                assert!(found >= 4.5, "{found} on {ground:?}");
            }
        }
    }
}

#[test]
fn longer_spans_are_lighter() {
    for (theme, _) in both() {
        let colors: Vec<Color32> = (2..9)
            .map(|power| theme.duration(10_u64.pow(power)))
            .collect();
        let dark = colors.iter().map(|&color| contrast(color, Color32::BLACK));
        assert!(dark.is_sorted());
        let (found, where_it_is) = most_similar(&colors);
        assert!(found >= 0.04, "{found}: {where_it_is}");
    }
}

/// Returns the lines of a folder's sources.
fn lines_of(folder: &std::path::Path, lines: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => lines_of(&path, lines),
            false => lines.extend(
                std::fs::read_to_string(&path)
                    .unwrap()
                    .lines()
                    .map(|line| format!("{}: {}", path.display(), line.trim())),
            ),
        }
    }
}

#[test]
fn gaps_are_multiples_of_half_a_unit_and_have_names() {
    let gaps = [
        space::TIGHT,
        space::TEXT,
        space::CELL,
        space::PART,
        space::SECTION,
    ];
    for gap in gaps {
        assert_eq!(gap % (UNIT / 2.0), 0.0, "{gap}");
    }
    let mut lines = Vec::new();
    let sources = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    lines_of(&sources, &mut lines);
    assert!(lines.len() > 10_000);
    let gaps = [
        "add_space(",
        "Margin::same(",
        "Margin::symmetric(",
        ".shrink(",
        ".shrink2(vec2(",
        ".expand(",
        ".expand2(vec2(",
        "item_spacing.x = ",
        "item_spacing.y = ",
        "item_spacing = vec2(",
        "button_padding = vec2(",
    ];
    let is_bare = |line: &&String| {
        gaps.iter().any(|gap| {
            let value = line.split(gap).nth(1).unwrap_or_default();
            value.starts_with(|first: char| first.is_ascii_digit()) && !value.starts_with("0.0")
        })
    };
    let bare: Vec<&String> = lines.iter().filter(is_bare).collect();
    assert!(bare.is_empty(), "{bare:#?}");
}
