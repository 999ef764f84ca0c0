//! Device buffers.

use super::core::{RawBuffer, RawDevice, RawEvent, RawMemory};
use std::ffi::{c_int, c_void};

c_structs! {
    PJRT_Buffer_MemoryLayout_Tiled => TiledLayout {
        minor_to_major: *const i64,
        minor_to_major_size: usize,
        tile_dims: *const i64,
        tile_dim_sizes: *const usize,
        num_tiles: usize,
    }

    /// A union in C; we use its larger member, `tiled`, alone.
    PJRT_Buffer_MemoryLayout => MemoryLayout {
        tiled: TiledLayout,
        layout_type as type: c_int,
    }

    PJRT_Buffer_Destroy_Args => BufferDestroyArgs { buffer: *mut RawBuffer }

    PJRT_Buffer_ElementType_Args => BufferElementTypeArgs {
        buffer: *mut RawBuffer,
        element_type as type: c_int,
    }

    PJRT_Buffer_Dimensions_Args => BufferDimensionsArgs {
        buffer: *mut RawBuffer,
        dims: *const i64,
        num_dims: usize,
    }

    PJRT_Buffer_ToHostBuffer_Args => BufferToHostBufferArgs {
        src: *mut RawBuffer,
        host_layout: *mut MemoryLayout,
        dst: *mut c_void,
        dst_size: usize,
        event: *mut RawEvent,
    }

    PJRT_Buffer_OnDeviceSizeInBytes_Args => BufferOnDeviceSizeArgs {
        buffer: *mut RawBuffer,
        on_device_size_in_bytes: usize,
    }

    PJRT_Buffer_Delete_Args => BufferDeleteArgs { buffer: *mut RawBuffer }

    PJRT_Buffer_IsDeleted_Args => BufferIsDeletedArgs {
        buffer: *mut RawBuffer,
        is_deleted: bool,
    }

    PJRT_Buffer_CopyToDevice_Args => BufferCopyToDeviceArgs {
        buffer: *mut RawBuffer,
        dst_device: *mut RawDevice,
        dst_buffer: *mut RawBuffer,
    }

    PJRT_Buffer_CopyToMemory_Args => BufferCopyToMemoryArgs {
        buffer: *mut RawBuffer,
        dst_memory: *mut RawMemory,
        dst_buffer: *mut RawBuffer,
    }

    PJRT_Buffer_Memory_Args => BufferMemoryArgs {
        buffer: *mut RawBuffer,
        memory: *mut RawMemory,
    }

    PJRT_Buffer_ReadyEvent_Args => BufferReadyEventArgs {
        buffer: *mut RawBuffer,
        event: *mut RawEvent,
    }

    PJRT_Buffer_UnsafePointer_Args => BufferUnsafePointerArgs {
        buffer: *mut RawBuffer,
        buffer_pointer: usize,
    }
}
