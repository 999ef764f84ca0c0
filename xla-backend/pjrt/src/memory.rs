//! The memories of a device, and the placement of buffers in them.

use crate::client::Client;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::ffi::{RawDevice, RawMemory};
use crate::records::MemoryRecord;
use std::fmt;
use std::sync::Arc;

/// A memory as one device reaches it. A cheap handle, which keeps the client.
#[derive(Clone)]
pub struct Memory {
    pub(crate) device: Device,
    pub(crate) index: usize,
}

impl Device {
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

    /// The memory in which buffers are placed by default; `None` where the platform has no
    /// notion of memories.
    pub fn default_memory(&self) -> Option<Memory> {
        self.record().default_memory.map(|index| self.memory_at(index))
    }

    fn memory_at(&self, index: usize) -> Memory {
        Memory { device: self.clone(), index }
    }
}

impl Memory {
    pub(crate) fn record(&self) -> &MemoryRecord {
        &self.device.record().memories[self.index]
    }

    /// Returns the device that the memory belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Returns the plugin's number of the memory.
    pub fn id(&self) -> i32 {
        self.record().id
    }

    /// `device`, `pinned_host`, `unpinned_host` ...
    pub fn kind(&self) -> &str {
        &self.record().kind
    }

    /// Returns the plugin's description of the memory, for messages.
    pub fn debug_string(&self) -> &str {
        &self.record().debug_string
    }
}

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        self.device.client() == other.device.client()
            && self.record().raw.as_ptr() == other.record().raw.as_ptr()
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.debug_string())
    }
}

/// The destination of a buffer: the default memory of a device, or one of its memories.
#[derive(Debug, Clone, Copy)]
pub enum BufferPlacement<'a> {
    /// The default memory of a device.
    Device(&'a Device),
    /// A certain memory.
    Memory(&'a Memory),
}

impl<'a> From<&'a Device> for BufferPlacement<'a> {
    fn from(device: &'a Device) -> Self {
        BufferPlacement::Device(device)
    }
}

impl<'a> From<&'a Memory> for BufferPlacement<'a> {
    fn from(memory: &'a Memory) -> Self {
        BufferPlacement::Memory(memory)
    }
}

impl BufferPlacement<'_> {
    pub(crate) fn device(&self) -> &Device {
        match self {
            BufferPlacement::Device(device) => device,
            BufferPlacement::Memory(memory) => &memory.device,
        }
    }

    /// The pointers that the API wants, with the memory null for the default one.
    /// Pointers of another client would be followed blindly: they are refused.
    pub(crate) fn raw(
        &self,
        client: &Client,
        call: &'static str,
    ) -> Result<(*mut RawDevice, *mut RawMemory)> {
        if !Arc::ptr_eq(&self.device().client, &client.0) {
            return Err(Error::ForeignHandle { call, what: "device or memory" });
        }
        let memory = match self {
            BufferPlacement::Device(_) => std::ptr::null_mut(),
            BufferPlacement::Memory(memory) => memory.record().raw.as_ptr(),
        };
        Ok((self.device().record().raw.as_ptr(), memory))
    }
}
