//! The memories of a device, and where a buffer goes.
#![allow(unsafe_code)]

use crate::error::if_implemented;
use crate::ffi::{
    MemoryDebugStringArgs, MemoryIdArgs, MemoryKindArgs, RawDevice, RawMemory, copy_string,
};
use crate::handle::Borrowed;
use crate::{Client, Device, Error, Result};
use std::fmt;
use std::sync::Arc;

pub(crate) struct MemoryRecord {
    pub(crate) raw: Borrowed<RawMemory>,
    id: i32,
    kind: String,
    debug_string: String,
}

/// A memory as one device reaches it. A cheap handle, which keeps the client.
#[derive(Clone)]
pub struct Memory {
    pub(crate) device: Device,
    pub(crate) index: usize,
}

impl Memory {
    pub(crate) fn record(&self) -> &MemoryRecord {
        &self.device.record().memories[self.index]
    }

    pub fn device(&self) -> &Device {
        &self.device
    }

    pub fn id(&self) -> i32 {
        self.record().id
    }

    /// `device`, `pinned_host`, `unpinned_host` ...
    pub fn kind(&self) -> &str {
        &self.record().kind
    }

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

pub(crate) fn read(raw: Borrowed<RawMemory>) -> Result<MemoryRecord> {
    let kind = raw.query::<MemoryKindArgs>()?;
    let debug = if_implemented(raw.query::<MemoryDebugStringArgs>())?;
    // SAFETY: strings come with their length and live as the memory does.
    let (kind, debug) = unsafe {
        (
            copy_string(kind.kind, kind.kind_size),
            debug.map(|debug| copy_string(debug.debug_string, debug.debug_string_size)),
        )
    };
    Ok(MemoryRecord {
        id: raw.query::<MemoryIdArgs>()?.id,
        debug_string: debug.unwrap_or_else(|| kind.clone()),
        kind,
        raw,
    })
}

/// Where a buffer goes: the default memory of a device, or one of its memories.
#[derive(Debug, Clone, Copy)]
pub enum Placement<'a> {
    Device(&'a Device),
    Memory(&'a Memory),
}

impl<'a> From<&'a Device> for Placement<'a> {
    fn from(device: &'a Device) -> Self {
        Placement::Device(device)
    }
}

impl<'a> From<&'a Memory> for Placement<'a> {
    fn from(memory: &'a Memory) -> Self {
        Placement::Memory(memory)
    }
}

impl Placement<'_> {
    pub(crate) fn device(&self) -> &Device {
        match self {
            Placement::Device(device) => device,
            Placement::Memory(memory) => &memory.device,
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
            Placement::Device(_) => std::ptr::null_mut(),
            Placement::Memory(memory) => memory.record().raw.as_ptr(),
        };
        Ok((self.device().record().raw.as_ptr(), memory))
    }
}
