//! The positions of tracks.

use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::model::catalog::{Catalog, ThreadId};

use crate::store::{Store, Track, TrackKind};

/// Identifies a track, even when others come and go.
pub type TrackId = (ThreadId, TrackKind);

/// Pixels between two tracks.
const GAP: f32 = 5.0;

/// The user's arrangement of tracks: their order, and the collapsed ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    /// The order of tracks since the user moved one; all others follow in the store's order.
    places: FxHashMap<TrackId, usize>,
    collapsed: FxHashSet<TrackId>,
    /// Grows with each change.
    pub(super) version: u64,
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
        if collapsed {
            self.collapsed.insert(id);
        } else {
            self.collapsed.remove(&id);
        }
        self.version += 1;
    }

    /// Moves a track down by `by` places, or up for a negative number.
    pub(super) fn shift(&mut self, store: &Store, id: TrackId, by: isize) {
        let mut order: Vec<TrackId> = self
            .ordered(store)
            .into_iter()
            .map(|track| id_of(&store.shown_tracks()[track]))
            .collect();
        if let Some(from) = order.iter().position(|&other| other == id) {
            let to = from.saturating_add_signed(by).min(order.len() - 1);
            let moved = order.remove(from);
            order.insert(to, moved);
            self.places = order.into_iter().zip(0..).collect();
            self.version += 1;
        }
    }

    /// Returns the indices of the store's tracks in display order.
    fn ordered(&self, store: &Store) -> Vec<usize> {
        let mut tracks: Vec<usize> = (0..store.shown_tracks().len()).collect();
        if !self.places.is_empty() {
            let place = |track: &usize| {
                let id = id_of(&store.shown_tracks()[*track]);
                self.places.get(&id).copied().unwrap_or(usize::MAX)
            };
            tracks.sort_by_cached_key(place);
        }
        tracks
    }

    /// Places all tracks one below the other; returns them and the total height.
    pub(super) fn place(&self, store: &Store, row_height: f32) -> (Vec<PlacedTrack>, f32) {
        let mut top = 0.0;
        let mut placed = Vec::with_capacity(store.shown_tracks().len());
        for track in self.ordered(store) {
            let id = id_of(&store.shown_tracks()[track]);
            let collapsed = self.is_collapsed(id);
            let all = store.shown_tracks()[track].rows.len().max(1);
            let rows = if collapsed { 1 } else { all };
            placed.push(PlacedTrack {
                track,
                id,
                top,
                rows,
                collapsed,
            });
            // A name needs the height of its line, even above low rows.
            top += (rows as f32 * row_height).max(MIN_HEIGHT) + GAP;
        }
        (placed, (top - GAP).max(0.0))
    }
}

/// Minimum height of a track: that of its name.
pub(super) const MIN_HEIGHT: f32 = 14.0;

/// Returns the id of a track.
pub(super) fn id_of(track: &Track) -> TrackId {
    (track.thread, track.kind)
}

/// Returns the name of a track: the thread's name, else its number.
pub(super) fn name_of((thread, kind): TrackId, catalog: &Catalog) -> String {
    let name = match (catalog.thread_name(thread), catalog.thread(thread)) {
        ("", Some(info)) if info.os_id > 0 => format!("thread {}", info.os_id),
        ("", _) => format!("thread #{}", thread.0),
        (name, _) => name.to_owned(),
    };
    match kind {
        TrackKind::Scopes => name,
        TrackKind::Tasks => format!("{name} · tasks"),
    }
}
