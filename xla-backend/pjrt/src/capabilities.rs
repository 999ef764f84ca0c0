//! The capabilities of a plugin.

/// See [`Client::capabilities`](crate::Client::capabilities).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// A donated argument is taken over and the result is right.
    pub donation: bool,
    /// Executables survive serialization and run afterwards.
    pub executable_serialization: bool,
    /// Executables report the FLOPs and bytes of a run.
    pub cost_analysis: bool,
    /// Executables report the memory that they need.
    pub compiled_memory_stats: bool,
    /// Executables return the program that the compiler made of theirs.
    pub optimized_program: bool,
    /// Devices report the memory that is in use.
    pub device_memory_stats: bool,
    /// Programs can call kernels of ours: see [`Client::register_kernel`](crate::Client::register_kernel).
    pub custom_calls: bool,
    /// Kinds of memory to which buffers can be copied, the default one left out.
    pub copy_to_memory: Vec<String>,
}
