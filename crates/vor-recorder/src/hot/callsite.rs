//! Call sites: the places in the source that open scopes, and the 32-bit ids that records carry.
//!
//! A [`CallSite`] is a static beside each scope. Its first use while recording is on enters it into
//! the registry under a lock, and assigns it an id. From then on the id is one relaxed load, and a
//! flag beside it says whether the scope may take the fast path. Names made at run time are entered
//! by text. Each thread caches the ids of the names that it has used, so a repeated name takes no
//! lock either.
//!
//! Ids are dense from 1 and stay below 2^24, because a record stores 24 bits. A site in a generic
//! function gets one id for each combination of argument types, so the id alone determines how to
//! read the argument words. A site that is recorded with [`Measures`] gets ids in the same way,
//! because measured values are words of the record too.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError};

use rustc_hash::FxBuildHasher;
use vor_capture::filled;
use vor_capture::model::catalog::{Catalog, SiteId, SiteInfo};
use vor_capture::model::measures::Measures;
use vor_capture::model::scope_modes::{ScopeModeChange, ScopeModes};

use crate::clock::{self, cpu};
use crate::hot::modes::{self, Decider, ModeWord};
use crate::hot::record_state;
use crate::hot::ring::{MAX_SITE, SITE_BITS};
use crate::hot::shared;
#[cfg(all(feature = "tracing", not(feature = "off")))]
use crate::hot::tracing_out::TracingSite;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, const_fn, statics};

/// Argument types of a site: four bits each, the first argument lowest.
pub(crate) type Kinds = u32;

/// The word of a site that is not registered yet, and the id of a name inside vor.
pub(crate) const UNREGISTERED: u32 = u32::MAX;

/// The low half of the word of a site whose scopes are off by a rule, so that an open scope finds
/// it by the comparison that it makes anyway.
const RULED_OFF: u32 = 0;

/// Flag beside the id in a site's word while its scopes may not take the fast path.
/// [`UNREGISTERED`] has it too, so that [`is_fast`] is one comparison.
const SLOW: u64 = 1 << 31;

/// Returns whether a scope may take the fast path, by the word of its call site. It may if the site
/// is registered, recording is on, and the clock is the hardware's. In addition, scopes are
/// recorded with no measures but the duration, and neither a subscriber of `tracing` nor an NVTX
/// tool wants them.
#[inline(always)]
pub(crate) fn is_fast(site_word: u32) -> bool {
    site_word as i32 > 0
}

/// Returns whether the scopes of a call site are off by a rule, by the word of the site.
#[inline(always)]
pub(crate) fn is_ruled_off(site_word: u32) -> bool {
    site_word == RULED_OFF
}

/// Most arguments of one scope.
pub const MAX_ARGS: usize = 8;

/// A place in the source that opens scopes. The macros make one static for each.
#[derive(Debug)]
pub struct CallSite {
    /// Id in the low half, with [`SLOW`] or without, argument kinds in the high half;
    /// [`UNREGISTERED`] at first. The low half is [`RULED_OFF`] while a rule says so. Written under
    /// the registry's lock (release), read relaxed by every scope: it orders nothing, since the
    /// name behind the id is read under the lock.
    word: AtomicU64,
    /// Id in the low half for the measures in the byte above its 24 bits, argument kinds in the
    /// high half; 0 at first. Written under the registry's lock (release), read relaxed by scopes
    /// that are measured.
    measured_word: AtomicU64,
    name: &'static str,
    /// Returns the path of an item of the function whose name the site has.
    function_item: Option<fn() -> &'static str>,
    module_path: &'static str,
    file: &'static str,
    line: u32,
    category: &'static str,
    color: Option<u32>,
    arg_names: &'static [&'static str],
    /// Measures of its scopes, in addition to those that the program chose for all scopes.
    measures: Measures,
    #[cfg(all(feature = "tracing", not(feature = "off")))]
    tracing: TracingSite,
}

