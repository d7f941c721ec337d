//! Scopes in the developer tools of a browser.
//!
//! Each span of a finished frame becomes a measure of the User Timing API, in windows and in
//! workers. The Performance panel records measures with everything else that the page does;
//! Chromium shows one track per thread. Measures and scopes read the same clock, so no time is
//! converted.
//!
//! A measure costs the page some microseconds and stays in a buffer without bound. So only the
//! longest spans of a frame become measures, and the sink clears its measures from a full buffer. A
//! panel keeps the measures that it has recorded.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::Error;
use vor_capture::model::catalog::SiteId;
use vor_capture::model::frame::FrameSnapshot;
use vor_capture::sink::{FrameSink, Interest};

/// Most spans of a frame that become measures, longest first. These take about a millisecond, and
/// no panel shows more of a frame.
pub const MAX_MEASURES_PER_FRAME: usize = 256;

/// Most measures that stay in the page's buffer.
pub const MAX_MEASURES_KEPT: usize = 8192;

/// Shows spans as measures in the timeline of the browser's developer tools: the 256 longest
/// of each frame.
///
/// The page's buffer keeps at most the last 8192 measures. When it is full, the sink clears all
/// measures that have the names of its scopes, including those of other scripts. Outside of
/// browsers there is no such timeline, and the sink only switches recording on.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_recorder::sinks::{Sink, browser::BrowserSink}; }
/// use vor::Sink;
///
/// let guard = vor::BrowserSink.install();
/// // A page that records as long as it is open:
/// std::mem::forget(guard);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct BrowserSink;

impl BrowserSink {
    /// Returns the sink, for [`add_sink`](crate::drain::add_sink). Outside of browsers the sink
    /// ignores its frames.
    pub fn build(self) -> impl FrameSink + use<> {
        Measures::default()
    }
}

/// Turns frames into measures.
#[derive(Debug, Default)]
struct Measures {
    /// The spans of a frame that become measures.
    chosen: Vec<SpanIndex>,
    buffer: PageBuffer,
}

/// The measures that are in the page's buffer.
#[derive(Debug, Default)]
struct PageBuffer {
    /// Measures made since the buffer was last cleared.
    count: usize,
    /// Names of the measures in the buffer, by call site.
    names: FxHashMap<SiteId, Arc<str>>,
}

impl PageBuffer {
    /// Makes room for `more` measures. When they do not fit, calls `clear` with each name in the
    /// buffer.
    fn make_room(&mut self, more: usize, mut clear: impl FnMut(&str)) {
        if self.count + more > MAX_MEASURES_KEPT {
            self.names.drain().for_each(|(_, name)| clear(&name));
            self.count = 0;
        }
    }

    /// Counts a measure that was made.
    fn add(&mut self, site: SiteId, name: &str) {
        self.count += 1;
        self.names.entry(site).or_insert_with(|| Arc::from(name));
    }
}

/// A span of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SpanIndex {
    /// Index of its thread in the frame.
    thread: usize,
    /// Index of the span in its thread.
    span: usize,
    duration_ticks: u64,
}

impl FrameSink for Measures {
    fn interest(&self) -> Interest {
        Interest::FRAMES
    }

    fn accept_frame(&mut self, frame: &Arc<FrameSnapshot>) -> Result<(), Error> {
        if frame.frame_set == 0 {
            choose(frame, MAX_MEASURES_PER_FRAME, &mut self.chosen);
            self.measure(frame);
        }
        Ok(())
    }
}

/// Finds the longest spans of a frame, at most `most`, ordered by thread and start. Equal durations
/// are ranked by start, so a span is never chosen without the spans around it.
fn choose(frame: &FrameSnapshot, most: usize, chosen: &mut Vec<SpanIndex>) {
    chosen.clear();
    for (thread, tree) in frame.threads.iter().enumerate() {
        let spans = tree.spans.iter().enumerate().map(|(span, it)| SpanIndex {
            thread,
            span,
            duration_ticks: it.duration_ticks,
        });
        chosen.extend(spans);
    }
    if chosen.len() > most {
        let rank = |it: &SpanIndex| (std::cmp::Reverse(it.duration_ticks), it.thread, it.span);
        chosen.select_nth_unstable_by_key(most, rank);
        chosen.truncate(most);
    }
    chosen.sort_unstable_by_key(|it| (it.thread, it.span));
}

