//! Topologies: descriptions of devices that need not be there, to compile for.

use super::client::Program;
use super::core::{
    NamedValue, RawClient, RawDeviceDescription, RawExecutable, RawTopologyDescription,
};
use std::ffi::c_char;

c_structs! {
    PJRT_TopologyDescription_Create_Args => TopologyCreateArgs {
        topology_name: *const c_char,
        topology_name_size: usize,
        create_options: *const NamedValue,
        num_options: usize,
        topology: *mut RawTopologyDescription,
    }

    PJRT_TopologyDescription_Destroy_Args => TopologyDestroyArgs {
        topology: *mut RawTopologyDescription,
    }

    PJRT_TopologyDescription_PlatformName_Args => TopologyPlatformNameArgs {
        topology: *mut RawTopologyDescription,
        platform_name: *const c_char,
        platform_name_size: usize,
    }

    PJRT_TopologyDescription_GetDeviceDescriptions_Args => TopologyDescriptionsArgs {
        topology: *mut RawTopologyDescription,
        descriptions: *const *mut RawDeviceDescription,
        num_descriptions: usize,
    }

    PJRT_Compile_Args => CompileArgs {
        topology: *const RawTopologyDescription,
        program: *const Program,
        compile_options: *const c_char,
        compile_options_size: usize,
        client: *mut RawClient,
        executable: *mut RawExecutable,
    }
}
