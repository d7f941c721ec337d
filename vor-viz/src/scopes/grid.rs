//! A table that is painted by hand: only visible rows are built, so ten thousand rows cost as much
//! as thirty.
//!
//! The first column fills the remaining width. A click on a title sorts, and a click on a row
//! selects it. After that click, the arrow keys also move the selection.

use std::ops::Range;

use egui::{
    Align, Color32, CursorIcon, EventFilter, FontId, Id, Key, Modifiers, Painter, Pos2, Rangef,
    Rect, Role, ScrollArea, Sense, Shape, Stroke, StrokeKind, TextStyle, Ui, WidgetInfo, pos2,
    text::{LayoutJob, TextWrapping},
    vec2,
};

use crate::theme::{Theme, space};

/// Margin left and right of a text in a cell, in points.
const MARGIN: f32 = space::CELL;

/// Minimum width of the first column, in points.
const MIN_NAME_WIDTH: f32 = 150.0;

/// Width of the scroll bar beside the rows, in points.
const SCROLL_BAR: f32 = 12.0;

/// A column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column {
    /// Its header.
    pub(crate) title: &'static str,
    /// The hover text of its header.
    pub(crate) hint: &'static str,
    /// Its width in digits; unused for the first column.
    pub(crate) digits: f32,
}

/// The column and the direction of the order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sort {
    pub(crate) column: usize,
    pub(crate) descending: bool,
}

/// The contents and layout of a table.
pub(crate) struct Grid<'a> {
    pub(crate) id: Id,
    pub(crate) columns: &'a [Column],
    /// Number of rows.
    pub(crate) rows: usize,
    /// The selected row.
    pub(crate) selected: Option<usize>,
    /// Whether the rows are outdated.
    pub(crate) dimmed: bool,
    /// Height of header and rows together, in points.
    pub(crate) height: f32,
    /// Prefix of the rows' accessible names, such as `scope`.
    pub(crate) row_role: &'a str,
}

/// The user's actions on a table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GridResponse {
    /// Another order was chosen.
    pub(crate) sorted: bool,
    /// The row that was clicked.
    pub(crate) clicked: Option<usize>,
    /// The row that the arrow keys moved to.
    pub(crate) moved_to: Option<usize>,
    /// The enter key was pressed.
    pub(crate) entered: bool,
}

/// Paints the cells of a row, one after the other.
pub(crate) struct RowPainter<'a> {
    painter: &'a Painter,
    theme: &'a Theme,
    font: &'a FontId,
    cells: &'a [Rangef],
    next: usize,
    y: Rangef,
    opacity: f32,
}

impl RowPainter<'_> {
    fn cell(&mut self) -> Rect {
        let x = self
            .cells
            .get(self.next)
            .copied()
            .unwrap_or(Rangef::NOTHING);
        self.next += 1;
        Rect::from_x_y_ranges(x, self.y)
    }

    /// Paints a colour and a name, and a short note at the right edge.
    pub(crate) fn name(&mut self, swatch: Color32, name: &str, note: &str) {
        let cell = self.cell();
        let side = 9.0_f32.min(cell.height() - 6.0);
        let center = pos2(cell.left() + MARGIN + side / 2.0, cell.center().y);
        let square = Rect::from_center_size(center, vec2(side, side));
        self.painter
            .rect_filled(square, 0.0, swatch.gamma_multiply(self.opacity));
        let color = self.theme.text.gamma_multiply(self.opacity);
        let weak = self.theme.weak_text.gamma_multiply(self.opacity);
        let left = square.right() + MARGIN;
        let mut right = cell.right() - MARGIN;
        if !note.is_empty() {
            let width = self.text(note, Align::Max, Rangef::new(left, right), weak);
            right -= width + MARGIN;
        }
        self.text(name, Align::Min, Rangef::new(left, right), color);
    }

    /// Paints a number at the right edge.
    pub(crate) fn number(&mut self, text: &str) {
        self.colored(text, self.theme.text);
    }

    /// Paints a weak text at the right edge.
    pub(crate) fn weak(&mut self, text: &str) {
        self.colored(text, self.theme.weak_text);
    }

    /// Paints a coloured text at the right edge.
    pub(crate) fn colored(&mut self, text: &str, color: Color32) {
        let cell = self.cell();
        let x = Rangef::new(cell.left() + MARGIN, cell.right() - MARGIN);
        self.text(text, Align::Max, x, color.gamma_multiply(self.opacity));
    }

    /// Paints a share from 0 to 1 as a bar, and a text beside it.
    pub(crate) fn bar(&mut self, share: f32, text: &str, color: Color32) {
        let cell = self.cell().shrink2(vec2(MARGIN, space::TEXT));
        let label = cell.width().min(52.0);
        let x = Rangef::new(cell.left(), cell.left() + label);
        self.text(
            text,
            Align::Max,
            x,
            self.theme.text.gamma_multiply(self.opacity),
        );
        let track =
            Rect::from_x_y_ranges(Rangef::new(x.max + MARGIN, cell.right()), cell.y_range());
        if track.width() <= 0.0 {
            return;
        }
        self.painter
            .rect_filled(track, 0.0, self.theme.grid.gamma_multiply(0.6));
        let share = if share.is_finite() {
            share.clamp(0.0, 1.0)
        } else {
            0.0
        };
        let filled = Rect::from_min_size(track.min, vec2(track.width() * share, track.height()));
        self.painter
            .rect_filled(filled, 0.0, color.gamma_multiply(self.opacity));
    }

    /// Paints a text, cut at the available width; returns its width.
    fn text(&self, text: &str, align: Align, x: Rangef, color: Color32) -> f32 {
        if x.max <= x.min {
            return 0.0;
        }
        let mut job = LayoutJob::simple_singleline(text.to_owned(), self.font.clone(), color);
        job.wrap = TextWrapping::truncate_at_width(x.max - x.min);
        let galley = self.painter.layout_job(job);
        let width = galley.size().x;
        let left = if align == Align::Min {
            x.min
        } else {
            x.max - width
        };
        let top = self.y.center() - galley.size().y / 2.0;
        self.painter.galley(pos2(left, top), galley, color);
        width
    }
}

