//! An NVTX tool for tests: it takes every call that vor makes, and writes each as a line to the
//! file that `VOR_TEST_TOOL_LOG` names. Without a file it does nothing but take the calls.
//!
//! It looks at everything that a real tool relies on (the sizes of tables and attributes, the
//! version), and refuses to start where something is wrong, or where `VOR_TEST_TOOL_REFUSES` is
//! set. Texts are written in hexadecimal digits: they may hold anything.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

#[repr(C)]
struct Callbacks {
    struct_bytes: usize,
    module_table: extern "system" fn(c_int, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int,
}

#[repr(C)]
struct VersionInfo {
    struct_bytes: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "system" fn(u32),
}

#[repr(C)]
struct Attributes {
    version: u16,
    size: u16,
    category: u32,
    color_type: i32,
    color: u32,
    payload_type: i32,
    reserved: i32,
    payload: u64,
    message_type: i32,
    message: *const c_char,
}

/// The calls are told here, under the lock that makes their order the file's.
static LOG: Mutex<Option<File>> = Mutex::new(None);

/// Registered strings: a handle is the number of its string, from 1.
static STRINGS: OnceLock<Mutex<HashMap<Vec<u8>, usize>>> = OnceLock::new();

/// The one domain.
const DOMAIN: *mut c_void = std::ptr::without_provenance_mut(0xd0);

thread_local! {
    static DEPTH: Cell<c_int> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn gettid() -> c_int;
}

fn log(line: std::fmt::Arguments<'_>) {
    if let Some(file) = &mut *LOG.lock().unwrap() {
        // SAFETY: it takes nothing, touches no memory and cannot fail.
        let tid = unsafe { gettid() };
        let line = format!("{tid} {line}\n");
        file.write_all(line.as_bytes()).unwrap();
    }
}

fn hex(text: *const c_char) -> String {
    // SAFETY: the program gives texts that end with 0 and live while the call lasts.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    // An empty text is a word too.
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("x{digits}")
}

extern "system" fn create_domain(name: *const c_char) -> *mut c_void {
    log(format_args!("domain {}", hex(name)));
    DOMAIN
}

extern "system" fn register_string(domain: *mut c_void, text: *const c_char) -> *mut c_void {
    // SAFETY: as in `hex`.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes().to_vec();
    let mut strings = STRINGS.get_or_init(Mutex::default).lock().unwrap();
    let next = strings.len() + 1;
    let number = *strings.entry(bytes).or_insert(next);
    log(format_args!("string {} {number} {}", domain.addr(), hex(text)));
    std::ptr::without_provenance_mut(number)
}

extern "system" fn name_category(domain: *mut c_void, category: u32, name: *const c_char) {
    log(format_args!("category {} {category} {}", domain.addr(), hex(name)));
}

extern "system" fn name_thread(thread: u32, name: *const c_char) {
    log(format_args!("thread {thread} {}", hex(name)));
}

extern "system" fn push(domain: *mut c_void, attributes: *const Attributes) -> c_int {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    // SAFETY: the program gives attributes that live while the call lasts, laid out as the
    // interface says.
    let at = unsafe { &*attributes };
    if is_logging() {
        log(format_args!(
            "push {} {} {} {} {} {} {} {} {} {} {depth}",
            domain.addr(), at.version, at.size, at.category, at.color_type, at.color, at.payload_type, at.payload, at.message_type, at.message.addr(),
        ));
    }
    depth
}

extern "system" fn pop(domain: *mut c_void) -> c_int {
    let depth = DEPTH.get() - 1;
    if is_logging() {
        log(format_args!("pop {} {depth}", domain.addr()));
    }
    if depth >= 0 {
        DEPTH.set(depth);
    }
    depth
}

fn is_logging() -> bool {
    static IS_LOGGING: OnceLock<bool> = OnceLock::new();
    *IS_LOGGING.get_or_init(|| LOG.lock().unwrap().is_some())
}

/// Called by the program once, with what hands out its tables; returns 0 where it is not as it
/// should be.
#[unsafe(no_mangle)]
pub extern "system" fn InitializeInjectionNvtx2(table: extern "system" fn(u32) -> *const c_void) -> c_int {
    if std::env::var_os("VOR_TEST_TOOL_REFUSES").is_some() {
        return 0;
    }
    if let Some(path) = std::env::var_os("VOR_TEST_TOOL_LOG") {
        *LOG.lock().unwrap() = Some(File::create(path).unwrap());
    }
    // SAFETY: these are the tables of these numbers, which live as long as the program.
    let (callbacks, version) = unsafe { (&*table(1).cast::<Callbacks>(), &*table(3).cast::<VersionInfo>()) };
    (version.set_tool_version)(3);
    let is_right = callbacks.struct_bytes == 16
        && version.struct_bytes == 24
        && version.version == 3
        && table(0).is_null()
        && table(2).is_null()
        && table(99).is_null();
    c_int::from(is_right && fill(callbacks))
}

/// Puts the functions into their slots; false where a module lacks slots that a tool may count on.
fn fill(callbacks: &Callbacks) -> bool {
    let functions: [(c_int, usize, *const c_void); 6] = [
        (1, 14, name_thread as *const c_void),
        (5, 4, push as *const c_void),
        (5, 5, pop as *const c_void),
        (5, 8, name_category as *const c_void),
        (5, 10, register_string as *const c_void),
        (5, 12, create_domain as *const c_void),
    ];
    for (module, expected) in [(-1, 0), (0, 0), (1, 16), (2, 9), (3, 15), (4, 7), (5, 16), (6, 7), (7, 0), (c_int::MAX, 0)] {
        let (mut slots, mut count) = (std::ptr::null(), 0);
        let found = (callbacks.module_table)(module, &mut slots, &mut count);
        if (found, count) != (c_int::from(expected > 0), expected) {
            return false;
        }
        for number in 0..=count as usize {
            if found == 0 {
                break;
            }
            // The first stands for no function, and the one behind the last ends the array.
            // SAFETY: the program says how long the array is, and `number` lies within that.
            let slot = unsafe { *slots.add(number) };
            if slot.is_null() != (number == 0 || number == count as usize) {
                return false;
            }
            let ours = functions.iter().find(|(of, at, _)| (*of, *at) == (module, number));
            if let Some((_, _, function)) = ours {
                // SAFETY: a slot that is not null is the program's for as long as that runs, and
                // atomic by the tool's and the program's agreement.
                unsafe { &*slot }.store(function.cast_mut(), Ordering::Relaxed);
            }
        }
    }
    true
}

/// How many ranges the calling thread has open: for programs that know the tool.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_depth() -> c_int {
    DEPTH.get()
}

/// The functions of a range, for measuring what they take by themselves.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_push(attributes: *const c_void) -> c_int {
    push(DOMAIN, attributes.cast())
}

/// As above.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_pop() -> c_int {
    pop(DOMAIN)
}
