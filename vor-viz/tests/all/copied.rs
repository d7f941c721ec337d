//! Charts whose values are copied as rows of text.

use egui_kittest::kittest::Queryable;
use vor_capture::model::catalog::SiteId;
use vor_fixtures::even::frame_ns;
use vor_viz::find::Listed;
use vor_viz::panel::Tab;

use crate::find::{FRAMES, Viewer, opened, settle};

/// Clicks a button that copies, and returns what it copied.
pub(crate) fn copied(viewer: &mut Viewer, button: &str) -> String {
    viewer.get_by_label(button).click();
    viewer.step();
    let commands = &viewer.output().platform_output.commands;
    let text = commands.iter().find_map(|command| match command {
        egui::OutputCommand::CopyText(text) => Some(text.clone()),
        _ => None,
    });
    let text = text.unwrap();
    settle(viewer);
    text
}

/// Returns the rows of copied text below its titles, which are checked.
fn rows_of(text: &str, titles: &str) -> Vec<Vec<String>> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(titles));
    let fields = |line: &str| line.split(',').map(str::to_owned).collect();
    lines.map(fields).collect()
}

/// A row of copied metrics.
#[derive(Debug)]
struct Values {
    name: String,
    is_exact: bool,
    begin_ns: u64,
    end_ns: u64,
    count: u64,
    min: f64,
    mean: f64,
    max: f64,
}

/// Copies the metrics.
fn metrics(viewer: &mut Viewer) -> Vec<Values> {
    let text = copied(viewer, "CSV of the plots");
    let rows = rows_of(
        &text,
        "metric,unit,values,begin_ns,end_ns,count,min,mean,max",
    );
    let values = |row: Vec<String>| {
        let [ref name, ref unit, ref kind, ref numbers @ ..] = row[..] else {
            panic!("{row:?}");
        };
        let unit_of = if name == "frame_ms" { "ms" } else { "nats" };
        assert_eq!(unit, unit_of, "{row:?}");
        assert!(kind == "exact" || kind == "binned", "{row:?}");
        let whole = |at: usize| numbers[at].parse().unwrap();
        let number = |at: usize| numbers[at].parse().unwrap();
        Values {
            name: name.clone(),
            is_exact: kind == "exact",
            begin_ns: whole(0),
            end_ns: whole(1),
            count: whole(2),
            min: number(3),
            mean: number(4),
            max: number(5),
        }
    };
    rows.into_iter().map(values).collect()
}

/// Returns the first moment of each frame, and the end of the last.
fn begins_ns() -> Vec<u64> {
    let mut begin_ns = 0;
    let begins = (0..=FRAMES).map(|frame| {
        let next = begin_ns + frame_ns(frame);
        std::mem::replace(&mut begin_ns, next)
    });
    begins.collect()
}

/// Returns the value of a metric in a frame.
fn value(name: &str, frame: u64) -> Option<f64> {
    match name {
        "frame_ms" => Some(frame_ns(frame) as f64 / 1e6),
        _ => frame.is_multiple_of(2).then_some(frame as f64 / 8.0),
    }
}

/// Checks the values of a metric for some frames.
fn check(rows: &[Values], name: &str, frames: std::ops::Range<u64>) {
    let rows: Vec<&Values> = rows.iter().filter(|row| row.name == name).collect();
    let begins_ns = begins_ns();
    let time_ns = |frame: u64| (begins_ns[frame as usize], begins_ns[frame as usize + 1]);
    for row in &rows {
        let inside = row.begin_ns + 1..=row.end_ns;
        let own = frames
            .clone()
            .filter(|frame| inside.contains(&time_ns(*frame).1));
        let own: Vec<u64> = own.collect();
        let known: Vec<f64> = own.iter().filter_map(|frame| value(name, *frame)).collect();
        assert_eq!(row.count, known.len() as u64, "{row:?}");
        let sum: f64 = known.iter().sum();
        if row.count > 0 {
            assert!((row.mean - sum / row.count as f64).abs() < 1e-9, "{row:?}");
        }
        if row.is_exact {
            assert_eq!((row.begin_ns, row.end_ns), time_ns(own[0]));
            assert_eq!((row.min, row.max), (known[0], known[0]));
        }
    }
    // Each value is in one row.
    let all = frames.filter_map(|frame| value(name, frame));
    let copied: u64 = rows.iter().map(|row| row.count).sum();
    assert_eq!(copied, all.count() as u64, "{name}");
}

