//! The function table.

use std::ffi::{c_int, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use libloading::Library;
use traind_pjrt::FUNCTION_TABLE;

use super::behaviour;
use super::errors;
use super::records::Subject;
use crate::Options;
use crate::options::NextSdk;

/// An entry of the table: takes its arguments, and returns an error or null.
pub(super) type Entry = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
/// An error of PJRT.
pub(super) type Failure = *mut c_void;

const ENTRIES: usize = FUNCTION_TABLE.len();

#[repr(C)]
#[derive(Clone, Copy)]
struct ApiVersion {
    struct_size: usize,
    extension_start: *mut c_void,
    major: c_int,
    minor: c_int,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Table {
    struct_size: usize,
    extension_start: *mut c_void,
    version: ApiVersion,
    entries: [Option<Entry>; ENTRIES],
}

// SAFETY: the table is written once and then read.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// A table with functions that newer versions of the C API have.
#[repr(C)]
struct LargerTable {
    table: Table,
    more: [Option<Entry>; FUNCTIONS_OF_NEXT],
}

/// The head of an extension, by which a client finds the one that it needs.
#[repr(C)]
struct Extension {
    struct_size: usize,
    kind: c_int,
    next: *mut c_void,
}

/// The kinds of extensions that the plugin may have, by their numbers in the header: profiler, stream, layouts.
const EXTENSIONS: [c_int; 3] = [1, 3, 4];

/// A chain of extensions without functions, for which a client may look.
fn extensions() -> *mut c_void {
    let mut next = std::ptr::null_mut();
    for kind in EXTENSIONS.into_iter().rev() {
        let extension = Extension { struct_size: size_of::<Extension>(), kind, next };
        // It lives as long as the table.
        next = std::ptr::from_mut(Box::leak(Box::new(extension))).cast();
    }
    next
}

/// The minor version of the C API that the plugin of the next SDK is built with, and how many functions it has that
/// the binding does not know: assumed.
const MINOR_OF_NEXT: c_int = 113;
const FUNCTIONS_OF_NEXT: usize = 9;
/// The function whose arguments got a field in that version, and the bytes of the field.
const GROWN: (&str, usize) = ("PJRT_Device_MemoryStats", 8);

static INNER: OnceLock<Table> = OnceLock::new();
static OWN: OnceLock<LargerTable> = OnceLock::new();
static IS_STRICT: AtomicBool = AtomicBool::new(false);

/// The variable with the path of the plugin that the twin wraps.
pub(super) const INNER_PLUGIN: &str = "TRAIND_TWIN_PLUGIN";
/// The flags that traind sets for programs for CPUs by an override, which a wrapped plugin does not get. Programs are
/// not optimized: that takes more than half of the time of compiling, and times of the twin mean nothing.
const INNER_FLAGS: &str = "--xla_cpu_multi_thread_eigen=false --xla_cpu_use_xnnpack=false \
    --xla_cpu_enable_concurrency_optimized_scheduler=false --xla_backend_optimization_level=0";

/// The plugin's one symbol. Null if the wrapped plugin cannot be loaded.
#[allow(unreachable_pub, reason = "the symbol is exported by its name")]
#[unsafe(no_mangle)]
pub extern "C" fn GetPjrtApi() -> *const c_void {
    match own() {
        Some(own) => (&raw const own.table).cast(),
        None => std::ptr::null(),
    }
}

fn own() -> Option<&'static LargerTable> {
    if OWN.get().is_none() {
        let inner = load()?;
        let _ = INNER.set(inner);
        let mut table = Table {
            // The real plugin has no extension for custom calls.
            extension_start: std::ptr::null_mut(),
            entries: entries(),
            ..inner
        };
        // A wrong option is an error of the client.
        let options = Options::of_environment().unwrap_or_default();
        if options.extensions {
            table.extension_start = extensions();
        }
        let next = options.next_sdk;
        if next != NextSdk::No {
            table.struct_size = size_of::<LargerTable>();
            table.version.minor = MINOR_OF_NEXT;
        }
        IS_STRICT.store(next == NextSdk::Strict, Ordering::Relaxed);
        let more = [Some(unimplemented_entry as Entry); FUNCTIONS_OF_NEXT];
        let _ = OWN.set(LargerTable { table, more });
    }
    OWN.get()
}

fn load() -> Option<Table> {
    let path = std::env::var_os(INNER_PLUGIN)?;
    abort_on_unknown_flags();
    // SAFETY: plugins are loaded before the process starts threads.
    unsafe { std::env::set_var("XLA_FLAGS", INNER_FLAGS) };
    // SAFETY: the variable names a PJRT plugin, whose initializers loading runs.
    let library = unsafe { Library::new(path) }.ok()?;
    // SAFETY: this is the signature that PJRT gives the symbol.
    let get = unsafe { library.get::<unsafe extern "C" fn() -> *const Table>(b"GetPjrtApi\0") };
    // SAFETY: it takes nothing.
    let table = unsafe { get.ok()?() };
    std::mem::forget(library);
    // SAFETY: the CPU plugin's table has the version that the binding declares.
    (!table.is_null()).then(|| unsafe { *table })
}

/// A flag of another platform ends the process, as XLA does in the real plugin.
#[allow(clippy::print_stderr, clippy::disallowed_methods, reason = "as the real plugin does")]
fn abort_on_unknown_flags() {
    let flags = std::env::var("XLA_FLAGS").unwrap_or_default();
    if flags.contains("--xla_gpu") || flags.contains("--xla_cpu") {
        eprintln!(
            "F external/xla/xla/parse_flags_from_env.cc:224] Unknown flags in XLA_FLAGS: {flags}"
        );
        std::process::abort();
    }
}

/// The wrapped plugin's entry.
pub(super) fn inner(index: usize) -> Entry {
    let entry = INNER.get().and_then(|table| table.entries[index]);
    entry.unwrap_or(unimplemented_entry)
}

unsafe extern "C" fn unimplemented_entry(_: *mut c_void) -> *mut c_void {
    errors::unimplemented("entry")
}

/// The place of an entry in the table.
pub(super) fn place(name: &str) -> usize {
    FUNCTION_TABLE.iter().position(|(entry, _)| *entry == name).unwrap_or(usize::MAX)
}

/// Calls an entry of the wrapped plugin.
///
/// # Safety
/// `args` are the arguments of that entry.
pub(super) unsafe fn call(name: &str, args: *mut c_void) -> Result<(), Failure> {
    // SAFETY: the promise above.
    let error = unsafe { inner(place(name))(args) };
    if error.is_null() { Ok(()) } else { Err(error) }
}

/// Calls an entry of the wrapped plugin that takes a subject alone.
///
/// # Safety
/// `subject` is one of that entry.
pub(super) unsafe fn call_on(name: &str, subject: *mut c_void) -> Result<(), Failure> {
    let mut args = Subject::of(subject);
    // SAFETY: the promise above.
    unsafe { call(name, (&raw mut args).cast()) }
}

/// Checks the size of the arguments, then answers or passes the call on.
unsafe extern "C" fn checked<const INDEX: usize>(args: *mut c_void) -> *mut c_void {
    let (name, size) = FUNCTION_TABLE[INDEX];
    let grown = if name == GROWN.0 && IS_STRICT.load(Ordering::Relaxed) { GROWN.1 } else { 0 };
    let size = size.map(|size| size + grown);
    // SAFETY: every argument begins with its size.
    let given = unsafe { args.cast::<usize>().read() };
    if size.is_some_and(|size| size != given) {
        return errors::wrong_size(name);
    }
    // SAFETY: the caller passes the arguments of this entry.
    unsafe { behaviour::call(INDEX, name, args) }
}

macro_rules! checked_entries {
    ($($index:literal)*) => { [$(Some(checked::<$index> as Entry)),*] };
}

fn entries() -> [Option<Entry>; ENTRIES] {
    checked_entries![
        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15
        16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
        32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47
        48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63
        64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79
        80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
        96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111
        112 113 114 115 116 117
    ]
}