impl CallSite {
    const_fn! {
        /// Describes a place in the source. `line` is 1-based, `color` 0x00RRGGBB.
        #[must_use]
        pub const fn new(
            name: &'static str,
            module_path: &'static str,
            file: &'static str,
            line: u32,
        ) -> Self {
            Self {
                word: AtomicU64::new(UNREGISTERED as u64),
                measured_word: AtomicU64::new(0),
                name,
                function_item: None,
                module_path,
                file,
                line,
                category: "",
                color: None,
                arg_names: &[],
                measures: Measures::NONE,
                #[cfg(all(feature = "tracing", not(feature = "off")))]
                tracing: TracingSite::new(),
            }
        }
    }

    /// Adds the group the site belongs to.
    #[must_use]
    pub const fn with_category(mut self, category: &'static str) -> Self {
        self.category = category;
        self
    }

    /// Adds a colour, 0x00RRGGBB.
    #[must_use]
    pub const fn with_color(mut self, color: u32) -> Self {
        self.color = Some(color);
        self
    }

    /// Measures the CPU time of its scopes.
    #[must_use]
    pub const fn with_cpu(mut self) -> Self {
        self.measures = self.measures.union(Measures::CPU);
        self
    }

    /// Measures the CPU time of its scopes, for how long they waited for a processor, and how often
    /// they got one again.
    #[must_use]
    pub const fn with_waits(mut self) -> Self {
        self.measures = self.measures.union(Measures::WAITS);
        self
    }

    /// Adds the names of the arguments.
    ///
    /// # Panics
    ///
    /// Panics if there are more than [`MAX_ARGS`]; at compile time if the macros make the static.
    #[must_use]
    pub const fn with_args(mut self, arg_names: &'static [&'static str]) -> Self {
        assert!(
            arg_names.len() <= MAX_ARGS,
            "a scope takes at most 8 arguments"
        );
        self.arg_names = arg_names;
        self
    }

    /// Names the site after the function around an item, whose path `item` returns.
    #[must_use]
    pub const fn in_function(mut self, item: fn() -> &'static str) -> Self {
        self.function_item = Some(item);
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> Cow<'static, str> {
        match self.function_item {
            Some(item) => function_around(item(), self.module_path),
            None => Cow::Borrowed(self.name),
        }
    }

    /// Returns the module, the file and the 1-based line.
    #[cfg(all(feature = "tracing", not(feature = "off")))]
    pub(crate) fn place(&self) -> (&'static str, &'static str, u32) {
        (self.module_path, self.file, self.line)
    }

    /// Returns the description of the site for `tracing`.
    #[cfg(all(feature = "tracing", not(feature = "off")))]
    pub(crate) fn tracing(&self) -> &TracingSite {
        &self.tracing
    }

    /// Returns the word for [`is_fast`], which is the site's id while its scopes may take the fast
    /// path.
    #[inline(always)]
    pub(crate) fn word(&self) -> u32 {
        self.word.load(Ordering::Relaxed) as u32
    }

    /// Returns the [`word`](Self::word), and the argument kinds of its id.
    #[inline(always)]
    pub(crate) fn word_and_kinds(&self) -> (u32, Kinds) {
        let word = self.word.load(Ordering::Relaxed);
        (word as u32, (word >> 32) as u32)
    }

    /// Returns the id for arguments of these kinds without measures, if the site has it.
    pub(crate) fn id(&self, kinds: Kinds) -> Option<u32> {
        let (word, of_kinds) = self.word_and_kinds();
        (has_id(word) && of_kinds == kinds).then_some(word & !(SLOW as u32))
    }

    /// Returns the id in the site's word, whatever its argument kinds are.
    #[inline(always)]
    pub(crate) fn any_id(&self) -> Option<u32> {
        let word = self.word();
        has_id(word).then_some(word & !(SLOW as u32))
    }

    /// Returns the id in the site's word, unless its scopes take the fast path or are off. Costs
    /// one comparison, while [`any_id`](Self::any_id) costs two.
    #[inline(always)]
    pub(crate) fn slow_id(&self) -> Option<u32> {
        // Only -1 has no id among the negative words.
        let word = self.word();
        ((word as i32) < UNREGISTERED as i32).then_some(word & !(SLOW as u32))
    }

    /// Returns an id of the site, whatever its argument kinds and measures are. The rules decide
    /// the same for all of them.
    #[inline]
    pub(crate) fn ruled_id(&self) -> Option<u32> {
        self.any_id().or_else(|| {
            let measured = self.measured_word.load(Ordering::Relaxed) as u32 & MAX_SITE;
            (measured != 0).then_some(measured)
        })
    }

    /// Returns the measures of its scopes, in addition to those of all scopes, as far as the system
    /// reports them. Browsers do not report CPU time.
    pub(crate) fn measures(&self) -> Measures {
        if cfg!(target_family = "wasm") {
            Measures::NONE
        } else if self.measures.has(Measures::WAIT) && !cpu::has_run_queue() {
            cpu::without_run_queue(self.measures)
        } else {
            self.measures
        }
    }

    /// Returns the id for arguments of these kinds with these measures, if the site's measured word
    /// holds that combination.
    #[inline]
    pub(crate) fn measured_id(&self, kinds: Kinds, measures: Measures) -> Option<u32> {
        let word = self.measured_word.load(Ordering::Relaxed);
        let of = u64::from(kinds) << 32 | u64::from(measures.bits()) << SITE_BITS;
        (word & !u64::from(MAX_SITE) == of).then_some(word as u32 & MAX_SITE)
    }

    /// Enters the site with measures into the registry, or returns the existing id of this
    /// combination of kinds and measures.
    #[cold]
    pub(crate) fn register_measured(&'static self, kinds: Kinds, measures: Measures) -> u32 {
        let mut registry = lock();
        let id = registry.variant(self, kinds, measures);
        registry.add_static(self, id, None);
        let word = self.measured_word.load(Ordering::Relaxed);
        // Measures change only when the program adds one, and then permanently. Kinds alternate if
        // a generic function has several.
        let is_outdated =
            word == 0 || (word as u32 & !MAX_SITE) != u32::from(measures.bits()) << SITE_BITS;
        if is_outdated && id < MAX_SITE {
            let of = u64::from(kinds) << 32 | u64::from(measures.bits()) << SITE_BITS;
            self.measured_word
                .store(of | u64::from(id), Ordering::Release);
        }
        id
    }

    /// Enters the site into the registry, or returns the existing id of this combination of kinds.
    #[cold]
    pub(crate) fn register(&'static self, kinds: Kinds) -> u32 {
        let mut registry = lock();
        let id = registry.variant(self, kinds, Measures::NONE);
        registry.add_static(self, id, Some(kinds));
        id
    }

    /// Sets the low half of the word. Called under the registry's lock.
    fn set_low(&self, low: u32) {
        let kinds = self.word.load(Ordering::Relaxed) & !u64::from(u32::MAX);
        self.word.store(kinds | u64::from(low), Ordering::Release);
    }

    fn info(&self) -> SiteInfo {
        filled!(SiteInfo {
            name: self.name(),
            module_path: Cow::Borrowed(self.module_path),
            file: Cow::Borrowed(self.file),
            line: self.line,
            category: Cow::Borrowed(self.category),
            color: self.color,
            arg_names: self
                .arg_names
                .iter()
                .map(|name| Cow::Borrowed(*name))
                .collect(),
        })
    }
}

