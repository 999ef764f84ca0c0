//! Devices, as their users see them.

use crate::client::{Client, ClientInner};
use crate::error::{Result, if_implemented};
use crate::ffi::DeviceMemoryStatsArgs;
use crate::records::DeviceRecord;
use crate::value::Attributes;
use std::fmt;
use std::sync::Arc;

impl Client {
    /// The devices that this process can use.
    pub fn devices(&self) -> impl ExactSizeIterator<Item = Device> + '_ {
        (0..self.0.devices.len()).map(|index| Device { client: Arc::clone(&self.0), index })
    }

    /// The device at a position of [`Client::devices`].
    pub fn device(&self, index: usize) -> Option<Device> {
        self.devices().nth(index)
    }
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

    /// Returns the client of the device.
    pub fn client(&self) -> Client {
        Client(Arc::clone(&self.client))
    }

    /// The position in [`Client::devices`].
    pub fn index(&self) -> usize {
        self.index
    }

    /// The id that device assignments use, unique among all devices of the platform.
    pub fn id(&self) -> i32 {
        self.record().id
    }

    /// The number of the process that the device belongs to.
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

    /// Returns the plugin's description of the device, for messages.
    pub fn debug_string(&self) -> &str {
        &self.record().debug_string
    }

    /// Returns the plugin's attributes, such as the coordinates of a core.
    pub fn attributes(&self) -> &Attributes {
        &self.record().attributes
    }

    /// Statistics of the allocator. `None` where the platform keeps none, as CPUs do.
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

/// Statistics of a device's allocator, in bytes. Those that a platform does not keep
/// are `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceMemoryStats {
    /// Bytes of the buffers and programs that exist now.
    pub bytes_in_use: i64,
    /// The most bytes that were in use at one time.
    pub peak_bytes_in_use: Option<i64>,
    /// The number of allocations.
    pub num_allocs: Option<i64>,
    /// Bytes of the largest allocation.
    pub largest_alloc_size: Option<i64>,
    /// The most bytes that the allocator uses.
    pub bytes_limit: Option<i64>,
    /// Bytes that the allocator has set aside.
    pub bytes_reserved: Option<i64>,
    /// The most bytes that were set aside at one time.
    pub peak_bytes_reserved: Option<i64>,
    /// The most bytes that the allocator may set aside.
    pub bytes_reservable_limit: Option<i64>,
    /// Bytes of the largest free block.
    pub largest_free_block_bytes: Option<i64>,
    /// Bytes of the allocator's pool.
    pub pool_bytes: Option<i64>,
    /// The most bytes of the pool at one time.
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
