//! The function table that `GetPjrtApi` returns.
//!
//! An entry that names its arguments is one that we call; the others hold their
//! place. A plugin older than 0.81 has a shorter table: it is copied into a zeroed
//! one, so that what it lacks reads as absent.

use super::buffer::*;
use super::client::*;
use super::core::*;
use super::device::*;
use super::event::*;
use super::executable::*;
use super::layout::CStruct;
use super::topology::*;
use std::ffi::c_void;

/// Entries that can fail return null for success, or an error that we own.
pub(crate) type CallEntry<A> = unsafe extern "C" fn(args: *mut A) -> *mut RawError;
pub(crate) type VoidEntry<A> = unsafe extern "C" fn(args: *mut A);

/// An argument struct, tied to the one entry that takes it.
pub(crate) trait Args: Sized {
    const CALL: &'static str;
    fn entry(api: &Api) -> Option<CallEntry<Self>>;
}

macro_rules! entry_type {
    () => { *const c_void };
    (call $args:ty) => { Option<CallEntry<$args>> };
    (void $args:ty) => { Option<VoidEntry<$args>> };
}

macro_rules! entry_size {
    () => {
        None
    };
    ($kind:ident $args:ty) => {
        Some(<$args as CStruct>::STRUCT_SIZE)
    };
}

macro_rules! entry_impl {
    ($name:ident) => {};
    ($name:ident void $args:ty) => {};
    ($name:ident call $args:ty) => {
        impl Args for $args {
            const CALL: &'static str = stringify!($name);
            fn entry(api: &Api) -> Option<CallEntry<Self>> {
                api.$name
            }
        }
    };
}

macro_rules! api_table {
    ($( $name:ident $(: $kind:ident $args:ident)? ; )*) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "the names of the C header")]
        pub(crate) struct Api {
            pub(crate) struct_size: usize,
            pub(crate) extension_start: *mut c_void,
            pub(crate) pjrt_api_version: ApiVersionStruct,
            $( pub(crate) $name: entry_type!($($kind $args)?), )*
        }

        $( entry_impl!($name $($kind $args)?); )*

        /// Every entry of the table in order, with the size of its argument if that is declared here.
        pub const TABLE: &[(&str, Option<usize>)] =
            &[$( (stringify!($name), entry_size!($($kind $args)?)), )*];

        /// Every entry's name and offset.
        #[cfg(test)]
        pub(crate) const ENTRIES: &[(&str, usize)] = &[
            ("pjrt_api_version", std::mem::offset_of!(Api, pjrt_api_version)),
            $( (stringify!($name), std::mem::offset_of!(Api, $name)), )*
        ];
    };
}

