//! Executables on disk: the plugin takes those alone that it wrote with the same compiler.

use std::ffi::c_void;

use traind_neuron::InstalledCompiler;

use super::behaviour::STARTED;
use super::compiling::open_collectives;
use super::errors::{self, INTERNAL, INVALID_ARGUMENT};
use super::failures::note_program;
use super::records::{Deserialize, Serialize, SubjectPointer, SubjectText};
use super::table::{Failure, call, call_on};

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
        if !error.is_null() {
            return error;
        }
        match note_loaded(args.executable) {
            Ok(()) => std::ptr::null_mut(),
            Err(error) => {
                // The client gets the first error.
                let _ = call_on("PJRT_LoadedExecutable_Destroy", args.executable);
                args.executable = std::ptr::null_mut();
                error
            }
        }
    }
}

/// Does what loading a program does, whether it was compiled now or before.
///
/// # Safety
/// `loaded` is an executable of the wrapped plugin.
unsafe fn note_loaded(loaded: *mut c_void) -> Result<(), Failure> {
    let mut of_loaded = SubjectPointer::of(loaded);
    // SAFETY: these are the arguments of those entries; the name lives as long as the executable.
    let replicas = unsafe {
        call("PJRT_LoadedExecutable_GetExecutable", (&raw mut of_loaded).cast())?;
        let mut name = SubjectText::of(of_loaded.result);
        call("PJRT_Executable_Name", (&raw mut name).cast())?;
        let bytes = std::slice::from_raw_parts(name.text.cast(), name.size);
        note_program(&String::from_utf8_lossy(bytes));
        let mut replicas = SubjectPointer::of(of_loaded.result);
        call("PJRT_Executable_NumReplicas", (&raw mut replicas).cast())?;
        call_on("PJRT_Executable_Destroy", of_loaded.result)?;
        replicas.result as usize
    };
    let Some(started) = STARTED.get() else { return Ok(()) };
    open_collectives(started, replicas).map_err(|text| errors::new(INTERNAL, &text))
}