#[test]
fn metrics_of_the_whole_are_copied_in_bins_and_exactly_where_loaded() {
    let mut viewer = opened(true);
    viewer.state_mut().panel_mut().set_tab(Tab::Metrics);
    settle(&mut viewer);
    let rows = metrics(&mut viewer);
    for name in ["frame_ms", "loss"] {
        check(&rows, name, 0..FRAMES);
    }
    let loaded = viewer.state().window();
    let exact = rows
        .iter()
        .filter(|row| row.name == "frame_ms" && row.is_exact);
    let exact = exact.count() as u64;
    let (first, last) = (loaded.start, loaded.end);
    // A bin at each end reaches beyond the frames in memory.
    let bin_ns = rows.iter().find(|row| !row.is_exact).unwrap();
    let in_bin = (bin_ns.end_ns - bin_ns.begin_ns) / 1_000_000 + 1;
    assert!(
        exact + 2 * in_bin >= last - first && exact <= last - first,
        "{exact} {loaded:?}"
    );
}

#[test]
fn metrics_of_frames_are_copied_exactly() {
    let mut viewer = opened(true);
    let panel = viewer.state_mut().panel_mut();
    panel.set_tab(Tab::Metrics);
    panel.plots_mut().set_hidden("frame_ms", true);
    viewer.state_mut().go_to(600);
    settle(&mut viewer);
    let rows = metrics(&mut viewer);
    // A hidden row is not copied.
    assert!(rows.iter().all(|row| row.is_exact && row.name == "loss"));
    check(&rows, "loss", viewer.state().window());
}

#[test]
fn histograms_and_slowest_calls_are_copied() {
    let mut viewer = opened(true);
    let panel = viewer.state_mut().panel_mut();
    panel.find_mut().list(Listed::Calls(SiteId(2)));
    settle(&mut viewer);
    let titles = "from_ns,to_ns,count";
    let buckets = rows_of(&copied(&mut viewer, "CSV of the histogram"), titles);
    let number = |text: &String| text.parse::<u64>().unwrap();
    let found = viewer.state().panel().find().found().unwrap();
    let count: u64 = buckets.iter().map(|row| number(&row[2])).sum();
    assert_eq!(count, found.count);
    let (first, last) = (buckets.first().unwrap(), buckets.last().unwrap());
    assert!((number(&first[0])..number(&first[1])).contains(&found.min_ns));
    assert!((number(&last[0])..number(&last[1])).contains(&found.max_ns));
    viewer.get_by_label("Scopes").click();
    settle(&mut viewer);
    viewer.get_by_label("scope draw").click();
    settle(&mut viewer);
    // The same calls in the details of their scope.
    assert_eq!(
        rows_of(&copied(&mut viewer, "CSV of the histogram"), titles),
        buckets
    );
    let slowest = copied(&mut viewer, "CSV of the slowest calls");
    let slowest = rows_of(&slowest, "scope,kind,thread,frame,begin_ns,ns");
    let table = viewer.state().panel().scopes().rows().unwrap();
    let row = table.rows.iter().find(|row| &*row.name == "draw").unwrap();
    assert_eq!(slowest.len(), row.slowest.len());
    let begins_ns = begins_ns();
    for (fields, call) in slowest.iter().zip(&row.slowest) {
        assert_eq!(fields[..3], ["draw", "scope", "main"]);
        assert_eq!(number(&fields[5]), call.span.duration_ns);
        // Only long frames have such calls.
        let frame = begins_ns.partition_point(|begin_ns| *begin_ns <= number(&fields[4])) - 1;
        assert_eq!(frame_ns(frame as u64), 3_000_000, "{fields:?}");
    }
}