api_table! {
    PJRT_Error_Destroy: void ErrorDestroyArgs;
    PJRT_Error_Message: void ErrorMessageArgs;
    PJRT_Error_GetCode: call ErrorGetCodeArgs;
    PJRT_Plugin_Initialize: call PluginInitializeArgs;
    PJRT_Plugin_Attributes: call PluginAttributesArgs;
    PJRT_Event_Destroy: call EventDestroyArgs;
    PJRT_Event_IsReady: call EventIsReadyArgs;
    PJRT_Event_Error;
    PJRT_Event_Await: call EventAwaitArgs;
    PJRT_Event_OnReady: call EventOnReadyArgs;
    PJRT_Client_Create: call ClientCreateArgs;
    PJRT_Client_Destroy: call ClientDestroyArgs;
    PJRT_Client_PlatformName: call ClientPlatformNameArgs;
    PJRT_Client_ProcessIndex: call ClientProcessIndexArgs;
    PJRT_Client_PlatformVersion: call ClientPlatformVersionArgs;
    PJRT_Client_Devices: call ClientDevicesArgs;
    PJRT_Client_AddressableDevices: call ClientAddressableDevicesArgs;
    PJRT_Client_LookupDevice;
    PJRT_Client_LookupAddressableDevice;
    PJRT_Client_AddressableMemories;
    PJRT_Client_Compile: call ClientCompileArgs;
    PJRT_Client_DefaultDeviceAssignment;
    PJRT_Client_BufferFromHostBuffer: call ClientBufferFromHostBufferArgs;
    PJRT_DeviceDescription_Id: call DescriptionIdArgs;
    PJRT_DeviceDescription_ProcessIndex: call DescriptionProcessIndexArgs;
    PJRT_DeviceDescription_Attributes: call DescriptionAttributesArgs;
    PJRT_DeviceDescription_Kind: call DescriptionKindArgs;
    PJRT_DeviceDescription_DebugString: call DescriptionDebugStringArgs;
    PJRT_DeviceDescription_ToString;
    PJRT_Device_GetDescription: call DeviceGetDescriptionArgs;
    PJRT_Device_IsAddressable;
    PJRT_Device_LocalHardwareId: call DeviceLocalHardwareIdArgs;
    PJRT_Device_AddressableMemories: call DeviceAddressableMemoriesArgs;
    PJRT_Device_DefaultMemory: call DeviceDefaultMemoryArgs;
    PJRT_Device_MemoryStats: call DeviceMemoryStatsArgs;
    PJRT_Memory_Id: call MemoryIdArgs;
    PJRT_Memory_Kind: call MemoryKindArgs;
    PJRT_Memory_DebugString: call MemoryDebugStringArgs;
    PJRT_Memory_ToString;
    PJRT_Memory_AddressableByDevices;
    PJRT_Executable_Destroy: call ExecutableDestroyArgs;
    PJRT_Executable_Name: call ExecutableNameArgs;
    PJRT_Executable_NumReplicas;
    PJRT_Executable_NumPartitions;
    PJRT_Executable_NumOutputs: call ExecutableNumOutputsArgs;
    PJRT_Executable_SizeOfGeneratedCodeInBytes: call ExecutableCodeSizeArgs;
    PJRT_Executable_GetCostAnalysis: call ExecutableCostAnalysisArgs;
    PJRT_Executable_OutputMemoryKinds;
    PJRT_Executable_OptimizedProgram: call ExecutableOptimizedProgramArgs;
    PJRT_Executable_Serialize: call ExecutableSerializeArgs;
    PJRT_LoadedExecutable_Destroy: call LoadedExecutableDestroyArgs;
    PJRT_LoadedExecutable_GetExecutable: call LoadedExecutableGetExecutableArgs;
    PJRT_LoadedExecutable_AddressableDevices: call LoadedExecutableDevicesArgs;
    PJRT_LoadedExecutable_Delete;
    PJRT_LoadedExecutable_IsDeleted;
    PJRT_LoadedExecutable_Execute: call LoadedExecutableExecuteArgs;
    PJRT_Executable_DeserializeAndLoad: call ExecutableDeserializeAndLoadArgs;
    PJRT_LoadedExecutable_Fingerprint;
    PJRT_Buffer_Destroy: call BufferDestroyArgs;
    PJRT_Buffer_ElementType: call BufferElementTypeArgs;
    PJRT_Buffer_Dimensions: call BufferDimensionsArgs;
    PJRT_Buffer_UnpaddedDimensions;
    PJRT_Buffer_DynamicDimensionIndices;
    PJRT_Buffer_GetMemoryLayout;
    PJRT_Buffer_OnDeviceSizeInBytes: call BufferOnDeviceSizeArgs;
    PJRT_Buffer_Device;
    PJRT_Buffer_Memory: call BufferMemoryArgs;
    PJRT_Buffer_Delete: call BufferDeleteArgs;
    PJRT_Buffer_IsDeleted: call BufferIsDeletedArgs;
    PJRT_Buffer_CopyToDevice: call BufferCopyToDeviceArgs;
    PJRT_Buffer_ToHostBuffer: call BufferToHostBufferArgs;
    PJRT_Buffer_IsOnCpu;
    PJRT_Buffer_ReadyEvent: call BufferReadyEventArgs;
    PJRT_Buffer_UnsafePointer: call BufferUnsafePointerArgs;
    PJRT_Buffer_IncreaseExternalReferenceCount;
    PJRT_Buffer_DecreaseExternalReferenceCount;
    PJRT_Buffer_OpaqueDeviceMemoryDataPointer;
    PJRT_CopyToDeviceStream_Destroy;
    PJRT_CopyToDeviceStream_AddChunk;
    PJRT_CopyToDeviceStream_TotalBytes;
    PJRT_CopyToDeviceStream_GranuleSize;
    PJRT_CopyToDeviceStream_CurrentBytes;
    PJRT_TopologyDescription_Create: call TopologyCreateArgs;
    PJRT_TopologyDescription_Destroy: call TopologyDestroyArgs;
    PJRT_TopologyDescription_PlatformName: call TopologyPlatformNameArgs;
    PJRT_TopologyDescription_PlatformVersion;
    PJRT_TopologyDescription_GetDeviceDescriptions: call TopologyDescriptionsArgs;
    PJRT_TopologyDescription_Serialize;
    PJRT_TopologyDescription_Attributes;
    PJRT_Compile: call CompileArgs;
    PJRT_Executable_OutputElementTypes: call ExecutableOutputTypesArgs;
    PJRT_Executable_OutputDimensions: call ExecutableOutputDimensionsArgs;
    PJRT_Buffer_CopyToMemory: call BufferCopyToMemoryArgs;
    PJRT_Client_CreateViewOfDeviceBuffer;
    PJRT_Executable_Fingerprint: call ExecutableFingerprintArgs;
    PJRT_Client_TopologyDescription;
    PJRT_Executable_GetCompiledMemoryStats: call ExecutableMemoryStatsArgs;
    PJRT_Memory_Kind_Id;
    PJRT_ExecuteContext_Create;
    PJRT_ExecuteContext_Destroy;
    PJRT_Buffer_CopyRawToHost;
    PJRT_AsyncHostToDeviceTransferManager_Destroy;
    PJRT_AsyncHostToDeviceTransferManager_TransferData;
    PJRT_Client_CreateBuffersForAsyncHostToDevice;
    PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer;
    PJRT_AsyncHostToDeviceTransferManager_Device;
    PJRT_AsyncHostToDeviceTransferManager_BufferCount;
    PJRT_AsyncHostToDeviceTransferManager_BufferSize;
    PJRT_AsyncHostToDeviceTransferManager_SetBufferError;
    PJRT_AsyncHostToDeviceTransferManager_AddMetadata;
    PJRT_Client_DmaMap;
    PJRT_Client_DmaUnmap;
    PJRT_Client_CreateUninitializedBuffer;
    PJRT_Client_UpdateGlobalProcessInfo;
    PJRT_TopologyDescription_Deserialize;
    PJRT_Client_CreateAliasBuffer;
    PJRT_Client_FulfillAliasBuffer;
    PJRT_LoadedExecutable_GetDeviceAssignment;
}

