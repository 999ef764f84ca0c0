//! Completion events.

use super::core::{RawError, RawEvent};
use std::ffi::c_void;

/// Receives ownership of the error, null for success.
pub(crate) type OnReadyCallback = unsafe extern "C" fn(error: *mut RawError, user_arg: *mut c_void);

c_structs! {
    PJRT_Event_Destroy_Args => EventDestroyArgs { event: *mut RawEvent }

    PJRT_Event_IsReady_Args => EventIsReadyArgs {
        event: *mut RawEvent,
        is_ready: bool,
    }

    PJRT_Event_Await_Args => EventAwaitArgs { event: *mut RawEvent }

    PJRT_Event_OnReady_Args => EventOnReadyArgs {
        event: *mut RawEvent,
        callback: Option<OnReadyCallback>,
        user_arg: *mut c_void,
    }
}
