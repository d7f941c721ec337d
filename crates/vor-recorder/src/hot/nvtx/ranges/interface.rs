//! The binary interface between a program and an NVTX tool, version 3.
//!
//! The tool's library exports one function. The program calls it once, and passes a function that
//! returns tables by number. One table holds the version. The other holds a function that returns,
//! for each module of the interface, an array of pointers to slots. The tool stores its own
//! functions in the slots that it uses; the others stay null and are not called. So the program
//! calls the tool through its own memory, and nothing is linked.
//!
//! The layouts and numbers are those of the headers `nvToolsExt.h` and `nvtxTypes.h` of NVTX 3,
//! which promise that they never change. The modules for CUDA, OpenCL and synchronisation have
//! slots too, because a tool may rely on their presence. These slots are never called.
#![expect(
    unsafe_code,
    reason = "a tool is a library that is loaded at run time, and its functions are C"
)]

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use crate::sync::Ordering;
use crate::sync::global::AtomicPtr;

/// A domain, or a registered string; opaque to the program.
pub(super) type Handle = *mut c_void;

/// The place of a tool's function. The tool writes it, during its initialisation or at any time.
/// Calls read it relaxed, as a C program reads it with a plain load.
type Slot = AtomicPtr<c_void>;

/// The version of the interface, which tools query, and of [`EventAttributes`].
const VERSION: u32 = 3;

/// Slots of a module; the first is never used.
const SLOTS_BY_MODULE: [usize; 7] = [0, 16, 9, 15, 7, 16, 7];
const MAX_SLOTS: usize = 16;

/// The modules whose functions are called, and these functions.
const CORE: usize = 1;
const CORE_NAME_OS_THREAD: usize = 14;
const DOMAINS: usize = 5;
const RANGE_PUSH: usize = 4;
const RANGE_POP: usize = 5;
const NAME_CATEGORY: usize = 8;
const REGISTER_STRING: usize = 10;
const CREATE_DOMAIN: usize = 12;

static SLOTS: [[Slot; MAX_SLOTS]; SLOTS_BY_MODULE.len()] =
    [const { [const { Slot::new(null_mut()) }; MAX_SLOTS] }; SLOTS_BY_MODULE.len()];

/// The attributes of a range: `nvtxEventAttributes_v2`.
#[derive(Debug)]
#[repr(C)]
pub(super) struct EventAttributes {
    version: u16,
    size: u16,
    pub(super) category: u32,
    /// 1 for a colour, 0 for none.
    pub(super) color_type: i32,
    pub(super) color_argb: u32,
    /// [`PAYLOAD_U64`], [`PAYLOAD_I64`], [`PAYLOAD_F64`] or 0.
    pub(super) payload_type: i32,
    reserved: i32,
    pub(super) payload: u64,
    /// [`MESSAGE_TEXT`] or [`MESSAGE_REGISTERED`].
    pub(super) message_type: i32,
    /// A C string or the handle of a registered one.
    pub(super) message: *const c_void,
}

pub(super) const PAYLOAD_U64: i32 = 1;
pub(super) const PAYLOAD_I64: i32 = 2;
pub(super) const PAYLOAD_F64: i32 = 3;
pub(super) const MESSAGE_TEXT: i32 = 1;
pub(super) const MESSAGE_REGISTERED: i32 = 3;

const _: () = assert!(size_of::<usize>() != 8 || size_of::<EventAttributes>() == 48);

impl EventAttributes {
    /// Makes the attributes of a range with nothing but a message.
    #[inline(always)]
    pub(super) const fn new(message_type: i32, message: *const c_void) -> Self {
        Self {
            version: VERSION as u16,
            size: size_of::<Self>() as u16,
            category: 0,
            color_type: 0,
            color_argb: 0,
            payload_type: 0,
            reserved: 0,
            payload: 0,
            message_type,
            message,
        }
    }
}

/// `NvtxExportTableCallbacks`.
#[repr(C)]
struct Callbacks {
    struct_bytes: usize,
    module_table: extern "system" fn(c_int, *mut *const *const Slot, *mut c_uint) -> c_int,
}

/// `NvtxExportTableVersionInfo`.
#[repr(C)]
struct VersionInfo {
    struct_bytes: usize,
    version: u32,
    reserved: u32,
    set_tool_version: extern "system" fn(u32),
}

