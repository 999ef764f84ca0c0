//! Topologies: devices to compile for that this machine need not have.
//!
//! The CUDA plugin takes two string options: `target_config`, a text proto of the
//! device's properties, and `topology`, as `PARTITIONSxHOSTSxDEVICES`. It then compiles
//! on a machine without GPU or driver, where ptxas and libdevice are found by
//! `XLA_FLAGS=--xla_gpu_cuda_data_dir`.
#![allow(unsafe_code)]

use crate::create_options::CreateOptions;
use crate::error::Result;
use crate::ffi::{
    CStruct, CompileArgs, DescriptionIdArgs, DescriptionKindArgs, RawTopologyDescription,
    TopologyCreateArgs, TopologyDescriptionsArgs, TopologyPlatformNameArgs, copy_slice,
    copy_string,
};
use crate::handle::{Borrowed, Handle};
use crate::plugin::Plugin;
use crate::program::{CompileOptions, CompiledProgram, Source};
use std::fmt;

/// A description of devices and how they are connected.
pub struct Topology {
    platform_name: String,
    devices: Vec<TopologyDevice>,
    handle: Handle<RawTopologyDescription>,
}

/// A device of a topology.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyDevice {
    /// The id that device assignments use, unique in the topology.
    pub id: i32,
    /// The vendor's name of this kind of device.
    pub kind: String,
}

impl Topology {
    /// Describes devices by options of the platform's own. `Unimplemented` where the
    /// plugin compiles for the devices of a client alone.
    pub fn new(plugin: Plugin, options: &CreateOptions) -> Result<Self> {
        let handle = create(plugin, options)?;
        let name = handle.query::<TopologyPlatformNameArgs>()?;
        // SAFETY: the string comes with its length and lives as the topology does.
        let platform_name = unsafe { copy_string(name.platform_name, name.platform_name_size) };
        Ok(Self { platform_name, devices: read_devices(&handle)?, handle })
    }

    /// `cpu`, `cuda`, `neuron` ...
    pub fn platform_name(&self) -> &str {
        &self.platform_name
    }

    /// All devices, of all hosts.
    pub fn devices(&self) -> &[TopologyDevice] {
        &self.devices
    }

    /// Compiles StableHLO, as text or MLIR bytecode, without a device.
    pub fn compile(
        &self,
        program: impl AsRef<[u8]>,
        options: &CompileOptions,
    ) -> Result<CompiledProgram> {
        let plugin = self.handle.plugin();
        let ids: Vec<i32> = self.devices.iter().map(|device| device.id).collect();
        let options = options.encode_for(&ids)?;
        let source = Source::new(program.as_ref());
        let mut args = CompileArgs {
            topology: self.handle.as_ptr(),
            program: &raw const source.program,
            compile_options: options.as_ptr().cast(),
            compile_options_size: options.len(),
            ..CompileArgs::new()
        };
        // SAFETY: topology, program and options outlive the call; the client may be null.
        unsafe { plugin.call(&mut args) }?;
        // SAFETY: the plugin gave us this executable to own.
        unsafe { CompiledProgram::new::<CompileArgs>(plugin, args.executable) }
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Topology")
            .field("platform_name", &self.platform_name)
            .field("devices", &self.devices.len())
            .finish()
    }
}

fn create(plugin: Plugin, options: &CreateOptions) -> Result<Handle<RawTopologyDescription>> {
    let raw = options.to_raw();
    let mut args = TopologyCreateArgs {
        create_options: raw.as_ptr(),
        num_options: raw.len(),
        ..TopologyCreateArgs::new()
    };
    // SAFETY: `raw` points into `options`, and both outlive the call.
    unsafe { plugin.call(&mut args) }?;
    // SAFETY: the plugin gave us this topology to own.
    unsafe { Handle::new::<TopologyCreateArgs>(plugin, args.topology) }
}

fn read_devices(handle: &Handle<RawTopologyDescription>) -> Result<Vec<TopologyDevice>> {
    let plugin = handle.plugin();
    let args = handle.query::<TopologyDescriptionsArgs>()?;
    // SAFETY: the list comes with its length and lives as the topology does.
    let pointers = unsafe { copy_slice(args.descriptions, args.num_descriptions) };
    pointers
        .into_iter()
        .map(|pointer| {
            // SAFETY: the topology owns the description.
            let description =
                unsafe { Borrowed::new::<TopologyDescriptionsArgs>(plugin, pointer) }?;
            let id = description.query::<DescriptionIdArgs>()?.id;
            let kind = description.query::<DescriptionKindArgs>()?;
            // SAFETY: the string comes with its length and lives as the description does.
            let kind = unsafe { copy_string(kind.device_kind, kind.device_kind_size) };
            Ok(TopologyDevice { id, kind })
        })
        .collect()
}
