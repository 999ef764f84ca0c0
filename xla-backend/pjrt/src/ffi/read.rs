//! Copies what the plugin hands out by pointer and length.

use std::ffi::c_char;

/// # Safety
/// `data` is null or points to `len` initialized values of `T`.
pub(crate) unsafe fn copy_slice<T: Copy>(data: *const T, len: usize) -> Vec<T> {
    if data.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise; null was turned away above.
    unsafe { std::slice::from_raw_parts(data, len) }.to_vec()
}

/// # Safety
/// `data` is null or points to `len` bytes.
pub(crate) unsafe fn copy_bytes(data: *const c_char, len: usize) -> Vec<u8> {
    // SAFETY: the caller's promise; `c_char` and `u8` have one layout.
    unsafe { copy_slice(data.cast::<u8>(), len) }
}

/// # Safety
/// `data` is null or points to `len` bytes. What is not UTF-8 is replaced.
pub(crate) unsafe fn copy_string(data: *const c_char, len: usize) -> String {
    // SAFETY: the caller's promise.
    String::from_utf8_lossy(&unsafe { copy_bytes(data, len) }).into_owned()
}