/// Structures that arguments point to, with their sizes.
pub const STRUCTURES: [(&str, usize); 4] = [
    ("PJRT_Buffer_MemoryLayout", <MemoryLayout as CStruct>::STRUCT_SIZE),
    ("PJRT_Buffer_MemoryLayout_Tiled", <TiledLayout as CStruct>::STRUCT_SIZE),
    ("PJRT_Program", <Program as CStruct>::STRUCT_SIZE),
    ("PJRT_ExecuteOptions", <ExecuteOptionsStruct as CStruct>::STRUCT_SIZE),
];

impl Api {
    /// Copies the plugin's table, as much of it as there is.
    ///
    /// # Safety
    /// `table` points to a live `PJRT_Api` whose `struct_size` is true.
    pub(crate) unsafe fn copy_from(table: *const Api) -> Api {
        // SAFETY: every field may be zero: integers, pointers, nullable functions.
        let mut api: Api = unsafe { std::mem::zeroed() };
        // SAFETY: `struct_size` is the first field of every version of the table.
        let available = unsafe { table.cast::<usize>().read() };
        let bytes = available.min(size_of::<Api>());
        // SAFETY: both sides are valid for `bytes`, and `api` is a local.
        unsafe {
            std::ptr::copy_nonoverlapping(table.cast::<u8>(), (&raw mut api).cast(), bytes);
        }
        api
    }
}
