//! The state of looking, the keys, and the drawing. Everything fits 80 by 24 characters.

use ratatui::Frame;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row as TableRow, Sparkline, Table, TableState};
use vor_capture::model::catalog::SiteId;
use vor_capture::units;
use vor_export::thread_label;

use super::model::Model;
use super::rows::{Row, Tab, rows, sparkline};
use crate::command::table::printable;

/// Characters of a trend in a table.
const TREND: usize = 12;
/// Characters of a number in a table.
const NUMBER: u16 = 9;

/// The table on the screen, and how it is shown.
#[derive(Debug)]
pub(super) struct Screen {
    tab: Tab,
    /// The column by which each table is sorted.
    sort: [usize; Tab::ALL.len()],
    filter: String,
    is_typing: bool,
    table: TableState,
    /// The scope that is open.
    opened: Option<SiteId>,
    /// The screen as it was when it was frozen.
    frozen: Option<Shown>,
}

/// The contents of a screen, which a freeze keeps.
#[derive(Clone, Debug)]
struct Shown {
    title: String,
    summary: String,
    frames: Vec<u64>,
    rows: Vec<Row>,
    details: Vec<String>,
}

impl Screen {
    pub(super) fn new() -> Self {
        Self {
            tab: Tab::Scopes,
            sort: [1; Tab::ALL.len()],
            filter: String::new(),
            is_typing: false,
            table: TableState::default().with_selected(0),
            opened: None,
            frozen: None,
        }
    }

    /// Handles a key. Returns whether it ends the command.
    pub(super) fn key(&mut self, key: KeyEvent, model: &Model) -> bool {
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        if is_control && key.code == KeyCode::Char('c') {
            return true;
        }
        if self.is_typing {
            match key.code {
                KeyCode::Char(typed) => self.filter.push(typed),
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Enter => self.is_typing = false,
                KeyCode::Esc => {
                    self.is_typing = false;
                    self.filter.clear();
                }
                _ => {}
            }
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Esc if self.opened.is_none() && self.filter.is_empty() => return true,
            KeyCode::Esc if self.opened.is_some() => self.opened = None,
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('f' | ' ') => {
                self.frozen = match self.frozen.take() {
                    Some(_) => None,
                    None => Some(self.contents(model)),
                };
            }
            KeyCode::Char('/') => self.is_typing = true,
            KeyCode::Char('s') => {
                let sort = &mut self.sort[self.tab as usize];
                *sort = (*sort + 1) % self.tab.sort_keys();
                self.thaw();
            }
            KeyCode::Char(digit @ '1'..='4') => self.choose(digit as usize - '1' as usize),
            KeyCode::Tab => self.choose((self.tab as usize + 1) % Tab::ALL.len()),
            KeyCode::BackTab => {
                self.choose((self.tab as usize + Tab::ALL.len() - 1) % Tab::ALL.len());
            }
            KeyCode::Down | KeyCode::Char('j') => self.table.select_next(),
            KeyCode::Up | KeyCode::Char('k') => self.table.select_previous(),
            KeyCode::PageDown => self.table.scroll_down_by(10),
            KeyCode::PageUp => self.table.scroll_up_by(10),
            KeyCode::Home => self.table.select_first(),
            KeyCode::End => self.table.select_last(),
            KeyCode::Enter if self.opened.is_none() => {
                let contents = self.shown(model);
                // Drawing keeps the selection within the rows, and keys may be faster.
                let last = contents.rows.len().saturating_sub(1);
                let at = self.table.selected().unwrap_or(0).min(last);
                self.opened = contents.rows.get(at).and_then(|row| row.site);
                self.thaw();
            }
            _ => {}
        }
        false
    }

    /// Ends a freeze whose rows are no longer what is looked at.
    fn thaw(&mut self) {
        self.frozen = None;
    }

    fn choose(&mut self, at: usize) {
        if let Some(tab) = Tab::ALL.get(at) {
            self.tab = *tab;
            self.opened = None;
            self.table.select_first();
            self.thaw();
        }
    }

