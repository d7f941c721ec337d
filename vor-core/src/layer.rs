//! `tracing` spans as scopes: the way opposite to that of the tap, for programs and libraries that are instrumented already.
//!
//! A span that is new gets its site and the values of its fields, which the registry of `tracing-subscriber` keeps with it. Each time that it is entered, a
//! scope opens, and is kept on a stack of the thread until the span is left. So a span of a future that is polled ten times is ten scopes.
//!
//! The scopes bypass the tap: it would make spans of them again. What the tap makes of scopes is passed over in turn.

use std::any::Any;
use std::cell::RefCell;
use std::fmt;

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::args::{self, Arg, ArgWord};
use crate::callsite::{CallSite, MAX_ARGS};
use crate::scope::{Scope, open_registered};
use crate::{drain, switch, thread};

/// Records the spans of `tracing` as scopes, while recording is on.
///
/// It takes spans up to the level `DEBUG`, with their first eight fields as arguments. A field that is recorded later counts from the next time that the span is
/// entered. An event with the field `tracy.frame_mark = true` ends a frame, as [`frame_mark`](crate::drain::frame_mark) does; other events are left to other
/// layers.
///
/// With the crate `profiling` and its feature `profile-with-tracing`, its scopes arrive under the names of their functions, and `finish_frame!` ends a frame.
///
/// A span costs what `tracing` and its registry take for it, some ten times as much as a scope of vor's own macros.
///
/// # Examples
///
/// ```
/// # mod vor { pub use vor_core::{drain::enable, layer::TracingLayer}; }
/// use tracing_subscriber::layer::SubscriberExt as _;
/// use tracing_subscriber::util::SubscriberInitExt as _;
///
/// tracing_subscriber::registry().with(vor::TracingLayer::new()).init();
/// vor::enable();
/// let span = tracing::info_span!("load", files = 3).entered();
/// // … what is to be seen as `load` …
/// drop(span);
/// tracing::info!(tracy.frame_mark = true);
/// ```
#[derive(Clone, Debug)]
pub struct TracingLayer {
    max_level: LevelFilter,
}

impl TracingLayer {
    /// Makes a layer that takes spans up to the level `DEBUG`.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            max_level: LevelFilter::DEBUG,
        }
    }

    /// Takes spans up to this level.
    ///
    /// A layer beside this one that wants more detailed levels says so with a filter of its own. With `TRACE`, the scopes of vor's macros become spans as
    /// well, which are not recorded twice, but cost much.
    #[must_use]
    pub const fn with_max_level(mut self, max_level: LevelFilter) -> Self {
        self.max_level = max_level;
        self
    }
}

impl Default for TracingLayer {
    fn default() -> Self {
        Self::new()
    }
}

impl<S: Subscriber + for<'span> LookupSpan<'span>> Layer<S> for TracingLayer {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.max_level)
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        // A busy thread is in the tap, and the span is a scope already.
        if cfg!(feature = "off") || thread::is_busy() || *attributes.metadata().level() > self.max_level {
            return;
        }
        thread::while_busy(|| {
            if let Some(span) = context.span(id) {
                span.extensions_mut().insert(Taken::new(attributes));
            }
        });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        thread::while_busy(|| {
            if let Some(span) = context.span(id)
                && let Some(taken) = span.extensions_mut().get_mut::<Taken>()
            {
                values.record(taken);
            }
        });
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        if !switch::is_on() || thread::is_busy() {
            return;
        }
        let opened = context
            .span(id)
            .and_then(|span| span.extensions().get::<Taken>().map(Taken::open));
        if let Some(opened) = opened {
            // The stack is gone where the thread ends; the scope then ends at once. While it grows, an allocator with spans of its own is not recorded.
            let push = |stack: &RefCell<Vec<_>>| stack.borrow_mut().push((id.into_u64(), opened));
            let _ = thread::while_busy(|| ENTERED.try_with(push));
        }
    }

    fn on_exit(&self, id: &Id, _: Context<'_, S>) {
        let opened = ENTERED.try_with(|stack| {
            // It is borrowed where an allocator leaves a span while the stack grows, which was not pushed either.
            let mut stack = stack.try_borrow_mut().ok()?;
            let at = stack.iter().rposition(|(entered, _)| *entered == id.into_u64())?;
            Some(stack.remove(at))
        });
        // Outside of the borrow.
        drop(opened);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().fields().field(FRAME_MARK).is_some() {
            let mut mark = MarkVisitor(false);
            event.record(&mut mark);
            if mark.0 {
                drain::frame_mark();
            }
        }
    }
}

/// The field by which events of `profiling`, of Bevy and of others end a frame.
const FRAME_MARK: &str = "tracy.frame_mark";

struct MarkVisitor(bool);

impl Visit for MarkVisitor {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0 |= value && field.name() == FRAME_MARK;
    }

    fn record_debug(&mut self, _: &Field, _: &dyn fmt::Debug) {}
}