/// Returns whether the low half of a site's word holds an id.
#[inline(always)]
fn has_id(word: u32) -> bool {
    word != UNREGISTERED && word != RULED_OFF
}

/// Returns the name of the function around an item, within its module or its type. Closures and
/// async blocks in between have no names.
fn function_around(item: &'static str, module_path: &str) -> Cow<'static, str> {
    let mut path = item.rsplit_once("::").map_or(item, |(around, _)| around);
    while let Some(around) = path.strip_suffix("::{{closure}}") {
        path = around;
    }
    // The methods of a trait: `<module::Type as module::Trait>::method`.
    if let Some((implementation, method)) = path.rsplit_once(">::")
        && let Some((of_type, _)) = implementation.split_once(" as ")
    {
        let of_type = of_type.trim_start_matches('<');
        let named = of_type.split('<').next().unwrap_or(of_type);
        let module_bytes = named.rfind("::").map_or(0, |at| at + 2);
        return Cow::Owned(format!("{}::{method}", &of_type[module_bytes..]));
    }
    let inner = path.strip_prefix(module_path);
    Cow::Borrowed(
        inner
            .and_then(|inner| inner.strip_prefix("::"))
            .unwrap_or(path),
    )
}

/// All sites and run-time names of the process.
pub(crate) struct Registry {
    sites: Vec<(Arc<SiteInfo>, Words)>,
    variants: HashMap<(usize, Kinds, Measures), u32, FxBuildHasher>,
    names: HashMap<(Arc<str>, Kinds, Measures), u32, FxBuildHasher>,
    /// The statics of the sites, and where each is, by its address.
    statics: Vec<StaticSite>,
    static_places: HashMap<usize, usize, FxBuildHasher>,
    /// Whether scopes without a rule may take the fast path.
    fast: bool,
    /// Decides the modes of sites and threads; `None` without rules.
    decider: Option<Decider>,
    /// Ids of names made at run time whose scopes are not recorded as ever.
    ruled_names: usize,
    /// Ids of sites that are over their budget.
    over_budget: usize,
    /// The changes of modes, and those that have not been added yet, because catalogs share the
    /// former.
    scope_modes: Option<Arc<ScopeModes>>,
    new_changes: Vec<ScopeModeChange>,
    changed_ticks: u64,
}

/// A call site that has an id.
struct StaticSite {
    site: &'static CallSite,
    /// The id in its word while its scopes are not off, or [`UNREGISTERED`].
    id: u32,
    /// An id of any of its variants.
    any_id: u32,
}

/// The meaning of the words of a site's records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words {
    pub(crate) kinds: Kinds,
    pub(crate) measures: Measures,
    /// Whether the site is a name made at run time.
    pub(crate) is_name: bool,
    /// The first id of the same call site, which rules and budgets do not tell apart; 0 for a name.
    pub(crate) first: u32,
}