    fn shown(&self, model: &Model) -> Shown {
        match &self.frozen {
            Some(frozen) => frozen.clone(),
            None => self.contents(model),
        }
    }

    fn contents(&self, model: &Model) -> Shown {
        let process = &model.catalog.process;
        let program = match process.name.is_empty() {
            true => model.source.clone(),
            false => format!("{} ({})", printable(&process.name), process.pid),
        };
        let details = self.opened.map(|site| details(model, site));
        Shown {
            title: format!("{program}  {}  {}", model.state, losses(model)),
            summary: summary(model),
            frames: model.frames.iter().map(|frame| frame.ns).collect(),
            rows: match self.opened {
                Some(_) => Vec::new(),
                None => rows(model, self.tab, self.sort[self.tab as usize], &self.filter),
            },
            details: details.unwrap_or_default(),
        }
    }

    pub(super) fn draw(&mut self, model: &Model, frame: &mut Frame<'_>) {
        let shown = self.shown(model);
        let [title, summary, frames, tabs, body, keys] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Length(1),
            Constraint::Length(3),
            Constraint::Length(1),
            Constraint::Min(3),
            Constraint::Length(1),
        ])
        .areas(frame.area());
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let reversed = Style::new().add_modifier(Modifier::REVERSED);
        let state = match self.frozen {
            Some(_) => "  FROZEN",
            None => "",
        };
        let heading = Line::from(vec![
            Span::styled("vor top  ", bold),
            Span::raw(shown.title.as_str()),
            Span::styled(state, reversed),
        ]);
        frame.render_widget(Paragraph::new(heading), title);
        frame.render_widget(Paragraph::new(shown.summary.as_str()), summary);
        let newest = shown.frames.len().saturating_sub(usize::from(frames.width));
        frame.render_widget(Sparkline::default().data(&shown.frames[newest..]), frames);
        frame.render_widget(Paragraph::new(self.tab_line()), tabs);
        match self.opened {
            Some(_) => {
                let lines = shown.details.iter().map(|line| Line::raw(line.as_str()));
                frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), body);
            }
            None => self.draw_table(&shown.rows, frame, body),
        }
        let help = match (self.is_typing, self.opened) {
            (true, _) => format!("filter: {}_   Enter keeps it, Esc clears it", self.filter),
            (false, Some(_)) => "Esc back   f freeze   q quit".to_owned(),
            (false, None) => {
                "q quit  1-4 table  ↑↓ row  Enter open  s sort  / filter  f freeze".to_owned()
            }
        };
        frame.render_widget(Paragraph::new(Line::styled(help, reversed)), keys);
    }

    fn tab_line(&self) -> Line<'static> {
        let bold = Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        let mut spans = Vec::new();
        for (at, tab) in Tab::ALL.into_iter().enumerate() {
            let style = if tab == self.tab { bold } else { Style::new() };
            spans.push(Span::styled(format!("{} {}", at + 1, tab.name()), style));
            spans.push(Span::raw("  "));
        }
        let sorted_by = self.tab.heads()[self.sort[self.tab as usize]];
        spans.push(Span::raw(format!(" by {sorted_by}")));
        if !self.filter.is_empty() {
            spans.push(Span::raw(format!("  /{}", self.filter)));
        }
        Line::from(spans)
    }

    fn draw_table(&mut self, rows: &[Row], frame: &mut Frame<'_>, area: Rect) {
        let heads = self.tab.heads();
        let numbers = heads.len() - 2;
        let mut widths = vec![Constraint::Min(12)];
        widths.extend(vec![Constraint::Length(NUMBER); numbers]);
        widths.push(Constraint::Length(TREND as u16));
        let right = |text: &str| Cell::from(Line::raw(text.to_owned()).right_aligned());
        let head = heads.iter().enumerate().map(|(at, head)| match at {
            0 => Cell::from(*head),
            _ => right(head),
        });
        let lines = rows.iter().map(|row| {
            let mut cells = vec![Cell::from(row.name.clone())];
            cells.extend(row.cells.iter().map(|cell| right(cell)));
            cells.push(Cell::from(sparkline(&row.trend, TREND)));
            TableRow::new(cells)
        });
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let table = Table::new(lines, widths)
            .header(TableRow::new(head).style(bold))
            .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
        frame.render_stateful_widget(table, area, &mut self.table);
    }
}