static CALLBACKS: Callbacks = Callbacks {
    struct_bytes: size_of::<Callbacks>(),
    module_table,
};

static VERSION_INFO: VersionInfo = VersionInfo {
    struct_bytes: size_of::<VersionInfo>(),
    version: VERSION,
    reserved: 0,
    set_tool_version,
};

type ExportTable = extern "system" fn(u32) -> *const c_void;
type Initialise = unsafe extern "system" fn(ExportTable) -> c_int;

/// Returns the table of this number to the tool, or null if there is none.
extern "system" fn export_table(number: u32) -> *const c_void {
    match number {
        1 => (&raw const CALLBACKS).cast(),
        3 => (&raw const VERSION_INFO).cast(),
        _ => std::ptr::null(),
    }
}

/// Stores the slots of a module for the tool and returns 1, or returns 0 if there is no such
/// module.
extern "system" fn module_table(
    module: c_int,
    table: *mut *const *const Slot,
    count: *mut c_uint,
) -> c_int {
    let module = usize::try_from(module).unwrap_or(0);
    let Some(slots) = tables().0.get(module).filter(|_| module > 0) else {
        return 0;
    };
    // SAFETY: By the interface, the two are null or valid places of the caller. The arrays behind
    // the stored pointer live for ever.
    unsafe {
        if let Some(count) = count.as_mut() {
            *count = SLOTS_BY_MODULE[module] as c_uint;
        }
        if let Some(table) = table.as_mut() {
            *table = slots.as_ptr();
        }
    }
    1
}

/// Ignores the tool's version: nothing depends on it.
extern "system" fn set_tool_version(_: u32) {}

/// The addresses of the slots by module. Each array ends with a null, so that a tool that reads
/// beyond the slots finds nothing else.
struct Tables([[*const Slot; MAX_SLOTS + 1]; SLOTS_BY_MODULE.len()]);

// SAFETY: the pointers lead to a static of atomics, and are never changed.
unsafe impl Send for Tables {}
// SAFETY: as above.
unsafe impl Sync for Tables {}

fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let mut tables = Tables([[std::ptr::null(); MAX_SLOTS + 1]; SLOTS_BY_MODULE.len()]);
        for (module, slots) in SLOTS.iter().enumerate() {
            // Number 0 means no function in each of them.
            for (number, slot) in slots
                .iter()
                .enumerate()
                .take(SLOTS_BY_MODULE[module])
                .skip(1)
            {
                tables.0[module][number] = slot;
            }
        }
        tables
    })
}

/// Loads the tool that the environment names, or finds one that the process has already loaded, and
/// initialises it: the tool fills the slots. Returns whether there is a tool that takes ranges.
///
/// # Errors
///
/// The tool that the environment names cannot be loaded or started. The text says why.
pub(super) fn load_tool() -> Result<bool, String> {
    let variable = if size_of::<usize>() == 8 {
        "NVTX_INJECTION64_PATH"
    } else {
        "NVTX_INJECTION32_PATH"
    };
    let library = match std::env::var_os(variable).filter(|path| !path.is_empty()) {
        Some(path) => Some(named_tool(variable, path)?),
        None => present_tool(),
    };
    let Some((library, initialise)) = library else {
        return Ok(false);
    };
    // SAFETY: By the interface, a function of this name has this signature. The function that it
    // gets may be called at any time.
    if unsafe { initialise(export_table) } == 0 {
        return Err(format!(
            "{variable}: the NVTX tool reports that it cannot start"
        ));
    }
    // Its functions are in the slots from now on.
    std::mem::forget(library);
    Ok(slot(DOMAINS, RANGE_PUSH).is_some() && slot(DOMAINS, RANGE_POP).is_some())
}

/// Loads the library that the variable names.
fn named_tool(variable: &str, path: OsString) -> Result<(Library, Initialise), String> {
    let shown = path.to_string_lossy().into_owned();
    // SAFETY: Loading runs the library's own code. The variable exists to name such a library, so
    // its user answers for what that code does.
    let library = unsafe { Library::new(path) }
        .map_err(|error| format!("{variable}: the library `{shown}` cannot be loaded: {error}"))?;
    let missing = |_| {
        format!(
            "{variable}: `{shown}` is not an NVTX tool: it does not export InitializeInjectionNvtx2"
        )
    };
    // SAFETY: By the interface, a function of this name has this signature.
    let initialise =
        unsafe { library.get::<Initialise>(b"InitializeInjectionNvtx2\0") }.map(|found| *found);
    let initialise = initialise.map_err(missing)?;
    Ok((library, initialise))
}