statics! {
    static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
        sites: Vec::new(),
        variants: HashMap::with_hasher(FxBuildHasher),
        names: HashMap::with_hasher(FxBuildHasher),
        statics: Vec::new(),
        static_places: HashMap::with_hasher(FxBuildHasher),
        fast: false,
        decider: None,
        ruled_names: 0,
        over_budget: 0,
        scope_modes: None,
        new_changes: Vec::new(),
        changed_ticks: 0,
    });
}

/// Locks the registry. A panic cannot leave it half changed, so poison is ignored.
pub(crate) fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the missing sites, and the changes of modes that no catalog has, to a catalog.
pub(crate) fn declare_new(catalog: &mut Arc<Catalog>) {
    let mut registry = lock();
    if let Some(modes) = registry.scope_modes()
        && !Arc::ptr_eq(&catalog.scope_modes, modes)
    {
        Arc::make_mut(catalog).scope_modes = Arc::clone(modes);
    }
    let new = registry.after(catalog.sites.len());
    if !new.is_empty() {
        let known = &mut Arc::make_mut(catalog).sites;
        Arc::make_mut(known).extend(new.iter().map(|(info, _)| Some(Arc::clone(info))));
    }
}

/// Returns whether the registry is unlocked. Used at the end of a process.
#[cfg(any(unix, windows))]
pub(crate) fn is_open() -> bool {
    crate::os::detach::is_open(REGISTRY.try_lock())
}

/// Locks the registry for a caller that must not block. Tries a few times, and returns `None` if
/// another thread holds the lock during all of them.
#[cfg(unix)]
pub(crate) fn try_lock(
    tries: u32,
    pause: std::time::Duration,
) -> Option<MutexGuard<'static, Registry>> {
    crate::hot::thread::try_lock(&REGISTRY, tries, pause)
}

impl Registry {
    /// Allows or forbids the fast path for the scopes of all sites that are recorded as ever.
    pub(crate) fn set_fast(&mut self, fast: bool) {
        if self.fast != fast {
            self.fast = fast;
            self.set_words();
        }
    }

    /// Returns whether scopes off the fast path must look up their modes.
    pub(crate) fn has_rules(&self) -> bool {
        self.decider.is_some() || self.over_budget > 0
    }

    /// Returns whether scopes with names made at run time are all recorded as ever.
    pub(crate) fn are_names_plain(&self) -> bool {
        self.ruled_names == 0 && modes::last_thread_rank() == 0
    }