/// Returns the line with the numbers of the whole program.
fn summary(model: &Model) -> String {
    let mut parts = Vec::new();
    if let (Some(first), Some(last)) = (model.frames.front(), model.frames.back()) {
        let seconds = (last.end_ns - first.end_ns) as f64 / 1e9;
        let rate = (model.frames.len() - 1) as f64 / seconds.max(1e-9);
        let mut sorted: Vec<u64> = model.frames.iter().map(|frame| frame.ns).collect();
        sorted.sort_unstable();
        let at = |part: f64| {
            let index = (part * (sorted.len() - 1) as f64).round() as usize;
            units::duration(sorted[index] as f64)
        };
        let rate = match model.frames.len() {
            1 => String::new(),
            _ => format!("{}/s ", units::three_digits(rate)),
        };
        parts.push(format!("frames {rate}p50 {} p99 {}", at(0.5), at(0.99)));
    }
    parts.push(format!("spans {}/s", units::count(model.spans_last)));
    if let Some(memory) = model.metric("memory_mb") {
        parts.push(format!("memory {memory:.0} MB"));
    }
    if let Some(cpu) = model.metric("cpu_pct") {
        parts.push(format!("CPU {cpu:.0} %"));
    }
    parts.join("  ")
}

/// Returns what the capture lacks.
fn losses(model: &Model) -> String {
    let mut text = format!("dropped {}", units::count(model.dropped));
    if model.merged > 0 {
        text += &format!("  merged marks {}", units::count(model.merged));
    }
    match model.losses().len() {
        0 => {}
        places => text += &format!("  damaged in {}", units::counted(places as u64, "place")),
    }
    text
}

