//! Call sites of `tracing`, in the form that scopes need.
//!
//! The program's source bounds their number, so they are kept for ever. A map finds them by the
//! addresses of their metadata; a directory, read without a lock, by their numbers. Each thread
//! keeps its most recently used sites in an array.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::sync::{Mutex, OnceLock};

use rustc_hash::FxHashMap;
use tracing::Metadata;
use tracing::field::{Field, Visit};
use tracing::span::Attributes;

use super::fields::kinds_of_nothing;
use super::table::{Slot, flags_of};
use crate::hot::callsite::{CallSite, Kinds, MAX_ARGS};
use crate::hot::ring::MAX_SITE;
use crate::hot::{record_state, thread};
use crate::sync::global::{AtomicBool, AtomicU64};
use crate::sync::{Ordering, lock};

/// A call site of `tracing`.
#[derive(Debug)]
pub(super) struct Site {
    call_site: CallSite,
    pub(super) metadata: &'static Metadata<'static>,
    pub(super) number: u32,
    /// How many fields become arguments.
    pub(super) arg_count: usize,
    /// `arg_count` as flags in the words of the site's spans.
    pub(super) flags: u64,
    /// Kinds of the arguments while no field has a value.
    pub(super) kinds_of_nothing: Kinds,
    /// The field that is the site's name, and so is not an argument.
    name_field: Option<usize>,
    /// Whether a span of this site was not a plain scope. Set by any thread that sees it, read by
    /// threads that make spans. Relaxed: it only selects what to keep of them.
    makes_tasks: AtomicBool,
    /// For a site without fields whose spans were all plain scopes: the id without measures in the
    /// low half, and the site's number above. Otherwise 0. Written and read like `makes_tasks`.
    plain: AtomicU64,
    /// Ids for argument kinds other than the first ones, with the kinds in the high half; 0 in a
    /// free entry. Written and read by any thread. Relaxed: each id is independent.
    variants: [AtomicU64; VARIANTS],
}

/// Combinations of kinds that a site keeps; others need a look-up under a lock.
const VARIANTS: usize = 4;

/// Sites in a thread's array, by some bits of the addresses of their metadata.
const RECENT_SITES: usize = 64;