    /// Replaces what decides the modes, for all sites and threads.
    pub(crate) fn set_decider(&mut self, decider: Option<Decider>) {
        modes::begin_generation(
            decider
                .as_ref()
                .map_or(0, |decider| decider.last_thread_rank()),
        );
        self.decider = decider;
        let now_ticks = self.next_change_ticks();
        for at in 0..self.sites.len() {
            let id = at as u32 + 1;
            let over_budget = modes::of_id(id).is_over_budget();
            self.set_mode(id, self.decided(id).with_budget(over_budget), now_ticks);
        }
        self.set_words();
    }

    /// Sets whether a site is over its budget, by any of its ids.
    pub(crate) fn set_over_budget(&mut self, id: u32, over: bool) {
        let now_ticks = self.next_change_ticks();
        let first = self.first_of(id);
        for at in 0..self.sites.len() {
            let other = at as u32 + 1;
            if other == id || first != 0 && self.sites[at].1.first == first {
                self.set_mode(other, modes::of_id(other).with_budget(over), now_ticks);
            }
        }
        self.set_words();
    }

    /// Returns the first id of the call site that has this id, or 0 for a name.
    fn first_of(&self, id: u32) -> u32 {
        let words = (id as usize)
            .checked_sub(1)
            .and_then(|at| self.sites.get(at));
        words.map_or(0, |(_, words)| words.first)
    }

    /// Returns all changes of modes so far, unless there were none.
    fn scope_modes(&mut self) -> Option<&Arc<ScopeModes>> {
        if !self.new_changes.is_empty() {
            let modes = Arc::make_mut(self.scope_modes.get_or_insert_default());
            for change in self.new_changes.drain(..) {
                modes.insert(change);
            }
        }
        self.scope_modes.as_ref()
    }

    /// Returns the tick of changes that happen now. No two calls get the same one, so a sink
    /// knows by the tick which ones it has written.
    fn next_change_ticks(&mut self) -> u64 {
        self.changed_ticks = clock::ticks().max(self.changed_ticks + 1);
        self.changed_ticks
    }

    /// Returns the mode of the scopes of a thread with this name.
    pub(crate) fn thread_mode(&self, name: &str) -> ModeWord {
        let decider = self.decider.as_ref();
        decider.map_or_else(ModeWord::default, |decider| decider.of_thread(name))
    }

    /// Returns what the rules decide for an id.
    fn decided(&self, id: u32) -> ModeWord {
        match (&self.decider, self.sites.get(id as usize - 1)) {
            (Some(decider), Some((info, _))) => decider.of_site(info),
            _ => ModeWord::default(),
        }
    }

    fn set_mode(&mut self, id: u32, word: ModeWord, now_ticks: u64) {
        let before = modes::of_id(id);
        if before == word {
            return;
        }
        modes::set(id, word);
        let is_name = self
            .sites
            .get(id as usize - 1)
            .is_some_and(|(_, words)| words.is_name);
        if is_name {
            self.ruled_names += usize::from(!word.is_plain(0));
            self.ruled_names -= usize::from(!before.is_plain(0));
        }
        self.over_budget += usize::from(word.is_over_budget());
        self.over_budget -= usize::from(before.is_over_budget());
        if before.mode().way != word.mode().way {
            self.new_changes.push(filled!(ScopeModeChange {
                ticks: now_ticks,
                site: SiteId(id),
                mode: word.shown(),
            }));
        }
    }

    /// Writes the words of all sites.
    fn set_words(&self) {
        for entry in &self.statics {
            self.set_word(entry);
        }
    }

    fn set_word(&self, entry: &StaticSite) {
        let mode = modes::of_id(entry.any_id);
        let last_thread_rank = modes::last_thread_rank();
        entry.site.set_low(if mode.is_off(last_thread_rank) {
            RULED_OFF
        } else if entry.id == UNREGISTERED || self.fast && mode.is_plain(last_thread_rank) {
            entry.id
        } else {
            entry.id | SLOW as u32
        });
    }

