//! The PJRT extension that registers custom calls, and what XLA hands to them:
//! the part of `xla/ffi/api/c_api.h` that handlers read. Plugins ship no header
//! for either, so that `header_check` cannot compare them: [`crate::Capabilities`]
//! has a probe run instead.

use super::core::RawError;
use std::ffi::{c_char, c_int, c_void};

/// `PJRT_Extension_Type_FFI`.
pub(crate) const EXTENSION_FFI: c_int = 5;

/// `XLA_FFI_Extension_Metadata`.
pub(crate) const EXTENSION_METADATA: c_int = 1;

/// The version that handlers answer: the first one with this layout of the call frame. The
/// layout has not changed since.
pub(crate) const FFI_API_VERSION: (c_int, c_int) = (0, 1);

/// `XLA_FFI_ExecutionStage_EXECUTE`; the other stages prepare what handlers of ours do not need.
pub(crate) const STAGE_EXECUTE: c_int = 3;

pub(crate) const BUFFER: c_int = 1;
pub(crate) const ATTRIBUTE_SCALAR: c_int = 3;

/// `XLA_FFI_DataType_BF16`; types of ours that come before it have PJRT's numbers.
pub(crate) const FFI_BF16: c_int = 16;

pub(crate) const ERROR_INVALID_ARGUMENT: c_int = 3;
pub(crate) const ERROR_INTERNAL: c_int = 13;

opaque! { FfiError FfiFuture }

/// The first version whose table has the entries up to `device_ordinal_get`. `struct_size` of the
/// table does not count all of its entries.
pub(crate) const FFI_FUTURES_VERSION: (c_int, c_int) = (0, 2);

pub(crate) type Handler = unsafe extern "C" fn(*mut CallFrame) -> *mut FfiError;

#[repr(C)]
pub(crate) struct ExtensionBase {
    pub(crate) struct_size: usize,
    pub(crate) kind: c_int,
    pub(crate) next: *mut ExtensionBase,
}

#[repr(C)]
pub(crate) struct FfiExtension {
    pub(crate) base: ExtensionBase,
    pub(crate) type_register: *const c_void,
    pub(crate) user_data_add: *const c_void,
    pub(crate) register_handler:
        Option<unsafe extern "C" fn(*mut RegisterHandlerArgs) -> *mut RawError>,
}

/// The arguments of API 0.81: without the field `api_version` that newer headers show.
#[repr(C)]
pub(crate) struct RegisterHandlerArgs {
    pub(crate) struct_size: usize,
    pub(crate) target_name: *const c_char,
    pub(crate) target_name_size: usize,
    pub(crate) handler: Handler,
    pub(crate) platform_name: *const c_char,
    pub(crate) platform_name_size: usize,
    pub(crate) traits: c_int,
}

#[repr(C)]
pub(crate) struct FfiApiVersion {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) major_version: c_int,
    pub(crate) minor_version: c_int,
}

#[repr(C)]
pub(crate) struct Metadata {
    pub(crate) struct_size: usize,
    pub(crate) api_version: FfiApiVersion,
    pub(crate) traits: u32,
}

#[repr(C)]
pub(crate) struct MetadataExtension {
    pub(crate) base: ExtensionBase,
    pub(crate) metadata: *mut Metadata,
}

#[repr(C)]
pub(crate) struct FfiErrorCreateArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) message: *const c_char,
    pub(crate) code: c_int,
}

#[repr(C)]
pub(crate) struct FfiFutureCreateArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) future: *mut FfiFuture,
}

#[repr(C)]
pub(crate) struct FfiFutureSetAvailableArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) future: *mut FfiFuture,
}

#[repr(C)]
pub(crate) struct FfiFutureSetErrorArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) future: *mut FfiFuture,
    pub(crate) error: *mut FfiError,
}

#[repr(C)]
pub(crate) struct FfiDeviceOrdinalGetArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) context: *mut c_void,
    pub(crate) device_ordinal: i32,
}

#[repr(C)]
pub(crate) struct FfiRunIdGetArgs {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) context: *mut c_void,
    pub(crate) run_id: i64,
}

type FfiEntry<A> = Option<unsafe extern "C" fn(*mut A) -> *mut FfiError>;

/// The table of functions for handlers, as far as we use it.
#[repr(C)]
pub(crate) struct FfiApi {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) api_version: FfiApiVersion,
    pub(crate) internal_api: *const c_void,
    pub(crate) error_create: FfiEntry<FfiErrorCreateArgs>,
    /// The entries from the message of an error to the number of threads.
    pub(crate) unused: [*const c_void; 12],
    pub(crate) future_create: FfiEntry<FfiFutureCreateArgs>,
    pub(crate) future_set_available: FfiEntry<FfiFutureSetAvailableArgs>,
    pub(crate) future_set_error: FfiEntry<FfiFutureSetErrorArgs>,
    pub(crate) run_id_get: FfiEntry<FfiRunIdGetArgs>,
    pub(crate) device_ordinal_get: FfiEntry<FfiDeviceOrdinalGetArgs>,
}

#[repr(C)]
pub(crate) struct FfiBuffer {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) dtype: c_int,
    pub(crate) data: *mut c_void,
    pub(crate) rank: i64,
    pub(crate) dims: *const i64,
}

/// Operands or results: `kinds` and `items` have `count` entries.
#[repr(C)]
pub(crate) struct FfiList {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) count: i64,
    pub(crate) kinds: *const c_int,
    pub(crate) items: *const *mut c_void,
}

#[repr(C)]
pub(crate) struct ByteSpan {
    pub(crate) data: *const c_char,
    pub(crate) size: usize,
}

#[repr(C)]
pub(crate) struct FfiScalar {
    pub(crate) dtype: c_int,
    pub(crate) value: *const c_void,
}

#[repr(C)]
pub(crate) struct FfiAttributes {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) count: i64,
    pub(crate) kinds: *const c_int,
    pub(crate) names: *const *const ByteSpan,
    pub(crate) items: *const *mut c_void,
}

#[repr(C)]
pub(crate) struct CallFrame {
    pub(crate) struct_size: usize,
    pub(crate) extension_start: *mut ExtensionBase,
    pub(crate) api: *const FfiApi,
    pub(crate) context: *mut c_void,
    pub(crate) stage: c_int,
    pub(crate) operands: FfiList,
    pub(crate) results: FfiList,
    pub(crate) attributes: FfiAttributes,
    /// Set by a handler whose results arrive later. Only frames of [`FFI_FUTURES_VERSION`] have it.
    pub(crate) future: *mut FfiFuture,
}

/// The end of the last field, which is what C calls the struct's size.
pub(crate) const ERROR_CREATE_SIZE: usize =
    std::mem::offset_of!(FfiErrorCreateArgs, code) + size_of::<c_int>();
pub(crate) const DEVICE_ORDINAL_GET_SIZE: usize =
    std::mem::offset_of!(FfiDeviceOrdinalGetArgs, device_ordinal) + size_of::<i32>();
pub(crate) const REGISTER_HANDLER_SIZE: usize =
    std::mem::offset_of!(RegisterHandlerArgs, traits) + size_of::<c_int>();