/// An open scope, which is the one or the other: few spans have fields, and those of the others need no allocation.
type Opened = (Scope, Option<Box<dyn Any>>);

thread_local! {
    /// The scopes of the spans that this thread has entered, with the spans' ids.
    static ENTERED: RefCell<Vec<(u64, Opened)>> = const { RefCell::new(Vec::new()) };

    /// The sites that this thread has seen, by the addresses of their descriptions.
    static SITES_SEEN: RefCell<FxHashMap<usize, &'static Site>> = RefCell::default();
}

/// All sites, by the addresses of their descriptions.
static SITES: Mutex<Option<FxHashMap<usize, &'static Site>>> = Mutex::new(None);

/// A call site of `tracing`, as scopes need it. There are as many as the program's source has, so they are kept for ever.
struct Site {
    call_site: CallSite,
    /// How many fields become arguments.
    arg_count: usize,
    /// The field that is the site's name, and so no argument.
    name_field: Option<usize>,
}

impl Site {
    fn of(attributes: &Attributes<'_>) -> &'static Self {
        let metadata = attributes.metadata();
        let key = std::ptr::from_ref(metadata) as usize;
        let find = || {
            let mut sites = SITES.lock();
            *sites
                .get_or_insert_default()
                .entry(key)
                .or_insert_with(|| Box::leak(Box::new(Self::describe(metadata, attributes))))
        };
        let seen = SITES_SEEN.try_with(|seen| *seen.borrow_mut().entry(key).or_insert_with(find));
        seen.unwrap_or_else(|_| find())
    }

    fn describe(metadata: &'static Metadata<'static>, attributes: &Attributes<'_>) -> Self {
        let module_path = metadata.module_path().unwrap_or_else(|| metadata.target());
        // `profiling::function_scope!` has one name for all functions, and says in the message which it is.
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
            arg_count,
            name_field,
        }
    }

    /// Returns which argument a field is.
    fn arg_of(&self, field: &Field) -> Option<usize> {
        let index = field.index();
        let arg = match self.name_field {
            Some(name_field) if name_field == index => return None,
            Some(name_field) => index - usize::from(name_field < index),
            None => index,
        };
        (arg < self.arg_count).then_some(arg)
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

/// What the registry keeps with a span.
struct Taken {
    site: &'static Site,
    /// One per argument; a field without a value has none.
    values: Vec<Option<Value>>,
}

enum Value {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl Taken {
    fn new(attributes: &Attributes<'_>) -> Self {
        let site = Site::of(attributes);
        let mut taken = Self {
            site,
            values: Vec::new(),
        };
        taken.values.resize_with(site.arg_count, || None);
        if site.arg_count > 0 {
            attributes.record(&mut taken);
        }
        taken
    }

    fn put(&mut self, field: &Field, value: impl FnOnce() -> Value) {
        let arg = self.site.arg_of(field);
        if let Some(slot) = arg.and_then(|arg| self.values.get_mut(arg)) {
            *slot = Some(value());
        }
    }

    fn open(&self) -> Opened {
        match self.values.len() {
            0 => (self.open_with::<0>(), None),
            1 => self.open_boxed::<1>(),
            2 => self.open_boxed::<2>(),
            3 => self.open_boxed::<3>(),
            4 => self.open_boxed::<4>(),
            5 => self.open_boxed::<5>(),
            6 => self.open_boxed::<6>(),
            7 => self.open_boxed::<7>(),
            _ => self.open_boxed::<MAX_ARGS>(),
        }
    }

    fn open_boxed<const ARGS: usize>(&self) -> Opened {
        // The place is made before the scope opens, which would measure that.
        let mut place = thread::while_busy(|| Box::new(Scope::<ARGS>::off()));
        *place = self.open_with();
        (Scope::off(), Some(place))
    }

    fn open_with<const ARGS: usize>(&self) -> Scope<ARGS> {
        let args: [ArgWord; ARGS] =
            std::array::from_fn(|i| encode(self.values.get(i).and_then(Option::as_ref)));
        let (site, kinds) = (&self.site.call_site, args::kinds(&args));
        let id = site
            .id(kinds)
            .unwrap_or_else(|| thread::while_busy(|| site.register(kinds)));
        open_registered(id, args.map(|arg| arg.word))
    }
}

impl Visit for Taken {
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, || Value::Bool(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, || Value::Signed(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, || Value::Unsigned(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, || Value::Float(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, || Value::Text(value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, || Value::Text(format!("{value:?}")));
    }
}

fn encode(value: Option<&Value>) -> ArgWord {
    match value {
        Some(Value::Bool(value)) => value.encode(),
        Some(Value::Signed(value)) => value.encode(),
        Some(Value::Unsigned(value)) => value.encode(),
        Some(Value::Float(value)) => value.encode(),
        Some(Value::Text(value)) => value.encode(),
        None => None::<bool>.encode(),
    }
}
