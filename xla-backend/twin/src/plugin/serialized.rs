//! Executables on disk: the plugin takes those alone that it wrote with the same compiler.

use std::ffi::c_void;

use traind_neuron::InstalledCompiler;

use super::behaviour::STARTED;
use super::errors::{self, INVALID_ARGUMENT};
use super::records::{Deserialize, Serialize};

/// The line before the bytes of an executable: the versions of plugin and compiler.
fn stamp_line() -> Vec<u8> {
    let plugin = STARTED.get().map_or("", |started| started.options.versions().plugin);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let compiler = InstalledCompiler::find(&path).and_then(|it| it.version);
    format!("libneuronxla {plugin}, neuronx-cc {}\n", compiler.unwrap_or_default()).into_bytes()
}

/// Writes an executable behind the line.
///
/// # Safety
/// `args` are those of `PJRT_Executable_Serialize`.
pub(super) unsafe fn stamp(args: *mut c_void, pass_on: impl Fn() -> *mut c_void) -> *mut c_void {
    let error = pass_on();
    if !error.is_null() {
        return error;
    }
    // SAFETY: the promise above; the wrapped plugin has filled the arguments, whose bytes live until they are deleted.
    unsafe {
        let args = &mut *args.cast::<Serialize>();
        let mut bytes = stamp_line();
        bytes.extend_from_slice(std::slice::from_raw_parts(args.bytes, args.size));
        if let Some(delete) = args.deleter {
            delete(args.owner);
        }
        let own = Box::new(bytes);
        (args.bytes, args.size) = (own.as_ptr(), own.len());
        args.owner = Box::into_raw(own).cast();
        args.deleter = Some(delete_own);
    }
    error
}

/// # Safety
/// `owner` is one of [`stamp`], which is not used afterwards.
unsafe extern "C" fn delete_own(owner: *mut c_void) {
    // SAFETY: the promise above.
    drop(unsafe { Box::from_raw(owner.cast::<Vec<u8>>()) });
}

/// Reads what is behind the line, if that is this plugin's.
///
/// # Safety
/// `args` are those of `PJRT_Executable_DeserializeAndLoad`.
pub(super) unsafe fn load(args: *mut c_void, pass_on: impl Fn() -> *mut c_void) -> *mut c_void {
    // SAFETY: the promise above: the bytes live during the call.
    unsafe {
        let args = &mut *args.cast::<Deserialize>();
        let whole = (args.bytes, args.size);
        let bytes = std::slice::from_raw_parts(args.bytes, args.size);
        let Some(rest) = bytes.strip_prefix(&stamp_line()[..]) else {
            let text = "error condition !(executable is of this plugin and compiler):";
            return errors::new(INVALID_ARGUMENT, text);
        };
        (args.bytes, args.size) = (rest.as_ptr(), rest.len());
        let error = pass_on();
        (args.bytes, args.size) = whole;
        error
    }
}
