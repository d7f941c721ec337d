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

use crate::clock::cpu;
use crate::hot::ring::{MAX_SITE, SITE_BITS};
#[cfg(all(feature = "tracing", not(feature = "off")))]
use crate::hot::tracing_out::TracingSite;
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering, const_fn, statics};

/// Argument types of a site: four bits each, the first argument lowest.
pub(crate) type Kinds = u32;

/// The word of a site that is not registered yet, and the id of a name inside vor.
pub(crate) const UNREGISTERED: u32 = u32::MAX;

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

/// Most arguments of one scope.
pub const MAX_ARGS: usize = 8;

/// A place in the source that opens scopes. The macros make one static for each.
#[derive(Debug)]
pub struct CallSite {
    /// Id in the low half, with [`SLOW`] or without, argument kinds in the high half;
    /// [`UNREGISTERED`] at first. Written under the registry's lock (release), read relaxed by
    /// every scope: it orders nothing, since the name behind the id is read under the lock.
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

    /// Measures the CPU time of its scopes, and for how long they waited for a processor.
    #[must_use]
    pub const fn with_waits(mut self) -> Self {
        self.measures = self.measures.union(Measures::CPU).union(Measures::WAIT);
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
        (word != UNREGISTERED && of_kinds == kinds).then_some(word & !(SLOW as u32))
    }

    /// Returns the id in the site's word, whatever its argument kinds are.
    #[inline(always)]
    pub(crate) fn any_id(&self) -> Option<u32> {
        let word = self.word();
        (word != UNREGISTERED).then_some(word & !(SLOW as u32))
    }

    /// Returns the measures of its scopes, in addition to those of all scopes, as far as the system
    /// reports them. Browsers do not report CPU time.
    pub(crate) fn measures(&self) -> Measures {
        if cfg!(target_family = "wasm") {
            Measures::NONE
        } else if self.measures.has(Measures::WAIT) && !cpu::has_run_queue() {
            self.measures.without(Measures::WAIT)
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
        if self.word.load(Ordering::Relaxed) == u64::from(UNREGISTERED) {
            self.word
                .store(u64::from(kinds) << 32 | u64::from(id), Ordering::Release);
            self.set_fast(registry.fast);
            registry.with_ids.push(self);
        }
        id
    }

    /// Allows or forbids the fast path for its scopes. Called under the registry's lock, once the
    /// site has an id.
    fn set_fast(&self, fast: bool) {
        let id = self.word.load(Ordering::Relaxed) & !SLOW;
        let word = if fast { id } else { id | SLOW };
        self.word.store(word, Ordering::Release);
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
    /// The sites whose word has an id, and whether their scopes may take the fast path.
    with_ids: Vec<&'static CallSite>,
    fast: bool,
}

/// The meaning of the words of a site's records.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Words {
    pub(crate) kinds: Kinds,
    pub(crate) measures: Measures,
}

statics! {
    static REGISTRY: Mutex<Registry> = Mutex::new(Registry {
        sites: Vec::new(),
        variants: HashMap::with_hasher(FxBuildHasher),
        names: HashMap::with_hasher(FxBuildHasher),
        with_ids: Vec::new(),
        fast: false,
    });
}

/// Locks the registry. A panic cannot leave it half changed, so poison is ignored.
pub(crate) fn lock() -> MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds the missing sites to a catalog.
pub(crate) fn declare_new(catalog: &mut Arc<Catalog>) {
    let registry = lock();
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
    /// Allows or forbids the fast path for the scopes of all sites.
    pub(crate) fn set_fast(&mut self, fast: bool) {
        if self.fast != fast {
            self.fast = fast;
            self.with_ids.iter().for_each(|site| site.set_fast(fast));
        }
    }

    /// Returns the id of a site with arguments of these kinds and these measures.
    fn variant(&mut self, site: &CallSite, kinds: Kinds, measures: Measures) -> u32 {
        let key = (std::ptr::from_ref(site) as usize, kinds, measures);
        if let Some(id) = self.variants.get(&key) {
            return *id;
        }
        let id = self.push(site.info(), kinds, measures);
        self.variants.insert(key, id);
        id
    }

    fn push(&mut self, mut info: SiteInfo, kinds: Kinds, measures: Measures) -> u32 {
        let next = self.sites.len() + 1;
        match u32::try_from(next) {
            Ok(id) if id < MAX_SITE => {
                info.arg_names
                    .extend(measures.arg_names().map(Cow::Borrowed));
                self.sites.push((Arc::new(info), Words { kinds, measures }));
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

    /// Returns the id of a name made at run time, for scopes with arguments of these kinds and these
    /// measures. A new name is described by `info`, to which the name is added.
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
        let id = self.push(info, kinds, measures);
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
