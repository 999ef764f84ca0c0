//! Buffers made from host memory.
//!
//! Borrowed data is copied before the call returns. Owned data is lent to the
//! plugin, which may use it in place, until the plugin says that it is done.
#![allow(unsafe_code)]

use crate::buffer::{Buffer, host_size_bytes};
use crate::client::Client;
use crate::dtype::{DType, Element, Shape};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::ffi::{self, Args, CStruct, ClientBufferFromHostBufferArgs, EventOnReadyArgs};
use crate::handle::Handle;
use crate::memory::BufferPlacement;
use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::sync::Arc;

impl Client {
    /// An array of `dims`, row-major, copied from `data`.
    pub fn buffer_from_slice<'a, T: Element>(
        &self,
        data: &[T],
        dims: &[usize],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<Buffer> {
        self.buffer_from_bytes(bytemuck::cast_slice(data), T::DTYPE, dims, placement)
    }

    /// Copies an array of any element type, as [`Client::buffer_from_slice`] does.
    pub fn buffer_from_bytes<'a>(
        &self,
        data: &[u8],
        dtype: DType,
        dims: &[usize],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<Buffer> {
        let semantics = ffi::HOST_IMMUTABLE_ONLY_DURING_CALL;
        let (shape, placement) = (Shape { dtype, dims: dims.to_vec() }, placement.into());
        // SAFETY: with these semantics the data is used during the call only.
        let (buffer, _done) = unsafe { self.transfer(data, shape, placement, semantics) }?;
        Ok(buffer)
    }

    /// Hands over a vector, without copying it where the device can read it in
    /// place: see [`Client::buffer_from_owned_bytes`].
    pub fn buffer_from_vec<'a, T: Element + Send>(
        &self,
        data: Vec<T>,
        dims: &[usize],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<Buffer> {
        self.buffer_from_owned_bytes(VecBytes(data), T::DTYPE, dims, placement)
    }

    /// Hands over host memory, a mapped file for example. It is dropped, on any
    /// thread, once the plugin is done with it: after the transfer, or where the
    /// device reads it in place (CPU, if aligned to 64 bytes), after the buffer.
    pub fn buffer_from_owned_bytes<'a>(
        &self,
        data: impl AsRef<[u8]> + Send + 'static,
        dtype: DType,
        dims: &[usize],
        placement: impl Into<BufferPlacement<'a>>,
    ) -> Result<Buffer> {
        if !self.plugin().has::<EventOnReadyArgs>() {
            // Without callbacks nothing would report when the data may be dropped.
            return self.buffer_from_bytes(data.as_ref(), dtype, dims, placement);
        }
        // Boxed first, so that the bytes stay where they are.
        let owner = Box::new(data);
        let semantics = ffi::HOST_IMMUTABLE_ZERO_COPY;
        let bytes = (*owner).as_ref();
        let shape = Shape { dtype, dims: dims.to_vec() };
        // SAFETY: `owner` is dropped by the callback below, once the plugin says
        // that it is done, or never.
        let (buffer, done) = unsafe { self.transfer(bytes, shape, placement.into(), semantics) }?;
        // A callback that is refused leaks the data, which is sound; freeing it
        // would not be.
        let owner = ManuallyDrop::new(owner);
        done.on_ready(move |_| drop(ManuallyDrop::into_inner(owner)))?;
        Ok(buffer)
    }

    /// # Safety
    /// `data` stays as it is for as long as `semantics` asks.
    unsafe fn transfer(
        &self,
        data: &[u8],
        shape: Shape,
        placement: BufferPlacement<'_>,
        semantics: c_int,
    ) -> Result<(Buffer, Event)> {
        let (device, memory) = placement.raw(self, ClientBufferFromHostBufferArgs::CALL)?;
        let (expected, found) = (host_size_bytes(&shape)?, data.len());
        if expected != found {
            return Err(Error::HostSize { shape, expected, found });
        }
        // `host_size_bytes` has refused what does not fit.
        let raw_dims: Vec<i64> = shape.dims.iter().map(|&dim| dim as i64).collect();
        let mut args = ClientBufferFromHostBufferArgs {
            client: self.0.handle.as_ptr(),
            data: data.as_ptr().cast(),
            element_type: shape.dtype.to_raw(),
            dims: raw_dims.as_ptr(),
            num_dims: raw_dims.len(),
            host_buffer_semantics: semantics,
            device,
            memory,
            ..ClientBufferFromHostBufferArgs::new()
        };
        // SAFETY: `data` has the bytes that the shape asks for, and device and
        // memory are of this client; the caller answers for the semantics.
        unsafe { self.plugin().call(&mut args) }?;
        // SAFETY: the plugin gave us both to own.
        unsafe { self.own_transfer(&args, shape, placement.device().index) }
    }

    /// # Safety
    /// `args` are of a successful call, and this is called once.
    unsafe fn own_transfer(
        &self,
        args: &ClientBufferFromHostBufferArgs,
        shape: Shape,
        device_index: usize,
    ) -> Result<(Buffer, Event)> {
        type Call = ClientBufferFromHostBufferArgs;
        // SAFETY: the caller's promise; both are owned before either can fail.
        let (handle, done) = unsafe {
            (
                Handle::new::<Call>(self.plugin(), args.buffer),
                Event::new::<Call>(&self.0, args.done_with_host_buffer),
            )
        };
        let (shape, client) = (Arc::new(shape), Arc::clone(&self.0));
        Ok((Buffer { handle: handle?, shape, device_index, client }, done?))
    }
}

/// A vector seen as bytes.
struct VecBytes<T>(Vec<T>);

impl<T: Element> AsRef<[u8]> for VecBytes<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}
