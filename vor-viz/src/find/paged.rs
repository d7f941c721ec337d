//! A search whose results are shown page by page.

use egui::Ui;

use super::page::Rank;
use super::pages::{PageFound, Pages, Step};
use crate::scopes::{Gather, Job};
use crate::store::Store;
use crate::view::{Scope, View};

/// The result of a search: a page of all that was found.
pub(super) trait Listing {
    fn page(&self) -> PageFound;
}

/// The search, and which page of it is shown. `F` are its filters.
#[derive(Clone, Debug)]
pub(super) struct Paged<G: Gather, F> {
    job: Job<G>,
    pages: Pages,
    /// The range of the last pass, and the filters: others begin at the first page.
    of: Option<(Option<Scope>, F)>,
}

impl<G: Gather, F> Default for Paged<G, F> {
    fn default() -> Self {
        Self {
            job: Job::default(),
            pages: Pages::default(),
            of: None,
        }
    }
}

impl<G: Gather<Output: Listing>, F: Clone + PartialEq> Paged<G, F> {
    /// Returns the latest result.
    pub(super) fn output(&self) -> Option<&G::Output> {
        self.job.output()
    }

    /// Returns whether the latest result is of something else.
    pub(super) fn is_dimmed(&self) -> bool {
        self.job.is_dimmed()
    }

    /// Returns the latest result, unless something else is being looked for.
    pub(super) fn found(&self) -> Option<&G::Output> {
        self.job.output().filter(|_| !self.job.is_dimmed())
    }

    /// Returns the place behind which the shown page begins.
    pub(super) fn after(&self) -> Option<Rank> {
        self.pages.after()
    }

    /// Shows the first page.
    pub(super) fn restart(&mut self) {
        self.pages.reset();
    }

    /// Shows the first page if the range or the filters are others than before. A growing selection
    /// of all frames is still the same range.
    pub(super) fn restart_for(&mut self, scope: Option<Scope>, filters: &F) {
        let is_same = |(of, by): &(Option<Scope>, F)| *of == scope && by == filters;
        if !self.of.as_ref().is_some_and(is_same) {
            self.pages.reset();
            self.of = Some((scope, filters.clone()));
        }
    }

    /// Continues the search. Returns the row to go to, where a step led to this page.
    pub(super) fn advance(
        &mut self,
        ui: &Ui,
        store: &Store,
        view: &View,
        scope: Option<Scope>,
        options: &G::Options,
    ) -> Option<usize> {
        self.job.advance(ui, store, view.spans(), scope, options);
        let rows = self.found()?.page().rows;
        self.pages.arrive(rows)
    }

    /// Does all work in one pass.
    pub(super) fn finish(&mut self, store: &Store, scope: Option<Scope>, options: &G::Options) {
        self.job.finish(store, scope, options);
    }

    /// Steps from a row to the next one or to the previous one.
    pub(super) fn step(&mut self, at: Option<usize>, forward: bool) -> Step {
        match self.found().map(Listing::page) {
            Some(page) => self.pages.step(at, &page, forward),
            None => Step::Nowhere,
        }
    }

    /// Returns the progress of the running work, from 0 to 1; `None` without running work.
    pub(super) fn progress(&self) -> Option<f32> {
        self.job.progress()
    }

    /// Shows how much was found, and the buttons for other pages.
    pub(super) fn show_pages(&mut self, ui: &mut Ui, items: &str) {
        if let Some(page) = self.job.output().map(Listing::page) {
            let progress = self.job.progress().filter(|_| self.job.is_dimmed());
            self.pages.show(ui, &page, items, progress);
        }
    }
}
