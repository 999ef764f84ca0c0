//! Arrays on devices.
#![allow(unsafe_code)]

mod device_to_host;
mod host_to_device;

pub use device_to_host::HostCopy;

use crate::client::{Client, ClientInner};
use crate::device::Device;
use crate::dtype::{DType, Shape};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::ffi::{
    Args, BufferCopyToDeviceArgs, BufferCopyToMemoryArgs, BufferDeleteArgs, BufferDimensionsArgs,
    BufferElementTypeArgs, BufferIsDeletedArgs, BufferMemoryArgs, BufferOnDeviceSizeArgs,
    BufferReadyEventArgs, BufferUnsafePointerArgs, CStruct, Query, RawBuffer, copy_slice,
};
use crate::handle::Handle;
use crate::memory::{BufferPlacement, Memory};
use std::fmt;
use std::sync::Arc;

/// An array in a device's memory. It may still be computed or copied: whatever
/// uses it waits for it. Dropping it frees the memory once all uses are over.
///
/// An execution to which it is donated takes the memory away: from then on
/// [`Buffer::is_deleted`] holds, and every use is an error.
pub struct Buffer {
    pub(crate) handle: Handle<RawBuffer>,
    pub(crate) shape: Arc<Shape>,
    /// The position of its device in the client's.
    pub(crate) device_index: usize,
    // Declared after the handle, so that the client goes last.
    pub(crate) client: Arc<ClientInner>,
}

impl Buffer {
    /// Returns the client whose memory holds the buffer.
    pub fn client(&self) -> Client {
        Client(Arc::clone(&self.client))
    }

    /// Returns the type and the dimensions.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.shape.dtype
    }

    /// Returns the dimensions, the outermost first; none for a scalar.
    pub fn dims(&self) -> &[usize] {
        &self.shape.dims
    }

    /// Bytes that the array takes on the device, padding included.
    pub fn on_device_size_bytes(&self) -> Result<usize> {
        Ok(self.live_query::<BufferOnDeviceSizeArgs>()?.on_device_size_in_bytes)
    }

    /// Returns the device that the buffer is on.
    pub fn device(&self) -> Device {
        Device { client: Arc::clone(&self.client), index: self.device_index }
    }

    /// Returns the memory of the device that holds the buffer.
    pub fn memory(&self) -> Result<Memory> {
        let pointer = self.handle.query::<BufferMemoryArgs>()?.memory;
        self.device()
            .memories()
            .find(|memory| memory.record().raw.as_ptr() == pointer)
            .ok_or(Error::Contract { call: BufferMemoryArgs::CALL, what: "an unknown memory" })
    }

    /// Gives the memory back now, or once the executions that use it are done.
    pub fn delete(&self) -> Result<()> {
        self.handle.query::<BufferDeleteArgs>().map(drop)
    }

    /// Returns whether the buffer was deleted or donated.
    pub fn is_deleted(&self) -> Result<bool> {
        Ok(self.handle.query::<BufferIsDeletedArgs>()?.is_deleted)
    }

    /// An event that is ready when the contents are. Fails at once for a deleted buffer.
    pub fn ready_event(&self) -> Result<Event> {
        let args = self.live_query::<BufferReadyEventArgs>()?;
        // SAFETY: the plugin gave us this event to own.
        unsafe { Event::new::<BufferReadyEventArgs>(&self.client, args.event) }
    }

    /// Copies to another device of the same client; an error if it is there already.
    pub fn copy_to_device(&self, device: &Device) -> Result<Buffer> {
        let (dst_device, _) =
            BufferPlacement::from(device).raw(&self.client(), BufferCopyToDeviceArgs::CALL)?;
        let mut args = BufferCopyToDeviceArgs {
            buffer: self.handle.as_ptr(),
            dst_device,
            ..BufferCopyToDeviceArgs::new()
        };
        // SAFETY: buffer and device are live and of one client.
        self.if_live(unsafe { self.client.plugin().call(&mut args) })?;
        // SAFETY: the plugin gave us this buffer to own.
        unsafe { self.copied::<BufferCopyToDeviceArgs>(args.dst_buffer, device) }
    }

    /// Copies to another memory, `pinned_host` for example.
    pub fn copy_to_memory(&self, memory: &Memory) -> Result<Buffer> {
        let (_, dst_memory) =
            BufferPlacement::from(memory).raw(&self.client(), BufferCopyToMemoryArgs::CALL)?;
        let mut args = BufferCopyToMemoryArgs {
            buffer: self.handle.as_ptr(),
            dst_memory,
            ..BufferCopyToMemoryArgs::new()
        };
        // SAFETY: buffer and memory are live and of one client.
        self.if_live(unsafe { self.client.plugin().call(&mut args) })?;
        // SAFETY: the plugin gave us this buffer to own.
        unsafe { self.copied::<BufferCopyToMemoryArgs>(args.dst_buffer, memory.device()) }
    }

    /// # Safety
    /// `pointer` is null or a buffer of this client that nobody else frees.
    unsafe fn copied<A: Args>(&self, pointer: *mut RawBuffer, device: &Device) -> Result<Buffer> {
        Ok(Buffer {
            // SAFETY: the caller's promise.
            handle: unsafe { Handle::new::<A>(self.client.plugin(), pointer) }?,
            shape: Arc::clone(&self.shape),
            device_index: device.index,
            client: Arc::clone(&self.client),
        })
    }

    /// The platform's address of the contents, often the physical one. A number for
    /// diagnosis: equal addresses mean shared memory.
    pub fn device_address(&self) -> Result<usize> {
        Ok(self.live_query::<BufferUnsafePointerArgs>()?.buffer_pointer)
    }

    fn live_query<A: Query<Subject = RawBuffer>>(&self) -> Result<A> {
        self.if_live(self.handle.query())
    }

    /// Plugins report the use of a deleted buffer under various codes: ask it.
    pub(crate) fn if_live<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error {
            Error::Plugin { call, .. } if self.is_deleted().unwrap_or(false) => {
                Error::BufferDeleted { call }
            }
            other => other,
        })
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("shape", &self.shape)
            .field("device", &self.device())
            .field("deleted", &self.is_deleted())
            .finish()
    }
}

/// Asks the plugin for a buffer's shape.
pub(crate) fn read_shape(handle: &Handle<RawBuffer>) -> Result<Shape> {
    let dims = handle.query::<BufferDimensionsArgs>()?;
    let element = handle.query::<BufferElementTypeArgs>()?;
    // SAFETY: the list comes with its length and lives as the buffer does.
    let dims = unsafe { copy_slice(dims.dims, dims.num_dims) };
    Ok(Shape {
        dtype: dtype_from_raw::<BufferElementTypeArgs>(element.element_type)?,
        dims: dims_from_raw::<BufferDimensionsArgs>(&dims)?,
    })
}

pub(crate) fn dtype_from_raw<A: Args>(raw: i32) -> Result<DType> {
    DType::from_raw(raw).ok_or(Error::UnknownDType { call: A::CALL, raw })
}

/// Bytes of an array on the host, where it is dense.
pub(crate) fn host_size_bytes(shape: &Shape) -> Result<usize> {
    shape.host_size_bytes().ok_or_else(|| Error::ShapeTooLarge { shape: shape.clone() })
}

pub(crate) fn dims_from_raw<A: Args>(dims: &[i64]) -> Result<Vec<usize>> {
    dims.iter()
        .map(|&dim| usize::try_from(dim))
        .collect::<Result<_, _>>()
        .map_err(|_| Error::Contract { call: A::CALL, what: "a negative dimension" })
}
