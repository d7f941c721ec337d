//! The attributes of a site's ranges, by the site's id: the registered name, the category and the
//! colour.
//!
//! The table has a chunk per 1024 ids, which is made when the first of them is needed. If two
//! threads need one entry at the same time, both register the name and store equal attributes. A
//! tool treats equal names as one string. So there is no lock that a fork or a tool could leave
//! locked.

use std::ffi::{CString, c_void};
use std::ptr::null_mut;

use vor_capture::model::catalog::{SiteId, SiteInfo};

use super::interface::{self, EventAttributes, Handle, MESSAGE_REGISTERED, MESSAGE_TEXT};
use crate::hot::ring::MAX_SITE;
use crate::hot::{callsite, thread};
use crate::sync::Ordering;
use crate::sync::global::{AtomicPtr, AtomicU64};

const CHUNK_IDS: usize = 1024;
const CHUNKS: usize = (MAX_SITE as usize + 1) / CHUNK_IDS;

/// The attributes of a site.
struct Entry {
    /// The registered string, or a C string that is never freed. Written before `style` and read
    /// after it, both relaxed.
    message: AtomicPtr<c_void>,
    /// [`FILLED`] and [`REGISTERED`], the category in the high half, the colour in the low half; 0
    /// at first. The first range of the site writes it (release), every range reads it (acquire).
    style: AtomicU64,
}

/// The entry is filled.
const FILLED: u64 = 1 << 63;
/// Its message is a registered string.
const REGISTERED: u64 = 1 << 62;
/// The bits of a category: ids of sites have 24.
const CATEGORY_MASK: u32 = MAX_SITE;

type Chunk = [Entry; CHUNK_IDS];

/// The chunks, null until needed. The first range that needs a chunk sets it once (release), and
/// every range reads it (acquire).
static TABLE: [AtomicPtr<Chunk>; CHUNKS] = [const { AtomicPtr::new(null_mut()) }; CHUNKS];

/// Colours of categories: far apart, and light enough for the black text of Nsight's timeline.
const PALETTE: [u32; 12] = [
    0x4e_9a_f1, 0xf2_8e_2c, 0x59_a1_4f, 0xe1_57_59, 0x76_b7_b2, 0xed_c9_49, 0xb0_7a_a1, 0xff_9d_a7,
    0x9c_75_5f, 0x8c_d1_7d, 0xd4_a6_c8, 0xb6_99_2d,
];

const OPAQUE: u32 = 0xff00_0000;

/// Returns the attributes of a range of the site. The first call registers the site with the tool.
#[inline(always)]
pub(super) fn attributes(domain: Handle, id: u32) -> EventAttributes {
    match find(id) {
        Some(attributes) => attributes,
        // The allocations of `register` are not the program's.
        None => thread::while_busy(|| register(domain, id)),
    }
}

#[inline(always)]
fn find(id: u32) -> Option<EventAttributes> {
    let chunk = TABLE.get(id as usize / CHUNK_IDS)?.load(Ordering::Acquire);
    #[expect(unsafe_code, reason = "there is no atomic reference")]
    // SAFETY: The pointer is null or comes from a box that `chunk_of` leaked.
    let entry = unsafe { chunk.as_ref() }?.get(id as usize % CHUNK_IDS)?;
    let style = entry.style.load(Ordering::Acquire);
    if style & FILLED == 0 {
        return None;
    }
    Some(attributes_of(style, entry.message.load(Ordering::Relaxed)))
}

#[inline(always)]
fn attributes_of(style: u64, message: *const c_void) -> EventAttributes {
    let message_type = if style & REGISTERED == 0 {
        MESSAGE_TEXT
    } else {
        MESSAGE_REGISTERED
    };
    let color_argb = style as u32;
    let mut attributes = EventAttributes::new(message_type, message);
    attributes.category = (style >> 32) as u32 & CATEGORY_MASK;
    attributes.color_type = i32::from(color_argb != 0);
    attributes.color_argb = color_argb;
    attributes
}

