//! The viewer without windows, as the feature `pictures` alone builds it.

use crate::viewer::Viewer;

/// Opens no window.
///
/// # Errors
///
/// Always: there is no code for windows.
pub(crate) fn open(_: Viewer, _: Option<egui::Theme>) -> Result<(), &'static str> {
    Err("this program was built without its feature `viewer`; `--screenshot OUT.png` needs none")
}
