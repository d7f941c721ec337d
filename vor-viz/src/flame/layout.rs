//! The places of tracks.

use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::model::catalog::{Catalog, ThreadId};

use crate::store::{Store, Track, TrackKind};

/// Names a track, whatever others come and go.
pub type TrackId = (ThreadId, TrackKind);

/// Pixels between two tracks.
const GAP: f32 = 5.0;

/// The user's choice of tracks: their order, and which are collapsed.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrangement {
    /// The places of tracks since the user moved one; all others stand behind, in the store's
    /// order.
    places: FxHashMap<TrackId, usize>,
    collapsed: FxHashSet<TrackId>,
    /// Grows with each change.
    pub(super) version: u64,
}

/// A track and its place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct PlacedTrack {
    /// Index in the store's tracks.
    pub(super) track: usize,
    /// Names it.
    pub(super) id: TrackId,
    /// From the top of all tracks to the first row.
    pub(super) top: f32,
    /// Rows that are shown.
    pub(super) rows: usize,
    /// Whether only its first row is shown.
    pub(super) collapsed: bool,
}

impl Arrangement {
    /// Returns whether only the first row of a track is shown.
    pub(super) fn is_collapsed(&self, id: TrackId) -> bool {
        self.collapsed.contains(&id)
    }

    /// Collapses a track, or expands it.
    pub(super) fn set_collapsed(&mut self, id: TrackId, collapsed: bool) {
        if collapsed {
            self.collapsed.insert(id);
        } else {
            self.collapsed.remove(&id);
        }
        self.version += 1;
    }

    /// Puts a track `by` places further down, or up where that is negative.
    pub(super) fn shift(&mut self, store: &Store, id: TrackId, by: isize) {
        let mut order: Vec<TrackId> = self
            .ordered(store)
            .into_iter()
            .map(|track| id_of(&store.tracks()[track]))
            .collect();
        if let Some(from) = order.iter().position(|&other| other == id) {
            let to = from.saturating_add_signed(by).min(order.len() - 1);
            let moved = order.remove(from);
            order.insert(to, moved);
            self.places = order.into_iter().zip(0..).collect();
            self.version += 1;
        }
    }

    /// Returns the indices of the store's tracks in the order in which they are shown.
    fn ordered(&self, store: &Store) -> Vec<usize> {
        let mut tracks: Vec<usize> = (0..store.tracks().len()).collect();
        if !self.places.is_empty() {
            let place = |track: &usize| {
                let id = id_of(&store.tracks()[*track]);
                self.places.get(&id).copied().unwrap_or(usize::MAX)
            };
            tracks.sort_by_cached_key(place);
        }
        tracks
    }

    /// Places all tracks one below the other; returns them and the height of all.
    pub(super) fn place(&self, store: &Store, row_height: f32) -> (Vec<PlacedTrack>, f32) {
        let mut top = 0.0;
        let mut placed = Vec::with_capacity(store.tracks().len());
        for track in self.ordered(store) {
            let id = id_of(&store.tracks()[track]);
            let collapsed = self.is_collapsed(id);
            let all = store.tracks()[track].rows.len().max(1);
            let rows = if collapsed { 1 } else { all };
            placed.push(PlacedTrack {
                track,
                id,
                top,
                rows,
                collapsed,
            });
            // A name needs its line, however low the rows are.
            top += (rows as f32 * row_height).max(MIN_HEIGHT) + GAP;
        }
        (placed, (top - GAP).max(0.0))
    }
}

/// Least height of a track: its name's.
pub(super) const MIN_HEIGHT: f32 = 14.0;

/// Returns the name of a track.
pub(super) fn id_of(track: &Track) -> TrackId {
    (track.thread, track.kind)
}

/// Returns what a track is called: the thread's name, else its number.
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
