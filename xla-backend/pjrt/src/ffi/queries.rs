//! Calls that take one object and only answer: safe on any live handle, so the
//! reasoning about them stands here once.

use super::api::Args;
use super::buffer::*;
use super::client::*;
use super::core::*;
use super::device::*;
use super::event::*;
use super::executable::*;
use super::layout::CStruct;
use super::topology::*;

/// An argument struct whose only input is a pointer to `Subject`.
///
/// # Safety
/// With that pointer live and all else zero, the call touches no memory of ours
/// but the struct itself.
pub(crate) unsafe trait Query: Args + CStruct {
    type Subject;
    fn about(subject: *mut Self::Subject) -> Self;
}

macro_rules! queries {
    ($( $args:ident . $field:ident : $subject:ty; )*) => {$(
        // SAFETY: the header lists `$field` as the only input of this struct.
        unsafe impl Query for $args {
            type Subject = $subject;
            fn about(subject: *mut $subject) -> Self {
                Self { $field: subject, ..Self::new() }
            }
        }
    )*};
}

queries! {
    EventDestroyArgs.event: RawEvent;
    EventIsReadyArgs.event: RawEvent;
    EventAwaitArgs.event: RawEvent;

    ClientDestroyArgs.client: RawClient;
    ClientPlatformNameArgs.client: RawClient;
    ClientPlatformVersionArgs.client: RawClient;
    ClientProcessIndexArgs.client: RawClient;
    ClientAddressableDevicesArgs.client: RawClient;
    ClientDevicesArgs.client: RawClient;

    DescriptionIdArgs.device_description: RawDeviceDescription;
    DescriptionProcessIndexArgs.device_description: RawDeviceDescription;
    DescriptionAttributesArgs.device_description: RawDeviceDescription;
    DescriptionKindArgs.device_description: RawDeviceDescription;
    DescriptionDebugStringArgs.device_description: RawDeviceDescription;
    DeviceGetDescriptionArgs.device: RawDevice;
    DeviceLocalHardwareIdArgs.device: RawDevice;
    DeviceAddressableMemoriesArgs.device: RawDevice;
    DeviceDefaultMemoryArgs.device: RawDevice;
    DeviceMemoryStatsArgs.device: RawDevice;
    MemoryIdArgs.memory: RawMemory;
    MemoryKindArgs.memory: RawMemory;
    MemoryDebugStringArgs.memory: RawMemory;

    ExecutableDestroyArgs.executable: RawExecutable;
    LoadedExecutableDestroyArgs.executable: RawLoadedExecutable;
    LoadedExecutableGetExecutableArgs.loaded_executable: RawLoadedExecutable;
    LoadedExecutableDevicesArgs.executable: RawLoadedExecutable;
    ExecutableNameArgs.executable: RawExecutable;
    ExecutableNumOutputsArgs.executable: RawExecutable;
    ExecutableCodeSizeArgs.executable: RawExecutable;
    ExecutableFingerprintArgs.executable: RawExecutable;
    ExecutableCostAnalysisArgs.executable: RawExecutable;
    ExecutableMemoryStatsArgs.executable: RawExecutable;
    ExecutableOutputTypesArgs.executable: RawExecutable;
    ExecutableOutputDimensionsArgs.executable: RawExecutable;

    TopologyDestroyArgs.topology: RawTopologyDescription;
    TopologyPlatformNameArgs.topology: RawTopologyDescription;
    TopologyDescriptionsArgs.topology: RawTopologyDescription;

    BufferDestroyArgs.buffer: RawBuffer;
    BufferElementTypeArgs.buffer: RawBuffer;
    BufferDimensionsArgs.buffer: RawBuffer;
    BufferOnDeviceSizeArgs.buffer: RawBuffer;
    BufferDeleteArgs.buffer: RawBuffer;
    BufferIsDeletedArgs.buffer: RawBuffer;
    BufferMemoryArgs.buffer: RawBuffer;
    BufferReadyEventArgs.buffer: RawBuffer;
    BufferUnsafePointerArgs.buffer: RawBuffer;
}
