//! The positions of tracks.

use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::model::catalog::{Catalog, ThreadId};

use crate::groups::{self, Group, Groups, Line};
use crate::store::{Store, Track, TrackId};
use crate::theme::UNIT;

/// Pixels between two tracks.
pub(super) const GAP: f32 = UNIT;

/// The order of tracks that the user did not move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TrackOrder {
    /// As the threads were recorded.
    #[default]
    Recorded,
    /// By name.
    Name,
    /// The track with the most spans first.
    Spans,
}

impl TrackOrder {
    /// All variants, in the order of the menu.
    pub const ALL: [Self; 3] = [Self::Recorded, Self::Name, Self::Spans];

    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded => "as recorded",
            Self::Name => "by name",
            Self::Spans => "most spans first",
        }
    }
}

/// The user's arrangement of tracks: their order, and the collapsed, hidden and pinned ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    /// The order of tracks since the user moved one; all others follow in the store's order.
    places: FxHashMap<TrackId, usize>,
    order: TrackOrder,
    collapsed: FxHashSet<TrackId>,
    hidden: FxHashSet<TrackId>,
    /// Tracks above all others, which no filter hides.
    pinned: FxHashSet<TrackId>,
    /// Only tracks whose names contain this are shown; in lower case.
    filter: String,
    /// The groups of threads of one pool.
    groups: Groups,
}

/// The name of a group of threads, above its tracks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlacedGroup {
    pub(super) group: Group,
    /// Distance from the top of all tracks.
    pub(super) top: f32,
}

/// The positions of all shown tracks.
#[derive(Clone, Debug, Default)]
pub(super) struct Placement {
    pub(super) tracks: Vec<PlacedTrack>,
    pub(super) groups: Vec<PlacedGroup>,
    pub(super) height: f32,
}

/// A track and its position.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlacedTrack {
    /// Index in the store's tracks.
    pub(super) track: usize,
    /// Identifies the track.
    pub(super) id: TrackId,
    /// Distance from the top of all tracks to the first row.
    pub(super) top: f32,
    /// Number of shown rows.
    pub(super) rows: usize,
    /// Whether only its first row is shown.
    pub(super) collapsed: bool,
}

impl Arrangement {
    /// Returns whether only the first row of a track is shown.
    pub(super) fn is_collapsed(&self, id: TrackId) -> bool {
        self.collapsed.contains(&id)
    }

    /// Collapses or expands a track.
    pub(super) fn set_collapsed(&mut self, id: TrackId, collapsed: bool) {
        set(&mut self.collapsed, id, collapsed);
    }

    /// Returns whether a track is hidden by itself, apart from the filter.
    pub(super) fn is_hidden(&self, id: TrackId) -> bool {
        self.hidden.contains(&id)
    }

    /// Hides a track, or shows it again.
    pub(super) fn set_hidden(&mut self, id: TrackId, hidden: bool) {
        set(&mut self.hidden, id, hidden);
    }

    /// Shows all tracks again.
    pub(super) fn show_all(&mut self) {
        self.hidden.clear();
        self.filter.clear();
    }

    /// Returns whether a track is pinned above all others.
    pub(super) fn is_pinned(&self, id: TrackId) -> bool {
        self.pinned.contains(&id)
    }

    /// Pins a track above all others, or not.
    pub(super) fn set_pinned(&mut self, id: TrackId, pinned: bool) {
        set(&mut self.pinned, id, pinned);
    }

    /// Shows only the tracks whose names contain a text, in upper or lower case, and pinned ones.
    pub(super) fn set_filter(&mut self, filter: &str) {
        self.filter = filter.trim().to_lowercase();
    }

    /// Returns whether threads of one pool are a group.
    pub(super) fn is_grouped(&self) -> bool {
        self.groups.is_on
    }

    /// Makes the threads of each pool a group, or not.
    pub(super) fn set_grouped(&mut self, is_grouped: bool) {
        self.groups.is_on = is_grouped;
    }

    /// Shows only the name of a group, or its tracks, too.
    pub(super) fn set_group_collapsed(&mut self, group: &str, is_collapsed: bool) {
        self.groups.set_collapsed(group, is_collapsed);
    }

    /// Returns the group to which a track belongs. A pinned one has its own place.
    fn group_of(&self, id: TrackId, catalog: &Catalog) -> Option<String> {
        match id {
            TrackId::Scopes(thread) if !self.is_pinned(id) => {
                groups::of_thread(&thread_name(thread, catalog))
            }
            _ => None,
        }
    }

    /// Returns the order of tracks that the user did not move.
    pub(super) fn order(&self) -> TrackOrder {
        self.order
    }

    /// Sets the order; tracks that the user moved take their places in it.
    pub(super) fn set_order(&mut self, order: TrackOrder) {
        self.order = order;
        self.places.clear();
    }

    /// Shows a track, whatever hid it.
    pub(super) fn reveal(&mut self, id: TrackId, catalog: &Catalog) {
        self.hidden.remove(&id);
        if !self.passes(id, catalog) {
            self.filter.clear();
        }
        if let Some(group) = self.group_of(id, catalog) {
            self.set_group_collapsed(&group, false);
        }
    }

    fn passes(&self, id: TrackId, catalog: &Catalog) -> bool {
        self.filter.is_empty()
            || self.is_pinned(id)
            || track_name(id, catalog)
                .to_lowercase()
                .contains(&self.filter)
    }

