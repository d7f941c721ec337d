//! Boxes: the visible nodes of a tree, their layout and their painting.
//!
//! Children lie below their parent, the widest at the left. All children from the first one
//! narrower than a quarter of a pixel are merged into one grey box. A row therefore has at most
//! four boxes per pixel. All visible boxes are one mesh, which is rebuilt only after a change.

use std::hash::Hash;
use std::sync::Arc;

use egui::{
    Color32, FontId, Mesh, Painter, Pos2, Rangef, Rect, Shape, pos2,
    text::{LayoutJob, TextWrapping},
    vec2,
};

use super::tree::{NONE, Tree, Weight};
use crate::theme::space;

/// Height of a row, in points.
pub(crate) const ROW_HEIGHT: f32 = 19.0;

/// Minimum width of a separate box, in pixels.
const MIN_BOX_PX: f64 = 0.25;

/// Minimum width of a box with a label, in points.
const MIN_LABELLED_WIDTH: f32 = 28.0;

/// Maximum number of rows; deeper stacks are cut off.
const MAX_ROWS: u32 = 4096;

/// The position of a node. `from` and `to` are parts of the whole width, from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct NodeBox {
    /// The node; [`NONE`] for a merged box.
    pub(crate) node: u32,
    /// Its parent; a merged box contains the parent's narrowest children.
    pub(crate) parent: u32,
    /// The number of nodes it merges.
    pub(crate) nodes: u32,
    pub(crate) row: u32,
    pub(crate) from: f64,
    pub(crate) to: f64,
}

/// The inputs of a layout.
#[derive(Clone, Copy, Debug, PartialEq)]
struct LayoutKey {
    generation: u64,
    top: u32,
    width_px: f64,
}

/// The inputs of a mesh.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PaintKey {
    layout: LayoutKey,
    rect: Rect,
    sight: Rangef,
    colors: u64,
}

/// The boxes of a tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Boxes {
    /// The boxes by row, and from left to right within a row.
    places: Vec<NodeBox>,
    /// Index in `places` of each row's first box.
    rows: Vec<usize>,
    made_for: Option<LayoutKey>,
    mesh: Arc<Mesh>,
    painted_for: Option<PaintKey>,
}

impl Boxes {
    /// Lays out all nodes that are wide enough, with the node `top` over the whole width.
    /// `generation` changes whenever the tree does.
    pub(crate) fn lay_out<K: Copy + Eq + Hash, W: Weight>(
        &mut self,
        tree: &Tree<K, W>,
        generation: u64,
        top: u32,
        width_px: f32,
    ) {
        let made_for = LayoutKey {
            generation,
            top,
            width_px: f64::from(width_px.max(1.0)),
        };
        if self.made_for == Some(made_for) {
            return;
        }
        self.made_for = Some(made_for);
        self.places.clear();
        self.rows.clear();
        let Some(whole) = tree
            .node(top)
            .map(|node| node.sums.weight())
            .filter(|weight| *weight > 0.0)
        else {
            return;
        };
        let least = MIN_BOX_PX / made_for.width_px;
        self.places.push(NodeBox {
            node: top,
            parent: NONE,
            nodes: 1,
            row: 0,
            from: 0.0,
            to: 1.0,
        });
        let mut from = 0;
        for row in 1..MAX_ROWS {
            let to = self.places.len();
            self.rows.push(from);
            if from == to {
                break;
            }
            for above in from..to {
                let above = self.places[above];
                self.children_of(tree, &above, whole, least, row);
            }
            from = to;
        }
    }

    fn children_of<K: Copy + Eq + Hash, W: Weight>(
        &mut self,
        tree: &Tree<K, W>,
        above: &NodeBox,
        whole: f64,
        least: f64,
        row: u32,
    ) {
        let mut others: Option<NodeBox> = None;
        let mut from = above.from;
        for child in tree.children(above.node) {
            let weight = tree.node(child).map_or(0.0, |node| node.sums.weight());
            // In a damaged capture, spans may not nest; children stay within their parent
            // nevertheless.
            let to = (from + weight / whole).min(above.to);
            match &mut others {
                Some(others) => {
                    others.nodes += 1;
                    others.to = to;
                }
                None if to - from < least => {
                    others = Some(NodeBox {
                        node: NONE,
                        parent: above.node,
                        nodes: 1,
                        row,
                        from,
                        to,
                    });
                }
                None => self.places.push(NodeBox {
                    node: child,
                    parent: above.node,
                    nodes: 1,
                    row,
                    from,
                    to,
                }),
            }
            from = to;
        }
        self.places
            .extend(others.filter(|others| others.to - others.from >= least));
    }

