//! Compiled programs: making, storing and loading them.
#![allow(unsafe_code)]

use super::compiled_program::{CompiledProgram, Source};
use crate::client::{Client, ClientInner};
use crate::device::Device;
use crate::dtype::Shape;
use crate::error::{Error, Result};
use crate::ffi::{
    Args, CStruct, ClientCompileArgs, ExecutableDeserializeAndLoadArgs,
    LoadedExecutableDevicesArgs, LoadedExecutableGetExecutableArgs, RawLoadedExecutable,
    copy_slice,
};
use crate::handle::Handle;
use crate::program::CompileOptions;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// A program compiled for, and loaded on, its devices.
pub struct Executable {
    pub(crate) loaded: Handle<RawLoadedExecutable>,
    program: CompiledProgram,
    /// Positions in the client's devices, in the order of argument lists.
    pub(crate) device_indices: Vec<usize>,
    /// Read from the buffers of the first execution.
    pub(crate) output_shapes: OnceLock<Vec<Arc<Shape>>>,
    // Declared after the handles, so that the client goes last.
    pub(crate) client: Arc<ClientInner>,
}

impl Client {
    /// Compiles StableHLO, as text or MLIR bytecode.
    pub fn compile(
        &self,
        program: impl AsRef<[u8]>,
        options: &CompileOptions,
    ) -> Result<Executable> {
        let source = Source::new(program.as_ref());
        let options = options.encode(self)?;
        let mut args = ClientCompileArgs {
            client: self.0.handle.as_ptr(),
            program: &raw const source.program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..ClientCompileArgs::new()
        };
        // SAFETY: program and options outlive the call.
        unsafe { self.plugin().call(&mut args) }?;
        // SAFETY: the plugin gave us this executable to own.
        unsafe { Executable::new::<ClientCompileArgs>(self, args.executable) }
    }

    /// Loads what [`CompiledProgram::serialize`] made, on the same platform and version
    /// of the plugin. The plugin trusts these bytes: check that they are unchanged.
    /// `options` replaces those of the compilation, its devices for example.
    pub fn deserialize(
        &self,
        serialized: &[u8],
        options: Option<&CompileOptions>,
    ) -> Result<Executable> {
        let options = options.map(|options| options.encode(self)).transpose()?;
        let mut args = ExecutableDeserializeAndLoadArgs {
            client: self.0.handle.as_ptr(),
            serialized_executable: serialized.as_ptr().cast(),
            serialized_executable_size: serialized.len(),
            ..ExecutableDeserializeAndLoadArgs::new()
        };
        if let Some(options) = &options {
            args.overridden_serialized_compile_options = options.as_ptr().cast();
            args.overridden_serialized_compile_options_size = options.len();
        }
        // SAFETY: bytes and options outlive the call.
        unsafe { self.plugin().call(&mut args) }?;
        // SAFETY: the plugin gave us this executable to own.
        unsafe { Executable::new::<ExecutableDeserializeAndLoadArgs>(self, args.loaded_executable) }
    }
}

impl Executable {
    /// # Safety
    /// `pointer` is null or an executable of this client that nobody else frees.
    unsafe fn new<A: Args>(client: &Client, pointer: *mut RawLoadedExecutable) -> Result<Self> {
        let plugin = client.plugin();
        // SAFETY: the caller's promise.
        let loaded = unsafe { Handle::new::<A>(plugin, pointer) }?;
        let pointer = loaded.query::<LoadedExecutableGetExecutableArgs>()?.executable;
        // SAFETY: the plugin gave us this executable to own.
        let program =
            unsafe { CompiledProgram::new::<LoadedExecutableGetExecutableArgs>(plugin, pointer) }?;
        Ok(Self {
            device_indices: device_indices(client, &loaded)?,
            output_shapes: OnceLock::new(),
            loaded,
            program,
            client: Arc::clone(&client.0),
        })
    }

    /// Returns the client that loaded the program.
    pub fn client(&self) -> Client {
        Client(Arc::clone(&self.client))
    }

    /// The devices that it runs on, in the order of argument lists.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + '_ {
        let client = &self.client;
        self.device_indices.iter().map(|&index| Device { client: Arc::clone(client), index })
    }

    /// The number of devices of this process that it runs on.
    pub fn num_devices(&self) -> usize {
        self.device_indices.len()
    }

    /// The compiled program: its statistics, optimized form and serialization.
    pub fn program(&self) -> &CompiledProgram {
        &self.program
    }
}

impl fmt::Debug for Executable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executable")
            .field("devices", &self.device_indices)
            .field("num_outputs", &self.program.num_outputs())
            .finish()
    }
}

fn device_indices(client: &Client, loaded: &Handle<RawLoadedExecutable>) -> Result<Vec<usize>> {
    let args = loaded.query::<LoadedExecutableDevicesArgs>()?;
    // SAFETY: the list comes with its length and lives as the executable does.
    let pointers = unsafe { copy_slice(args.addressable_devices, args.num_addressable_devices) };
    let records = &client.0.devices;
    pointers
        .iter()
        .map(|pointer| {
            records.iter().position(|record| record.raw.as_ptr() == *pointer).ok_or(
                Error::Contract {
                    call: LoadedExecutableDevicesArgs::CALL,
                    what: "an unknown device",
                },
            )
        })
        .collect()
}