#[cfg(not(all(target_arch = "wasm32", target_os = "unknown")))]
impl Measures {
    /// There is no timeline, so this only counts the measures.
    fn measure(&mut self, frame: &FrameSnapshot) {
        self.buffer.make_room(self.chosen.len(), |_| ());
        for chosen in &self.chosen {
            let span = &frame.threads[chosen.thread].spans[chosen.span];
            self.buffer
                .add(span.site, frame.catalog.site_name(span.site));
        }
    }
}

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
impl Measures {
    fn measure(&mut self, frame: &FrameSnapshot) {
        use crate::os::js::{Detail, clear_measures};
        use vor_export::{arg_name, thread_label};

        // Ticks are nanoseconds of `performance.now()`.
        let ms = |ticks: u64| ticks as f64 / 1e6;
        self.buffer.make_room(self.chosen.len(), clear_measures);
        // All spans of a thread without arguments share one `Detail`.
        let mut shared: Option<(usize, Detail)> = None;
        let catalog = &frame.catalog;
        for chosen in &self.chosen {
            let tree = &frame.threads[chosen.thread];
            let span = &tree.spans[chosen.span];
            let Some(site) = catalog.site(span.site) else {
                continue;
            };
            let label = || thread_label(catalog, tree.thread);
            let args = tree.args(span);
            let own;
            let detail =
                if args.is_empty() {
                    let is_its = |(thread, _): &(usize, Detail)| *thread == chosen.thread;
                    let made = shared.take().filter(is_its);
                    &shared
                        .insert(made.unwrap_or_else(|| {
                            (chosen.thread, Detail::new(frame.index, &label(), []))
                        }))
                        .1
                } else {
                    let values: Vec<String> = args.iter().map(ToString::to_string).collect();
                    let names: Vec<_> = (0..args.len()).map(|i| arg_name(Some(site), i)).collect();
                    let pairs = names.iter().zip(&values);
                    let pairs = pairs.map(|(name, value)| (name.as_ref(), value.as_str()));
                    own = Detail::new(frame.index, &label(), pairs);
                    &own
                };
            if detail.measure(&site.name, ms(span.start_ticks), ms(span.end_ticks())) {
                self.buffer.add(span.site, &site.name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vor_capture::filled;
    use vor_capture::model::frame::{Span, ThreadTree};

    fn frame(durations: &[&[u64]]) -> FrameSnapshot {
        let span = |duration_ticks: &u64| {
            filled!(Span {
                duration_ticks: *duration_ticks
            })
        };
        let tree = |durations: &&[u64]| {
            filled!(ThreadTree {
                spans: durations.iter().map(span).collect()
            })
        };
        filled!(FrameSnapshot {
            threads: durations.iter().map(tree).collect()
        })
    }

    fn chosen(durations: &[&[u64]], most: usize) -> Vec<(usize, usize)> {
        let mut chosen = Vec::new();
        choose(&frame(durations), most, &mut chosen);
        chosen.iter().map(|it| (it.thread, it.span)).collect()
    }

    #[test]
    fn the_longest_spans_of_all_threads_are_chosen_in_the_order_of_time() {
        let durations: &[&[u64]] = &[&[5, 1, 9], &[], &[7, 2]];
        assert_eq!(chosen(durations, 3), [(0, 0), (0, 2), (2, 0)]);
        assert_eq!(
            chosen(durations, 100),
            [(0, 0), (0, 1), (0, 2), (2, 0), (2, 1)]
        );
        assert_eq!(chosen(durations, 0), []);
        assert_eq!(chosen(&[], 3), []);
    }

    #[test]
    fn among_equally_long_spans_the_outer_ones_are_chosen() {
        assert_eq!(chosen(&[&[4, 4, 4, 4], &[4]], 2), [(0, 0), (0, 1)]);
    }

    #[test]
    fn the_page_never_keeps_more_than_the_maximum() {
        let mut page: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
        let mut kept = PageBuffer::default();
        let (mut made, mut cleared) = (0, 0);
        for frame in 0..1000_usize {
            // Names come and go, as do the sizes of frames.
            let names: Vec<String> = (0..frame % (MAX_MEASURES_PER_FRAME + 1))
                .map(|i| format!("scope {}", (frame * 7 + i) % 300))
                .collect();
            kept.make_room(names.len(), |name| {
                cleared += page
                    .remove(name)
                    .expect("a cleared name is in the page's buffer");
            });
            for name in &names {
                let number: u32 = name["scope ".len()..].parse().expect("a number");
                kept.add(SiteId(number), name);
                *page.entry(name.clone()).or_default() += 1;
            }
            made += names.len();
            let left: usize = page.values().sum();
            assert_eq!(left, made - cleared);
            assert!(left <= MAX_MEASURES_KEPT, "frame {frame}: {left}");
        }
        assert!(made > 10 * MAX_MEASURES_KEPT, "the buffer was often full");
    }
}
