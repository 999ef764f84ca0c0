//! Public facts about AWS Neuron, as tables: devices and instances, the codes of its compiler and runtime, versions,
//! and the limits of programs. Daemon, planner, verifier and runner read them here.
//!
//! Sources: the documentation of the Neuron SDK 2.32 (2026-08), the headers of its runtime, its driver's sources, and
//! reports of users. None of it was tried on a device.
//!
//! Imports nothing.

mod codes;
mod cores;
mod flags;
mod installed;
mod instances;
mod limits;
mod log;
mod versions;
mod visible;

pub use codes::{
    ALLOCATION_FAILED, COMPILER, Cause, CompilerCode, Explanation, MEMORY_FULL, RUNTIME,
    RuntimeCode, WITHOUT_PREFIX, explain,
};
pub use cores::{CORE_KINDS, CoreKind, Generation, core_kind};
pub use flags::{CompilerFlags, LEGACY_FLAGS, instruction_limit};
pub use installed::{InstalledCompiler, driver_version, package_version, runtime_version};
pub use instances::{INSTANCES, Instance, instance};
pub use limits::{
    ELEMENT_INDEX_EXACT_MAX, INSTRUCTIONS_MAX, OUTPUT_BYTES_MAX, ROOT_COMM_PORT, ROOT_COMM_PORTS,
    TOP_K_MAX, replica_groups_max,
};
pub use log::{LogPlace, explain_last};
pub use versions::{
    API_WINDOWS, ApiWindow, CLIENT_API, Version, api_problem, compiler_problem, device_problem,
    driver_problem,
};
pub use visible::{VISIBLE_CORES, core_ranges, is_core_range, parse_core_ranges};
