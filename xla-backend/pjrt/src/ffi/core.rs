//! Version, errors, named values and the plugin's own calls.

use std::ffi::{c_char, c_int};

/// Objects behind pointers that only the plugin looks into.
macro_rules! opaque {
    ($($(#[$meta:meta])* $name:ident)*) => {$(
        $(#[$meta])*
        #[repr(C)]
        pub(crate) struct $name {
            _private: [u8; 0],
        }
    )*};
}

opaque! {
    RawError RawEvent RawClient RawDevice RawDeviceDescription RawMemory
    RawExecutable RawLoadedExecutable RawBuffer RawSerializedExecutable
    RawTopologyDescription
}

/// The payload of a [`NamedValue`]; `value_type` says which member holds.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union NamedPayload {
    pub(crate) string: *const c_char,
    pub(crate) int64: i64,
    pub(crate) int64_list: *const i64,
    pub(crate) float: f32,
    pub(crate) boolean: bool,
}

c_structs! {
    PJRT_Api_Version => ApiVersionStruct {
        major_version: c_int,
        minor_version: c_int,
    }

    PJRT_Error_Destroy_Args => ErrorDestroyArgs { error: *mut RawError }

    PJRT_Error_Message_Args => ErrorMessageArgs {
        error: *const RawError,
        message: *const c_char,
        message_size: usize,
    }

    PJRT_Error_GetCode_Args => ErrorGetCodeArgs {
        error: *const RawError,
        code: c_int,
    }

    PJRT_NamedValue => NamedValue {
        name: *const c_char,
        name_size: usize,
        value_type as type: c_int,
        payload as string_value: NamedPayload,
        value_size: usize,
    }

    PJRT_Plugin_Initialize_Args => PluginInitializeArgs {}

    PJRT_Plugin_Attributes_Args => PluginAttributesArgs {
        attributes: *const NamedValue,
        num_attributes: usize,
    }
}
