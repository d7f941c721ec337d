//! Lists in which entries of similar names form groups that collapse.

use egui::{Rect, Role, Sense, Ui, WidgetInfo, vec2};
use rustc_hash::{FxHashMap, FxHashSet};
use vor_capture::units;

use crate::sketch::{self, Ink, fold_mark};
use crate::theme::{Theme, space, text};

/// The user's groups of a list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// Whether entries are grouped.
    pub(crate) is_on: bool,
    collapsed: FxHashSet<String>,
}

/// A line of a grouped list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// The name of a group, above its entries.
    Group(Group),
    /// The index of an entry.
    Entry(usize),
}

/// A group of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    /// The common begin of the names of its entries.
    pub(crate) name: String,
    /// Number of its entries.
    pub(crate) entries: usize,
    /// Whether its entries are hidden.
    pub(crate) is_collapsed: bool,
}

impl Groups {
    /// Collapses or expands a group.
    pub(crate) fn set_collapsed(&mut self, group: &str, is_collapsed: bool) {
        if is_collapsed {
            self.collapsed.insert(group.to_owned());
        } else {
            self.collapsed.remove(group);
        }
    }

    /// Returns the lines of a list. `entries` are its indices, each with the name of its group;
    /// none has no group. A group is where its first entry is, and has at least two.
    pub(crate) fn lines(
        &self,
        entries: impl Iterator<Item = (usize, Option<String>)>,
    ) -> Vec<Line> {
        let entries: Vec<_> = entries
            .map(|(index, group)| (index, group.filter(|_| self.is_on)))
            .collect();
        let mut members: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
        for (index, group) in &entries {
            if let Some(group) = group {
                members.entry(group).or_default().push(*index);
            }
        }
        let mut lines = Vec::with_capacity(entries.len());
        for (index, group) in &entries {
            let group = group.as_deref().filter(|group| {
                // Those of a group that was listed are gone, and one entry is no group.
                members.get(group).is_none_or(|members| members.len() > 1)
            });
            let Some(name) = group else {
                lines.push(Line::Entry(*index));
                continue;
            };
            let Some(members) = members.remove(name) else {
                continue;
            };
            let is_collapsed = self.collapsed.contains(name);
            lines.push(Line::Group(Group {
                name: name.to_owned(),
                entries: members.len(),
                is_collapsed,
            }));
            if !is_collapsed {
                lines.extend(members.into_iter().map(Line::Entry));
            }
        }
        lines
    }
}

/// Shows the name of a group, with the number of its entries; returns whether it was clicked.
pub(crate) fn show_name(ui: &Ui, rect: Rect, group: &Group, theme: &Theme) -> bool {
    let id = ui.scope_id().with(("group", &group.name));
    let response = ui.interact(rect, id, Sense::click());
    let verb = if group.is_collapsed {
        "expand"
    } else {
        "collapse"
    };
    response.widget_info(|| {
        let label = format!("{verb} group {}", group.name);
        WidgetInfo::labeled(Role::Button, true, label)
    });
    let color = match response.hovered() || response.has_focus() {
        true => theme.text,
        false => theme.weak_text,
    };
    let left = rect.left_center();
    let mark = fold_mark(left + vec2(5.0, 0.0), group.is_collapsed, color);
    ui.painter().add(mark);
    let text = format!("{} ({})", group.name, units::count(group.entries as u64));
    let size = text::BODY;
    let galley = sketch::layout(
        ui.painter(),
        rect.width() - space::SECTION,
        text.clone(),
        Ink { size, color },
    );
    let response = match galley.elided {
        true => response.on_hover_text(text),
        false => response,
    };
    let place = left + vec2(space::PART + space::TEXT, -galley.size().y / 2.0);
    ui.painter().galley(place, galley, color);
    response.clicked()
}

/// Returns the group of a thread: its name without the number at the end. `worker-7` belongs to
/// `worker`.
pub(crate) fn of_thread(name: &str) -> Option<String> {
    let is_separator = |letter: char| !letter.is_alphanumeric();
    let stem = name.trim_end_matches(is_separator);
    let stem = stem.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let stem = stem.trim_end_matches(is_separator);
    (!stem.is_empty()).then(|| stem.to_owned())
}

