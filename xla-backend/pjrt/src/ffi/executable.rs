//! Executables: what was compiled, and running it.

use super::client::Program;
use super::core::{
    NamedValue, RawBuffer, RawClient, RawDevice, RawEvent, RawExecutable, RawLoadedExecutable,
    RawSerializedExecutable,
};
use std::ffi::{c_char, c_int, c_void};

c_structs! {
    PJRT_Executable_Destroy_Args => ExecutableDestroyArgs { executable: *mut RawExecutable }

    PJRT_LoadedExecutable_Destroy_Args => LoadedExecutableDestroyArgs {
        executable: *mut RawLoadedExecutable,
    }

    PJRT_LoadedExecutable_GetExecutable_Args => LoadedExecutableGetExecutableArgs {
        loaded_executable: *mut RawLoadedExecutable,
        executable: *mut RawExecutable,
    }

    PJRT_LoadedExecutable_AddressableDevices_Args => LoadedExecutableDevicesArgs {
        executable: *mut RawLoadedExecutable,
        addressable_devices: *const *mut RawDevice,
        num_addressable_devices: usize,
    }

    PJRT_Executable_Name_Args => ExecutableNameArgs {
        executable: *mut RawExecutable,
        executable_name: *const c_char,
        executable_name_size: usize,
    }

    PJRT_Executable_NumOutputs_Args => ExecutableNumOutputsArgs {
        executable: *mut RawExecutable,
        num_outputs: usize,
    }

    PJRT_Executable_SizeOfGeneratedCodeInBytes_Args => ExecutableCodeSizeArgs {
        executable: *mut RawExecutable,
        size_in_bytes: i64,
    }

    PJRT_Executable_Fingerprint_Args => ExecutableFingerprintArgs {
        executable: *mut RawExecutable,
        executable_fingerprint: *const c_char,
        executable_fingerprint_size: usize,
    }

    PJRT_Executable_OptimizedProgram_Args => ExecutableOptimizedProgramArgs {
        executable: *mut RawExecutable,
        program: *mut Program,
    }

    PJRT_Executable_GetCostAnalysis_Args => ExecutableCostAnalysisArgs {
        executable: *mut RawExecutable,
        num_properties: usize,
        properties: *const NamedValue,
    }

    PJRT_Executable_GetCompiledMemoryStats_Args => ExecutableMemoryStatsArgs {
        executable: *mut RawExecutable,
        generated_code_size_in_bytes: i64,
        argument_size_in_bytes: i64,
        output_size_in_bytes: i64,
        alias_size_in_bytes: i64,
        temp_size_in_bytes: i64,
        host_generated_code_size_in_bytes: i64,
        host_argument_size_in_bytes: i64,
        host_output_size_in_bytes: i64,
        host_alias_size_in_bytes: i64,
        host_temp_size_in_bytes: i64,
        peak_memory_in_bytes: i64,
    }

    PJRT_Executable_OutputElementTypes_Args => ExecutableOutputTypesArgs {
        executable: *mut RawExecutable,
        output_types: *const c_int,
        num_output_types: usize,
    }

    PJRT_Executable_OutputDimensions_Args => ExecutableOutputDimensionsArgs {
        executable: *mut RawExecutable,
        num_outputs: usize,
        dims: *const i64,
        dim_sizes: *const usize,
    }

    PJRT_Executable_Serialize_Args => ExecutableSerializeArgs {
        executable: *const RawExecutable,
        serialized_bytes: *const c_char,
        serialized_bytes_size: usize,
        serialized_executable: *mut RawSerializedExecutable,
        serialized_executable_deleter:
            Option<unsafe extern "C" fn(*mut RawSerializedExecutable)>,
    }

    PJRT_Executable_DeserializeAndLoad_Args => ExecutableDeserializeAndLoadArgs {
        client: *mut RawClient,
        serialized_executable: *const c_char,
        serialized_executable_size: usize,
        loaded_executable: *mut RawLoadedExecutable,
        overridden_serialized_compile_options: *const c_char,
        overridden_serialized_compile_options_size: usize,
    }

    /// Send, receive, context and task fields stay null: we use none of them.
    PJRT_ExecuteOptions => ExecuteOptionsStruct {
        send_callbacks: *mut *mut c_void,
        recv_callbacks: *mut *mut c_void,
        num_send_ops: usize,
        num_recv_ops: usize,
        launch_id: c_int,
        non_donatable_input_indices: *const i64,
        num_non_donatable_input_indices: usize,
        context: *mut c_void,
        call_location: *const c_char,
        num_tasks: usize,
        task_ids: *mut c_int,
        incarnation_ids: *mut i64,
    }

    PJRT_LoadedExecutable_Execute_Args => LoadedExecutableExecuteArgs {
        executable: *mut RawLoadedExecutable,
        options: *mut ExecuteOptionsStruct,
        argument_lists: *const *const *mut RawBuffer,
        num_devices: usize,
        num_args: usize,
        output_lists: *const *mut *mut RawBuffer,
        device_complete_events: *mut *mut RawEvent,
        execute_device: *mut RawDevice,
    }
}
