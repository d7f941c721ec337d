//! An NVTX tool for tests. It writes each call of vor as a line to the file that
//! `VOR_TEST_TOOL_LOG` names. Without a file, it only receives the calls.
//!
//! It checks everything that a real tool relies on (the sizes of tables and attributes, the
//! version). It refuses to start if a check fails, or if `VOR_TEST_TOOL_REFUSES` is set. Texts are
//! written in hexadecimal digits, because they may contain any byte.

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
    module_table:
        extern "system" fn(c_int, *mut *const *const AtomicPtr<c_void>, *mut c_uint) -> c_int,
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

/// The log of the calls. The lock makes their order that of the file.
static LOG: Mutex<Option<File>> = Mutex::new(None);

/// Registered strings. A handle is the number of its string, from 1.
static STRINGS: OnceLock<Mutex<HashMap<Vec<u8>, usize>>> = OnceLock::new();

/// The only domain.
const DOMAIN: *mut c_void = std::ptr::without_provenance_mut(0xd0);

thread_local! {
    static DEPTH: Cell<c_int> = const { Cell::new(0) };
}

unsafe extern "C" {
    fn gettid() -> c_int;
}

fn log(line: std::fmt::Arguments<'_>) {
    if let Some(file) = &mut *LOG.lock().unwrap() {
        // SAFETY: `gettid` takes nothing, touches no memory and cannot fail.
        let tid = unsafe { gettid() };
        let line = format!("{tid} {line}\n");
        file.write_all(line.as_bytes()).unwrap();
    }
}

fn hex(text: *const c_char) -> String {
    // SAFETY: the program provides texts that end with 0 and live during the call.
    let bytes = unsafe { CStr::from_ptr(text) }.to_bytes();
    // The prefix makes an empty text a word too.
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
    log(format_args!(
        "string {} {number} {}",
        domain.addr(),
        hex(text)
    ));
    std::ptr::without_provenance_mut(number)
}

extern "system" fn name_category(domain: *mut c_void, category: u32, name: *const c_char) {
    log(format_args!(
        "category {} {category} {}",
        domain.addr(),
        hex(name)
    ));
}

extern "system" fn name_thread(thread: u32, name: *const c_char) {
    log(format_args!("thread {thread} {}", hex(name)));
}

extern "system" fn push(domain: *mut c_void, attributes: *const Attributes) -> c_int {
    let depth = DEPTH.replace(DEPTH.get() + 1);
    // SAFETY: the program provides attributes that live during the call, with the layout of the
    // interface.
    let at = unsafe { &*attributes };
    if is_logging() {
        log(format_args!(
            "push {} {} {} {} {} {} {} {} {} {} {depth}",
            domain.addr(),
            at.version,
            at.size,
            at.category,
            at.color_type,
            at.color,
            at.payload_type,
            at.payload,
            at.message_type,
            at.message.addr(),
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

/// The program calls this once, with the function that returns its tables. Returns 0 if a check
/// fails.
#[unsafe(no_mangle)]
pub extern "system" fn InitializeInjectionNvtx2(
    table: extern "system" fn(u32) -> *const c_void,
) -> c_int {
    if std::env::var_os("VOR_TEST_TOOL_REFUSES").is_some() {
        return 0;
    }
    if let Some(path) = std::env::var_os("VOR_TEST_TOOL_LOG") {
        *LOG.lock().unwrap() = Some(File::create(path).unwrap());
    }
    // SAFETY: the tables of these numbers have these types, and live as long as the program.
    let (callbacks, version) = unsafe {
        (
            &*table(1).cast::<Callbacks>(),
            &*table(3).cast::<VersionInfo>(),
        )
    };
    (version.set_tool_version)(3);
    let is_right = callbacks.struct_bytes == 16
        && version.struct_bytes == 24
        && version.version == 3
        && table(0).is_null()
        && table(2).is_null()
        && table(99).is_null();
    c_int::from(is_right && fill(callbacks))
}

/// Stores the functions in their slots. Returns `false` if a module lacks slots that a tool may
/// rely on.
fn fill(callbacks: &Callbacks) -> bool {
    let functions: [(c_int, usize, *const c_void); 6] = [
        (1, 14, name_thread as *const c_void),
        (5, 4, push as *const c_void),
        (5, 5, pop as *const c_void),
        (5, 8, name_category as *const c_void),
        (5, 10, register_string as *const c_void),
        (5, 12, create_domain as *const c_void),
    ];
    for (module, expected) in [
        (-1, 0),
        (0, 0),
        (1, 16),
        (2, 9),
        (3, 15),
        (4, 7),
        (5, 16),
        (6, 7),
        (7, 0),
        (c_int::MAX, 0),
    ] {
        let (mut slots, mut count) = (std::ptr::null(), 0);
        let found = (callbacks.module_table)(module, &mut slots, &mut count);
        if (found, count) != (c_int::from(expected > 0), expected) {
            return false;
        }
        for number in 0..=count as usize {
            if found == 0 {
                break;
            }
            // The first slot has no function, and the one behind the last ends the array.
            // SAFETY: the program reports the length of the array, and `number` is within it.
            let slot = unsafe { *slots.add(number) };
            if slot.is_null() != (number == 0 || number == count as usize) {
                return false;
            }
            let ours = functions
                .iter()
                .find(|(of, at, _)| (*of, *at) == (module, number));
            if let Some((_, _, function)) = ours {
                // SAFETY: a slot that is not null belongs to the program for as long as the program
                // runs. It is atomic by agreement of tool and program.
                unsafe { &*slot }.store(function.cast_mut(), Ordering::Relaxed);
            }
        }
    }
    true
}

/// Returns the number of open ranges of the calling thread, for programs that know the tool.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_depth() -> c_int {
    DEPTH.get()
}

/// Pushes a range, so that a benchmark can measure the tool's own cost.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_push(attributes: *const c_void) -> c_int {
    push(DOMAIN, attributes.cast())
}

/// Pops a range, for the same benchmark.
#[unsafe(no_mangle)]
pub extern "system" fn vor_test_pop() -> c_int {
    pop(DOMAIN)
}
