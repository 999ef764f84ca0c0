//! Errors of the twin's own, beside those of the wrapped plugin.

use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex, PoisonError};

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

/// Answers as the real plugin: the message is the function's name.
pub(super) fn unimplemented(name: &str) -> *mut c_void {
    new(UNIMPLEMENTED, name)
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