/// Returns the group of a metric: the first word of its name. `disk_read_MB` belongs to `disk`.
pub(crate) fn of_metric(name: &str) -> Option<String> {
    let stem = name.split(|letter: char| !letter.is_alphanumeric()).next();
    stem.filter(|stem| !stem.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn threads_of_a_pool_are_a_group() {
        let groups = [
            "worker-1",
            "worker_22",
            "worker (3)",
            "worker",
            "main",
            "tokio-rt-worker",
            "7",
            "",
        ]
        .map(of_thread);
        let expected = [
            "worker",
            "worker",
            "worker",
            "worker",
            "main",
            "tokio-rt-worker",
        ];
        assert_eq!(groups[..6], expected.map(|name| Some(name.to_owned())));
        assert_eq!(groups[6..], [None, None]);
    }

    #[test]
    fn metrics_with_one_first_word_are_a_group() {
        let groups = ["gpu0_util", "gpu0.temp", "depth: jobs", "_"].map(of_metric);
        assert_eq!(groups[0], groups[1]);
        assert_eq!(groups[2].as_deref(), Some("depth"));
        assert_eq!(groups[3], None);
    }

    #[test]
    fn a_group_is_where_its_first_entry_is() {
        let list = ["main", "worker-1", "audio", "worker-2"];
        let entries = || {
            list.iter()
                .enumerate()
                .map(|(i, name)| (i, of_thread(name)))
        };
        let mut groups = Groups::default();
        let plain = [0, 1, 2, 3].map(Line::Entry);
        assert_eq!(groups.lines(entries()), plain);
        groups.is_on = true;
        let group = |is_collapsed| {
            Line::Group(Group {
                name: "worker".to_owned(),
                entries: 2,
                is_collapsed,
            })
        };
        let [main, one, audio, two] = plain;
        let grouped = [main.clone(), group(false), one, two, audio.clone()];
        assert_eq!(groups.lines(entries()), grouped);
        groups.set_collapsed("worker", true);
        assert_eq!(groups.lines(entries()), [main, group(true), audio]);
    }

    proptest! {
        /// Each entry is listed once unless its group is collapsed, and those of a group are
        /// together.
        #[test]
        fn each_entry_is_listed_once(
            names in prop::collection::vec(prop::option::of(0..5_u8), 0..30),
            collapsed in prop::collection::vec(0..5_u8, 0..3),
        ) {
            let mut groups = Groups { is_on: true, ..Groups::default() };
            collapsed.iter().for_each(|name| groups.set_collapsed(&name.to_string(), true));
            let of = |i: usize| names[i].map(|name| name.to_string());
            let lines = groups.lines((0..names.len()).map(|i| (i, of(i))));
            let mut listed: Vec<usize> = Vec::new();
            let mut left = 0;
            let mut open = None;
            for line in lines {
                match line {
                    Line::Group(group) => {
                        prop_assert_eq!(left, 0);
                        let is_member = |i: &usize| of(*i).as_ref() == Some(&group.name);
                        let members: Vec<usize> = (0..names.len()).filter(is_member).collect();
                        prop_assert_eq!(members.len(), group.entries);
                        prop_assert!(group.entries > 1);
                        if group.is_collapsed {
                            listed.extend(members);
                        } else {
                            left = group.entries;
                            open = Some(group.name);
                        }
                    }
                    Line::Entry(i) => {
                        if left > 0 {
                            left -= 1;
                            prop_assert_eq!(of(i), open.clone());
                        } else {
                            let alike = (0..names.len()).filter(|&other| of(other) == of(i));
                            prop_assert!(of(i).is_none() || alike.count() == 1);
                        }
                        listed.push(i);
                    }
                }
            }
            listed.sort_unstable();
            prop_assert_eq!(listed, (0..names.len()).collect::<Vec<_>>());
        }
    }
}
