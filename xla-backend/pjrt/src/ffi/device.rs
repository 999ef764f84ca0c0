//! Devices and the memories that they reach.

use super::core::{NamedValue, RawDevice, RawDeviceDescription, RawMemory};
use std::ffi::{c_char, c_int};

c_structs! {
    PJRT_DeviceDescription_Id_Args => DescriptionIdArgs {
        device_description: *mut RawDeviceDescription,
        id: c_int,
    }

    PJRT_DeviceDescription_ProcessIndex_Args => DescriptionProcessIndexArgs {
        device_description: *mut RawDeviceDescription,
        process_index: c_int,
    }

    PJRT_DeviceDescription_Attributes_Args => DescriptionAttributesArgs {
        device_description: *mut RawDeviceDescription,
        num_attributes: usize,
        attributes: *const NamedValue,
    }

    PJRT_DeviceDescription_Kind_Args => DescriptionKindArgs {
        device_description: *mut RawDeviceDescription,
        device_kind: *const c_char,
        device_kind_size: usize,
    }

    PJRT_DeviceDescription_DebugString_Args => DescriptionDebugStringArgs {
        device_description: *mut RawDeviceDescription,
        debug_string: *const c_char,
        debug_string_size: usize,
    }

    PJRT_Device_GetDescription_Args => DeviceGetDescriptionArgs {
        device: *mut RawDevice,
        device_description: *mut RawDeviceDescription,
    }

    PJRT_Device_LocalHardwareId_Args => DeviceLocalHardwareIdArgs {
        device: *mut RawDevice,
        local_hardware_id: c_int,
    }

    PJRT_Device_AddressableMemories_Args => DeviceAddressableMemoriesArgs {
        device: *mut RawDevice,
        memories: *const *mut RawMemory,
        num_memories: usize,
    }

    PJRT_Device_DefaultMemory_Args => DeviceDefaultMemoryArgs {
        device: *mut RawDevice,
        memory: *mut RawMemory,
    }

    PJRT_Device_MemoryStats_Args => DeviceMemoryStatsArgs {
        device: *mut RawDevice,
        bytes_in_use: i64,
        peak_bytes_in_use: i64,
        peak_bytes_in_use_is_set: bool,
        num_allocs: i64,
        num_allocs_is_set: bool,
        largest_alloc_size: i64,
        largest_alloc_size_is_set: bool,
        bytes_limit: i64,
        bytes_limit_is_set: bool,
        bytes_reserved: i64,
        bytes_reserved_is_set: bool,
        peak_bytes_reserved: i64,
        peak_bytes_reserved_is_set: bool,
        bytes_reservable_limit: i64,
        bytes_reservable_limit_is_set: bool,
        largest_free_block_bytes: i64,
        largest_free_block_bytes_is_set: bool,
        pool_bytes: i64,
        pool_bytes_is_set: bool,
        peak_pool_bytes: i64,
        peak_pool_bytes_is_set: bool,
    }

    PJRT_Memory_Id_Args => MemoryIdArgs {
        memory: *mut RawMemory,
        id: c_int,
    }

    PJRT_Memory_Kind_Args => MemoryKindArgs {
        memory: *mut RawMemory,
        kind: *const c_char,
        kind_size: usize,
    }

    PJRT_Memory_DebugString_Args => MemoryDebugStringArgs {
        memory: *mut RawMemory,
        debug_string: *const c_char,
        debug_string_size: usize,
    }
}