thread_local! {
    /// An entry is one word, which contains its own key: a handler that interrupts the thread may
    /// replace it at any moment, but never half of it.
    static RECENT: [Cell<Option<&'static Site>>; RECENT_SITES] =
        const { [const { Cell::new(None) }; RECENT_SITES] };

    /// All sites that this thread has seen.
    static KNOWN_SITES: RefCell<FxHashMap<usize, &'static Site>> = RefCell::default();
}

/// All sites, by the addresses of their metadata.
static SITES: Mutex<Option<FxHashMap<usize, &'static Site>>> = Mutex::new(None);

/// Sites in one part of the directory, and number of parts.
const PART: usize = 256;
const PARTS: usize = 1024;

type Part = Box<[OnceLock<&'static Site>]>;

/// All sites, by their numbers.
static DIRECTORY: [OnceLock<Part>; PARTS] = [const { OnceLock::new() }; PARTS];

/// Returns the site that has this number.
pub(super) fn numbered(number: u32) -> Option<&'static Site> {
    let number = number as usize;
    DIRECTORY.get(number / PART)?.get()?[number % PART]
        .get()
        .copied()
}

/// Returns the metadata of a span.
pub(crate) fn metadata_of(slot: &Slot) -> Option<&'static Metadata<'static>> {
    numbered(slot.site.load(Ordering::Relaxed)).map(|site| site.metadata)
}

/// Returns a site's index in the thread's array, by the address of its metadata.
#[inline(always)]
fn place_of(key: usize) -> usize {
    (key >> 4 ^ key >> 10) % RECENT_SITES
}

impl Site {
    /// Returns the site of a span. `None` once the directory is full.
    #[inline(always)]
    pub(super) fn of(attributes: &Attributes<'_>) -> Option<&'static Self> {
        let key = std::ptr::from_ref(attributes.metadata()) as usize;
        let recent = RECENT.with(|recent| recent[place_of(key)].get());
        if let Some(site) = recent
            && std::ptr::from_ref(site.metadata) as usize == key
        {
            return recent;
        }
        let site = Self::find(key, attributes)?;
        RECENT.with(|recent| recent[place_of(key)].set(Some(site)));
        Some(site)
    }

    /// Returns the site's number and the id of its spans, if it has no fields and its spans are
    /// plain scopes. The id is for spans that measure only their duration.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<(u32, u32)> {
        let plain = self.plain.load(Ordering::Relaxed);
        (plain != 0).then_some(((plain >> 32) as u32, plain as u32))
    }

    /// Returns whether a span of this site was not a plain scope.
    pub(super) fn makes_tasks(&self) -> bool {
        self.makes_tasks.load(Ordering::Relaxed)
    }

    /// Records that a span of this site was not a plain scope.
    pub(super) fn set_makes_tasks(&self) {
        self.makes_tasks.store(true, Ordering::Relaxed);
        self.plain.store(0, Ordering::Relaxed);
    }

    /// Stores the id without measures of a site without fields.
    fn set_plain(&self, id: u32) {
        if id < MAX_SITE && self.arg_count == 0 && !self.makes_tasks() {
            let plain = u64::from(self.number) << 32 | u64::from(id);
            self.plain.store(plain, Ordering::Relaxed);
        }
    }

    #[cold]
    fn find(key: usize, attributes: &Attributes<'_>) -> Option<&'static Self> {
        // Busy, because a thread's first use of a thread-local allocates.
        let seen = thread::while_busy(|| {
            KNOWN_SITES.try_with(|seen| seen.try_borrow().ok()?.get(&key).copied())
        });
        if let Ok(Some(site)) = seen {
            return Some(site);
        }
        thread::while_busy(|| {
            let site = Self::find_for_all(key, attributes)?;
            let _ = KNOWN_SITES
                .try_with(|seen| seen.try_borrow_mut().map(|mut seen| seen.insert(key, site)));
            Some(site)
        })
    }

    fn find_for_all(key: usize, attributes: &Attributes<'_>) -> Option<&'static Self> {
        if let Some(site) = lock(&SITES).get_or_insert_default().get(&key) {
            return Some(site);
        }
        // Without the lock: a field's conversion to text is foreign code, and may make spans.
        let described = Self::describe(attributes);
        let mut sites = lock(&SITES);
        let sites = sites.get_or_insert_default();
        if let Some(site) = sites.get(&key) {
            return Some(site);
        }
        let number = sites.len();
        let part = DIRECTORY.get(number / PART)?;
        let part = part.get_or_init(|| (0..PART).map(|_| OnceLock::new()).collect());
        let number_32 = u32::try_from(number).ok()?;
        let site: &'static Self = Box::leak(Box::new(Self {
            number: number_32,
            ..described
        }));
        sites.insert(key, site);
        Some(part[number % PART].get_or_init(|| site))
    }

    fn describe(attributes: &Attributes<'_>) -> Self {
        let metadata = attributes.metadata();
        let module_path = metadata.module_path().unwrap_or_else(|| metadata.target());
        // `profiling::function_scope!` has one name for all functions; the message names the
        // function.
        let name_field = metadata
            .fields()
            .field("message")
            .filter(|_| metadata.name() == "function_scope");
        let mut name = metadata.name();
        if let Some(field) = &name_field {
            let mut text = TextOf(field, String::new());
            attributes.record(&mut text);
            let inside = text
                .1
                .strip_prefix(module_path)
                .and_then(|rest| rest.strip_prefix("::"));
            name = Box::leak(inside.unwrap_or(&text.1).into());
        }
        let name_field = name_field.map(|field| field.index());
        let arg_names: Vec<&'static str> = metadata
            .fields()
            .iter()
            .filter(|field| Some(field.index()) != name_field)
            .map(|field| field.name())
            .take(MAX_ARGS)
            .collect();
        let arg_count = arg_names.len();
        let call_site = CallSite::new(
            name,
            module_path,
            metadata.file().unwrap_or_default(),
            metadata.line().unwrap_or_default(),
        );
        Self {
            call_site: call_site.with_args(arg_names.leak()),
            metadata,
            number: 0,
            arg_count,
            flags: flags_of(arg_count),
            kinds_of_nothing: kinds_of_nothing(arg_count),
            name_field,
            makes_tasks: AtomicBool::new(false),
            plain: AtomicU64::new(0),
            variants: [const { AtomicU64::new(0) }; VARIANTS],
        }
    }

    /// Returns the argument index of a field.
    #[inline]
    pub(super) fn arg_of(&self, field: &Field) -> Option<usize> {
        let index = field.index();
        let arg = match self.name_field {
            Some(name_field) if name_field == index => return None,
            Some(name_field) => index - usize::from(name_field < index),
            None => index,
        };
        (arg < self.arg_count).then_some(arg)
    }

    /// Returns the id for arguments of these kinds.
    #[inline]
    pub(super) fn id(&'static self, kinds: Kinds) -> u32 {
        if !record_state::measures().is_none() {
            return self.measured_id(kinds);
        }
        let id = self
            .call_site
            .id(kinds)
            .unwrap_or_else(|| self.other_id(kinds));
        self.set_plain(id);
        id
    }

    /// Like [`id`](Self::id), for scopes that measure more than their duration.
    #[inline(never)]
    fn measured_id(&'static self, kinds: Kinds) -> u32 {
        let (site, measures) = (&self.call_site, record_state::measures());
        site.measured_id(kinds, measures)
            .unwrap_or_else(|| thread::while_busy(|| site.register_measured(kinds, measures)))
    }

    #[cold]
    fn other_id(&'static self, kinds: Kinds) -> u32 {
        for variant in &self.variants {
            let known = variant.load(Ordering::Relaxed);
            if known != 0 && (known >> 32) as u32 == kinds {
                return known as u32;
            }
        }
        let id = thread::while_busy(|| self.call_site.register(kinds));
        let word = u64::from(kinds) << 32 | u64::from(id);
        for variant in &self.variants {
            let known = variant.compare_exchange(0, word, Ordering::Relaxed, Ordering::Relaxed);
            if known.is_ok() || known == Err(word) {
                break;
            }
        }
        id
    }
}

/// The text of one field.
struct TextOf<'a>(&'a Field, String);

impl Visit for TextOf<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field == self.0 {
            self.1 = format!("{value:?}");
        }
    }
}
