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

    use super::super::draw_as_text;
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
            model.take_frame(&Recovered::whole(Arc::new(filled!(FrameSnapshot {
                catalog: Arc::clone(&catalog),
                index,
                start_ticks: end - 20 * MS,
                end_ticks: end,
                metrics: vec![value(0, 123.0), value(1, 65.0)],
            }))));
        }
        model
    }

    fn press(screen: &mut Screen, model: &Model, keys: &str) {
        for key in keys.chars() {
            let code = match key {
                '\n' => KeyCode::Enter,
                '\u{1b}' => KeyCode::Esc,
                key => KeyCode::Char(key),
            };
            assert!(!screen.key(KeyEvent::from(code), model));
        }
    }

    fn drawn(screen: &mut Screen, model: &Model) -> String {
        draw_as_text(model, screen, 80, 24)
    }

    #[test]
    fn a_screen_of_80_by_24_has_everything() {
        let (model, mut screen) = (model(), Screen::new());
        let text = drawn(&mut screen, &model);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 24);
        assert_eq!(lines[0], "vor top  game (4711)  live  dropped 1");
        assert_eq!(
            lines[1],
            "frames 50.0/s p50 20.0 ms p99 20.0 ms  spans 150/s  memory 123 MB  CPU 65 %"
        );
        assert_eq!(lines[2], "█".repeat(80));
        assert_eq!(
            lines[5],
            "1 scopes  2 threads  3 metrics  4 waits   by self/s"
        );
        let table = [
            "scope                self/s   total/s   calls/s      mean       max        trend",
            "update               300 ms    400 ms        50   8.00 ms   8.00 ms          ███",
            "load                 250 ms    250 ms        50   5.00 ms   5.00 ms          ███",
        ];
        assert_eq!(lines[6..9], table, "{text}");
        assert!(lines[23].starts_with("q quit"), "{text}");
    }

    #[test]
    fn tables_are_chosen_sorted_filtered_and_opened() {
        let (model, mut screen) = (model(), Screen::new());
        let first_row = |screen: &mut Screen| {
            let text = drawn(screen, &model);
            text.lines().nth(7).unwrap().to_owned()
        };
        press(&mut screen, &model, "2");
        assert!(first_row(&mut screen).contains("30 %") || first_row(&mut screen).contains("40 %"));
        press(&mut screen, &model, "3");
        assert!(first_row(&mut screen).starts_with("memory_mb"));
        press(&mut screen, &model, "4");
        let wait = first_row(&mut screen);
        assert!(
            wait.starts_with("jobs") && wait.contains("100 ms"),
            "{wait}"
        );
        // By name, the last of the keys.
        press(&mut screen, &model, "1sssss");
        assert!(
            first_row(&mut screen).starts_with("load"),
            "{}",
            first_row(&mut screen)
        );
        press(&mut screen, &model, "/UPD\n");
        assert!(first_row(&mut screen).starts_with("update"));
        // The key before does not find a row below, and nothing is drawn in between.
        press(&mut screen, &model, "j\n");
        let opened = drawn(&mut screen, &model);
        for part in ["src/main.rs:7 in game", "calls 151", "p99 8.0", "main"] {
            assert!(opened.contains(part), "{part}: {opened}");
        }
        press(&mut screen, &model, "\u{1b}\u{1b}");
        assert!(first_row(&mut screen).starts_with("load"));
        assert!(screen.key(KeyEvent::from(KeyCode::Char('q')), &model));
    }

    #[test]
    fn a_frozen_screen_stays() {
        let (mut shown, mut screen) = (model(), Screen::new());
        press(&mut screen, &shown, "f");
        let frozen = drawn(&mut screen, &shown);
        assert!(frozen.contains("FROZEN"));
        shown.dropped = 1000;
        shown.scopes.clear();
        assert_eq!(drawn(&mut screen, &shown), frozen);
        press(&mut screen, &shown, "f");
        assert!(drawn(&mut screen, &shown).contains("dropped 1\u{202f}000"));
    }
}
