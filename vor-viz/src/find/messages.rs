//! The messages that pass some filters: all are counted, and a page of them is kept.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use vor_capture::model::catalog::{Catalog, ThreadId};

use super::page::{Order, PAGE, Page, Rank};
use crate::scopes::Gather;
use crate::store::{Extent, Message, Span, SpanPart, SpanVisitor, TrackKind};

/// Which messages are listed.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageOptions {
    /// A text in lower case that they must contain; empty for any.
    pub text: Box<str>,
    /// The threads, ascending; `None` for all.
    pub threads: Option<Arc<[ThreadId]>>,
    /// The order of the list: `Earliest` or `Latest`.
    pub order: Order,
    /// The list begins after this place.
    pub after: Option<Rank>,
    /// The length of the list.
    pub most: usize,
}

impl Default for MessageOptions {
    fn default() -> Self {
        Self {
            text: Box::default(),
            threads: None,
            order: Order::Earliest,
            after: None,
            most: PAGE,
        }
    }
}

/// A listed message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedMessage {
    /// Its thread.
    pub thread: ThreadId,
    /// Its time in nanoseconds since the store's origin.
    pub ns: i64,
    /// Its text.
    pub text: Arc<str>,
    /// Its place in the order.
    pub rank: Rank,
}

/// The messages that were found.
#[derive(Clone, Debug, Default)]
pub struct FoundMessages {
    /// A page of them, in order.
    pub listed: Vec<ListedMessage>,
    /// Number of those before the page.
    pub before: u64,
    /// Number of all messages that pass the filters.
    pub count: u64,
    /// Number of all messages in the range.
    pub all: u64,
}

/// Gathers [`FoundMessages`].
#[derive(Clone, Debug)]
pub struct Messages {
    options: MessageOptions,
    thread: ThreadId,
    /// The moment of the last message of each thread, and the number of those at it so far.
    moments: FxHashMap<ThreadId, (i64, usize)>,
    page: Page<ListedMessage>,
    count: u64,
    all: u64,
}

impl SpanVisitor for Messages {
    #[inline]
    fn enter(&mut self, _: &Span, _: usize) {}

    #[inline]
    fn leave(&mut self, _: &Span, _: usize, _: SpanPart) {}
}

impl Gather for Messages {
    type Options = MessageOptions;
    type Output = FoundMessages;

    const READS_SPANS: bool = false;

    fn new(options: &MessageOptions) -> Self {
        Self {
            options: options.clone(),
            thread: ThreadId(0),
            moments: FxHashMap::default(),
            page: Page::new(options.after, options.most),
            count: 0,
            all: 0,
        }
    }

    fn extent(_: &MessageOptions) -> Extent {
        Extent::Clipped
    }

    fn begin_track(&mut self, thread: ThreadId, kind: TrackKind) -> bool {
        self.thread = thread;
        kind == TrackKind::Scopes
    }

    fn extra_cost(&self) -> usize {
        self.all as usize
    }

    fn message(&mut self, message: &Message) {
        let (thread, options) = (self.thread, &self.options);
        self.all += 1;
        let (ns, nth) = self.moments.entry(thread).or_insert((message.ns, 0));
        *nth = if *ns == message.ns { *nth + 1 } else { 0 };
        *ns = message.ns;
        let rank = Rank::of_message(options.order, thread, message.ns, *nth);
        let is_thread = |threads: &Arc<[ThreadId]>| threads.binary_search(&thread).is_ok();
        let has_text =
            || options.text.is_empty() || message.text.to_lowercase().contains(&*options.text);
        if !options.threads.as_ref().is_none_or(is_thread) || !has_text() {
            return;
        }
        self.count += 1;
        self.page.offer(rank, || ListedMessage {
            thread,
            ns: message.ns,
            text: Arc::clone(&message.text),
            rank,
        });
    }

    fn settle(&mut self, _: &Catalog, _: usize) -> bool {
        false
    }

    fn finish(self, _: usize, _: u64) -> FoundMessages {
        let (listed, before) = self.page.finish();
        FoundMessages {
            listed,
            before,
            count: self.count,
            all: self.all,
        }
    }
}
