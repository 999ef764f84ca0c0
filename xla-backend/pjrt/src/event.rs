//! Completion of asynchronous work.
#![allow(unsafe_code)]

use crate::client::ClientInner;
use crate::error::Result;
use crate::ffi::{
    Args, CStruct, EventAwaitArgs, EventIsReadyArgs, EventOnReadyArgs, RawError, RawEvent,
};
use crate::handle::Handle;
use crate::plugin::Plugin;
use std::ffi::c_void;
use std::fmt;
use std::sync::Arc;

/// Becomes ready once, with success or an error. Dropping it does not wait.
pub struct Event {
    handle: Handle<RawEvent>,
    // Declared after the handle, so that the client goes last.
    _client: Arc<ClientInner>,
}

impl Event {
    /// # Safety
    /// `pointer` is null or an event of this client that nobody else frees.
    pub(crate) unsafe fn new<A: Args>(
        client: &Arc<ClientInner>,
        pointer: *mut RawEvent,
    ) -> Result<Self> {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::new::<A>(client.plugin(), pointer) }?;
        Ok(Self { handle, _client: Arc::clone(client) })
    }

    /// Blocks until the work is done, and returns how it ended.
    pub fn wait(&self) -> Result<()> {
        self.handle.query::<EventAwaitArgs>().map(drop)
    }

    /// Returns whether the work has ended, in success or failure.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.handle.query::<EventIsReadyArgs>()?.is_ready)
    }

    /// Calls `callback` once when the work is done, on a thread of the plugin's or,
    /// if it is done already, on this one. It should be short, and must not panic:
    /// a panic there aborts the process.
    pub fn on_ready(&self, callback: impl FnOnce(Result<()>) + Send + 'static) -> Result<()> {
        let callback =
            Box::new(Callback { plugin: self.handle.plugin(), function: Box::new(callback) });
        let user_arg = Box::into_raw(callback);
        let mut args = EventOnReadyArgs {
            event: self.handle.as_ptr(),
            callback: Some(run_callback),
            user_arg: user_arg.cast(),
            ..EventOnReadyArgs::new()
        };
        // SAFETY: `run_callback` takes back the box, once, on whatever thread.
        let registered = unsafe { self.handle.plugin().call(&mut args) };
        if registered.is_err() {
            // SAFETY: a refused registration never runs the callback, so that the
            // box is still ours.
            drop(unsafe { Box::from_raw(user_arg) });
        }
        registered
    }
}

impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Event").field("is_ready", &self.is_ready()).finish()
    }
}

struct Callback {
    plugin: Plugin,
    function: Box<dyn FnOnce(Result<()>) + Send>,
}

unsafe extern "C" fn run_callback(error: *mut RawError, user_arg: *mut c_void) {
    // SAFETY: `on_ready` made this pointer from such a box, and PJRT calls once.
    let callback = unsafe { Box::from_raw(user_arg.cast::<Callback>()) };
    // SAFETY: PJRT passes ownership of the error to its callback.
    let result = unsafe { callback.plugin.take_error(EventOnReadyArgs::CALL, error) };
    (callback.function)(result);
}
