//! Devices. What never changes about them is read once, when the client starts.
#![allow(unsafe_code)]

use crate::client::ClientInner;
use crate::error::if_implemented;
use crate::ffi::{
    DescriptionAttributesArgs, DescriptionDebugStringArgs, DescriptionIdArgs, DescriptionKindArgs,
    DescriptionProcessIndexArgs, DeviceAddressableMemoriesArgs, DeviceDefaultMemoryArgs,
    DeviceGetDescriptionArgs, DeviceLocalHardwareIdArgs, DeviceMemoryStatsArgs, RawDevice,
    RawDeviceDescription, copy_slice, copy_string,
};
use crate::handle::Borrowed;
use crate::memory::{self, Memory, MemoryRecord};
use crate::value::{self, Attributes};
use crate::{Client, Error, Plugin, Result};
use std::fmt;
use std::sync::Arc;

pub(crate) struct DeviceRecord {
    pub(crate) raw: Borrowed<RawDevice>,
    pub(crate) memories: Vec<MemoryRecord>,
    default_memory: Option<usize>,
    id: i32,
    process_index: i32,
    local_hardware_id: Option<i32>,
    kind: String,
    debug_string: String,
    attributes: Attributes,
}

/// A device that this process can use. A cheap handle, which keeps the client.
#[derive(Clone)]
pub struct Device {
    pub(crate) client: Arc<ClientInner>,
    pub(crate) index: usize,
}

impl Device {
    pub(crate) fn record(&self) -> &DeviceRecord {
        &self.client.devices[self.index]
    }

    pub fn client(&self) -> Client {
        Client(Arc::clone(&self.client))
    }

    /// The position in [`Client::devices`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// What device assignments name: unique among all devices of the platform.
    pub fn id(&self) -> i32 {
        self.record().id
    }

    pub fn process_index(&self) -> i32 {
        self.record().process_index
    }

    /// The CUDA ordinal, for example. `None` where the platform has none.
    pub fn local_hardware_id(&self) -> Option<i32> {
        self.record().local_hardware_id
    }

    /// The vendor's name of this kind of device.
    pub fn kind(&self) -> &str {
        &self.record().kind
    }

    pub fn debug_string(&self) -> &str {
        &self.record().debug_string
    }

    pub fn attributes(&self) -> &Attributes {
        &self.record().attributes
    }

    /// The memories that the device reaches.
    pub fn memories(&self) -> impl ExactSizeIterator<Item = Memory> + '_ {
        (0..self.record().memories.len()).map(|index| self.memory_at(index))
    }

    /// The memory of this kind, `pinned_host` for example.
    pub fn memory(&self, kind: &str) -> Result<Memory> {
        self.memories().find(|memory| memory.kind() == kind).ok_or_else(|| Error::NoSuchMemory {
            kind: kind.to_owned(),
            available: self.memories().map(|memory| memory.kind().to_owned()).collect(),
        })
    }

    pub fn default_memory(&self) -> Option<Memory> {
        self.record().default_memory.map(|index| self.memory_at(index))
    }

    fn memory_at(&self, index: usize) -> Memory {
        Memory { device: self.clone(), index }
    }

    /// Allocator figures. `None` where the platform keeps none, as CPUs do.
    pub fn memory_stats(&self) -> Result<Option<DeviceMemoryStats>> {
        let stats = if_implemented(self.record().raw.query::<DeviceMemoryStatsArgs>())?;
        Ok(stats.as_ref().map(DeviceMemoryStats::from_raw))
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.client, &other.client) && self.index == other.index
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.debug_string())
    }
}

/// Figures of a device's allocator, in bytes. Those that a platform does not keep
/// are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemoryStats {
    pub bytes_in_use: i64,
    pub peak_bytes_in_use: Option<i64>,
    pub num_allocs: Option<i64>,
    pub largest_alloc_size: Option<i64>,
    pub bytes_limit: Option<i64>,
    pub bytes_reserved: Option<i64>,
    pub peak_bytes_reserved: Option<i64>,
    pub bytes_reservable_limit: Option<i64>,
    pub largest_free_block_bytes: Option<i64>,
    pub pool_bytes: Option<i64>,
    pub peak_pool_bytes: Option<i64>,
}

impl DeviceMemoryStats {
    fn from_raw(raw: &DeviceMemoryStatsArgs) -> Self {
        let optional = |is_set: bool, value: i64| is_set.then_some(value);
        Self {
            bytes_in_use: raw.bytes_in_use,
            peak_bytes_in_use: optional(raw.peak_bytes_in_use_is_set, raw.peak_bytes_in_use),
            num_allocs: optional(raw.num_allocs_is_set, raw.num_allocs),
            largest_alloc_size: optional(raw.largest_alloc_size_is_set, raw.largest_alloc_size),
            bytes_limit: optional(raw.bytes_limit_is_set, raw.bytes_limit),
            bytes_reserved: optional(raw.bytes_reserved_is_set, raw.bytes_reserved),
            peak_bytes_reserved: optional(raw.peak_bytes_reserved_is_set, raw.peak_bytes_reserved),
            bytes_reservable_limit: optional(
                raw.bytes_reservable_limit_is_set,
                raw.bytes_reservable_limit,
            ),
            largest_free_block_bytes: optional(
                raw.largest_free_block_bytes_is_set,
                raw.largest_free_block_bytes,
            ),
            pool_bytes: optional(raw.pool_bytes_is_set, raw.pool_bytes),
            peak_pool_bytes: optional(raw.peak_pool_bytes_is_set, raw.peak_pool_bytes),
        }
    }
}

/// Reads all that is fixed about a device.
pub(crate) fn read(plugin: Plugin, raw: Borrowed<RawDevice>) -> Result<DeviceRecord> {
    let pointer = raw.query::<DeviceGetDescriptionArgs>()?.device_description;
    // SAFETY: the description lives as long as its device.
    let description = unsafe { Borrowed::new::<DeviceGetDescriptionArgs>(plugin, pointer) }?;
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