    /// Adds a call site that has got an id. `kinds` are those of an id that its word may hold,
    /// which is one without measures.
    fn add_static(&mut self, site: &'static CallSite, id: u32, kinds: Option<Kinds>) {
        let address = std::ptr::from_ref(site).addr();
        let at = *self
            .static_places
            .entry(address)
            .or_insert(self.statics.len());
        if at == self.statics.len() {
            self.statics.push(StaticSite {
                site,
                id: UNREGISTERED,
                any_id: id,
            });
        }
        let entry = &mut self.statics[at];
        match kinds {
            Some(kinds) if entry.id == UNREGISTERED => {
                entry.id = id;
                site.word.store(
                    u64::from(kinds) << 32 | u64::from(id) | SLOW,
                    Ordering::Release,
                );
            }
            _ => {}
        }
        self.set_word(&self.statics[at]);
    }

    /// Returns the id of a site with arguments of these kinds and these measures.
    fn variant(&mut self, site: &CallSite, kinds: Kinds, measures: Measures) -> u32 {
        let key = (std::ptr::from_ref(site) as usize, kinds, measures);
        if let Some(id) = self.variants.get(&key) {
            return *id;
        }
        let known = self.static_places.get(&key.0);
        let first = known.map_or(self.sites.len() as u32 + 1, |at| self.statics[*at].any_id);
        let words = Words {
            kinds,
            measures,
            is_name: false,
            first,
        };
        let id = self.push(site.info(), words);
        self.variants.insert(key, id);
        id
    }

    fn push(&mut self, mut info: SiteInfo, words: Words) -> u32 {
        let next = self.sites.len() + 1;
        match u32::try_from(next) {
            Ok(id) if id < MAX_SITE => {
                info.arg_names
                    .extend(words.measures.arg_names().map(Cow::Borrowed));
                let info = Arc::new(info);
                shared::declare_site(id, &info, words);
                self.sites.push((info, words));
                if self.decider.is_some() {
                    let now_ticks = self.next_change_ticks();
                    self.set_mode(id, self.decided(id), now_ticks);
                    if !self.are_names_plain() {
                        record_state::forbid_fast_names();
                    }
                }
                id
            }
            // All further sites share the last id, whose name says so.
            _ => {
                if next == MAX_SITE as usize {
                    let name = Cow::Borrowed("(more than 16 million names)");
                    let info = filled!(SiteInfo { name });
                    self.sites.push((Arc::new(info), Words::default()));
                }
                MAX_SITE
            }
        }
    }

    /// Returns the id of a name made at run time, for scopes with these measures.
    pub(crate) fn name_id(&mut self, name: &str, measures: Measures) -> u32 {
        self.name_id_with(name, 0, measures, SiteInfo::default)
    }

    /// Returns the id of a name made at run time, for scopes with arguments of these kinds and
    /// these measures. A new name is described by `info`, to which the name is added.
    pub(crate) fn name_id_with(
        &mut self,
        name: &str,
        kinds: Kinds,
        measures: Measures,
        info: impl FnOnce() -> SiteInfo,
    ) -> u32 {
        let key = (Arc::from(name), kinds, measures);
        if let Some(id) = self.names.get(&key) {
            return *id;
        }
        let mut info = info();
        info.name = Cow::Owned(name.to_owned());
        let words = Words {
            kinds,
            measures,
            is_name: true,
            first: 0,
        };
        let id = self.push(info, words);
        if id < MAX_SITE {
            self.names.insert(key, id);
        }
        id
    }

    /// Returns the sites with ids above `known`, in order.
    pub(crate) fn after(&self, known: usize) -> &[(Arc<SiteInfo>, Words)] {
        self.sites.get(known..).unwrap_or(&[])
    }

    /// Returns the id of the first site of this category, or 0 if there is none. The number is
    /// stable for a category.
    #[cfg(all(
        feature = "cuda",
        any(target_os = "linux", windows),
        not(feature = "off")
    ))]
    pub(crate) fn first_of_category(&self, category: &str) -> u32 {
        let is_of = |(info, _): &(Arc<SiteInfo>, Words)| info.category == category;
        let first = if category.is_empty() {
            None
        } else {
            self.sites.iter().position(is_of)
        };
        first.map_or(0, |index| index as u32 + 1)
    }

    /// Returns the description of a site.
    pub(crate) fn info_of(&self, id: SiteId) -> Option<Arc<SiteInfo>> {
        let index = (id.0 as usize).checked_sub(1)?;
        self.sites.get(index).map(|(info, _)| Arc::clone(info))
    }
}
