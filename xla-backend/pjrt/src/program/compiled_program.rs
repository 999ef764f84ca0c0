//! A program as the compiler left it, loaded on devices or not.
#![allow(unsafe_code)]

use crate::error::Result;
use crate::ffi::{
    Args, CStruct, ExecutableNumOutputsArgs, ExecutableSerializeArgs, Program, RawExecutable,
    copy_bytes,
};
use crate::handle::Handle;
use crate::plugin::Plugin;
use std::fmt;
use std::marker::PhantomData;

/// The result of a compilation: its statistics, its optimized form and its bytes.
/// [`crate::Executable`] is one that is loaded on devices, [`crate::Topology::compile`]
/// makes one that is not.
pub struct CompiledProgram {
    pub(crate) handle: Handle<RawExecutable>,
    num_outputs: usize,
}

impl CompiledProgram {
    /// # Safety
    /// `pointer` is null or an executable of this plugin that nobody else frees.
    pub(crate) unsafe fn new<A: Args>(plugin: Plugin, pointer: *mut RawExecutable) -> Result<Self> {
        // SAFETY: the caller's promise.
        let handle = unsafe { Handle::new::<A>(plugin, pointer) }?;
        let num_outputs = handle.query::<ExecutableNumOutputsArgs>()?.num_outputs;
        Ok(Self { handle, num_outputs })
    }

    /// The number of outputs of one device.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Bytes for [`crate::Client::deserialize`]. `Unimplemented` on some platforms.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let mut args = ExecutableSerializeArgs {
            executable: self.handle.as_ptr(),
            ..ExecutableSerializeArgs::new()
        };
        // SAFETY: the executable is live.
        unsafe { self.handle.plugin().call(&mut args) }?;
        // SAFETY: the bytes come with their length, and live until the deleter,
        // which is called once.
        unsafe {
            let bytes = copy_bytes(args.serialized_bytes, args.serialized_bytes_size);
            if let Some(deleter) = args.serialized_executable_deleter {
                deleter(args.serialized_executable);
            }
            Ok(bytes)
        }
    }
}

impl fmt::Debug for CompiledProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompiledProgram").field("num_outputs", &self.num_outputs).finish()
    }
}

/// StableHLO text or bytecode, borrowed for one call of the compiler.
pub(crate) struct Source<'a> {
    pub(crate) program: Program,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Source<'a> {
    pub(crate) fn new(code: &'a [u8]) -> Self {
        const FORMAT: &str = "mlir";
        let program = Program {
            // Never written to: the header's pointer is mutable for another call's sake.
            code: code.as_ptr().cast_mut().cast(),
            code_size: code.len(),
            format: FORMAT.as_ptr().cast(),
            format_size: FORMAT.len(),
            ..Program::new()
        };
        Self { program, borrowed: PhantomData }
    }
}