    /// Returns whether there is no filter.
    pub(super) fn has_no_filter(&self) -> bool {
        self.filter.is_empty()
    }

    /// Returns the number of tracks that are not shown.
    pub(super) fn hidden_count(&self, store: &Store) -> usize {
        let tracks = store.shown_tracks().iter();
        tracks
            .filter(|track| !self.shows(track.id, store.catalog()))
            .count()
    }

    fn shows(&self, id: TrackId, catalog: &Catalog) -> bool {
        !self.is_hidden(id) && self.passes(id, catalog)
    }

    /// Moves a track down by `by` places, or up for a negative number.
    pub(super) fn shift(&mut self, store: &Store, id: TrackId, by: isize) {
        let tracks = store.shown_tracks();
        let order = self.ordered(store);
        let mut order: Vec<TrackId> = order.into_iter().map(|at| tracks[at].id).collect();
        // A place is one of the shown tracks: a step over a hidden one would change nothing.
        let is_shown = |one: &TrackId| self.shows(*one, store.catalog());
        let shown: Vec<TrackId> = order.iter().copied().filter(is_shown).collect();
        let Some(from) = shown.iter().position(|&other| other == id) else {
            return;
        };
        let to = from.saturating_add_signed(by).min(shown.len() - 1);
        let place = |wanted: TrackId| order.iter().position(|&other| other == wanted);
        if let (Some(from), Some(to)) = (place(id), place(shown[to])) {
            let moved = order.remove(from);
            order.insert(to, moved);
            self.places = order.into_iter().zip(0..).collect();
        }
    }

    /// Returns the indices of all tracks of the store in display order.
    fn ordered(&self, store: &Store) -> Vec<usize> {
        let all = store.shown_tracks();
        let mut tracks: Vec<usize> = (0..all.len()).collect();
        match self.order {
            TrackOrder::Recorded => {}
            TrackOrder::Name => {
                let name = |track: &usize| track_name(all[*track].id, store.catalog());
                tracks.sort_by_cached_key(|track| name(track).to_lowercase());
            }
            TrackOrder::Spans => {
                let spans = |track: &usize| spans_of(store, &all[*track]);
                tracks.sort_by_cached_key(|track| std::cmp::Reverse(spans(track)));
            }
        }
        if !self.places.is_empty() || !self.pinned.is_empty() {
            tracks.sort_by_cached_key(|track| {
                let id = all[*track].id;
                let place = self.places.get(&id).copied().unwrap_or(usize::MAX);
                (!self.is_pinned(id), place)
            });
        }
        tracks
    }

    /// Places all shown tracks one below the other.
    pub(super) fn place(&self, store: &Store, row_height: f32) -> Placement {
        let (all, catalog) = (store.shown_tracks(), store.catalog());
        let shown = self.ordered(store).into_iter();
        let shown = shown.filter(|&track| self.shows(all[track].id, catalog));
        let grouped = shown.map(|track| (track, self.group_of(all[track].id, catalog)));
        let mut top = 0.0;
        let mut placement = Placement::default();
        for line in self.groups.lines(grouped) {
            let track = match line {
                Line::Entry(track) => track,
                Line::Group(group) => {
                    placement.groups.push(PlacedGroup { group, top });
                    top += MIN_HEIGHT + GAP;
                    continue;
                }
            };
            let id = all[track].id;
            let collapsed = self.is_collapsed(id);
            let rows = if collapsed {
                1
            } else {
                all[track].rows.len().max(1)
            };
            placement.tracks.push(PlacedTrack {
                track,
                id,
                top,
                rows,
                collapsed,
            });
            // A name needs the height of its line, even above low rows.
            top += (rows as f32 * row_height).max(MIN_HEIGHT) + GAP;
        }
        placement.height = (top - GAP).max(0.0);
        placement
    }
}

fn set(tracks: &mut FxHashSet<TrackId>, id: TrackId, holds: bool) {
    if holds {
        tracks.insert(id);
    } else {
        tracks.remove(&id);
    }
}

/// Returns the number of spans of a track; of a capture, all of them.
pub(super) fn spans_of(store: &Store, track: &Track) -> u64 {
    match store.layer() {
        Some(layer) => layer.total_spans(track.id),
        None => track.span_count() as u64,
    }
}

/// Minimum height of a track: that of its name.
pub(super) const MIN_HEIGHT: f32 = 14.0;

/// Returns the name of a track: that of the thread, else its number, or that of the tasks.
pub(crate) fn track_name(track: TrackId, catalog: &Catalog) -> String {
    match track {
        TrackId::Scopes(thread) => thread_name(thread, catalog),
        TrackId::Ended(thread) => format!("{} · tasks", thread_name(thread, catalog)),
        TrackId::Tasks(site) => format!("{} · tasks", catalog.site_name(site)),
    }
}

/// Returns the name of a thread, else its number.
pub(crate) fn thread_name(thread: ThreadId, catalog: &Catalog) -> String {
    match (catalog.thread_name(thread), catalog.thread(thread)) {
        ("", Some(info)) if info.os_id > 0 => format!("thread {}", info.os_id),
        ("", _) => format!("thread #{}", thread.0),
        (name, _) => name.to_owned(),
    }
}