/// Registers the site's name and category with the tool.
#[cold]
#[inline(never)]
fn register(domain: Handle, id: u32) -> EventAttributes {
    let (info, category) = {
        let registry = callsite::lock();
        let info = registry.info_of(SiteId(id)).unwrap_or_default();
        let category = registry.first_of_category(&info.category);
        (info, category)
    };
    if category != 0 {
        interface::name_category(domain, category, &c_string(&info.category));
    }
    let name = c_string(&info.name);
    let handle = interface::register_string(domain, &name);
    let (message, registered) = if handle.is_null() {
        // A tool without registered strings keeps the pointer.
        (name.into_raw().cast(), 0)
    } else {
        (handle, REGISTERED)
    };
    let style = FILLED | registered | u64::from(category) << 32 | u64::from(color_argb(&info));
    if let Some(entry) = chunk_of(id).and_then(|chunk| chunk.get(id as usize % CHUNK_IDS)) {
        entry.message.store(message, Ordering::Relaxed);
        entry.style.store(style, Ordering::Release);
    }
    attributes_of(style, message)
}

/// Returns the site's own colour, or that of its category, or 0 if it has neither.
fn color_argb(info: &SiteInfo) -> u32 {
    let of_category = || {
        // FNV-1a: the same colour in each run.
        let fold = |hash: u32, byte: u8| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        let hash = info.category.bytes().fold(0x811c_9dc5, fold);
        PALETTE[hash as usize % PALETTE.len()]
    };
    match (info.color, info.category.is_empty()) {
        (Some(color), _) => OPAQUE | color & !OPAQUE,
        (None, false) => OPAQUE | of_category(),
        (None, true) => 0,
    }
}

fn chunk_of(id: u32) -> Option<&'static Chunk> {
    let place = TABLE.get(id as usize / CHUNK_IDS)?;
    let mut chunk = place.load(Ordering::Acquire);
    if chunk.is_null() {
        let entries: Vec<Entry> = (0..CHUNK_IDS).map(|_| Entry::new()).collect();
        let made: Box<Chunk> = entries.try_into().ok()?;
        let made = Box::into_raw(made);
        let first = place.compare_exchange(null_mut(), made, Ordering::AcqRel, Ordering::Acquire);
        chunk = match first {
            Ok(_) => made,
            Err(other) => {
                #[expect(unsafe_code, reason = "the box was turned into a pointer above")]
                // SAFETY: The pointer was made above, and no other code has it.
                drop(unsafe { Box::from_raw(made) });
                other
            }
        };
    }
    #[expect(unsafe_code, reason = "there is no atomic reference")]
    // SAFETY: The pointer comes from a box that is never freed: only the exchange above stores one
    // in the table.
    unsafe {
        chunk.as_ref()
    }
}

impl Entry {
    const fn new() -> Self {
        Self {
            message: AtomicPtr::new(null_mut()),
            style: AtomicU64::new(0),
        }
    }
}

/// Returns the text as a C string. A C string ends at a zero, so each zero in the text is replaced
/// by its symbol.
pub(super) fn c_string(text: &str) -> CString {
    CString::new(text.replace('\0', "\u{2400}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use vor_capture::filled;

    #[test]
    fn zeros_become_symbols_and_nothing_else_changes() {
        for (text, expected) in [
            ("", ""),
            ("100 %s", "100 %s"),
            ("a\0b\0", "a␀b␀"),
            ("größe 🦀", "größe 🦀"),
        ] {
            assert_eq!(c_string(text).to_str(), Ok(expected));
        }
    }

    #[test]
    fn a_category_has_one_colour_and_a_sites_own_colour_wins() {
        let info = |category: &'static str, color| {
            filled!(SiteInfo {
                category: category.into(),
                color
            })
        };
        assert_eq!(color_argb(&info("", None)), 0);
        assert_eq!(color_argb(&info("io", Some(0x0012_3456))), 0xff12_3456);
        assert_eq!(color_argb(&info("", Some(0))), OPAQUE);
        let io = color_argb(&info("io", None));
        assert_eq!(io, color_argb(&info("io", None)));
        assert!(io & OPAQUE == OPAQUE && PALETTE.contains(&(io & !OPAQUE)));
        assert_ne!(io, color_argb(&info("net", None)));
    }
}
