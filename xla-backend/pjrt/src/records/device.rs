//! The constant properties of a device, read once when the client starts.
#![allow(unsafe_code)]

use super::memory::{self, MemoryRecord};
use crate::error::{Result, if_implemented};
use crate::ffi::{
    DescriptionAttributesArgs, DescriptionDebugStringArgs, DescriptionIdArgs, DescriptionKindArgs,
    DescriptionProcessIndexArgs, DeviceAddressableMemoriesArgs, DeviceDefaultMemoryArgs,
    DeviceGetDescriptionArgs, DeviceLocalHardwareIdArgs, RawDevice, RawDeviceDescription,
    copy_slice, copy_string,
};
use crate::handle::Borrowed;
use crate::plugin::Plugin;
use crate::value::{self, Attributes};

/// A device of any process of the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobDevice {
    /// The number of the device in the job.
    pub id: i32,
    /// The process that it belongs to.
    pub process_index: i32,
}

pub(crate) struct DeviceRecord {
    pub(crate) raw: Borrowed<RawDevice>,
    pub(crate) memories: Vec<MemoryRecord>,
    pub(crate) default_memory: Option<usize>,
    pub(crate) id: i32,
    pub(crate) process_index: i32,
    pub(crate) local_hardware_id: Option<i32>,
    pub(crate) kind: String,
    pub(crate) debug_string: String,
    pub(crate) attributes: Attributes,
}

/// Reads all that is fixed about a device of this process.
pub(crate) fn read(plugin: Plugin, raw: Borrowed<RawDevice>) -> Result<DeviceRecord> {
    let description = describe(plugin, &raw)?;
    let (memories, default_memory) = read_memories(plugin, &raw)?;
    let hardware_id = if_implemented(raw.query::<DeviceLocalHardwareIdArgs>())?;
    Ok(DeviceRecord {
        id: description.query::<DescriptionIdArgs>()?.id,
        process_index: description.query::<DescriptionProcessIndexArgs>()?.process_index,
        local_hardware_id: hardware_id.map(|args| args.local_hardware_id).filter(|&id| id >= 0),
        kind: read_kind(&description)?,
        debug_string: read_debug_string(&description)?,
        attributes: read_attributes(&description)?,
        memories,
        default_memory,
        raw,
    })
}

/// Reads what is known of a device that may be another process's.
pub(crate) fn read_job_device(plugin: Plugin, raw: &Borrowed<RawDevice>) -> Result<JobDevice> {
    let description = describe(plugin, raw)?;
    Ok(JobDevice {
        id: description.query::<DescriptionIdArgs>()?.id,
        process_index: description.query::<DescriptionProcessIndexArgs>()?.process_index,
    })
}

fn describe(plugin: Plugin, raw: &Borrowed<RawDevice>) -> Result<Borrowed<RawDeviceDescription>> {
    let pointer = raw.query::<DeviceGetDescriptionArgs>()?.device_description;
    // SAFETY: the description lives as long as its device.
    unsafe { Borrowed::new::<DeviceGetDescriptionArgs>(plugin, pointer) }
}

fn read_kind(description: &Borrowed<RawDeviceDescription>) -> Result<String> {
    let args = description.query::<DescriptionKindArgs>()?;
    // SAFETY: the string comes with its length and lives as the device does.
    Ok(unsafe { copy_string(args.device_kind, args.device_kind_size) })
}

fn read_debug_string(description: &Borrowed<RawDeviceDescription>) -> Result<String> {
    let args = description.query::<DescriptionDebugStringArgs>()?;
    // SAFETY: as for the kind.
    Ok(unsafe { copy_string(args.debug_string, args.debug_string_size) })
}

fn read_attributes(description: &Borrowed<RawDeviceDescription>) -> Result<Attributes> {
    let args = if_implemented(description.query::<DescriptionAttributesArgs>())?;
    Ok(args.map_or_else(Attributes::new, |args| {
        // SAFETY: the list comes with its length and lives as the device does.
        unsafe { value::from_raw_list(args.attributes, args.num_attributes) }
    }))
}

/// The memories, and which of them is the default. Some plugins have no notion of
/// memories: then there are none, and buffers are placed by device.
fn read_memories(
    plugin: Plugin,
    device: &Borrowed<RawDevice>,
) -> Result<(Vec<MemoryRecord>, Option<usize>)> {
    let Some(args) = if_implemented(device.query::<DeviceAddressableMemoriesArgs>())? else {
        return Ok((Vec::new(), None));
    };
    // SAFETY: the list comes with its length and lives as the device does.
    let pointers = unsafe { copy_slice(args.memories, args.num_memories) };
    let default = if_implemented(device.query::<DeviceDefaultMemoryArgs>())?;
    let default_index =
        default.and_then(|default| pointers.iter().position(|&pointer| pointer == default.memory));
    let memories = pointers
        .into_iter()
        .map(|pointer| {
            // SAFETY: the memory lives as long as its device.
            memory::read(unsafe {
                Borrowed::new::<DeviceAddressableMemoriesArgs>(plugin, pointer)
            }?)
        })
        .collect::<Result<_>>()?;
    Ok((memories, default_index))
}
