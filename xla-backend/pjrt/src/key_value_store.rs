//! The store by which the processes of one client find each other: plugins call it through the
//! callbacks of `PJRT_Client_Create`.
#![allow(unsafe_code)]

use crate::error::ErrorCode;
use crate::ffi::{
    CallbackError, ClientCreateArgs, KeyValueGetArgs, KeyValuePutArgs, KeyValueTryGetArgs,
    RawError, copy_bytes, copy_string,
};
use std::any::Any;
use std::ffi::{c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// A store that all processes of a client share. Plugins call it from several threads at once, and
/// one call may wait for the value that another brings.
pub trait KeyValueStore: Send + Sync + 'static {
    /// Waits until the key has a value; [`ErrorCode::DeadlineExceeded`] after `wait`.
    fn get(&self, key: &str, wait: Duration) -> Result<Vec<u8>, StoreError>;

    /// The value of the key, if it has one.
    fn try_get(&self, key: &str) -> Result<Option<Vec<u8>>, StoreError>;

    /// Stores a value under a key, for all processes of the job.
    fn put(&self, key: &str, value: Vec<u8>) -> Result<(), StoreError>;
}

/// The answer of a store that has no value to give, which the plugin gets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct StoreError {
    /// The code that the plugin gets.
    pub code: ErrorCode,
    /// The message that the plugin gets.
    pub message: String,
}

type Store = Arc<dyn KeyValueStore>;

/// Fills in the callbacks. The store is never freed: plugins have threads that nothing stops.
pub(crate) fn set_callbacks(args: &mut ClientCreateArgs, store: Store) {
    let user: *mut c_void = Box::into_raw(Box::new(store)).cast();
    args.kv_get_callback = get as *const c_void;
    args.kv_put_callback = put as *const c_void;
    args.kv_try_get_callback = try_get as *const c_void;
    (args.kv_get_user_arg, args.kv_put_user_arg, args.kv_try_get_user_arg) = (user, user, user);
}

unsafe extern "C" fn get(args: *mut KeyValueGetArgs) -> *mut RawError {
    // SAFETY: the plugin gives arguments that are valid during the call.
    let args = unsafe { &mut *args };
    // SAFETY: as above: the key comes with its length, and the argument is that of `set_callbacks`.
    let (key, store) = unsafe { (copy_string(args.key, args.key_size), store(args.user_arg)) };
    let wait = Duration::from_millis(u64::try_from(args.timeout_in_ms).unwrap_or(0));
    match attempt(|| store.get(&key, wait)) {
        Ok(value) => {
            args.value_size = value.len();
            args.value = lend(&value);
            args.value_deleter_callback = take_back as *const c_void;
            std::ptr::null_mut()
        }
        // SAFETY: the plugin gives a function that makes errors.
        Err(error) => unsafe { refuse(args.callback_error, &error) },
    }
}

unsafe extern "C" fn try_get(args: *mut KeyValueTryGetArgs) -> *mut RawError {
    // SAFETY: as in `get`.
    let args = unsafe { &mut *args };
    // SAFETY: as in `get`.
    let (key, store) = unsafe { (copy_string(args.key, args.key_size), store(args.user_arg)) };
    let absent = || StoreError { code: ErrorCode::NotFound, message: format!("no value of {key}") };
    match attempt(|| store.try_get(&key)?.ok_or_else(absent)) {
        Ok(value) => {
            args.value_size = value.len();
            args.value = lend(&value);
            args.value_deleter_callback = take_back as *const c_void;
            std::ptr::null_mut()
        }
        // SAFETY: as in `get`.
        Err(error) => unsafe { refuse(args.callback_error, &error) },
    }
}

unsafe extern "C" fn put(args: *mut KeyValuePutArgs) -> *mut RawError {
    // SAFETY: as in `get`.
    let args = unsafe { &*args };
    // SAFETY: as in `get`; so does the value come with its length.
    let (key, value, store) = unsafe {
        let key = copy_string(args.key, args.key_size);
        (key, copy_bytes(args.value, args.value_size), store(args.user_arg))
    };
    match attempt(|| store.put(&key, value)) {
        Ok(()) => std::ptr::null_mut(),
        // SAFETY: as in `get`.
        Err(error) => unsafe { refuse(args.callback_error, &error) },
    }
}

/// # Safety
/// `user` is what `set_callbacks` has given.
unsafe fn store<'a>(user: *mut c_void) -> &'a dyn KeyValueStore {
    // SAFETY: the box is never freed.
    unsafe { (*user.cast::<Store>()).as_ref() }
}

/// A panic of the store becomes an error: it must not reach the plugin.
fn attempt<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<&str>().copied().unwrap_or("no text");
        let message = format!("the key-value store panicked: {text}");
        Err(StoreError { code: ErrorCode::Internal, message })
    })
}

/// # Safety
/// `callback` points to a function of the plugin that makes errors, or to null.
unsafe fn refuse(callback: *const CallbackError, error: &StoreError) -> *mut RawError {
    let message = &error.message;
    // SAFETY: the caller's promise; the function copies the text.
    unsafe {
        match callback.as_ref().copied().flatten() {
            Some(make) => make(error.code.to_raw(), message.as_ptr().cast(), message.len()),
            None => std::ptr::null_mut(),
        }
    }
}

/// The bytes before a value that hold its length, which `take_back` is not given.
const LENGTH_BYTES: usize = size_of::<usize>();

/// Copies a value to memory that the plugin hands to [`take_back`].
fn lend(value: &[u8]) -> *mut c_char {
    let mut whole = Vec::with_capacity(LENGTH_BYTES + value.len());
    whole.extend(value.len().to_ne_bytes());
    whole.extend(value);
    let start: *mut u8 = Box::into_raw(whole.into_boxed_slice()).cast();
    // SAFETY: the memory has the length in front.
    unsafe { start.add(LENGTH_BYTES).cast() }
}

unsafe extern "C" fn take_back(value: *mut c_char) {
    if value.is_null() {
        return;
    }
    // SAFETY: the value is one that `lend` has given, with its length in front, and nobody uses it
    // any more.
    unsafe {
        let start = value.cast::<u8>().sub(LENGTH_BYTES);
        let length = start.cast::<usize>().read_unaligned();
        let whole = std::ptr::slice_from_raw_parts_mut(start, LENGTH_BYTES + length);
        drop(Box::from_raw(whole));
    }
}