impl Grid<'_> {
    /// Shows the table. `name` returns the accessible name of a row, `row` paints its cells from
    /// left to right, and `hover` shows its tooltip.
    pub(crate) fn show(
        self,
        ui: &mut Ui,
        theme: &Theme,
        sort: &mut Sort,
        name: impl Fn(usize) -> String,
        mut row: impl FnMut(usize, &mut RowPainter<'_>),
        hover: impl Fn(usize, &mut Ui),
    ) -> GridResponse {
        let mut response = GridResponse::default();
        let font = TextStyle::Body.resolve(ui.style());
        let digit = ui.fonts_mut(|fonts| fonts.glyph_width(&font, '0'));
        let row_height = (ui.fonts_mut(|fonts| fonts.row_height(&font)) + 4.0).ceil();
        let fixed = |column: &Column| (column.digits * digit).ceil() + 2.0 * MARGIN;
        let others: f32 = self.columns.iter().skip(1).map(fixed).sum();
        let first = (ui.available_width() - others - SCROLL_BAR).max(MIN_NAME_WIDTH);
        let width = first + others + SCROLL_BAR;
        let scrolls = ScrollArea::horizontal()
            .id_salt(self.id.with("across"))
            .max_height(self.height)
            .auto_shrink(false);
        scrolls.show(ui, |ui| {
            ui.spacing_mut().item_spacing = vec2(0.0, 0.0);
            ui.set_width(width);
            let left = ui.max_rect().left();
            let mut x = left;
            let widths = self.columns.iter().enumerate();
            let cells: Vec<Rangef> = widths
                .map(|(i, column)| {
                    let from = x;
                    x += if i == 0 { first } else { fixed(column) };
                    Rangef::new(from, x)
                })
                .collect();
            let (_, titles) = ui.allocate_space(vec2(width, row_height));
            response.sorted = self.titles(ui, theme, sort, &font, &cells, titles.y_range());
            self.keys(ui, &mut response);
            let rows = ScrollArea::vertical()
                .id_salt(self.id.with("down"))
                .auto_shrink(false);
            rows.show_viewport(ui, |ui, viewport| {
                ui.set_height(row_height * self.rows as f32);
                ui.set_width(width - SCROLL_BAR);
                let top = ui.max_rect().top();
                let rect = |i: usize| {
                    let min = pos2(left, top + row_height * i as f32);
                    Rect::from_min_size(min, vec2(width - SCROLL_BAR, row_height))
                };
                if let Some(to) = response.moved_to {
                    ui.scroll_to_rect(rect(to), None);
                }
                for i in in_sight(viewport.y_range(), row_height, self.rows) {
                    let rect = rect(i);
                    let answer = ui.interact(rect, self.id.with(("row", i)), Sense::CLICK);
                    let selected = self.selected == Some(i);
                    if selected {
                        ui.painter().rect_filled(rect, 0.0, theme.selection);
                    } else if answer.hovered() {
                        ui.painter()
                            .rect_filled(rect, 0.0, theme.selection.gamma_multiply(0.5));
                    } else if i % 2 == 1 {
                        ui.painter()
                            .rect_filled(rect, 0.0, ui.visuals().faint_bg_color);
                    }
                    answer.widget_info(|| {
                        let label = format!("{} {}", self.row_role, name(i));
                        WidgetInfo::selected(Role::Row, true, selected, label)
                    });
                    let mut painter = RowPainter {
                        painter: ui.painter(),
                        theme,
                        font: &font,
                        cells: &cells,
                        next: 0,
                        y: rect.y_range(),
                        opacity: if self.dimmed { 0.45 } else { 1.0 },
                    };
                    row(i, &mut painter);
                    if answer.clicked() {
                        response.clicked = Some(i);
                        ui.memory_mut(|memory| memory.request_focus(self.id));
                    }
                    answer.on_hover_ui(|ui| hover(i, ui));
                }
            });
        });
        response
    }

    /// Shows the titles; returns whether the order changed.
    fn titles(
        &self,
        ui: &Ui,
        theme: &Theme,
        sort: &mut Sort,
        font: &FontId,
        cells: &[Rangef],
        y: Rangef,
    ) -> bool {
        let mut sorted = false;
        for (i, (column, x)) in self.columns.iter().zip(cells).enumerate() {
            let rect = Rect::from_x_y_ranges(*x, y);
            let answer = ui.interact(rect, self.id.with(("title", i)), Sense::click());
            answer.widget_info(|| {
                WidgetInfo::labeled(Role::Button, true, format!("sort by {}", column.title))
            });
            if answer.clicked() {
                // Numbers sort in descending order first, names from a to z. A second click
                // reverses the order.
                let descending = if sort.column == i {
                    !sort.descending
                } else {
                    i > 0
                };
                *sort = Sort {
                    column: i,
                    descending,
                };
                sorted = true;
            }
            let is_sorted = sort.column == i;
            let color = if answer.hovered() || answer.has_focus() || is_sorted {
                theme.text
            } else {
                theme.weak_text
            };
            let galley = ui
                .painter()
                .layout_no_wrap(column.title.to_owned(), font.clone(), color);
            let width = galley.size().x;
            let left = if i == 0 {
                x.min + MARGIN
            } else {
                x.max - MARGIN - width
            };
            let top = y.center() - galley.size().y / 2.0;
            ui.painter().galley(pos2(left, top), galley, color);
            if is_sorted {
                let middle = if i == 0 {
                    left + width + space::PART
                } else {
                    left - space::PART
                };
                ui.painter()
                    .add(arrow(pos2(middle, y.center()), sort.descending, color));
            }
            answer
                .on_hover_text(column.hint)
                .on_hover_cursor(CursorIcon::PointingHand);
        }
        let line = Rangef::new(
            cells.first().map_or(0.0, |x| x.min),
            cells.last().map_or(0.0, |x| x.max),
        );
        ui.painter()
            .hline(line, y.max, Stroke::new(1.0, theme.grid));
        sorted
    }

    /// Moves the selection by arrow keys while the table has the focus.
    fn keys(&self, ui: &Ui, response: &mut GridResponse) {
        let rect = ui.available_rect_before_wrap();
        let answer = ui.interact(rect, self.id, Sense::FOCUSABLE);
        let label = || format!("table of {} rows, arrow keys select", self.rows);
        answer.widget_info(|| WidgetInfo::labeled(Role::Table, true, label()));
        if !answer.has_focus() {
            return;
        }
        let filter = EventFilter {
            vertical_arrows: true,
            ..EventFilter::default()
        };
        ui.memory_mut(|memory| memory.set_focus_lock_filter(self.id, filter));
        let stroke = Stroke::new(1.0, theme_focus(ui));
        ui.painter()
            .rect_stroke(rect, 0.0, stroke, StrokeKind::Inside);
        let (mut down, mut up) = (0, 0);
        ui.input_mut(|input| {
            down = input.count_and_consume_key(Modifiers::NONE, Key::ArrowDown);
            up = input.count_and_consume_key(Modifiers::NONE, Key::ArrowUp);
            response.entered = input.consume_key(Modifiers::NONE, Key::Enter);
        });
        if down + up > 0
            && let Some(last) = self.rows.checked_sub(1)
        {
            let to = match self.selected {
                Some(at) => (at + down).saturating_sub(up).min(last),
                None if down > 0 => 0,
                None => last,
            };
            response.moved_to = Some(to);
        }
    }
}

fn theme_focus(ui: &Ui) -> Color32 {
    ui.visuals().selection.stroke.color.gamma_multiply(0.6)
}

/// Returns the rows that are at least partly visible.
fn in_sight(y: Rangef, row_height: f32, rows: usize) -> Range<usize> {
    let first = ((y.min / row_height).floor().max(0.0) as usize).min(rows);
    let end = ((y.max / row_height).ceil().max(0.0) as usize).min(rows);
    first..end.max(first)
}

/// Returns a triangle that points down or up.
fn arrow(center: Pos2, down: bool, color: Color32) -> Shape {
    let (half, height) = (3.5, if down { 2.5 } else { -2.5 });
    let corners = vec![
        center + vec2(-half, -height),
        center + vec2(half, -height),
        center + vec2(0.0, height),
    ];
    Shape::convex_polygon(corners, color, Stroke::NONE)
}
