//! The client, compilation and buffers made from host memory.

use super::buffer::MemoryLayout;
use super::core::{
    NamedValue, RawBuffer, RawClient, RawDevice, RawError, RawEvent, RawLoadedExecutable, RawMemory,
};
use std::ffi::{c_char, c_int, c_void};

/// Makes an error of the plugin's from a code and a text, which it copies.
pub(crate) type CallbackError =
    Option<unsafe extern "C" fn(c_int, *const c_char, usize) -> *mut RawError>;

c_structs! {
    /// The key-value callbacks are for several processes, and null where there is one.
    PJRT_Client_Create_Args => ClientCreateArgs {
        create_options: *const NamedValue,
        num_options: usize,
        kv_get_callback: *const c_void,
        kv_get_user_arg: *mut c_void,
        kv_put_callback: *const c_void,
        kv_put_user_arg: *mut c_void,
        client: *mut RawClient,
        kv_try_get_callback: *const c_void,
        kv_try_get_user_arg: *mut c_void,
    }

    PJRT_KeyValueGetCallback_Args => KeyValueGetArgs {
        key: *const c_char,
        key_size: usize,
        timeout_in_ms: c_int,
        callback_error: *const CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: *const c_void,
    }

    PJRT_KeyValueTryGetCallback_Args => KeyValueTryGetArgs {
        key: *const c_char,
        key_size: usize,
        callback_error: *const CallbackError,
        user_arg: *mut c_void,
        value: *mut c_char,
        value_size: usize,
        value_deleter_callback: *const c_void,
    }

    PJRT_KeyValuePutCallback_Args => KeyValuePutArgs {
        key: *const c_char,
        key_size: usize,
        value: *const c_char,
        value_size: usize,
        callback_error: *const CallbackError,
        user_arg: *mut c_void,
    }

    PJRT_Client_Destroy_Args => ClientDestroyArgs { client: *mut RawClient }

    PJRT_Client_PlatformName_Args => ClientPlatformNameArgs {
        client: *mut RawClient,
        platform_name: *const c_char,
        platform_name_size: usize,
    }

    PJRT_Client_PlatformVersion_Args => ClientPlatformVersionArgs {
        client: *mut RawClient,
        platform_version: *const c_char,
        platform_version_size: usize,
    }

    PJRT_Client_ProcessIndex_Args => ClientProcessIndexArgs {
        client: *mut RawClient,
        process_index: c_int,
    }

    PJRT_Client_AddressableDevices_Args => ClientAddressableDevicesArgs {
        client: *mut RawClient,
        addressable_devices: *const *mut RawDevice,
        num_addressable_devices: usize,
    }

    PJRT_Client_Devices_Args => ClientDevicesArgs {
        client: *mut RawClient,
        devices: *const *mut RawDevice,
        num_devices: usize,
    }

    PJRT_Program => Program {
        code: *mut c_char,
        code_size: usize,
        format: *const c_char,
        format_size: usize,
    }

    PJRT_Client_Compile_Args => ClientCompileArgs {
        client: *mut RawClient,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        executable: *mut RawLoadedExecutable,
    }

    PJRT_Client_BufferFromHostBuffer_Args => ClientBufferFromHostBufferArgs {
        client: *mut RawClient,
        data: *const c_void,
        element_type as type: c_int,
        dims: *const i64,
        num_dims: usize,
        byte_strides: *const i64,
        num_byte_strides: usize,
        host_buffer_semantics: c_int,
        device: *mut RawDevice,
        memory: *mut RawMemory,
        device_layout: *mut MemoryLayout,
        done_with_host_buffer: *mut RawEvent,
        buffer: *mut RawBuffer,
    }
}