/// Returns the lines of one scope.
fn details(model: &Model, site: SiteId) -> Vec<String> {
    let mut lines = vec![String::new()];
    if let Some(info) = model.catalog.site(site) {
        lines.push(printable(&info.name));
        let place = printable(&info.file);
        lines.push(format!(
            "{place}:{} in {}",
            info.line,
            printable(&info.module_path)
        ));
    }
    let duration = |ns: u64| units::duration(ns as f64);
    if let Some(stats) = model.stats_of(site) {
        lines.push(String::new());
        lines.push(format!(
            "calls {}   total {}   self {}   mean {}",
            units::count(stats.count),
            duration(stats.total_ns),
            duration(stats.self_ns),
            units::duration(stats.mean_ns)
        ));
        lines.push(format!(
            "least {}   p50 {}   p95 {}   p99 {}   most {}",
            duration(stats.min_ns),
            duration(stats.p50_ns),
            duration(stats.p95_ns),
            duration(stats.p99_ns),
            duration(stats.max_ns)
        ));
    }
    if let Some(track) = model.scopes.get(&site) {
        let trend: Vec<f64> = track.history.iter().map(|ns| *ns as f64).collect();
        lines.push(String::new());
        lines.push(format!(
            "self time in the last minute, at most {} a second",
            duration(track.history.iter().copied().max().unwrap_or(0))
        ));
        lines.push(sparkline(&trend, super::model::SECONDS));
    }
    let of_site = model.pairs.iter().filter(|((of, _), _)| *of == site);
    let mut threads: Vec<_> = of_site.map(|((_, thread), ns)| (*ns, *thread)).collect();
    threads.sort_by(|a, b| b.cmp(a));
    lines.push(String::new());
    lines.push("self time by thread".to_owned());
    lines.extend(threads.into_iter().map(|(ns, thread)| {
        let label = printable(&thread_label(&model.catalog, thread));
        format!("{:>10}  {label}", duration(ns))
    }));
    lines
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use vor_capture::filled;
    use vor_capture::model::batch::{SpanBatch, ThreadBatch};
    use vor_capture::model::catalog::{
        Catalog, Column, MetricColumn, ProcessInfo, SiteInfo, ThreadId, ThreadInfo,
    };
    use vor_capture::model::frame::{FrameSnapshot, MetricValue};
    use vor_capture::model::timeline::{ClockSync, RATE_BITS};
    use vor_capture::reader::Recovered;

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::super::draw_as_text;
    use super::super::model::FrameRow;
    use super::*;

    const MS: u64 = 1_000_000;

    /// A program whose ticks are nanoseconds: for three seconds, frames of 20 ms with an update of
    /// 8 ms that waits 2 ms for a lock, and a thread that loads for 5 ms.
    fn model() -> Model {
        let site = |name: &str, category: &str| {
            Some(Arc::new(filled!(SiteInfo {
                name: name.to_owned().into(),
                category: category.to_owned().into(),
                file: "src/main.rs".into(),
                module_path: "game".into(),
                line: 7,
            })))
        };
        let thread = |name: &str| {
            Some(Arc::new(filled!(ThreadInfo {
                os_id: 1,
                name: name.into(),
            })))
        };
        let column = |name: &str, unit: &str| {
            filled!(Column {
                metric: MetricColumn {
                    name: name.into(),
                    unit: unit.into(),
                },
                system: true,
            })
        };
        let mut catalog = filled!(Catalog {
            process: Arc::new(filled!(ProcessInfo {
                pid: 4711,
                name: "game".into(),
            })),
            sites: Arc::new(vec![
                site("update", ""),
                site("load", ""),
                site("wait: jobs", "lock")
            ]),
            threads: Arc::new(vec![thread("main"), thread("loader")]),
            columns: Arc::new(vec![column("memory_mb", "MB"), column("cpu_pct", "%")]),
        });
        let sync = filled!(ClockSync {
            // A nanosecond each.
            rate: 1 << RATE_BITS,
        });
        Arc::make_mut(&mut catalog.timeline).push(sync);
        let catalog = Arc::new(catalog);
        let mut model = Model::new("unix:/run/game.sock");
        model.set_state("live");
        for index in 0..=150 {
            let end = (index + 1) * 20 * MS;
            let batch = filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![
                    filled!(ThreadBatch {
                        start_ticks: vec![end - 5 * MS, end - 9 * MS],
                        duration_ticks: vec![2 * MS, 8 * MS],
                        sites: vec![SiteId(3), SiteId(1)],
                    }),
                    filled!(ThreadBatch {
                        thread: ThreadId(1),
                        start_ticks: vec![end - 6 * MS],
                        duration_ticks: vec![5 * MS],
                        sites: vec![SiteId(2)],
                        dropped_spans: u64::from(index == 7),
                    }),
                ],
            });
            model.take_batch(&batch);
            let value = |column, value| filled!(MetricValue { column, value });
            // The history begins with frame 91.
            let memory = match index {
                90 => 50.0,
                91 => 100.0,
                140 => 250.0,
                _ => 123.0,
            };
            model.take_frame(&Recovered::whole(Arc::new(filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                index,
                start_ticks: end - 20 * MS,
                end_ticks: end,
                metrics: vec![value(0, memory), value(1, 65.0)],
            }))));
        }
        model
    }

    fn press(screen: &mut Screen, model: &Model, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\t' => KeyCode::Tab,
                '\u{8}' => KeyCode::BackTab,
                '\u{7f}' => KeyCode::Backspace,
                '\u{1b}' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            assert!(!screen.key(KeyEvent::from(code), model));
        }
    }

    fn drawn(screen: &mut Screen, model: &Model) -> String {
        draw_as_text(model, screen, 80, 24)
    }

    /// Returns a row of a table. Columns are a blank apart: numbers have 9 characters, the trend
    /// 12, and the name the rest.
    fn row(name: &str, cells: &[&str], trend: &str) -> String {
        let width = 80 - 13 - 10 * cells.len();
        let cells: String = cells.iter().map(|cell| format!(" {cell:>9}")).collect();
        format!("{name:<width$}{cells} {trend:>12}")
    }

    fn lines(screen: &mut Screen, model: &Model) -> Vec<String> {
        let text = drawn(screen, model);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_screen_of_80_by_24_has_everything() {
        let (model, mut screen) = (model(), Screen::new());
        let mut expected = vec![
            "vor top  game (4711)  live  dropped 1".to_owned(),
            "frames 50.0/s p50 20.0 ms p99 20.0 ms  spans 150/s  memory 123 MB  CPU 65 %"
                .to_owned(),
        ];
        expected.extend(vec!["\u{2588}".repeat(80); 3]);
        expected.extend([
            "1 scopes  2 threads  3 metrics  4 waits   by self/s".to_owned(),
            row(
                "scope",
                &["self/s", "total/s", "calls/s", "mean", "max"],
                "trend",
            ),
            row(
                "update",
                &["300 ms", "400 ms", "50", "8.00 ms", "8.00 ms"],
                "███",
            ),
            row(
                "load",
                &["250 ms", "250 ms", "50", "5.00 ms", "5.00 ms"],
                "███",
            ),
        ]);
        expected.resize(23, String::new());
        expected
            .push("q quit  1-4 table  ↑↓ row  Enter open  s sort  / filter  f freeze".to_owned());
        assert_eq!(lines(&mut screen, &model), expected);
    }

    #[test]
    fn every_table_has_its_columns() {
        let (model, mut screen) = (model(), Screen::new());
        let tables = [
            (
                "2",
                "busy",
                [
                    row("thread", &["busy", "spans/s", "spans"], "trend"),
                    row("main", &["40 %", "100", "302"], "███"),
                    row("loader", &["25 %", "50", "151"], "███"),
                ],
            ),
            (
                "3",
                "now",
                [
                    row("metric", &["now", "least", "most"], "trend"),
                    row("memory_mb", &["123 MB", "100 MB", "250 MB"], "▄█▄▄▄▄▄▄▄▄▄▄"),
                    row("cpu_pct", &["65.0 %"; 3], "████████████"),
                ],
            ),
            (
                "4",
                "time/s",
                [
                    row("waits for", &["time/s", "waits/s", "mean", "max"], "trend"),
                    row("jobs", &["100 ms", "50", "2.00 ms", "2.00 ms"], "███"),
                    String::new(),
                ],
            ),
        ];
        for (key, sorted_by, table) in tables {
            press(&mut screen, &model, key);
            let lines = lines(&mut screen, &model);
            let tabs = format!("1 scopes  2 threads  3 metrics  4 waits   by {sorted_by}");
            assert_eq!((&lines[5], &lines[6..9]), (&tabs, &table[..]));
        }
        // The chosen table is marked.
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| screen.draw(&model, frame)).unwrap();
        let marked = Modifier::BOLD | Modifier::UNDERLINED;
        let is_marked = |x: u16| terminal.backend().buffer()[(x, 5_u16)].modifier == marked;
        // Where the first and the last name begin.
        assert!(!is_marked(0) && is_marked(32));
    }

    #[test]
    fn an_opened_scope_has_its_statistics_and_threads() {
        let (model, mut screen) = (model(), Screen::new());
        drawn(&mut screen, &model);
        // A second Enter changes nothing.
        press(&mut screen, &model, "\n\n");
        let lines = lines(&mut screen, &model);
        let p50 = model.stats_of(SiteId(1)).unwrap().p50_ns;
        assert!(p50.abs_diff(8 * MS) < MS / 8, "{p50}");
        let p50 = units::duration(p50 as f64);
        let expected = [
            "",
            "update",
            "src/main.rs:7 in game",
            "",
            "calls 151   total 1.21 s   self 906 ms   mean 8.00 ms",
            &format!("least 8.00 ms   p50 {p50}   p95 {p50}   p99 {p50}   most 8.00 ms"),
            "",
            "self time in the last minute, at most 300 ms a second",
            &format!("{:>60}", "███"),
            "",
            "self time by thread",
            "    906 ms  main",
            "",
        ];
        assert_eq!(lines[6..19], expected);
        assert_eq!(lines[23], "Esc back   f freeze   q quit");
    }

    #[test]
    fn tables_are_chosen_sorted_and_filtered_by_keys() {
        let (model, mut screen) = (model(), Screen::new());
        let mut shown = |keys: &str| {
            press(&mut screen, &model, keys);
            let lines = lines(&mut screen, &model);
            let by = lines[5].split_once(" by ").unwrap().1.to_owned();
            (by, lines[7].split(' ').next().unwrap().to_owned())
        };
        let of = |by: &str, first: &str| (by.to_owned(), first.to_owned());
        // The keys of a table come one after the other, and each table keeps its own.
        for by in ["total/s", "calls/s", "mean", "max"] {
            let first = if by == "calls/s" { "load" } else { "update" };
            assert_eq!(shown("s"), of(by, first));
        }
        assert_eq!(shown("s"), of("scope", "load"));
        assert_eq!(shown("\t"), of("busy", "main"));
        assert_eq!(shown("s"), of("spans/s", "main"));
        assert_eq!(shown("ss"), of("thread", "loader"));
        assert_eq!(shown("\t"), of("now", "memory_mb"));
        assert_eq!(shown("\t"), of("time/s", "jobs"));
        assert_eq!(shown("\t"), of("scope", "load"));
        assert_eq!(shown("\u{8}"), of("time/s", "jobs"));
        assert_eq!(shown("\u{8}"), of("now", "memory_mb"));
        assert_eq!(shown("2"), of("thread", "loader"));
        assert_eq!(shown("1"), of("scope", "load"));
        // A filter is typed, in any case, until Enter; keys are text meanwhile.
        assert_eq!(shown("s/UPq"), of("self/s  /UPq", ""));
        assert_eq!(shown("\u{7f}D"), of("self/s  /UPD", "update"));
        let typing = lines(&mut screen, &model);
        assert_eq!(typing[23], "filter: UPD_   Enter keeps it, Esc clears it");
        let shown = |screen: &mut Screen, keys: &str| {
            press(screen, &model, keys);
            let lines = lines(screen, &model);
            (
                lines[5].split_once(" by ").unwrap().1.to_owned(),
                lines[23].clone(),
            )
        };
        let help = "q quit  1-4 table  ↑↓ row  Enter open  s sort  / filter  f freeze";
        assert_eq!(shown(&mut screen, "\n"), of("self/s  /UPD", help));
        // Esc ends what is looked at, one after the other: the scope, the filter, the command.
        assert_eq!(shown(&mut screen, "\n").1, "Esc back   f freeze   q quit");
        assert_eq!(shown(&mut screen, "\u{1b}"), of("self/s  /UPD", help));
        assert_eq!(shown(&mut screen, "\u{1b}"), of("self/s", help));
        assert_eq!(shown(&mut screen, "/x\u{1b}"), of("self/s", help));
        assert!(screen.key(KeyEvent::from(KeyCode::Esc), &model));
        assert!(screen.key(KeyEvent::from(KeyCode::Char('q')), &model));
        press(&mut screen, &model, "c");
        let control = |key| KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert!(!screen.key(control('x'), &model));
        press(&mut screen, &model, "/");
        assert!(screen.key(control('c'), &model));
    }

    /// A program with 25 scopes, the slowest first.
    fn many_scopes() -> Model {
        let site = |at: u32| {
            Some(Arc::new(filled!(SiteInfo {
                name: format!("scope {at}").into(),
            })))
        };
        let catalog = Arc::new(filled!(Catalog {
            sites: Arc::new((0..25).map(site).collect()),
        }));
        let mut model = Model::new("unix:/run/game.sock");
        let mut batch = filled!(ThreadBatch {
            start_ticks: (0..25).map(|at| at * 1_000).collect(),
            duration_ticks: (0..25).map(|at| 500 - at).collect(),
            sites: (1..=25).map(SiteId).collect(),
        });
        for _ in 0..2 {
            model.take_batch(&filled!(SpanBatch {
                catalog: Arc::clone(&catalog),
                threads: vec![batch.clone()],
            }));
            batch
                .start_ticks
                .iter_mut()
                .for_each(|start| *start += 1_000_000_000);
        }
        model
    }

    #[test]
    fn keys_move_through_the_rows() {
        let (model, mut screen) = (many_scopes(), Screen::new());
        drawn(&mut screen, &model);
        for (key, expected) in [
            (KeyCode::Down, 1),
            (KeyCode::Char('j'), 2),
            (KeyCode::PageDown, 12),
            (KeyCode::Up, 11),
            (KeyCode::Char('k'), 10),
            (KeyCode::PageDown, 20),
            (KeyCode::PageUp, 10),
            (KeyCode::End, 24),
            (KeyCode::Home, 0),
            // No row is above the first.
            (KeyCode::Up, 0),
            // Keys may be faster than the drawing that knows the last row.
            (KeyCode::End, 24),
        ] {
            assert!(!screen.key(KeyEvent::from(key), &model));
            assert!(!screen.key(KeyEvent::from(KeyCode::Enter), &model));
            let lines = lines(&mut screen, &model);
            assert_eq!(lines[7], format!("scope {expected}"), "{key:?}");
            press(&mut screen, &model, "\u{1b}");
            drawn(&mut screen, &model);
        }
    }

    #[test]
    fn a_frozen_screen_stays_until_something_else_is_looked_at() {
        for (freeze, thaw) in [("f", "f"), (" ", " "), ("f", "s"), ("f", "2"), ("f", "\n")] {
            let (mut shown, mut screen) = (model(), Screen::new());
            drawn(&mut screen, &shown);
            press(&mut screen, &shown, freeze);
            let frozen = lines(&mut screen, &shown);
            assert_eq!(frozen[0], "vor top  game (4711)  live  dropped 1  FROZEN");
            shown.dropped = 1000;
            shown.frames.clear();
            assert_eq!(lines(&mut screen, &shown), frozen);
            press(&mut screen, &shown, thaw);
            let thawed = lines(&mut screen, &shown);
            assert_eq!(
                thawed[0],
                "vor top  game (4711)  live  dropped 1\u{202f}000"
            );
            assert_eq!(thawed[1], "spans 150/s  memory 123 MB  CPU 65 %");
        }
    }

    #[test]
    fn the_summary_has_rates_and_percentiles_of_frames() {
        let mut model = Model::new("unix:/run/game.sock");
        let mut frame = |end_ms: i64, ms: u64| {
            model.frames.push_back(FrameRow {
                end_ns: end_ms * 1_000_000,
                ns: ms * MS,
            });
            summary(&model)
        };
        assert_eq!(frame(3_000, 8), "frames p50 8.00 ms p99 8.00 ms  spans 0/s");
        assert_eq!(
            frame(3_500, 2),
            "frames 2.00/s p50 8.00 ms p99 8.00 ms  spans 0/s"
        );
        for ms in [9, 1, 3, 11, 4, 6, 10, 7, 5] {
            frame(4_000, ms);
        }
        // Eleven frames in 2.5 s.
        model.frames[10].end_ns = 5_500_000_000;
        assert_eq!(
            summary(&model),
            "frames 4.00/s p50 6.00 ms p99 11.0 ms  spans 0/s"
        );
        assert_eq!(losses(&model), "dropped 0");
        model.merged = 2;
        assert_eq!(losses(&model), "dropped 0  merged marks 2");
    }

    #[test]
    fn a_program_without_a_name_is_known_by_its_address() {
        let (mut model, mut screen) = (many_scopes(), Screen::new());
        model.set_state("ended");
        let title = lines(&mut screen, &model).swap_remove(0);
        assert_eq!(title, "vor top  unix:/run/game.sock  ended  dropped 0");
    }
}
