//! One side of a comparison: statistics and blocks of spans per call site. Neither grows with the
//! number of spans.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vor_capture::model::catalog::{Catalog, SiteId};
use vor_capture::reader::{Damage, Piece};
use vor_capture::stats::{Blocks, StatsBuilder};

use crate::command::failure::{Failure, warn};
use crate::command::patterns::Pattern;
use crate::command::progress::Progress;
use crate::command::range::FrameRange;
use crate::command::source::{Source, is_damaged, lost_records, no_spans, warn_of};

/// Smaller ids index a table, larger ones a map: one wrong id in a damaged capture must not cost
/// gigabytes.
const DENSE_SITES: usize = 1 << 16;

/// One of the two captures.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) path: PathBuf,
    pub(super) version: u16,
    pub(super) stats: StatsBuilder,
    pub(super) blocks: SiteBlocks,
    /// Number of frames of the main set.
    pub(super) frames: u64,
    /// Number of those that have spans: a recorder may keep the spans of some frames only.
    pub(super) frames_with_spans: u64,
    pub(super) first: Option<u64>,
    pub(super) last: Option<u64>,
    pub(super) dropped_spans: u64,
    pub(super) catalog: Arc<Catalog>,
    pub(super) damage: Damage,
    /// Selected frames with lost records.
    pub(super) incomplete_frames: u64,
}

/// The blocks of every call site.
#[derive(Debug)]
pub(super) struct SiteBlocks {
    keeps_histograms: bool,
    dense: Vec<Blocks>,
    sparse: HashMap<SiteId, Blocks>,
}

/// Reads a capture; percentiles need histograms.
pub(super) fn gather(
    path: &Path,
    frames: Option<FrameRange>,
    keeps_histograms: bool,
    progress: &mut Progress,
) -> Result<Side, Failure> {
    let mut source = Source::open(path)?;
    // Without a range, spans that ended after the last mark count too.
    let range = match frames {
        Some(range) => source.bounded(range)?,
        None => FrameRange::ALL,
    };
    let mut side = gather_once(
        &mut source,
        range,
        keeps_histograms,
        progress,
        StatsBuilder::new(),
    )?;
    // If too many spans waited for their parents to be stored one by one, another pass starts with
    // the points at which to split them.
    for _ in 1..StatsBuilder::MAX_PASSES {
        let Some(stats) = side.stats.for_second_pass() else {
            break;
        };
        side = gather_once(&mut source, range, keeps_histograms, progress, stats)?;
    }
    Ok(side)
}

fn gather_once(
    source: &mut Source,
    range: FrameRange,
    keeps_histograms: bool,
    progress: &mut Progress,
    mut stats: StatsBuilder,
) -> Result<Side, Failure> {
    let mut blocks = SiteBlocks::new(keeps_histograms);
    let (mut count, mut first, mut last, mut dropped_spans) = (0, None, None, 0);
    let (mut frames_with_spans, mut spans_before) = (0, 0);
    let mut incomplete_frames = 0;
    let walked = source.walk(progress, |piece| {
        match piece {
            Piece::Batch(batch) => {
                spans_before += batch.span_count();
                for thread in &batch.threads {
                    stats.add_each(
                        &batch.catalog.timeline,
                        thread,
                        |site, duration_ns, self_ns| {
                            blocks.of(site).add(duration_ns, self_ns);
                        },
                    );
                    stats.add_measures(&batch.catalog, thread);
                }
            }
            Piece::Frame(recovered) if recovered.frame.frame_set == 0 => {
                let frame = &recovered.frame;
                if frame.index < range.from {
                    stats.restart();
                    blocks.restart();
                }
                if range.contains(frame.index) {
                    count += 1;
                    frames_with_spans += u64::from(spans_before > 0);
                    first.get_or_insert(frame.index);
                    last = Some(frame.index);
                    // The numbers of a damaged capture may be anything.
                    dropped_spans = u64::saturating_add(dropped_spans, frame.dropped_spans);
                    incomplete_frames += u64::from(recovered.lost_records > 0);
                }
                spans_before = 0;
                if range
                    .to
                    .is_some_and(|to| frame.index.saturating_add(1) >= to)
                {
                    return Ok(ControlFlow::Break(()));
                }
            }
            _ => {}
        }
        Ok(ControlFlow::Continue(()))
    })?;
    if stats.span_count() == 0 {
        let problem = match count {
            0 => "no frames".into(),
            frames => no_spans(frames),
        };
        return Err(source.failure(problem));
    }
    Ok(Side {
        path: source.path.clone(),
        version: source.info.version,
        stats,
        blocks,
        frames: count,
        frames_with_spans,
        first,
        last,
        dropped_spans,
        catalog: walked.catalog,
        incomplete_frames,
        damage: walked.damage,
    })
}

