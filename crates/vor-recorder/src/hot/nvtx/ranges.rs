//! Ranges of the tool that is attached, if one is.

mod interface;
mod names;

use std::ptr::null_mut;
use std::sync::Once;

use interface::{PAYLOAD_F64, PAYLOAD_I64, PAYLOAD_U64};
use vor_capture::model::catalog::ThreadInfo;

use crate::hot::args::Number;
use crate::os::report;
use crate::sync::Ordering;
use crate::sync::global::{AtomicBool, AtomicPtr};

/// Whether there can be a tool at all.
pub(crate) const IS_POSSIBLE: bool = true;

/// Whether a tool takes ranges. Set once by [`attach`], after [`DOMAIN`]. Read relaxed by the slow
/// path of scopes: switching recording on orders the read after the store.
static ATTACHED: AtomicBool = AtomicBool::new(false);

/// The domain of all ranges. Set once by [`attach`], read relaxed by ranges.
static DOMAIN: AtomicPtr<std::ffi::c_void> = AtomicPtr::new(null_mut());

/// Looks for a tool, once per process. If a named tool cannot be loaded, reports that in one line
/// on stderr.
pub(crate) fn attach() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| match interface::load_tool() {
        Ok(true) => {
            DOMAIN.store(interface::create_domain(c"vor"), Ordering::SeqCst);
            ATTACHED.store(true, Ordering::SeqCst);
        }
        Ok(false) => (),
        Err(reason) => report::line(&format!("{reason}; there are no NVTX ranges")),
    });
}

/// Returns whether a tool is attached. If so, every scope is a range too.
#[inline(always)]
pub(crate) fn is_attached() -> bool {
    ATTACHED.load(Ordering::Relaxed)
}

/// Passes the name of a thread to the tool when the thread begins to record.
pub(crate) fn name_thread(info: &ThreadInfo) {
    if is_attached()
        && !info.name.is_empty()
        && let Ok(os_id) = u32::try_from(info.os_id)
    {
        interface::name_os_thread(os_id, &names::c_string(&info.name));
    }
}

/// Pushes a range for a scope of this site.
#[inline(always)]
pub(crate) fn push(id: u32, number: Option<Number>) {
    let domain = DOMAIN.load(Ordering::Relaxed);
    let mut attributes = names::attributes(domain, id);
    if let Some(number) = number {
        (attributes.payload_type, attributes.payload) = match number {
            Number::Signed(word) => (PAYLOAD_I64, word),
            Number::Unsigned(word) => (PAYLOAD_U64, word),
            Number::Float(word) => (PAYLOAD_F64, word),
        };
    }
    interface::push_range(domain, &attributes);
}

/// Pops ranges of this thread.
#[inline(always)]
pub(crate) fn pop(count: usize) {
    let domain = DOMAIN.load(Ordering::Relaxed);
    for _ in 0..count {
        interface::pop_range(domain);
    }
}