/// Returns the tool that the process has already loaded, by the name that such tools export.
#[cfg(unix)]
fn present_tool() -> Option<(Library, Initialise)> {
    let process = Library::from(libloading::os::unix::Library::this());
    // SAFETY: as in `named_tool`.
    let initialise = unsafe { process.get::<Initialise>(b"InitializeInjectionNvtx2Preinject\0") };
    let initialise = initialise.ok().map(|found| *found)?;
    Some((process, initialise))
}

#[cfg(not(unix))]
fn present_tool() -> Option<(Library, Initialise)> {
    None
}

#[inline(always)]
fn slot(module: usize, number: usize) -> Option<*mut c_void> {
    let function = SLOTS[module][number].load(Ordering::Relaxed);
    (!function.is_null()).then_some(function)
}

/// Pushes a range of the calling thread.
#[inline(always)]
pub(super) fn push_range(domain: Handle, attributes: &EventAttributes) {
    if let Some(function) = slot(DOMAINS, RANGE_PUSH) {
        // SAFETY: By the interface, the tool stores a function of this signature in this slot. The
        // attributes live across the call, and a tool keeps nothing of them but handles and
        // pointers that live for ever.
        unsafe {
            let push: unsafe extern "system" fn(Handle, *const EventAttributes) -> c_int =
                std::mem::transmute(function);
            push(domain, attributes);
        }
    }
}

/// Pops the innermost range of the calling thread.
#[inline(always)]
pub(super) fn pop_range(domain: Handle) {
    if let Some(function) = slot(DOMAINS, RANGE_POP) {
        // SAFETY: By the interface, the tool stores a function of this signature in this slot.
        unsafe {
            let pop: unsafe extern "system" fn(Handle) -> c_int = std::mem::transmute(function);
            pop(domain);
        }
    }
}

/// Creates a domain. Returns null, which is the default domain, if the tool has no domains.
pub(super) fn create_domain(name: &'static CStr) -> Handle {
    let Some(function) = slot(DOMAINS, CREATE_DOMAIN) else {
        return null_mut();
    };
    // SAFETY: By the interface, the tool stores a function of this signature in this slot. The name
    // lives for ever.
    unsafe {
        let create: unsafe extern "system" fn(*const c_char) -> Handle =
            std::mem::transmute(function);
        create(name.as_ptr())
    }
}

/// Registers a string. Returns null if the tool does not register strings.
pub(super) fn register_string(domain: Handle, text: &CStr) -> Handle {
    let Some(function) = slot(DOMAINS, REGISTER_STRING) else {
        return null_mut();
    };
    // SAFETY: By the interface, the tool stores a function of this signature in this slot. The text
    // lives across the call, and the tool copies it.
    unsafe {
        let register: unsafe extern "system" fn(Handle, *const c_char) -> Handle =
            std::mem::transmute(function);
        register(domain, text.as_ptr())
    }
}

/// Passes the name of a category to the tool.
pub(super) fn name_category(domain: Handle, category: u32, name: &CStr) {
    if let Some(function) = slot(DOMAINS, NAME_CATEGORY) {
        // SAFETY: By the interface, the tool stores a function of this signature in this slot. The
        // name lives across the call, and the tool copies it.
        unsafe {
            let name_category: unsafe extern "system" fn(Handle, u32, *const c_char) =
                std::mem::transmute(function);
            name_category(domain, category, name.as_ptr());
        }
    }
}

/// Passes the name of an OS thread to the tool.
pub(super) fn name_os_thread(os_id: u32, name: &CStr) {
    if let Some(function) = slot(CORE, CORE_NAME_OS_THREAD) {
        // SAFETY: By the interface, the tool stores a function of this signature in this slot. The
        // name lives across the call, and the tool copies it.
        unsafe {
            let name_thread: unsafe extern "system" fn(u32, *const c_char) =
                std::mem::transmute(function);
            name_thread(os_id, name.as_ptr());
        }
    }
}