impl Side {
    /// Warns on stderr if the file is damaged, or frames are incomplete.
    pub(super) fn warn_of_damage(&self) {
        warn_of(&self.path, &self.damage);
        if let Some(line) = lost_records(&self.path, self.incomplete_frames, &self.damage) {
            warn(&line);
        }
    }

    /// Returns whether spans are lost.
    pub(super) fn is_incomplete(&self) -> bool {
        self.incomplete_frames > 0 || is_damaged(&self.damage)
    }

    /// Makes an error that names the file.
    pub(super) fn failure(&self, problem: impl std::fmt::Display) -> Failure {
        Failure::in_file(&self.path, problem)
    }

    /// Returns whether a pattern matches the name of a call site.
    pub(super) fn has_match(&self, pattern: &Pattern) -> bool {
        let mut sites = self.catalog.sites.iter().flatten();
        sites.any(|site| pattern.matches(&site.name))
    }
}

impl SiteBlocks {
    fn new(keeps_histograms: bool) -> Self {
        Self {
            keeps_histograms,
            dense: Vec::new(),
            sparse: HashMap::new(),
        }
    }

    /// Returns the blocks of a call site that has spans.
    pub(super) fn get(&self, site: SiteId) -> Option<&Blocks> {
        let dense = self.dense.get(site.0 as usize);
        dense.or_else(|| self.sparse.get(&site))
    }

    #[inline]
    fn of(&mut self, site: SiteId) -> &mut Blocks {
        let index = site.0 as usize;
        if index < self.dense.len() {
            &mut self.dense[index]
        } else {
            self.new_site(site)
        }
    }

    #[cold]
    fn new_site(&mut self, site: SiteId) -> &mut Blocks {
        let index = site.0 as usize;
        let blocks = || Blocks::new(self.keeps_histograms);
        if index >= DENSE_SITES {
            return self.sparse.entry(site).or_insert_with(blocks);
        }
        self.dense.resize_with(index + 1, blocks);
        &mut self.dense[index]
    }

    fn restart(&mut self) {
        self.dense.clear();
        self.sparse.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_ids_of_call_sites_take_no_table() {
        let mut blocks = SiteBlocks::new(false);
        let last_dense = DENSE_SITES as u32 - 1;
        let sites = [3, 4, 2, last_dense, last_dense + 1, u32::MAX];
        for site in sites {
            blocks.of(SiteId(site)).add(u64::from(site), 7);
            blocks.of(SiteId(site)).add(1, 0);
        }
        assert_eq!((blocks.dense.len(), blocks.sparse.len()), (DENSE_SITES, 2));
        let sums = |blocks: &SiteBlocks, site| {
            let blocks = blocks.get(SiteId(site))?;
            let blocks = blocks.iter().map(|block| (block.total_ns, block.self_ns));
            Some(blocks.collect::<Vec<_>>())
        };
        for site in sites {
            let expected = vec![(u64::from(site), 7), (1, 0)];
            assert_eq!(sums(&blocks, site), Some(expected));
        }
        assert_eq!(sums(&blocks, u32::MAX - 1), None);
        blocks.restart();
        assert!(sites.iter().all(|site| sums(&blocks, *site).is_none()));
    }
}