    /// Returns the height of all rows, in points.
    pub(crate) fn height(&self) -> f32 {
        let rows = self.places.last().map_or(0, |last| last.row + 1);
        rows as f32 * ROW_HEIGHT
    }

    /// Returns the box at a point.
    pub(crate) fn at(&self, rect: Rect, point: Pos2) -> Option<NodeBox> {
        if !rect.contains(point) {
            return None;
        }
        let row = ((point.y - rect.top()) / ROW_HEIGHT).floor().max(0.0) as usize;
        let x = f64::from((point.x - rect.left()) / rect.width().max(1.0));
        let places = self.row(row);
        let after = places.partition_point(|place| place.from <= x);
        let place = places.get(after.checked_sub(1)?)?;
        (x < place.to).then_some(*place)
    }

    fn row(&self, row: usize) -> &[NodeBox] {
        let Some(&from) = self.rows.get(row) else {
            return &[];
        };
        let to = self.rows.get(row + 1).copied().unwrap_or(self.places.len());
        self.places.get(from..to).unwrap_or(&[])
    }

    /// Paints the visible boxes. `rect` is the area of all boxes, and `sight` its visible vertical
    /// range. `colors` changes whenever `color` returns other colours.
    pub(crate) fn paint(
        &mut self,
        painter: &Painter,
        rect: Rect,
        sight: Rangef,
        colors: u64,
        color: impl Fn(&NodeBox) -> Color32,
    ) {
        let Some(layout) = self.made_for else {
            return;
        };
        let painted_for = PaintKey {
            layout,
            rect,
            sight,
            colors,
        };
        if self.painted_for != Some(painted_for) {
            self.painted_for = Some(painted_for);
            let mut mesh = std::mem::take(&mut self.mesh);
            // The last pass may still hold the mesh; then `make_mut` makes a new allocation.
            let quads = Arc::make_mut(&mut mesh);
            quads.clear();
            for row in self.rows_in_sight(rect, sight) {
                for place in self.row(row) {
                    quads.add_colored_rect(area(rect, place), color(place));
                }
            }
            self.mesh = mesh;
        }
        painter.add(Shape::Mesh(Arc::clone(&self.mesh)));
    }

    /// Writes labels on the boxes that are wide enough.
    pub(crate) fn label(
        &self,
        painter: &Painter,
        rect: Rect,
        sight: Rangef,
        font: &FontId,
        text: impl Fn(&NodeBox) -> (String, Color32),
    ) {
        for row in self.rows_in_sight(rect, sight) {
            for place in self.row(row) {
                let area = area(rect, place);
                if area.width() < MIN_LABELLED_WIDTH || place.node == NONE {
                    continue;
                }
                let (text, color) = text(place);
                let mut job = LayoutJob::simple_singleline(text, font.clone(), color);
                job.wrap = TextWrapping::truncate_at_width(area.width() - 2.0 * space::TEXT);
                let galley = painter.layout_job(job);
                let at = area.left_center() + vec2(4.0, -galley.size().y / 2.0);
                painter.galley(at, galley, color);
            }
        }
    }

    fn rows_in_sight(&self, rect: Rect, sight: Rangef) -> std::ops::Range<usize> {
        let row = |y: f32| ((y - rect.top()) / ROW_HEIGHT).max(0.0);
        let end = (row(sight.max).ceil() as usize).min(self.rows.len());
        (row(sight.min).floor() as usize).min(end)..end
    }
}

/// Returns the painted area of a box, with a gap to its neighbours unless it is too narrow.
pub(crate) fn area(rect: Rect, place: &NodeBox) -> Rect {
    let left = rect.left() + (place.from * f64::from(rect.width())) as f32;
    let right = rect.left() + (place.to * f64::from(rect.width())) as f32;
    let right = if right - left > 3.0 {
        right - 1.0
    } else {
        right
    };
    let top = rect.top() + place.row as f32 * ROW_HEIGHT;
    Rect::from_min_max(pos2(left, top), pos2(right, top + ROW_HEIGHT - 1.0))
}
