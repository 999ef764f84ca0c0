//! Errors of the twin's own, beside those of the wrapped plugin.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

use crate::Options;
use crate::options::Errors;

/// Codes of PJRT.
pub(super) const INVALID_ARGUMENT: c_int = 3;
pub(super) const RESOURCE_EXHAUSTED: c_int = 8;
pub(super) const UNIMPLEMENTED: c_int = 12;
pub(super) const INTERNAL: c_int = 13;

struct OwnError {
    code: c_int,
    text: Box<str>,
}

/// Errors by their address, which nothing but the twin looks into.
static OWN: LazyLock<Mutex<HashMap<usize, Box<OwnError>>>> = LazyLock::new(Mutex::default);

pub(super) fn new(code: c_int, text: &str) -> *mut c_void {
    let mut error = Box::new(OwnError { code, text: text.into() });
    let address = (&raw mut *error).cast::<c_void>();
    OWN.lock().unwrap_or_else(PoisonError::into_inner).insert(address as usize, error);
    address
}

/// Writes a text of the runtime to standard error, and returns the message of the plugin's error: the text, or
/// `brief`.
#[allow(clippy::print_stderr, clippy::disallowed_methods, reason = "as the real runtime does")]
pub(super) fn logged(options: &Options, text: String, brief: &str) -> String {
    let line = text.strip_prefix("NRT:").unwrap_or(&text);
    eprintln!("{0}:{0} ERROR  NRT:{line}", std::process::id());
    match options.errors {
        Errors::Whole => text,
        Errors::Brief => brief.to_owned(),
    }
}

/// Answers as the real plugin: the message is the function's name.
pub(super) fn unimplemented(name: &str) -> *mut c_void {
    new(UNIMPLEMENTED, name)
}

/// The error about a structure whose size is not the one of the plugin's header.
pub(super) fn wrong_size(name: &str) -> *mut c_void {
    let text = format!("[{name}] wrapper: error condition !(args->struct_size == ss):");
    new(INVALID_ARGUMENT, &text)
}

pub(super) fn is_own(error: *const c_void) -> bool {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&(error as usize))
}

pub(super) fn destroy(error: *const c_void) {
    OWN.lock().unwrap_or_else(PoisonError::into_inner).remove(&(error as usize));
}

pub(super) fn code(error: *const c_void) -> c_int {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    own.get(&(error as usize)).map_or(0, |error| error.code)
}

/// The text lives as long as the error.
pub(super) fn text(error: *const c_void) -> (*const c_char, usize) {
    let own = OWN.lock().unwrap_or_else(PoisonError::into_inner);
    let text = own.get(&(error as usize)).map_or("", |error| &error.text);
    (text.as_ptr().cast(), text.len())
}
