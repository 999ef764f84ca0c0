//! Reading buffers back, row-major whatever the device's own layout.
#![allow(unsafe_code)]

use crate::buffer::{Buffer, host_size_bytes};
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::ffi::{self, Args, BufferToHostBufferArgs, CStruct, MemoryLayout, TiledLayout};
use std::ffi::c_void;
use std::mem::ManuallyDrop;

impl Buffer {
    /// Waits for the contents and copies them.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.start_copy_to_host()?.wait()
    }

    /// Waits for the contents and copies them; `T` must be the buffer's type.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_dtype::<T>()?;
        let elements = self.shape.dims.iter().product();
        let mut data = vec![T::zeroed(); elements];
        self.copy_to_slice(&mut data)?;
        Ok(data)
    }

    /// Waits for the contents and copies them into `data`, which must have the
    /// buffer's type and number of elements.
    pub fn copy_to_slice<T: Element>(&self, data: &mut [T]) -> Result<()> {
        self.check_dtype::<T>()?;
        let (expected, found) = (host_size_bytes(&self.shape)?, size_of_val(data));
        if expected != found {
            return Err(Error::HostSize { shape: self.shape().clone(), expected, found });
        }
        // SAFETY: `data` is borrowed until the copy is over: nothing between the
        // call and `wait` can return early.
        let event = unsafe { self.copy_to(data.as_mut_ptr().cast(), found) }?;
        self.if_live(event.wait())
    }

    /// Starts copying the contents to the host; the result waits for them.
    pub fn start_copy_to_host(&self) -> Result<HostCopy> {
        let mut data = vec![0; host_size_bytes(&self.shape)?];
        // SAFETY: `HostCopy` keeps the vector until the event is ready.
        let event = unsafe { self.copy_to(data.as_mut_ptr().cast(), data.len()) }?;
        Ok(HostCopy { event, data: ManuallyDrop::new(data) })
    }

    fn check_dtype<T: Element>(&self) -> Result<()> {
        let (expected, found) = (T::DTYPE, self.dtype());
        if expected == found { Ok(()) } else { Err(Error::DTypeMismatch { expected, found }) }
    }

    /// # Safety
    /// `dst` is writable for `dst_size` bytes until the event is ready.
    unsafe fn copy_to(&self, dst: *mut c_void, dst_size: usize) -> Result<Event> {
        // Otherwise the event would fail, without a type, when it is waited for.
        if self.is_deleted()? {
            return Err(Error::BufferDeleted { call: BufferToHostBufferArgs::CALL });
        }
        let minor_to_major: Vec<i64> = (0..self.dims().len() as i64).rev().collect();
        let mut layout = row_major(&minor_to_major);
        let mut args = BufferToHostBufferArgs {
            src: self.handle.as_ptr(),
            host_layout: &raw mut layout,
            dst,
            dst_size,
            ..BufferToHostBufferArgs::new()
        };
        // SAFETY: the layout outlives the call, and the caller answers for `dst`.
        self.if_live(unsafe { self.client.plugin().call(&mut args) })?;
        // SAFETY: the plugin gave us this event to own.
        unsafe { Event::new::<BufferToHostBufferArgs>(&self.client, args.event) }
    }
}

/// A copy under way. Dropping it waits, because the plugin writes to its memory.
#[derive(Debug)]
pub struct HostCopy {
    event: Event,
    data: ManuallyDrop<Vec<u8>>,
}

impl HostCopy {
    /// Returns whether [`HostCopy::wait`] would return at once.
    pub fn is_ready(&self) -> Result<bool> {
        self.event.is_ready()
    }

    /// The contents, once they are there.
    pub fn wait(mut self) -> Result<Vec<u8>> {
        self.event.wait()?;
        Ok(std::mem::take(&mut *self.data))
    }
}

impl Drop for HostCopy {
    fn drop(&mut self) {
        // Success or failure, the plugin has stopped writing when this returns.
        let _ = self.event.wait();
        // SAFETY: dropped here only.
        unsafe { ManuallyDrop::drop(&mut self.data) };
    }
}

/// A dense layout, given the dimensions from the last to the first.
fn row_major(minor_to_major: &[i64]) -> MemoryLayout {
    let tiled = TiledLayout {
        minor_to_major: minor_to_major.as_ptr(),
        minor_to_major_size: minor_to_major.len(),
        ..TiledLayout::new()
    };
    MemoryLayout { tiled, layout_type: ffi::LAYOUT_TILED, ..MemoryLayout::new() }
}
